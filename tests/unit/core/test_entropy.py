"""Entropy coding: weights against exact decimals, lengths against the ideal and another coder, and pinned bytes."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import constriction
import numpy as np
import pytest
from helpers.paths import GOLDEN
from helpers.refusals import refused
from helpers.scripts import benchmark
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dipp.core import exponents, fixed_length, randomness, selection
from dipp.core.arithmetic import Arithmetic
from dipp.core.channels import Laplace, LocationChannel
from dipp.core.entropy import Model, ZetaCode, decode, encode
from dipp.core.exponents import paper_exponent, refitted_exponent
from dipp.core.fixed_length import FixedLength
from dipp.errors import DippError

GOLDEN_VALUES = json.loads((GOLDEN / "entropy.json").read_text())


@dataclass(frozen=True)
class Weights:
    """An arbitrary integer law, because the coder must work with any."""

    weights: tuple[int, ...]

    @property
    def total(self) -> int:
        return sum(self.weights)

    def interval(self, index: int) -> tuple[int, int]:
        return sum(self.weights[:index]), self.weights[index]

    def find(self, target: int) -> int:
        return int(np.searchsorted(np.cumsum(self.weights), target, side="right"))


def information(models: Sequence[Model], indices: Sequence[int]) -> float:
    return sum(math.log2(m.total / m.interval(i)[1]) for m, i in zip(models, indices, strict=True))


def laws(code: ZetaCode) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return the probabilities of the exact zeta law, in floats, and those of its integer weights."""
    exact = np.arange(1, code.candidates + 1) ** -float(code.exponent)
    steps = np.array([code.interval(i)[1] for i in first_of_cells(code)], np.float64)
    sizes = np.diff([*first_of_cells(code), code.candidates])
    return exact / exact.sum(), np.repeat(steps, sizes) / code.total


