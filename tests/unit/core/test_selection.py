"""The selection has exactly the stated integer law, and the privacy loss of that law is at most its ε."""

from __future__ import annotations

import ast
import hashlib
import inspect
import itertools
import math
from collections.abc import Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from helpers.refusals import refused
from helpers.statistics import FALSE_ALARM, LIMB, bounded, chi_square_tail, integer_weights, scripted
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from dipp.core import selection
from dipp.core.selection import BINS, ETA, MAX_ABS_SCORE, MAX_CANDIDATES, MAX_FRACTION_BITS, RANGE_BITS

LARGEST_SUM = (1 << 63) - 1
scales = st.integers(0, MAX_FRACTION_BITS)
sums = st.lists(
    st.one_of(st.just(0), st.integers(0, 9), st.integers(0, LARGEST_SUM), st.just(LARGEST_SUM)),
    min_size=BINS,
    max_size=BINS,
).filter(any)


def score_rows(span: int) -> st.SearchStrategy[list[int]]:
    """Draw rows of scores that are close together, or anywhere in the allowed range."""
    return st.lists(
        st.one_of(st.integers(-span, span), st.integers(1 - MAX_ABS_SCORE, MAX_ABS_SCORE - 1)),
        min_size=1,
        max_size=9,
    )


def int32(rows: Sequence[Sequence[int]]) -> NDArray[np.int32]:
    return np.array(rows, np.int32)


def plain_exponent(score: int, best: int, fraction_bits: int) -> int:
    return min(best - score, RANGE_BITS << fraction_bits)


# --- the table of fractions ---


@pytest.mark.parametrize("fraction_bits", range(9))
def test_fraction_weights_are_nearest_integers_exactly(fraction_bits: int) -> None:
    """F is the nearest integer to 2^(40 − f/q): (2F − 1)^q < 2^(41q − f) < (2F + 1)^q with q = 2^S."""
    q = 1 << fraction_bits
    weights = selection.fraction_weights(fraction_bits).tolist()
    assert len(weights) == q
    for f, weight in enumerate(weights):
        assert (2 * weight - 1) ** q < 1 << (41 * q - f) < (2 * weight + 1) ** q


def test_fraction_weights_of_the_largest_table() -> None:
    """All 2^15 entries are nearest integers, by decimals of 80 digits; none is near a tie."""
    weights = selection.fraction_weights(MAX_FRACTION_BITS).tolist()
    q = 1 << MAX_FRACTION_BITS
    with localcontext() as context:
        context.prec = 80
        root = (-Decimal(2).ln() / q).exp()
        exact = Decimal(1 << 40)
        for weight in weights:
            assert abs(exact - weight) < Decimal("0.5") - Decimal("1e-20")
            exact *= root
        assert abs(exact / (1 << 39) - 1) < Decimal("1e-60")


@pytest.mark.parametrize("fraction_bits", range(MAX_FRACTION_BITS + 1))
def test_fraction_weights_agree_between_scales(fraction_bits: int) -> None:
    """A coarser table has every 2^k-th entry of a finer one, so all tables are right if the largest is."""
    fine = selection.fraction_weights(MAX_FRACTION_BITS)
    coarse = selection.fraction_weights(fraction_bits)
    assert coarse.tolist() == fine[:: 1 << (MAX_FRACTION_BITS - fraction_bits)].tolist()
    assert coarse.dtype == np.int64
    assert coarse[0] == 1 << 40
    assert coarse[-1] > 1 << 39


def test_fraction_weights_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="read-only"):
        selection.fraction_weights(4)[0] = 1


@pytest.mark.parametrize("fraction_bits", [-1, MAX_FRACTION_BITS + 1])
def test_fraction_weights_of_impossible_scales_are_refused(fraction_bits: int) -> None:
    with refused("fraction_bits"):
        selection.fraction_weights(fraction_bits)


TABLES = "d683ed4d1b08b02717898604a7fc6a112409945303637ea620bac30a4139f0b4"
"""SHA-256 over all tables S = 0 … 15, as 64-bit little-endian integers, in commit e8001c4."""


