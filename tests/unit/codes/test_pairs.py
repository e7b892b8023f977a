"""Pairs: exact thresholds, prices against brute force, and bits that follow the thresholds."""

from __future__ import annotations

import ast
import functools
import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from types import SimpleNamespace
from typing import Any
from unittest import mock

import mpmath
import numpy as np
import pytest
from helpers.ledgers import terms
from helpers.paths import ROOT
from helpers.refusals import refused
from helpers.statistics import FALSE_ALARM, bounded
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import special  # type: ignore[import-untyped,unused-ignore]

from dipp import scoring
from dipp.codes import Flat, Pairs
from dipp.codes.pairs import MAX_TILT, thresholds
from dipp.core import randomness
from dipp.core.arithmetic import Arithmetic, Clip
from dipp.core.channels import Channel, Laplace, Sign
from dipp.core.laws import SignLaw
from dipp.core.plan import Coding, Plan
from dipp.core.price import Reach, Sensitivity
from dipp.core.signal import SIGNAL_OF_PIXEL
from dipp.core.steps import SensingStep
from dipp.privacy.ledger import Ledger, StepDraws

Floats = NDArray[np.float64]

WHOLE = 1 << 64


def nats(units: float, fraction_bits: int) -> float:
    return units * math.log(2) * 2.0**-fraction_bits


def in_reach(largest: int, fraction_bits: int) -> bool:
    return nats(largest, fraction_bits) <= MAX_TILT


# --- thresholds ---

SCALES = [(1, 0), (28, 0), (512, 8), (1023, 9), (600, 15), (900, 5), (461, 4)]
"""M and S of steps, up to the largest possible tilt of 20 nats, which is 28.85 bits."""


@pytest.mark.parametrize(("largest", "fraction_bits"), SCALES)
def test_thresholds_are_exact(largest: int, fraction_bits: int) -> None:
    """T[m] = ⌊2^64·σ(2v)⌋ for m > 0, and |T/2^64 − σ(2v)| < 2^−64 for all m, by 100 digits."""
    table = [int(t) for t in thresholds(largest, fraction_bits)]
    assert len(table) == 2 * largest + 1
    with mpmath.workdps(100):
        for m, threshold in zip(range(-largest, largest + 1), table, strict=True):
            exact = WHOLE / (1 + mpmath.power(2, -mpmath.mpf(2 * m) / 2**fraction_bits))
            assert abs(threshold - exact) < 1
            if m > 0:
                assert threshold == int(mpmath.floor(exact))


@pytest.mark.parametrize(("largest", "fraction_bits"), SCALES)
def test_thresholds_are_symmetric_and_rise(largest: int, fraction_bits: int) -> None:
    """T[−m] + T[m] = 2^64, a larger shift makes a 1 likelier, and no bit is impossible."""
    table = [int(t) for t in thresholds(largest, fraction_bits)]
    assert all(low + high == WHOLE for low, high in zip(table, reversed(table), strict=True))
    assert all(low < high for low, high in itertools.pairwise(table))
    assert 0 < table[0] < table[-1] < WHOLE
    assert table[largest] == WHOLE // 2


@bounded
@given(st.integers(1, 1023), st.integers(0, 15), st.data())
def test_thresholds_are_exact_for_any_scale(largest: int, fraction_bits: int, data: st.DataObject) -> None:
    largest = min(largest, int(MAX_TILT * 2**fraction_bits / math.log(2)))
    m = data.draw(st.integers(1, largest))
    threshold = int(thresholds(largest, fraction_bits)[largest + m])
    with mpmath.workdps(100):
        assert threshold == int(mpmath.floor(WHOLE / (1 + mpmath.power(2, -mpmath.mpf(2 * m) / 2**fraction_bits))))


def test_thresholds_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="read-only"):
        thresholds(5, 3)[0] = 1


# --- prices, against the exact laws ---