def first_of_cells(code: ZetaCode) -> list[int]:
    """Return the first index of each cell, from the definition: a cell is an eighth of an octave."""
    octaves = range((code.candidates - 1).bit_length() + 1)
    firsts = {(1 << j) + i * (1 << j) // min(1 << j, 8) - 1 for j in octaves for i in range(min(1 << j, 8))}
    return sorted(first for first in firsts if first < code.candidates)


zeta_exponents = st.integers(1, 255).map(lambda units: Fraction(units, 64))
zeta_codes = st.builds(ZetaCode, st.one_of(st.integers(1, 40), st.integers(1, 1 << 22)), zeta_exponents)
random_laws = st.lists(st.integers(1, 1 << 40), min_size=1, max_size=6).map(lambda w: Weights(tuple(w)))


@st.composite
def messages(draw: st.DrawFn, models: st.SearchStrategy[Model]) -> tuple[list[Model], list[int]]:
    chosen = draw(st.lists(models, max_size=30))
    shares = draw(st.lists(st.floats(0, 1, exclude_max=True), min_size=len(chosen), max_size=len(chosen)))
    return chosen, [m.find(int(Fraction(share) * m.total)) for m, share in zip(chosen, shares, strict=True)]


# The law.


@pytest.mark.parametrize("units", [1, 40, 54, 64, 67, 128, 255])
@pytest.mark.parametrize("candidates", [1, 2, 17, 1000, (1 << 22) - 12345, 1 << 22])
def test_zeta_weights_are_the_nearest_integers(candidates: int, units: int) -> None:
    code = ZetaCode(candidates, Fraction(units, 64))
    firsts = first_of_cells(code)
    start = 0
    with localcontext() as context:
        context.prec = 60
        for first, following in zip(firsts, [*firsts[1:], candidates], strict=True):
            midpoint = (Decimal(first + 1) + Decimal(following)) / 2
            weight = max(1, int((Decimal(2) ** 58 * midpoint ** (-Decimal(units) / 64)).to_integral_value()))
            assert code.interval(first) == (start, weight)
            start += weight * (following - first)
            assert code.interval(following - 1) == (start - weight, weight)
    assert code.total == start


@pytest.mark.parametrize("units", [32, 54, 67, 70, 80, 96, 128])
@pytest.mark.parametrize("candidates", [2, 16, 17, 1000, 65537, 1 << 18, 1 << 22])
def test_integer_weights_cost_below_a_thousandth_of_a_bit(candidates: int, units: int) -> None:
    exact, coded = laws(ZetaCode(candidates, Fraction(units, 64)))
    assert coded.sum() == pytest.approx(1, abs=1e-12)
    loss = float(np.sum(exact * np.log2(exact / coded)))
    assert -1e-12 <= loss < (1e-3 if candidates > 16 else 1e-12)


def test_the_largest_zeta_code_has_the_right_mass() -> None:
    code = ZetaCode(1 << 40, Fraction(67, 64))
    s, few = 67 / 64, 1 << 20
    tail = ((few + 0.5) ** (1 - s) - (2.0**40 + 0.5) ** (1 - s)) / (s - 1)
    mass = float(np.sum(np.arange(1.0, few + 1) ** -s)) + tail
    assert code.total / 2**58 == pytest.approx(mass, rel=1e-3)
    assert code.find(code.total - 1) == (1 << 40) - 1
    assert decode(encode([(code, (1 << 40) - 1)]), [code]) == [(1 << 40) - 1]


@given(zeta_codes, st.floats(0, 1, exclude_max=True))
@settings(deadline=None, max_examples=200)
def test_find_is_the_inverse_of_interval(code: ZetaCode, share: float) -> None:
    target = int(Fraction(share) * code.total)
    index = code.find(target)
    start, weight = code.interval(index)
    assert 0 <= index < code.candidates
    assert start <= target < start + weight
    assert code.find(start) == code.find(start + weight - 1) == index


def test_one_candidate_costs_nothing() -> None:
    code = ZetaCode(1, Fraction(1))
    assert encode([(code, 0)] * 1000) == b""
    assert decode(b"", [code] * 1000) == [0] * 1000


# The coder.


@given(st.one_of(messages(zeta_codes), messages(random_laws), messages(st.one_of(zeta_codes, random_laws))))
@settings(deadline=None, max_examples=300)
@example(([], []))
def test_round_trip_within_a_hundredth_of_a_bit_and_a_byte(message: tuple[list[Model], list[int]]) -> None:
    models, indices = message
    payload = encode(zip(models, indices, strict=True))
    assert decode(payload, models) == indices
    assert len(payload) <= math.ceil((information(models, indices) + 0.01) / 8)
    assert not payload.endswith(b"\0")


def test_numpy_indices_give_the_same_bytes() -> None:
    code = ZetaCode(1 << 22, Fraction(54, 64))
    indices = np.array([0, 1, 4_000_000, (1 << 22) - 1], np.int32)
    assert encode((code, i) for i in indices) == encode((code, int(i)) for i in indices)


@pytest.mark.parametrize("turns", [0, 1, 7, 100, 1000])
def test_carries_run_through_all_bytes(turns: int) -> None:
    # Taking the middle half repeatedly approaches 1/2 = 0.7FFFFF… in base 16; the last symbol is any of the three.
    model = Weights((1, 2, 1))
    for last in range(3):
        indices = [1] * turns + [last]
        payload = encode((model, i) for i in indices)
        assert decode(payload, [model] * (turns + 1)) == indices
        value = Fraction(int.from_bytes(payload, "big"), 256 ** len(payload))
        quarter = Fraction(1, 4 << turns)
        low = Fraction(1, 2) - Fraction(1, 2 << turns) + (0, 1, 3)[last] * quarter
        assert low <= value < low + (1, 2, 1)[last] * quarter
        if last == 1 and turns >= 7:
            assert payload == b"\x80"


def test_long_messages_cost_their_information() -> None:
    code = ZetaCode(1 << 18, Fraction(54, 64))
    generator = np.random.default_rng(1)
    indices = [code.find(int(share * code.total)) for share in generator.random(20_000)]
    payload = encode((code, i) for i in indices)
    assert decode(payload, [code] * len(indices)) == indices
    # Shorter than the information by b bits happens with probability 2^−b: false alarm 2^−24.
    assert -24 < 8 * len(payload) - information([code] * len(indices), indices) < 8.01


def test_mean_overhead_is_less_than_half_a_byte() -> None:
    code = ZetaCode(1 << 12, Fraction(56, 64))
    generator = np.random.default_rng(2)
    overhead = []
    for _ in range(500):
        indices = [code.find(int(share * code.total)) for share in generator.random(12)]
        overhead.append(8 * len(encode((code, i) for i in indices)) - information([code] * 12, indices))
    assert max(overhead) < 8.01
    assert 1 < np.mean(overhead) < 4


@pytest.mark.parametrize("count", [3, 20, 60, 1000])
def test_payloads_are_as_short_as_those_of_another_coder(count: int) -> None:
    code = ZetaCode(1 << 10, Fraction(56, 64))
    weights = [code.interval(i)[1] for i in range(code.candidates)]
    model = constriction.stream.model.Categorical(np.array(weights) / code.total, perfect=False)
    generator = np.random.default_rng(count)
    indices = [code.find(int(share * code.total)) for share in generator.random(count)]
    theirs = constriction.stream.queue.RangeEncoder()
    theirs.encode(np.array(indices, np.int32), model)
    ours = 8 * len(encode((code, i) for i in indices))
    bits = information([code] * count, indices)
    # The other coder has 24-bit probabilities of the same law, and ends on a word of 32 bits.
    assert bits - 24 < theirs.num_bits() < bits * 1.001 + 64
    assert ours <= theirs.num_bits()
    assert bits - 24 < ours < bits + 8.01


def still_valid(payload: bytes, models: list[Model]) -> list[int] | None:
    """Return the indices of a payload after encoding them again; None if the payload is refused."""
    try:
        indices = decode(payload, models)
    except DippError:
        return None
    assert encode(zip(models, indices, strict=True)) == payload
    return indices


@given(st.binary(max_size=40), st.lists(st.one_of(zeta_codes, random_laws), max_size=20))
@settings(deadline=None, max_examples=300)
def test_any_bytes_are_refused_or_decode_to_valid_indices(data: bytes, models: list[Model]) -> None:
    indices = still_valid(data, models)
    if indices is not None:
        assert all(m.find(m.interval(i)[0]) == i for m, i in zip(models, indices, strict=True))


@given(messages(zeta_codes), st.data())
@settings(deadline=None, max_examples=150)
def test_damage_is_refused_or_changes_the_indices(message: tuple[list[Model], list[int]], data: st.DataObject) -> None:
    models, indices = message
    payload = encode(zip(models, indices, strict=True))
    with refused("payload"):
        decode(payload + b"\0", models)
    damaged = [payload + b"\1", payload + bytes(100) + b"\1"]
    if payload:
        position = data.draw(st.integers(0, len(payload) - 1))
        flip = data.draw(st.integers(1, 255))
        changed = bytes([payload[position] ^ flip])
        damaged += [payload[:-1], payload[:position], payload[:position] + changed + payload[position + 1 :]]
    for other in damaged:
        assert still_valid(other, models) != indices


def test_a_long_tail_is_refused() -> None:
    code = ZetaCode(1 << 16, Fraction(1))
    payload = encode([(code, 60_000)] * 5)
    for tail in (b"\0", b"\1", b"\xff" * 100):
        with refused("payload"):
            decode(payload + bytes(20) + tail, [code] * 5)
    with refused("payload"):
        decode(b"\xff" * 100, [code] * 5)
    with refused("payload"):
        decode(b"\1", [])


# Fixed length.


def bit_string(rows: Sequence[Sequence[int]], widths: Sequence[int]) -> bytes:
    text = "".join(f"{value:0{width}b}" for row in rows for value, width in zip(row, widths, strict=True))
    return bytes(int(text[i : i + 8].ljust(8, "0"), 2) for i in range(0, len(text), 8))


@given(st.lists(st.integers(1, 22), min_size=1, max_size=8), st.integers(0, 40), st.data())
@settings(deadline=None, max_examples=150)
def test_packing_is_the_concatenation_of_bits(widths: list[int], images: int, data: st.DataObject) -> None:
    code = FixedLength(tuple(widths))
    generator = np.random.default_rng(data.draw(st.integers(0, 1 << 32)))
    indices = generator.integers(0, 1 << np.array(widths), (images, len(widths)))
    packed = code.pack(indices)
    assert packed == bit_string(indices.tolist(), widths)
    assert len(packed) == code.size(images) == -(-images * sum(widths) // 8)
    unpacked = code.unpack(packed, images)
    assert unpacked.dtype == np.int64
    np.testing.assert_array_equal(unpacked, indices)


@pytest.mark.parametrize("dtype", [np.int32, np.uint16, np.uint64])
def test_packing_in_blocks_gives_the_same_bytes(monkeypatch: pytest.MonkeyPatch, dtype: type[np.integer]) -> None:
    code = FixedLength((3, 13, 1))
    indices = np.random.default_rng(3).integers(0, [8, 8192, 2], (1001, 3)).astype(dtype)
    whole = code.pack(indices)
    monkeypatch.setattr(fixed_length, "BLOCK_BITS", 1)
    assert (
        code.pack(indices) == code.pack(np.asfortranarray(indices)) == whole == bit_string(indices.tolist(), (3, 13, 1))
    )
    np.testing.assert_array_equal(code.unpack(whole, 1001), indices)


def test_a_damaged_packing_is_refused() -> None:
    code = FixedLength((5, 6))
    packed = code.pack(np.array([[31, 63], [0, 1], [17, 40]]))
    assert len(packed) == 5
    for data, images in ((packed[:-1], 3), (packed + b"\0", 3), (packed, 4), (packed, 2), (packed, -3)):
        with refused("data"):
            code.unpack(data, images)
    with refused("data", "zero"):
        code.unpack(packed[:-1] + bytes([packed[-1] | 1]), 3)


# Exponents.


@pytest.mark.parametrize(
    ("kl", "alpha", "units"),
    [(0, 2, 81), (0, 3, 99), (0, 100, 99), (2, 2, 75), (8, 2, 69), (16, 2, 67), (16, Fraction(3, 2), 67), (1e9, 2, 64)],
)
def test_the_exponent_of_the_paper(kl: float, alpha: int | Fraction, units: int) -> None:
    assert paper_exponent(kl, Fraction(alpha)) == Fraction(units, 64)
    length = kl + math.log2(3.56) / min((alpha - 1) / 2, 1)
    assert abs(float(paper_exponent(kl, Fraction(alpha))) - (1 + 1 / length)) <= 1 / 128


def test_the_refitted_exponent_follows_its_table() -> None:
    for row, pad in enumerate(exponents.REFITTED_PADS):
        for column, kl in enumerate(exponents.REFITTED_KL):
            assert refitted_exponent(kl, 1 << (kl + pad)) == Fraction(exponents.REFITTED[row][column], 64)
            near = 64 * refitted_exponent(kl + 0.4, 1 << (kl + pad))
            following = exponents.REFITTED[row][min(column + 1, 9)]
            assert near == round(0.8 * exponents.REFITTED[row][column] + 0.2 * following)
    assert refitted_exponent(16, 1 << 18) == refitted_exponent(16, (1 << 18) - 1) == refitted_exponent(16.0, 1)
    assert refitted_exponent(100, 1 << 22) == refitted_exponent(18, 1 << 20)
    # A larger divergence makes the law flatter; a larger pad makes it steeper.
    assert (np.diff(exponents.REFITTED, axis=1) <= 0).all()
    assert (np.diff(exponents.REFITTED, axis=0) >= 0).all()


def test_the_refitted_table_fits_real_selections(monkeypatch: pytest.MonkeyPatch) -> None:
    script = benchmark("fit_zeta", monkeypatch)
    kl, pad, chunks = 4, 4, 600
    simulated = script.mean_log2_index(kl, 2000)[pad]
    best = min(range(40, 120), key=lambda units: float(script.codelength(units, simulated, 1 << (kl + pad))))
    assert abs(best - int(64 * refitted_exponent(kl, 1 << (kl + pad)))) <= 2

    # The same mean from dipp's own candidates, scores and selection.
    arithmetic = Arithmetic(Laplace(), 0.5, Fraction(2))
    coordinates = round(kl / float(LocationChannel.kl(Laplace(), np.asarray(0.5 * math.sqrt(0.5)))))
    shifts = np.full((coordinates, 1), round(arithmetic.unit * 0.5), np.int32)
    n = 1 << (kl + pad)
    source, times = (randomness.stream(bytes(16), purpose=purpose) for purpose in ("test", "times"))
    waits = -np.log(randomness.uniforms(times, chunks * n)).reshape(chunks, n)
    scores = np.rint(-2 * np.log2(np.cumsum(waits, axis=1)) * 2**arithmetic.fraction_bits).astype(np.int32)
    for chunk in range(chunks):
        drawn = randomness.draws(source, chunk, np.arange(coordinates)[:, None], np.arange(n))
        scores[chunk] += arithmetic.law.score(drawn, shifts).sum(axis=0, dtype=np.int32)
    log2_index = np.log2(1 + selection.select(scores, arithmetic.fraction_bits))
    # Five standard errors: false alarm 1e-6.
    assert abs(log2_index.mean() - simulated) < 5 * log2_index.std() / math.sqrt(chunks)


# Pinned bytes, and invalid arguments.


def test_golden_bytes_of_codes_and_packings() -> None:
    for entry in GOLDEN_VALUES["tables"]:
        code = ZetaCode(entry["candidates"], Fraction(entry["units"], 64))
        cells = ",".join(f"{i}:{code.interval(i)[0]}:{code.interval(i)[1]}" for i in first_of_cells(code))
        assert hashlib.sha256(cells.encode()).hexdigest() == entry["sha256"]
        assert str(code.total) == entry["total"]
    for entry in GOLDEN_VALUES["payloads"]:
        models = [ZetaCode(n, Fraction(units, 64)) for n, units, _ in entry["symbols"]]
        indices = [index for *_, index in entry["symbols"]]
        assert encode(zip(models, indices, strict=True)).hex() == entry["hex"]
        assert decode(bytes.fromhex(entry["hex"]), models) == indices
    for entry in GOLDEN_VALUES["packed"]:
        code_of_widths = FixedLength(tuple(entry["widths"]))
        assert code_of_widths.pack(np.array(entry["indices"])).hex() == entry["hex"]
    assert [list(row) for row in exponents.REFITTED] == GOLDEN_VALUES["refitted"]


@pytest.mark.parametrize(
    ("candidates", "exponent", "name"),
    [
        (0, Fraction(1), "candidates"),
        (-1, Fraction(1), "candidates"),
        ((1 << 40) + 1, Fraction(1), "candidates"),
        (10, Fraction(0), "exponent"),
        (10, Fraction(-1), "exponent"),
        (10, Fraction(1, 3), "exponent"),
        (10, Fraction(1, 128), "exponent"),
        (10, Fraction(4), "exponent"),
    ],
)
def test_invalid_zeta_codes_are_refused(candidates: int, exponent: Fraction, name: str) -> None:
    with refused(name):
        ZetaCode(candidates, exponent)


@pytest.mark.parametrize("index", [-1, 10, 1 << 40])
def test_an_index_out_of_range_is_refused(index: int) -> None:
    with refused("index"):
        encode([(ZetaCode(10, Fraction(1)), index)])


@pytest.mark.parametrize("widths", [(), (0,), (5, 0), (-1,), (23,)])
def test_invalid_widths_are_refused(widths: tuple[int, ...]) -> None:
    with refused("widths"):
        FixedLength(widths)


@pytest.mark.parametrize("indices", [[[8, 0]], [[0, 4]], [[-1, 0]], [[1, 1, 1]], [1, 1], [[1.0, 1.0]]])
def test_indices_that_do_not_fit_are_refused(indices: list[Any]) -> None:
    with refused("indices"):
        FixedLength((3, 2)).pack(np.array(indices))


@pytest.mark.parametrize("kl", [-1.0, math.inf, math.nan])
def test_invalid_divergences_are_refused(kl: float) -> None:
    with refused("kl_bits"):
        paper_exponent(kl)
    with refused("kl_bits"):
        refitted_exponent(kl, 16)


def test_invalid_arguments_of_exponents_are_refused() -> None:
    with refused("alpha"):
        paper_exponent(16, Fraction(1))
    with refused("candidates"):
        refitted_exponent(16, 0)