def test_fraction_weights_are_pinned() -> None:
    tables = (selection.fraction_weights(bits).astype("<i8").tobytes() for bits in range(MAX_FRACTION_BITS + 1))
    assert hashlib.sha256(b"".join(tables)).hexdigest() == TABLES


# --- powers ---


@bounded
@given(scales, st.data())
@example(15, None)
@example(0, None)
def test_powers_are_exact_to_170_bits(fraction_bits: int, data: st.DataObject | None) -> None:
    """2^(−units/2^S)·2^192 is rounded down with a small error for any fraction and up to 100 whole bits."""
    most = 100 << fraction_bits
    drawn = [0, 1, (1 << fraction_bits) - 1, 1 << fraction_bits, most]
    drawn += [] if data is None else [data.draw(st.integers(0, most))]
    with mpmath.workdps(100):
        for units in drawn:
            exact = mpmath.power(2, selection.POWER_BITS - mpmath.mpf(units) / 2**fraction_bits)
            power = selection.power(units, fraction_bits)
            assert power <= exact
            assert exact - power < exact * mpmath.mpf(2) ** -170 + 1


@pytest.mark.parametrize("fraction_bits", [0, 1, 7, 15])
def test_powers_of_whole_bits_are_exact(fraction_bits: int) -> None:
    for whole in (0, 1, 40, 192):
        assert selection.power(whole << fraction_bits, fraction_bits) == 1 << (selection.POWER_BITS - whole)
    with refused("fraction_bits"):
        selection.power(1, MAX_FRACTION_BITS + 1)


@bounded
@given(scales, st.integers(0, 1 << 20), st.integers(1, 1 << 12))
def test_powers_fall_with_their_units(fraction_bits: int, units: int, more: int) -> None:
    units %= 150 << fraction_bits
    assert selection.power(units + more, fraction_bits) < selection.power(units, fraction_bits)


# --- exponents, sums, two limbs ---


@bounded
@given(scales, st.data())
def test_exponents_equal_plain_integers(fraction_bits: int, data: st.DataObject) -> None:
    """e = min(u_max − u, R·2^S) is split into whole bits and a fraction, without overflow at the extremes."""
    scores = data.draw(score_rows(RANGE_BITS << fraction_bits))
    whole, fraction = selection.exponents(int32([scores]), fraction_bits)
    expected = [plain_exponent(u, max(scores), fraction_bits) for u in scores]
    assert [(j << fraction_bits) + f for j, f in zip(whole[0].tolist(), fraction[0].tolist(), strict=True)] == expected
    assert (fraction >= 0).all()
    assert (fraction < 1 << fraction_bits).all()


@bounded
@given(scales, st.data())
def test_bin_sums_equal_plain_integers(fraction_bits: int, data: st.DataObject) -> None:
    """Each bin holds the exact sum of the fractions' weights of its candidates, row by row."""
    width = data.draw(st.integers(1, 9))
    entries = st.integers(-(70 << fraction_bits), 70 << fraction_bits)
    rows = data.draw(st.lists(st.lists(entries, min_size=width, max_size=width), min_size=1, max_size=3))
    table = selection.fraction_weights(fraction_bits).tolist()
    expected = [[0] * BINS for _ in rows]
    for row, scores in zip(expected, rows, strict=True):
        for u in scores:
            j, f = divmod(plain_exponent(u, max(scores), fraction_bits), 1 << fraction_bits)
            row[j] += table[f]
    assert selection.bin_sums(int32(rows), fraction_bits).tolist() == expected


@bounded
@given(sums)
@example([LARGEST_SUM] * BINS)
@example([0] * RANGE_BITS + [1])
@example([1] + [0] * RANGE_BITS)
def test_running_totals_equal_plain_integers(row: list[int]) -> None:
    """The two limbs hold Σ sums[j]·2^(R − j) exactly, for any non-negative int64 sums: no carry is lost."""
    high, low = selection._running_totals(np.array([row], np.int64))
    exact = list(itertools.accumulate(s << (RANGE_BITS - j) for j, s in enumerate(row)))
    used = len(high[0])
    assert [(h << 64) + w for h, w in zip(high[0].tolist(), low[0].tolist(), strict=True)] == exact[:used]
    assert not any(row[used:])
    assert exact[-1] < 1 << 128


