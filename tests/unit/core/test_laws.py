"""Integer laws: each score is 1-Lipschitz in the shift, and close to the real score."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from helpers.statistics import bounded
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from dipp.core.arithmetic import MAX_LEVEL, Arithmetic
from dipp.core.channels import Channel, Gaussian, Laplace, LocationChannel, Sign
from dipp.core.laws import KNOTS, LOG2_POLYNOMIAL, IntegerLaw, LaplaceLaw, PotentialLaw, SignLaw
from experiments.comparisons.channels import Huber, Logistic

DRAWS = np.arange(1 << 16).astype(np.uint16)
STEPS = [(1e-5, Fraction(1)), (1e-3, Fraction(2)), (0.05, Fraction(1)), (1.0, Fraction(3, 2)), (30.0, Fraction(1, 3))]
CERTIFIED: list[Channel] = [Laplace(), Logistic(), Huber(1.0), Huber(0.3), Sign(1), Sign(3)]
POTENTIALS: list[LocationChannel] = [Logistic(), Huber(1.0), Huber(0.3), Huber(2.5)]
CUBIC_ERROR = 9e-4
"""Largest error, in bits, of the cubic that approximates the logarithm."""

certified = pytest.mark.parametrize("channel", CERTIFIED, ids=str)
steps = pytest.mark.parametrize(("gain", "alpha"), STEPS, ids=str)


def shift(m: int) -> NDArray[np.int32]:
    return np.array(m, np.int32)


def units_per_nat(arithmetic: Arithmetic) -> float:
    return float(arithmetic.alpha) * 2.0**arithmetic.fraction_bits / math.log(2)


def distinct_draws(law: IntegerLaw) -> tuple[NDArray[np.uint16], NDArray[Any]]:
    """Return one draw for each distinct value of a law, and for each of the 2^16 draws the number of its value."""
    if isinstance(law, LaplaceLaw | PotentialLaw):
        _, first, number = np.unique(law.values, return_index=True, return_inverse=True)
        return first.astype(np.uint16), number
    assert isinstance(law, SignLaw)
    return np.array([0, 1], np.uint16), DRAWS & 1


def all_draws(law: IntegerLaw) -> NDArray[np.uint16]:
    """Return every draw that a coordinate can have: the 2^16 draws, or the bits 0 and 1, repeated."""
    return DRAWS if law.group_size == 1 else DRAWS & np.uint16(1)


def steepest(law: IntegerLaw) -> int:
    """Return the largest move of a score when m moves by 1, over ALL draws and ALL m in −limit … limit."""
    draws, number = distinct_draws(law)
    before, largest = law.score(draws, shift(-law.limit)), 0
    for m in range(1 - law.limit, law.limit + 1):
        after = law.score(draws, shift(m))
        largest = max(largest, int(np.abs(after - before).max()))
        before = after
    for m in (-law.limit, -1, 0, 1, law.limit // 3, law.limit):  # the score depends on the draw by its value alone
        assert (law.score(all_draws(law), shift(m)) == law.score(draws, shift(m))[number]).all()
    return largest


# --- the Lipschitz property, on which certificates rest ---


@certified
@steps
def test_scores_are_1_lipschitz(channel: Channel, gain: float, alpha: Fraction) -> None:
    """For every draw, the score moves by at most 1 when m moves by 1, and for some by exactly 1."""
    assert steepest(Arithmetic(channel, gain, alpha).law) == 1


def test_laplace_scores_are_1_lipschitz_at_the_largest_limit() -> None:
    law = LaplaceLaw.at(Fraction(1), 2, 2 * (MAX_LEVEL - 1))
    assert steepest(law) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("channel", "alpha"),
    [
        (Huber(1.0), Fraction(9006774161400197, 9007199254740992)),
        (Huber(0.5), Fraction(9005249914635143, 9007199254740992)),
        (Huber(2.0), Fraction(9007155223091477, 9007199254740992)),
    ],
    ids=str,
)
def test_scores_are_1_lipschitz_where_rounding_could_exceed_it(channel: Channel, alpha: Fraction) -> None:
    """For these α, rounding alone would let a rise between knots exceed 2^h, so integers must limit it."""
    law = Arithmetic(channel, 1e-4, alpha).law
    assert isinstance(law, PotentialLaw)
    assert np.diff(law.knots).max() <= 1 << law.knot_bits
    assert steepest(law) == 1


@certified
@steps
def test_scores_vanish_without_a_shift_and_keep_their_bound(channel: Channel, gain: float, alpha: Fraction) -> None:
    """The score is 0 at m = 0, and |score| ≤ |m| ≤ bound for all draws."""
    law = Arithmetic(channel, gain, alpha).law
    assert law.bound >= law.limit
    assert not law.score(all_draws(law), shift(0)).any()
    for m in (-law.limit, 1 - law.limit, -3, 1, law.limit):
        score = law.score(all_draws(law), shift(m))
        assert score.dtype == np.int32
        assert np.abs(score).max() <= abs(m) <= law.bound


@pytest.mark.parametrize("gain", [1e-5, 0.05, 30.0])
def test_gaussian_scores_keep_their_bound_but_are_not_lipschitz(gain: float) -> None:
    """Their bound protects sums from overflow, but without a Lipschitz constant of 1 there is no certificate."""
    law = Arithmetic(Gaussian(), gain).law
    assert steepest(law) > 1
    largest = max(int(np.abs(law.score(DRAWS, shift(m))).max()) for m in (-law.limit, law.limit))
    assert law.limit < largest <= law.bound
    assert law.bound < 1 << 21


@certified
def test_shifts_are_scored_elementwise(channel: Channel) -> None:
    """Arrays of draws and shifts have the scores of their elements."""
    law = Arithmetic(channel, 0.05).law
    draws = all_draws(law)[::4096]
    shifts = np.linspace(-law.limit, law.limit, len(draws)).astype(np.int32)
    alone = [int(law.score(draws[i], shifts[i])) for i in range(len(draws))]
    assert law.score(draws, shifts).tolist() == alone


# --- closeness to the real scores ---


@pytest.mark.parametrize("channel", [Laplace(), *POTENTIALS], ids=str)
@pytest.mark.parametrize(
    ("gain", "alpha"), [(1e-4, Fraction(1)), (0.05, Fraction(2)), (1.0, Fraction(3, 2)), (30.0, Fraction(1))]
)
def test_scores_are_the_log_ratios_in_units(channel: LocationChannel, gain: float, alpha: Fraction) -> None:
    """Score ≈ α·(φ(z) − φ(z − μ))/ln 2·2^S for all draws, within rounding, interpolation and the error of the cubic."""
    arithmetic = Arithmetic(channel, gain, alpha)
    law, per_nat = arithmetic.law, units_per_nat(arithmetic)
    if isinstance(law, PotentialLaw):
        bend = channel.slope**2 / (2 if isinstance(channel, Logistic) else channel.k**2)  # type: ignore[attr-defined]
        cell = 2.0**law.knot_bits / (per_nat * channel.slope)
        tolerance = 2 * (0.5 + 1) + 2 * per_nat * bend * cell**2 / 8
    else:
        tolerance = 2 * (1.25 + CUBIC_ERROR * per_nat * math.log(2))
    z = channel.sample(DRAWS)
    for m in (-arithmetic.limit, -17, 40, arithmetic.limit // 2, arithmetic.limit):
        mu = m / (per_nat * channel.slope)
        exact = per_nat * (channel.potential(z) - channel.potential(z - mu))
        assert np.abs(law.score(DRAWS, shift(m)) - exact).max() <= tolerance


@pytest.mark.parametrize("channel", [Laplace(), Gaussian(), *POTENTIALS, Sign(1), Sign(3)], ids=str)
@pytest.mark.parametrize("gain", [1e-3, 0.05, 1.0])
def test_selecting_by_the_scores_has_the_stated_divergence(channel: Channel, gain: float) -> None:
    """q ∝ 2^(score/2^S) over all draws has the KL and the mean of the channel within 2 %."""
    arithmetic = Arithmetic(channel, gain)
    law = arithmetic.law
    draws = all_draws(law)
    for x in (0.3, -1.0):
        m = int(arithmetic.levels(np.array(x)))
        mu = m / (units_per_nat(arithmetic) * channel.unit_slope)
        tilt = np.exp2(law.score(draws, shift(m)) * 2.0**-arithmetic.fraction_bits)
        q = tilt / tilt.sum()
        assert mu == pytest.approx(x * math.sqrt(gain), rel=0.03)
        assert np.sum(q * np.log2(q * len(q))) == pytest.approx(float(channel.kl(np.array(mu))), rel=0.02)
        mean = channel.slope * math.tanh(channel.slope * mu) if isinstance(channel, Sign) else mu
        assert np.sum(q * channel.sample(draws)) == pytest.approx(mean, rel=0.02)


# --- Laplace ---


def test_the_cubic_approximates_the_logarithm() -> None:
    """The cubic is −log2(1 − x) on [0, ½] within 9e-4 bits, and 1 at ½."""
    c1, c2, c3 = LOG2_POLYNOMIAL
    x = np.linspace(0, 0.5, 100_001)
    assert np.abs(x * (c1 + x * (c2 + x * c3)) + np.log2(1 - x)).max() < CUBIC_ERROR
    assert 0.5 * (c1 + 0.5 * (c2 + 0.5 * c3)) == pytest.approx(1, abs=1e-7)


def magnitudes() -> NDArray[np.float64]:
    """Return the exact exponential quantile of each draw, in bits, without its sign."""
    top = np.where(DRAWS >= 1 << 15, DRAWS.astype(np.int64), 0xFFFF - DRAWS.astype(np.int64)) - (1 << 15)
    return np.asarray(-np.log2(1 - (2 * top + 1) / (1 << 16)), np.float64)


@steps
def test_laplace_magnitudes_are_close_to_the_quantile(gain: float, alpha: Fraction) -> None:
    """Up to the limit, |z| is the quantile within 1.25 units and 9e-4 bits; larger quantiles have |z| above it."""
    law = Arithmetic(Laplace(), gain, alpha).law
    assert isinstance(law, LaplaceLaw)
    units = law.unit * 2.0**-law.extra_bits
    exact, size = units * magnitudes(), np.abs(law.values)
    tolerance = 1.25 + CUBIC_ERROR * units
    inside = exact <= law.limit - tolerance
    assert inside.sum() > 400
    assert np.abs(size - exact)[inside].max() <= tolerance
    assert (size[exact > law.limit + tolerance] >= law.limit).all()


@pytest.mark.parametrize(("gain", "alpha"), [(50.0, Fraction(1, 3)), (50.0, Fraction(7, 5)), (1.0, Fraction(1, 3))])
def test_laplace_scale_keeps_its_extra_bits(gain: float, alpha: Fraction) -> None:
    """A bit of noise is α·2^S units within 0.1 %, thanks to the extra bits of the unit."""
    arithmetic = Arithmetic(Laplace(), gain, alpha)
    law = arithmetic.law
    assert isinstance(law, LaplaceLaw)
    assert law.unit * 2.0**-law.extra_bits == pytest.approx(float(alpha) * 2.0**arithmetic.fraction_bits, rel=1e-3)


@steps
def test_laplace_values_are_odd_and_rise(gain: float, alpha: Fraction) -> None:
    """A mirrored draw has the negative value, and z grows with the draw up to the limit."""
    law = Arithmetic(Laplace(), gain, alpha).law
    assert isinstance(law, LaplaceLaw)
    assert (law.values == -law.values[::-1]).all()
    assert (np.diff(np.clip(law.values, -law.limit, law.limit)) >= 0).all()
    assert (law.values[1 << 15 :] >= 0).all()


@steps
def test_laplace_scores_have_the_form_of_fast_backends(gain: float, alpha: Fraction) -> None:
    """|z| − |z − m| = 2·min(max(±z, 0), |m|) − |m| with ± the sign of m, which fast backends compute."""
    law = Arithmetic(Laplace(), gain, alpha).law
    assert isinstance(law, LaplaceLaw)
    for m in (-law.limit, -100, -1, 0, 1, 33, law.limit):
        facing = np.maximum(law.values if m >= 0 else -law.values, 0)
        assert (law.score(DRAWS, shift(m)) == 2 * np.minimum(facing, abs(m)) - abs(m)).all()


@bounded
@given(
    st.builds(Fraction, st.integers(1, 64), st.integers(1, 64)),
    st.integers(0, 15),
    st.integers(2, 2 * (MAX_LEVEL - 1)),
)
def test_laplace_arithmetic_fits_into_16_bits(alpha: Fraction, fraction_bits: int, limit: int) -> None:
    """Unit and coefficients stay below 2^16, and values that saturate are beyond the limit."""
    if alpha * (1 << fraction_bits) > 1 << 15:
        return
    law = LaplaceLaw.at(alpha, fraction_bits, limit)
    assert 0 < law.unit < 1 << 16
    assert all(0 <= c < 1 << 16 for c in law.coefficients)
    assert 0 <= law.octaves <= 15
    assert 0xFFFF >> law.extra_bits > limit
    assert law.octaves == 15 or law.octaves * law.unit > limit << law.extra_bits
    assert np.abs(law.values).max() < 1 << 16


def test_laplace_values_are_pinned() -> None:
    """The law of a step is the same in every version."""
    law = Arithmetic(Laplace(), 0.05).law
    assert isinstance(law, LaplaceLaw)
    got = law.values[[0, 1, 1000, 20_000, 32_767, 32_768, 45_000, 60_000, 65_535]].tolist()
    assert got == [-1023, -1023, -1023, -364, 0, 0, 345, 1023, 1023]


# --- tabulated potentials ---


@pytest.mark.parametrize("channel", POTENTIALS, ids=str)
@steps
def test_knots_of_certified_channels_rise_slowly(channel: LocationChannel, gain: float, alpha: Fraction) -> None:
    """Φ(0) = 0, and Φ rises by 0 to 2^knot_bits from a knot to the next."""
    law = Arithmetic(channel, gain, alpha).law
    assert isinstance(law, PotentialLaw)
    rises = np.diff(law.knots.astype(np.int64))
    assert law.knots[0] == 0
    assert rises.min() >= 0
    assert rises.max() <= 1 << law.knot_bits
    assert len(law.knots) <= KNOTS + 2


def test_a_certified_potential_cannot_fall_steeply_either() -> None:
    """Scores are 1-Lipschitz in the shift even if φ is steeper than the slope of its channel."""
    cells = np.linspace(-2, 2, 1 << 16)
    law = PotentialLaw.tabulate(cells, lambda z: 5 * np.sin(z) ** 2, 40.0, 1.0, 64, certified=True)
    score = np.array([law.score(DRAWS, shift(m)) for m in range(-64, 65)])
    assert np.abs(np.diff(score, axis=0)).max() == 1
    assert np.diff(law.knots).min() == -(1 << law.knot_bits)


def test_potential_tables_are_pinned() -> None:
    """Knots are rounded down and values to the nearest unit; both are the same in every version."""
    law = Arithmetic(Huber(), 0.05).law
    assert isinstance(law, PotentialLaw)
    assert (law.knot_bits, len(law.knots)) == (2, 2196)
    assert law.knots[[1, 10, 100, 200, 1000, 2000]].tolist() == [0, 1, 108, 430, 3630, 7630]
    assert law.values[[0, 1000, 20_000, 40_000]].tolist() == [-8281, -2666, -447, 243]


@pytest.mark.parametrize("channel", [Gaussian(), *POTENTIALS], ids=str)
@steps
def test_tables_cover_all_possible_values(channel: LocationChannel, gain: float, alpha: Fraction) -> None:
    """The largest |z − m| is inside the table; Φ is even and rounded down between knots; z is a rounded quantile."""
    arithmetic = Arithmetic(channel, gain, alpha)
    law = arithmetic.law
    assert isinstance(law, PotentialLaw)
    farthest = int(np.abs(law.values).max()) + law.limit
    assert (farthest >> law.knot_bits) + 1 < len(law.knots)
    z_scale = units_per_nat(arithmetic) * channel.unit_slope
    assert np.abs(law.values - z_scale * channel.sample(DRAWS)).max() <= 0.5 + 1e-6
    size = np.arange(farthest + 1).astype(np.int32)
    assert (law.phi(size) == law.phi(-size)).all()
    cell, within = np.divmod(size.astype(np.int64), 1 << law.knot_bits)
    low, high = law.knots[cell].astype(np.int64), law.knots[cell + 1].astype(np.int64)
    assert (law.phi(size) == low + (high - low) * within // (1 << law.knot_bits)).all()
    exact = units_per_nat(arithmetic) * channel.potential(size / z_scale)
    knot = (size & ((1 << law.knot_bits) - 1)) == 0
    assert np.abs(law.phi(size) - exact)[knot].max() <= 1
    assert (np.diff(law.phi(size)) >= 0).all()


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (Arithmetic(Logistic(), 0.01), Arithmetic(Gaussian(), 0.01 * Logistic().slope ** 2)),
        (Arithmetic(Huber(), 0.01), Arithmetic(Huber(), 0.04)),
    ],
    ids=["two channels", "two steps"],
)
def test_different_tables_are_different_laws(first: Arithmetic, second: Arithmetic) -> None:
    """Laws with equal limits and different tables are unequal; otherwise a cache by law would mix up their tables."""
    m = shift(first.limit)
    if first.limit != second.limit or (first.law.score(DRAWS, m) == second.law.score(DRAWS, m)).all():
        pytest.fail("the example needs equal limits and different tables")
    assert first.law != second.law


@pytest.mark.parametrize("channel", [Laplace(), Logistic(), Sign(1)], ids=str)
def test_a_law_is_hashable(channel: Channel) -> None:
    law = Arithmetic(channel, 0.01).law
    assert {law: 1}[law] == 1


def test_laplace_laws_of_two_steps_differ() -> None:
    """The Laplace laws of ΔSNR 0.01 and 0.04 have equal limits and different units."""
    first, second = Arithmetic(Laplace(), 0.01).law, Arithmetic(Laplace(), 0.04).law
    assert first.limit == second.limit
    assert first != second
    assert first == Arithmetic(Laplace(), 0.01).law


# --- sign ---


def test_sign_scores_are_plus_or_minus_the_shift() -> None:
    """The score is +m for bit 1 and −m for bit 0; sixteen coordinates share a draw."""
    law = SignLaw(limit=300)
    assert law.group_size == 16
    assert law.score(np.array([1, 0, 1], np.uint16), np.array([5, 5, -300], np.int32)).tolist() == [5, -5, -300]