class Law:
    """The law of a bit for every shift, from the integer thresholds; exact up to the last logarithm."""

    def __init__(self, largest: int, fraction_bits: int) -> None:
        self.largest = largest
        up = [Fraction(int(t), WHOLE) for t in thresholds(largest, fraction_bits)]
        with mpmath.workdps(40):
            logs = [[mpmath.log(mpmath.mpf(p.numerator) / p.denominator) for p in (plus, 1 - plus)] for plus in up]
            self.logs = np.array([[float(x) for x in row] for row in logs])
        """ln P[+] and ln P[−] for m = −largest … largest, to 16 digits."""

    def loss(self, change: int) -> float:
        """Return the largest |ln P/P'| of either bit over all pairs of shifts that are at most `change` apart."""
        apart = (np.abs(self.logs[d:] - self.logs[: len(self.logs) - d]).max() for d in range(1, change + 1))
        return float(max(apart))

    def renyi(self, change: int, order: float) -> float:
        """Return the largest Rényi divergence of an order over such pairs, in both directions; order 1 is KL."""
        worst = 0.0
        for d in {1, change // 2 or 1, change}:
            for p, q in ((self.logs[d:], self.logs[:-d]), (self.logs[:-d], self.logs[d:])):
                if order == 1:
                    divergences = (np.exp(p) * (p - q)).sum(axis=1)
                else:
                    divergences = np.logaddexp(*(order * p + (1 - order) * q).T) / (order - 1)
                worst = max(worst, float(divergences.max()))
        return worst


@functools.cache
def law(largest: int, fraction_bits: int) -> Law:
    return Law(largest, fraction_bits)


def record(clip: int, slope: int, fraction_bits: int) -> StepDraws:
    """Return the record of a step with these integers."""
    sensitivity, largest = 2 * min(clip, slope), min(clip, 2 * slope)
    eta = Pairs().eta(Reach(sensitivity, largest, fraction_bits))
    terms_of_step = Sensitivity(Fraction(1), sensitivity, fraction_bits, eta, clip, slope)
    return StepDraws(0, "pairs", terms_of_step, candidates=2, chunks=1, touched=1, apart=True)


RECORDS = [
    # M, A(1), S
    (512, 512, 8),  # as many levels as the clip
    (512, 5000, 8),  # V = 1.39, a narrow clip
    (700, 900, 6),  # V = 7.6
    (1000, 4000, 12),  # V = 0.17
    (900, 300, 9),  # no residual reaches the clip: 2A(1) < M
    (900, 600, 9),  # some do: A(1) < M < 2A(1)
    (900, 899, 9),
    (577, 2000, 5),  # V = 12.5
    (64, 64, 15),  # V = 0.0014
    (28, 30, 0),  # V = 19.4, in whole bits
    (5, 3, 1),
]


@pytest.mark.parametrize(("clip", "slope", "fraction_bits"), RECORDS)
def test_epsilon_is_the_loss_of_the_worst_pair_of_shifts(clip: int, slope: int, fraction_bits: int) -> None:
    """The price is the largest loss over all pairs (v, v') on the grid that are at most D apart."""
    selection = record(clip, slope, fraction_bits)
    exact, stated = (
        law(min(clip, 2 * slope), fraction_bits).loss(terms(selection).sensitivity),
        selection.charge().epsilon,
    )
    assert exact <= stated <= exact * (1 + 1e-11) + 2 * terms(selection).eta


@pytest.mark.parametrize(
    ("clip", "slope", "fraction_bits"), [integers for integers in RECORDS if integers[0] <= integers[1]]
)
def test_the_largest_change_costs_twice_the_tilt(clip: int, slope: int, fraction_bits: int) -> None:
    """ε is 2V + η, which is half of the ε of the exponential mechanism for the same tilt."""
    selection = record(clip, slope, fraction_bits)
    assert selection.charge().epsilon == pytest.approx(
        2 * nats(clip, fraction_bits), rel=1e-11, abs=2 * terms(selection).eta
    )


@pytest.mark.parametrize(("clip", "slope", "fraction_bits"), RECORDS)
@pytest.mark.parametrize("share", [0.001, 0.03, 0.3, 0.7])
def test_smaller_changes_cost_what_the_worst_pair_loses(
    clip: int, slope: int, fraction_bits: int, share: float
) -> None:
    selection = record(clip, slope, fraction_bits)
    largest, units = min(clip, 2 * slope), max(1, round(share * terms(selection).sensitivity))
    exact = law(largest, fraction_bits).loss(units)
    stated = Pairs().charge(Reach(units, largest, fraction_bits)).epsilon
    assert exact <= stated <= exact * (1 + 1e-11) + 2 * terms(selection).eta


ORDERS = (1, 1.01, 1.5, 2, 3, 8, 32, 256)


@pytest.mark.parametrize(("clip", "slope", "fraction_bits"), RECORDS)
@pytest.mark.parametrize("share", [0.01, 0.2, 0.6, 1.0])
def test_rho_bounds_every_renyi_divergence(clip: int, slope: int, fraction_bits: int, share: float) -> None:
    """D_a ≤ ρ·a at many orders a, for all pairs of shifts with this distance."""
    sensitivity, largest = 2 * min(clip, slope), min(clip, 2 * slope)
    units, exact = max(1, round(share * sensitivity)), law(largest, fraction_bits)
    rho = Pairs().charge(Reach(units, largest, fraction_bits)).rho
    for order in ORDERS:
        assert exact.renyi(units, order) <= rho * order * (1 + 1e-9) + 1e-13


@pytest.mark.parametrize(
    ("clip", "slope", "fraction_bits"), [integers for integers in RECORDS if integers[0] <= integers[1]]
)
def test_rho_is_tight_and_an_eighth_of_the_square_is_too_little(clip: int, slope: int, fraction_bits: int) -> None:
    """The KL divergence of the largest change is ε·tanh(ε/2), which is four times ε²/8 for a small ε."""
    selection, exact = record(clip, slope, fraction_bits), law(clip, fraction_bits)
    charged = selection.charge()
    divergence = exact.renyi(terms(selection).sensitivity, 1)
    assert divergence == pytest.approx(charged.rho, rel=1e-4, abs=2 * terms(selection).eta)
    if charged.epsilon < 6:
        assert divergence > charged.epsilon**2 / 8 * 1.3
    if charged.epsilon < 1:
        assert divergence > charged.epsilon**2 / 8 * 3.6


def divergence(p: NDArray[np.float64], q: NDArray[np.float64], order: float) -> float:
    """Return the Rényi divergence of two laws that are given by their logarithms."""
    if order == 1:
        return float((np.exp(p) * (p - q)).sum())
    return float(special.logsumexp(order * p + (1 - order) * q) / (order - 1))


@pytest.mark.parametrize("changed", [1, 2, 3, 4])
def test_coordinates_that_share_no_draw_lose_rho_each(changed: int) -> None:
    """In the joint law of four bits, k changed coordinates lose exactly k·ρ, and never k²·ρ."""

    def law_of(shifts: list[int]) -> NDArray[np.float64]:
        scored: Any = SimpleNamespace(shifts=lambda: np.array(shifts), offsets=np.arange(5), limit=512, fraction_bits=9)
        laws = [outcomes.log_law() for outcomes in Pairs().outcomes(scored)]
        return np.array([sum(row) for row in itertools.product(*laws)])

    rho, others = Pairs().charge(Reach(1024, 512, 9)).rho, [-30, 512, 7, -512]
    p, q = (law_of([end] * changed + others[changed:]) for end in (512, -512))
    assert p.shape == (16,)
    for order in ORDERS:
        assert divergence(p, q, order) <= changed * rho * order * (1 + 1e-9)
    assert divergence(p, q, 1) == pytest.approx(changed * rho, rel=1e-4)


def test_coordinates_that_share_a_draw_lose_more_than_rho_each() -> None:
    """If the exponential mechanism draws between ++ and −−, both coordinates together lose nearly 4ρ."""
    tilt = 0.05
    rho = (4 * tilt) ** 2 / 8  # of one coordinate that moves the score by 2·tilt
    p = -np.log1p(np.exp([-4 * tilt, 4 * tilt]))
    assert 3.9 * rho < divergence(p, p[::-1], 1) <= 4 * rho


@bounded
@given(st.integers(1, 1023), st.integers(1, 4000), st.integers(0, 15), st.integers(1, 16))
def test_prices_add_up_and_grow_with_the_change(clip: int, slope: int, fraction_bits: int, touched: int) -> None:
    """t coordinates cost t·ε and t·ρ, a larger change never costs less, and ρ is at most both of its bounds."""
    clip = min(clip, int(MAX_TILT * 2**fraction_bits / math.log(2)))
    largest, most = min(clip, 2 * slope), 2 * min(clip, slope)
    moves = sorted({1, most // 3 or 1, most // 2 or 1, most})
    charges = [Pairs().charge(Reach(units, largest, fraction_bits)) for units in moves]
    for units, cost in zip(moves, charges, strict=True):
        more = Pairs().charge(Reach(units, largest, fraction_bits), touched)
        assert more == (touched * cost.epsilon, touched * cost.rho)
        assert cost.rho <= cost.epsilon * math.tanh(cost.epsilon / 2) * (1 + 1e-11)
        eta = Pairs().eta(Reach(units, largest, fraction_bits))
        assert cost.rho <= (2 * nats(units, fraction_bits) + 2 * eta) ** 2 / 8 * (1 + 1e-11)
    for less, more in itertools.pairwise(charges):
        assert less.epsilon <= more.epsilon
        assert less.rho <= more.rho


def test_coordinates_of_a_pixel_are_always_apart() -> None:
    with refused("pairs", "coordinate"):
        Pairs().charge(Reach(10, 10, 3), touched=2, apart=False)


# --- small changes of real pixels ---


def clipped(tilt: float, width: float) -> Arithmetic:
    return Arithmetic(Sign(12), 0.01, clip=Clip(float(np.float32(tilt)), float(np.float32(width))))


def exact_losses(arithmetic: Arithmetic, changes: list[int]) -> list[float]:
    """Return, for each change in levels, the largest exact loss over all pairs of pixels and many centres."""
    table, logs = arithmetic.levels(SIGNAL_OF_PIXEL).astype(int), law(arithmetic.limit, arithmetic.fraction_bits).logs
    most = arithmetic.largest_shift or 0
    step = max(1, arithmetic.level_of_one // 700)
    centres = np.unique(
        [*range(-arithmetic.level_of_one, arithmetic.level_of_one + 1, step), 0, arithmetic.level_of_one]
    )
    # Around mid-grey, where the clip ends between two levels, every centre is tried.
    centres = np.union1d(centres, np.arange(max(-40, -arithmetic.level_of_one), min(41, arithmetic.level_of_one + 1)))
    shifts = np.clip(table[None] - centres[:, None], -most, most) + arithmetic.limit
    losses = []
    for change in changes:
        low, high = logs[shifts[:, : 256 - change]], logs[shifts[:, change:]]
        losses.append(float(np.abs(high - low).max()))
    return losses


def ledger_of(arithmetic: Arithmetic) -> Ledger:
    selection = record(arithmetic.largest_shift or 0, arithmetic.level_of_one, arithmetic.fraction_bits)
    return Ledger(1, 1, (selection,))


CHANGES = [1, 2, 3, 5, 10, 20, 64, 128, 200, 254, 255]
STEPS = [(2.0, 0.1), (0.5, 0.4), (1.0, 1.0), (1.0, 1.7), (0.25, 3.0), (8.0, 0.05), (0.05, 0.3)]


@pytest.mark.parametrize(("tilt", "width"), STEPS)
def test_no_small_change_costs_more_than_stated(tilt: float, width: float) -> None:
    """The stated ε bounds the loss of every pair of pixel values and many centres, and is nearly reached."""
    arithmetic = clipped(tilt, width)
    exact, ledger = exact_losses(arithmetic, CHANGES), ledger_of(arithmetic)
    stated = [ledger.epsilon_of_change(change) for change in CHANGES]
    for loss, most in zip(exact, stated, strict=True):
        assert loss <= most
    assert stated == sorted(stated)
    assert exact[-1] == pytest.approx(stated[-1], rel=0.01)
    # Truncation can move a shift by one or two units more than in proportion to the change.
    unit = 4 * nats(1, arithmetic.fraction_bits)
    assert all(most <= loss * 1.03 + unit for loss, most in zip(exact, stated, strict=True))


def slope_from_the_clip(arithmetic: Arithmetic) -> Callable[[int], float]:
    """Return a function with wrong prices of changes, by which a change moves a share of the clip, not the slope."""
    selection = record(arithmetic.largest_shift or 0, arithmetic.level_of_one, arithmetic.fraction_bits)
    return lambda change: (
        Pairs()
        .charge(terms(selection).moved()._replace(units=-(-(terms(selection).sensitivity + 2) * change // 255)))
        .epsilon
    )


def share_of_the_whole(arithmetic: Arithmetic) -> Callable[[int], float]:
    """Return a function with wrong prices of changes, by which ε is linear in the change."""
    whole = ledger_of(arithmetic).epsilon
    return lambda change: whole * change / 255


@pytest.mark.parametrize("wrong", [slope_from_the_clip, share_of_the_whole])
def test_cheaper_prices_are_refuted(wrong: Callable[[Arithmetic], Callable[[int], float]]) -> None:
    """With a narrow clip, a change of a few levels costs as much as a change of all 255."""
    arithmetic = clipped(2.0, 0.1)
    stated = [wrong(arithmetic)(change) for change in CHANGES]
    exact = exact_losses(arithmetic, CHANGES)
    assert any(loss > 3 * most for loss, most in zip(exact, stated, strict=True))
    assert ledger_of(arithmetic).epsilon_of_change(20) > 0.95 * ledger_of(arithmetic).epsilon


# --- draws ---


def task(shifts: NDArray[np.int32], limit: int, fraction_bits: int, size: int = 1) -> scoring.Candidates:
    count = len(shifts) // size
    streams = np.zeros((count, 4), np.uint32)
    offsets = np.arange(count + 1) * size
    return scoring.Candidates(
        scoring.ScoringTask(SignLaw(limit=limit), fraction_bits, 2, streams, offsets, shifts), scoring.backend
    )


class Script:
    """A replacement of private bytes by given 64-bit words, in order."""

    def __init__(self, words: list[int]) -> None:
        self.words, self.asked = words, list[int]()

    def __call__(self, count: int) -> bytes:
        self.asked.append(count)
        return np.array(self.words, np.uint64).tobytes()


def test_a_bit_is_one_exactly_below_its_threshold() -> None:
    """For every shift, the words tried are the threshold, the word below it, and both ends."""
    largest, fraction_bits = 700, 7
    table = thresholds(largest, fraction_bits)
    for offset, bit in ((-1, 1), (0, 0)):
        shifts = np.arange(-largest, largest + 1).astype(np.int32)
        script = Script([int(t) + offset for t in table])
        with mock.patch.object(randomness, "private_bytes", script):
            assert Pairs().draw(task(shifts, largest, fraction_bits)).tolist() == [bit] * len(shifts)
        assert sum(script.asked) == 8 * len(shifts)
    for word, bit in ((0, 1), (WHOLE - 1, 0)):
        with mock.patch.object(randomness, "private_bytes", Script([word] * 3)):
            assert Pairs().draw(task(np.array([-700, 0, 700], np.int32), 700, 7)).tolist() == [bit] * 3


def test_bits_are_drawn_from_private_bytes_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A draw takes eight bytes of the operating system for each coordinate, and no public value."""
    asked: list[int] = []
    real = randomness.private_bytes

    def counted(count: int) -> bytes:
        asked.append(count)
        return real(count)

    monkeypatch.setattr(randomness, "private_bytes", counted)
    for name in ("stream", "uniforms", "permutation", "private_uniforms", "fresh_seed"):
        monkeypatch.setattr(randomness, name, None)
    candidates, repeats = task(np.zeros(5000, np.int32), 600, 8), set()
    for _ in range(3):
        repeats.add(Pairs().draw(candidates).tobytes())
    assert sum(asked) == 3 * 8 * 5000
    assert len(repeats) == 3
    tree = ast.parse((ROOT / "src" / "dipp" / "codes" / "pairs.py").read_text())
    used = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "randomness"
    }
    assert used == {"private_bytes"}


def test_real_draws_have_the_law_of_their_thresholds() -> None:
    """The draws of 401 shifts, 5000 each, pass a χ² test; its false-alarm rate is FALSE_ALARM."""
    largest, fraction_bits, runs = 200, 7, 5000
    shifts = np.arange(-largest, largest + 1).astype(np.int32)
    drawn = Pairs().draw(task(np.tile(shifts, runs), largest, fraction_bits)).reshape(runs, -1).sum(axis=0)
    up = np.array([int(t) / WHOLE for t in thresholds(largest, fraction_bits)])
    expected = np.stack([runs * up, runs * (1 - up)])
    assert expected.min() > 10
    statistic = float(((np.stack([drawn, runs - drawn]) - expected) ** 2 / expected).sum())
    assert special.chdtrc(len(shifts), statistic) > FALSE_ALARM
    assert special.chdtr(len(shifts), statistic) > FALSE_ALARM
    # Neighbouring draws are independent.
    bits = Pairs().draw(task(np.zeros(200_000, np.int32), largest, fraction_bits))
    together = (2 * bits[1:] - 1) @ (2 * bits[:-1] - 1)
    assert math.erfc(abs(together) / math.sqrt(2 * 199_999)) > FALSE_ALARM


class UnusedCandidates:
    """Public candidates whose draws raise if they are used."""

    offsets = np.arange(5)

    def draws(self, indices: Any) -> Any:
        raise AssertionError(f"nothing is searched, got {indices}")

    def noise(self, draws: Any) -> Any:
        return Sign(12).sample(draws)

    def means(self, indices: Any) -> Any:
        raise AssertionError(f"nothing has words, got {indices}")


def test_the_drawn_bits_are_the_noise() -> None:
    """The bit 1 stands for + and 0 for −, and no candidate is used."""
    bits = np.array([0, 1, 1, 0], np.int64)
    assert Pairs().observe(bits, UnusedCandidates()).tolist() == [
        -math.sqrt(12),
        math.sqrt(12),
        math.sqrt(12),
        -math.sqrt(12),
    ]


def test_larger_chunks_are_refused() -> None:
    with refused("offsets", "single"):
        Pairs().draw(task(np.zeros(6, np.int32), 10, 3, size=2))


@pytest.mark.parametrize(
    ("channel", "size", "bits"), [(Sign(12), 2, 1), (Sign(12), 1, 2), (Laplace(), 1, 1)], ids=["chunk", "bits", "noise"]
)
def test_plans_of_other_sizes_are_refused(channel: Channel, size: int, bits: int) -> None:
    """A plan of other sizes raises, so neither an encoder nor a file can have one."""
    Plan(Coding(Sign(12), Pairs()), (SensingStep(1.0, 0.25, 0.25, 1, 1),))
    with refused("pairs", "channel"):
        Plan(Coding(channel, Pairs()), (SensingStep(1.0, 0.25, 0.25, size, bits),))
    Plan(Coding(channel, Flat()), (SensingStep(1.0, 0.25, 0.25, size, bits),))


@pytest.mark.parametrize("tilt", [20.05, 40.0, 300.0, 700.0])
def test_tilts_beyond_the_thresholds_are_refused_in_one_line(tilt: float) -> None:
    """Both the draw and the price raise, so a file with such a tilt has no certificate."""
    arithmetic = clipped(tilt, 0.25)
    for ask in (
        lambda: Pairs().draw(task(np.zeros(3, np.int32), arithmetic.limit, arithmetic.fraction_bits)),
        lambda: Pairs().eta(arithmetic.moved),
        lambda: Pairs().charge(arithmetic.moved),
    ):
        with refused("tilt"):
            ask()


def test_the_largest_tilt_is_possible() -> None:
    """At the largest tilt, the unlikelier bit has the probability 2^−57.7 and a threshold above 0."""
    arithmetic = clipped(19.99, 0.25)
    assert in_reach(arithmetic.limit, arithmetic.fraction_bits)
    table = thresholds(arithmetic.limit, arithmetic.fraction_bits)
    assert 0 < int(table[0]) < 2**7
    charged = Pairs().charge(arithmetic.moved)
    assert law(arithmetic.limit, arithmetic.fraction_bits).loss(arithmetic.sensitivity) <= charged.epsilon < 40.2


def test_pairs_have_alpha_one() -> None:
    assert Pairs().score_alpha == 1
    assert Pairs.at(Fraction(1)) == Pairs()
    with refused("alpha", "pairs"):
        Pairs.at(Fraction(2))