@bounded
@given(st.integers(0, RANGE_BITS), st.integers(0, LIMB), st.data())
def test_shift_right_equals_plain_integers(shift: int, result: int, data: st.DataObject) -> None:
    """The result is (high·2^64 + low) >> shift for every shift up to a whole limb."""
    number = (result << shift) + data.draw(st.integers(0, (1 << shift) - 1))
    limbs = [np.array([part], np.uint64) for part in (number >> 64, number & LIMB, shift)]
    assert selection._shift_right(limbs[0], limbs[1], limbs[2]).tolist() == [result]


@bounded
@given(sums, st.data())
@example([LARGEST_SUM] * BINS, None)
def test_draw_bins_equals_plain_integers(row: list[int], data: st.DataObject | None) -> None:
    """Each r < T has the bin and the offset that big integers give, at the edges of every bin and inside."""
    ends = list(itertools.accumulate(s << (RANGE_BITS - j) for j, s in enumerate(row)))
    inside = [0, ends[-1] - 1] if data is None else data.draw(st.lists(st.integers(0, ends[-1] - 1), max_size=5))
    edges = [r for end in ends for r in (end - 1, end) if 0 <= r < ends[-1]]
    targets = [*inside, *edges]
    with scripted(targets):
        bins, offsets = selection.draw_bins(np.array([row] * len(targets), np.int64))
    for r, j, offset in zip(targets, bins.tolist(), offsets.tolist(), strict=True):
        expected = next(i for i, end in enumerate(ends) if r < end)
        before = ends[expected - 1] if expected else 0
        assert (j, offset) == (expected, (r - before) >> (RANGE_BITS - expected))


@pytest.mark.parametrize("tail", [(0, 0, 1), (0, 0, 3), (1, 0, 0), (2, 3, 5), (0, 7, 1), (3, 0, 2), (1, 1, 1)])
def test_draw_bins_is_exact_by_enumeration(tail: tuple[int, ...]) -> None:
    """Over ALL r < T, every offset below sums[j] of bin j occurs exactly 2^(R − j) times."""
    row = [0] * (BINS - len(tail)) + list(tail)
    total = sum(s << (RANGE_BITS - j) for j, s in enumerate(row))
    with scripted(range(total)):
        bins, offsets = selection.draw_bins(np.array([row] * total, np.int64))
    seen = list(zip(bins.tolist(), offsets.tolist(), strict=True))
    expected = [(j, k) for j, s in enumerate(row) for k in range(s) for _ in range(1 << (RANGE_BITS - j))]
    assert seen == expected


def test_draw_bins_takes_rows_that_end_in_different_bins() -> None:
    """One row has weights in the first bin alone, one in the last bin alone, and one in both."""
    ends = [1] + [0] * RANGE_BITS, [0] * RANGE_BITS + [3], [1] + [0] * (RANGE_BITS - 1) + [5]
    with scripted([(1 << 64) - 1, 2, (1 << 64) + 4]):
        bins, offsets = selection.draw_bins(np.array(ends, np.int64))
    assert bins.tolist() == [0, RANGE_BITS, RANGE_BITS]
    assert offsets.tolist() == [0, 2, 4]


@pytest.mark.parametrize("total", [*range(1, 18), 31, 32, 33, 63, 64, 100])
def test_uniform_below_is_exact_by_enumeration(total: int) -> None:
    """Masked words below T are kept unchanged, and all others are drawn again."""
    mask = (1 << total.bit_length()) - 1
    high, low = np.zeros(1, np.uint64), np.array([total], np.uint64)
    junk = ((1 << 128) - 1) ^ mask
    for word in range(mask + 1):
        script = [word | junk] if word < total else [word | junk, total - 1]
        with scripted(script):
            got_high, got_low = selection._uniform_below(high, low)
        assert got_high.tolist() == [0]
        assert got_low.tolist() == [word if word < total else total - 1]


@bounded
@given(st.integers(1, (1 << 128) - 1), st.integers(0, (1 << 128) - 1))
@example(1 << 64, (1 << 64) - 1)
@example(1 << 64, 1 << 64)
@example((1 << 64) + 1, 1 << 64)
@example((1 << 128) - 1, (1 << 128) - 1)
@example(1 << 127, (1 << 127) - 1)
@example(1 << 63, (1 << 63) - 1)
def test_uniform_below_with_two_limbs(total: int, word: int) -> None:
    """The mask keeps exactly the bits of T, and a masked word below T is returned unchanged."""
    masked = word & ((1 << total.bit_length()) - 1)
    script = [word] if masked < total else [word, 0]
    with scripted(script):
        high, low = selection._uniform_below(*(np.array([part], np.uint64) for part in (total >> 64, total & LIMB)))
    assert (int(high[0]) << 64) + int(low[0]) == (masked if masked < total else 0)


def test_uniform_below_draws_again_only_for_rejected_rows() -> None:
    """Rows with an accepted draw keep it while other rows draw again."""
    totals = np.array([5, 6, 7, 3], np.uint64)
    with scripted([4, 7, 6, 3, 6, 2, 0]):
        _, low = selection._uniform_below(np.zeros(4, np.uint64), totals)
    assert low.tolist() == [4, 0, 6, 2]


# --- the exact law of select ---


def edges_of_intervals(scores: list[int], fraction_bits: int) -> tuple[list[int], list[int]]:
    """Return the first, a middle and the last r of the interval of every index, and the index that owns each r."""
    weights = integer_weights(int32([scores]), fraction_bits)[0].tolist()
    whole = selection.exponents(int32([scores]), fraction_bits)[0][0].tolist()
    targets, owners, start = [], [], 0
    for k in sorted(range(len(scores)), key=lambda k: (whole[k], k)):
        targets += [start, start + weights[k] // 3, start + weights[k] - 1]
        owners += [k] * 3
        start += weights[k]
    assert start == sum(weights)
    return targets, owners


@bounded
@given(scales, st.data())
def test_select_gives_each_index_exactly_its_weight(fraction_bits: int, data: st.DataObject) -> None:
    """Each index owns an interval of exactly F[f]·2^(R − j) integers r; its ends and an inner r are tried."""
    scores = data.draw(score_rows(3 << fraction_bits))
    targets, owners = edges_of_intervals(scores, fraction_bits)
    with scripted(targets):
        assert selection.select(int32([scores] * len(targets)), fraction_bits).tolist() == owners


def test_select_covers_whole_bits_and_the_clip() -> None:
    """Each index owns its interval for scores in every bin, on both sides of the clip, and far beyond it."""
    scale = 3
    drops = [
        *range(0, 70 << scale, 5),
        (64 << scale) - 1,
        64 << scale,
        (64 << scale) + 1,
        2 * MAX_ABS_SCORE - 2,
    ]
    scores = [MAX_ABS_SCORE - 1 - d for d in drops]
    targets, owners = edges_of_intervals(scores, scale)
    with scripted(targets):
        assert selection.select(int32([scores] * len(targets)), scale).tolist() == owners


@bounded
@given(scales, st.data())
def test_the_law_is_the_ideal_law_up_to_half_eta(fraction_bits: int, data: st.DataObject) -> None:
    """P[k] is 2^(u/2^S)/Σ 2^(u/2^S) with clipped scores, up to a factor of e^(η/2)."""
    scores = data.draw(score_rows(4 << fraction_bits))
    weights = integer_weights(int32([scores]), fraction_bits)[0].tolist()
    with localcontext() as context:
        context.prec = 60
        bit = Decimal(2).ln() / (1 << fraction_bits)
        ideal = [(-bit * plain_exponent(u, max(scores), fraction_bits)).exp() for u in scores]
        for weight, share in zip(weights, ideal, strict=True):
            loss = (Decimal(weight) / sum(weights) / (share / sum(ideal))).ln()
            assert abs(loss) <= Decimal(ETA) / 2


def test_select_draws_rows_independently() -> None:
    """Each row of a call has its own scores, maximum and draw."""
    rows = int32([[0, 400, 0, 0], [5, 5, 5, 5], [-900, -900, -900, -500]])
    one = 1 << (40 + 64)
    with scripted([7, 2 * one + 5, 11]):
        assert selection.select(rows, 2).tolist() == [1, 2, 3]


def test_select_follows_its_law() -> None:
    """The frequencies of 400,000 draws from the operating system pass a chi-square test; false alarms: 1e-7."""
    scores = np.tile(int32([[0, 5, -3, 8, 8, -20, 1]]), (20_000, 1))
    weights = integer_weights(scores[:1], 2)[0].tolist()
    counts = np.zeros(7, np.int64)
    for _ in range(20):
        counts += np.bincount(selection.select(scores, 2), minlength=7)
    assert chi_square_tail(counts, [w / sum(weights) for w in weights]) > FALSE_ALARM


# --- overflow ---


def test_the_largest_number_of_equal_scores_is_exact() -> None:
    """2^22 equal scores have one bin of exactly 2^62; the first, a middle and the last index can be drawn."""
    scores = np.full((1, MAX_CANDIDATES), -7, np.int32)
    table = selection.bin_sums(scores, 5)
    assert table[0].tolist() == [1 << 62] + [0] * RANGE_BITS
    one, middle = 1 << (40 + 64), 2_345_678
    targets = [0, middle * one - 1, middle * one, (1 << 126) - 1]
    with scripted(targets):
        bins, offsets = selection.draw_bins(np.repeat(table, 4, axis=0))
    assert bins.tolist() == [0, 0, 0, 0]
    indices = [int(selection.locate(scores, 5, bins[i : i + 1], offsets[i : i + 1])[0]) for i in range(4)]
    assert indices == [0, middle - 1, middle, MAX_CANDIDATES - 1]


def test_the_largest_number_of_clipped_candidates_is_exact() -> None:
    """Beside one good candidate, 2^22 − 1 clipped candidates have their exact weight, and each can be drawn."""
    scores = np.full((1, MAX_CANDIDATES), 1 - MAX_ABS_SCORE, np.int32)
    scores[0, 3] = MAX_ABS_SCORE - 1
    table = selection.bin_sums(scores, 15)
    assert table[0].tolist() == [1 << 40] + [0] * (RANGE_BITS - 1) + [(MAX_CANDIDATES - 1) << 40]
    first = 1 << (40 + 64)
    with scripted([first - 1, first, first + (4 << 40), first + (table[0, -1] - 1).item()]):
        bins, offsets = selection.draw_bins(np.repeat(table, 4, axis=0))
    indices = [int(selection.locate(scores, 15, bins[i : i + 1], offsets[i : i + 1])[0]) for i in range(4)]
    assert indices == [3, 0, 5, MAX_CANDIDATES - 1]


@pytest.mark.parametrize("fraction_bits", [0, 7, 15])
def test_extreme_scores_do_not_overflow(fraction_bits: int) -> None:
    """Scores at ±(2^30 − 1) are 2^31 − 2 apart; their difference is clipped and does not wrap."""
    scores = int32([[1 - MAX_ABS_SCORE, MAX_ABS_SCORE - 1]])
    assert integer_weights(scores, fraction_bits)[0].tolist() == [1 << 40, 1 << 104]
    with scripted([(1 << 104) - 1]):
        assert selection.select(scores, fraction_bits).tolist() == [1]
    with scripted([1 << 104]):
        assert selection.select(scores, fraction_bits).tolist() == [0]


# --- privacy ---


def exact_losses(fraction_bits: int, move: int) -> tuple[float, bool]:
    """Check all neighbouring score vectors of a grid; return the largest loss in nats, and whether η is needed.

    Three scores on a grid that holds small gaps and both sides of the clip; neighbours are ALL integer vectors
    within `move` of each in sup norm. Everything is compared by exact integers: a ratio ρ is within the bound
    if ρ^q ≤ 2^(2·move)·(1 + q·η) ≤ (2^(2·move/q)·e^η)^q, q = 2^S.
    """
    q, clip = 1 << fraction_bits, RANGE_BITS << fraction_bits
    grid = [0, 1, q, 3 * q + 1, 12 * q, clip - move, clip - 1, clip, clip + 1, clip + 2 * move + 1]
    centres = int32(list(itertools.product(grid, repeat=3)))
    moves = int32(list(itertools.product(range(-move, move + 1), repeat=3)))
    before = integer_weights(centres, fraction_bits)
    largest, needed = Fraction(0), False
    scale = 1 << 38
    for step in moves:
        after = integer_weights(centres + step, fraction_bits)
        assert (after > 0).all()
        # P/P' of each index, and the ratio of two such ratios (bounded range), as numerator over denominator.
        ratios = [(before * after.sum(axis=1)[:, None], after * before.sum(axis=1)[:, None])]
        for k, i in itertools.permutations(range(3), 2):
            ratios.append((before[:, k] * after[:, i], after[:, k] * before[:, i]))
        for numerator, denominator in ratios:
            left, right = numerator**q, denominator**q * 4**move
            assert (left * scale <= right * (scale + q)).all()
            needed = needed or bool((left > right).any())
        numerator, denominator = (part.reshape(-1).tolist() for part in ratios[0])
        largest = max(largest, *map(Fraction, numerator, denominator))
    return math.log(largest), needed


@pytest.mark.parametrize(
    ("fraction_bits", "move"),
    [(0, 1), pytest.param(0, 2, marks=pytest.mark.slow), (1, 1), (2, 1), pytest.param(2, 2, marks=pytest.mark.slow)],
)
def test_loss_of_all_neighbours_is_within_epsilon(fraction_bits: int, move: int) -> None:
    """For all neighbours on a grid, no loss and no range of losses exceeds ε, and some loss is within 1 % of it."""
    largest, _ = exact_losses(fraction_bits, move)
    claim = selection.epsilon(move, fraction_bits)
    assert 0.99 * claim <= largest <= claim


def test_losses_without_eta_would_exceed_the_claim() -> None:
    """With rounded weights, some loss exceeds 2s·ln 2/2^S."""
    assert exact_losses(2, 1)[1]


@bounded
@given(scales, st.integers(0, 300), st.data())
def test_loss_of_random_neighbours_is_within_epsilon(fraction_bits: int, move: int, data: st.DataObject) -> None:
    """No loss exceeds ε for any scale, up to nine candidates and larger moves, by decimals of 60 digits."""
    spread = data.draw(st.sampled_from([move + 1, 4 << fraction_bits, 70 << fraction_bits]))
    scores = data.draw(st.lists(st.integers(-spread, spread), min_size=2, max_size=9))
    moves = data.draw(st.lists(st.sampled_from([-move, move, 0]), min_size=len(scores), max_size=len(scores)))
    before = integer_weights(int32([scores]), fraction_bits)[0].tolist()
    after = integer_weights(int32([np.add(scores, moves).tolist()]), fraction_bits)[0].tolist()
    with localcontext() as context:
        context.prec = 60
        bound = 2 * move * Decimal(2).ln() / (1 << fraction_bits) + Decimal(ETA)
        losses = [(Decimal(b * sum(after)) / Decimal(a * sum(before))).ln() for b, a in zip(before, after, strict=True)]
        assert max(losses) <= bound
        assert -min(losses) <= bound
        assert max(losses) - min(losses) <= bound
        assert bound <= Decimal(selection.epsilon(move, fraction_bits))


def test_the_clip_keeps_every_candidate_possible() -> None:
    """A candidate with the worst score has the weight 2^40, because a weight of zero would make the loss infinite."""
    weights = integer_weights(int32([[0, -(1 << 20), 1 - MAX_ABS_SCORE]]), 4)
    assert weights[0].tolist() == [1 << 104, 1 << 40, 1 << 40]


@bounded
@given(st.integers(0, 1 << 40), scales)
def test_epsilon_is_rounded_up(sensitivity: int, fraction_bits: int) -> None:
    """The stated ε is never below 2s·ln 2/2^S + η, and above it by a few units in the last place only."""
    with localcontext() as context:
        context.prec = 60
        exact = 2 * sensitivity * Decimal(2).ln() / (1 << fraction_bits) + Decimal(2) ** -38
        stated = Decimal(selection.epsilon(sensitivity, fraction_bits))
        assert exact <= stated <= exact * (1 + Decimal(2) ** -49)


def test_eta_covers_the_rounding() -> None:
    """Four relative rounding errors of the worst possible entry stay below η (the proof's last step)."""
    with localcontext() as context:
        context.prec = 60
        worst = Decimal("0.5") / (Decimal(1 << 39) * (Decimal(2).ln() / (1 << MAX_FRACTION_BITS)).exp())
        assert 2 * ((1 + worst) / (1 - worst)).ln() < Decimal(ETA)


def test_the_selection_uses_no_floats() -> None:
    """The module has no float literal, true division or float function, except in `epsilon` and η."""
    tree = ast.parse(inspect.getsource(selection))
    rest = [
        node
        for node in tree.body
        if not (isinstance(node, ast.FunctionDef) and node.name == "epsilon")
        and not (isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "ETA")
    ]
    assert len(tree.body) - len(rest) == 2
    for node in itertools.chain.from_iterable(map(ast.walk, rest)):
        assert not (isinstance(node, ast.Constant) and isinstance(node.value, float)), ast.unparse(node)
        assert not isinstance(node, ast.Div), "true division"
        assert not (
            isinstance(node, ast.Attribute) and node.attr in {"exp", "exp2", "log", "log2", "float64", "float32"}
        )


# --- invalid input ---


@pytest.mark.parametrize("dtype", [np.int64, np.int16, np.uint32, np.float32, np.float64])
def test_select_refuses_other_dtypes(dtype: Any) -> None:
    with refused("scores", "int32"):
        selection.select(np.zeros((1, 3), dtype), 4)


@pytest.mark.parametrize("shape", [(3,), (1, 0), (2, 3, 4), (1, MAX_CANDIDATES + 1)])
def test_select_refuses_other_shapes(shape: tuple[int, ...]) -> None:
    with refused("scores", "chunks"):
        selection.select(np.zeros(shape, np.int32), 4)


@pytest.mark.parametrize("score", [MAX_ABS_SCORE, -MAX_ABS_SCORE, (1 << 31) - 1, -(1 << 31)])
def test_select_refuses_large_scores(score: int) -> None:
    with refused("scores", "size"):
        selection.select(int32([[0, score]]), 4)


def test_select_refuses_too_fine_scales() -> None:
    with refused("fraction_bits"):
        selection.select(int32([[0, 1]]), MAX_FRACTION_BITS + 1)


def test_select_refuses_negative_scales() -> None:
    with refused("fraction_bits"):
        selection.select(int32([[0, 1]]), -1)


@pytest.mark.parametrize(
    "table",
    [
        np.zeros((1, BINS), np.int64),
        np.ones((1, BINS - 1), np.int64),
        np.ones(BINS, np.int64),
        np.array([[1] * BINS, [0] * BINS], np.int64),
        np.array([[2] * (BINS - 1) + [-1]], np.int64),
    ],
)
def test_draw_bins_refuses_invalid_sums(table: NDArray[np.int64]) -> None:
    with refused("sums"):
        selection.draw_bins(table)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_draw_bins_refuses_floats(dtype: Any) -> None:
    """Sums of floats are not exact."""
    with refused("sums"):
        selection.draw_bins(np.full((1, BINS), 1.5, dtype))


def test_locate_refuses_offsets_beyond_the_bin() -> None:
    """If the sums and weights of a backend disagree, `locate` raises and does not return candidate 0."""
    with refused("offsets"):
        selection.locate(int32([[0, 5, 5]]), 0, np.array([0]), np.array([2 << 40]))


def test_epsilon_refuses_scales_that_no_table_has() -> None:
    with refused("fraction_bits"):
        selection.epsilon(1, MAX_FRACTION_BITS + 1)


def test_epsilon_refuses_a_negative_sensitivity() -> None:
    with refused("sensitivity"):
        selection.epsilon(-1, 4)
