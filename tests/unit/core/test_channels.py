"""Channels have the stated laws, divergences and slopes; the ε of their integers never exceeds the real ε."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from helpers.charges import selection_epsilon
from helpers.refusals import refused
from helpers.statistics import bounded
from hypothesis import assume, example, given
from hypothesis import strategies as st
from scipy import integrate  # type: ignore[import-untyped,unused-ignore]

from dipp.codes import Flat
from dipp.core import selection
from dipp.core.arithmetic import MAX_LEVEL, MIN_LEVEL, Arithmetic
from dipp.core.channels import Channel, Gaussian, Laplace, LocationChannel, Sign
from dipp.core.masks import FullMask, TurnMask
from dipp.core.price import Reach
from dipp.errors import NoCertificateError
from experiments.comparisons.channels import Huber, Logistic

EDGE = 45.0
"""Beyond this no density here has mass above 1e-27."""

LOCATION: list[LocationChannel] = [Laplace(), Gaussian(), Logistic(), Huber(), Huber(0.3), Huber(2.5)]
CERTIFIED: list[Channel] = [Laplace(), Logistic(), Huber(), Huber(0.3), Sign(1), Sign(3), Sign(12)]


def integral(f: Callable[[float], float], *kinks: float) -> float:
    """Return ∫ f over the real line, integrated piece by piece between the kinks."""
    points = sorted({-EDGE, *(k for k in kinks if abs(k) < EDGE), EDGE})
    return float(
        sum(integrate.quad(f, a, b, epsabs=1e-13, epsrel=1e-11, limit=200)[0] for a, b in itertools.pairwise(points))
    )


def density(channel: Channel) -> tuple[Callable[[float], float], list[float]]:
    """Return the unit-variance density, written independently, and its kinks or the bounds of most of its mass."""
    if isinstance(channel, Laplace):
        return lambda z: math.exp(-math.sqrt(2) * abs(z)) / math.sqrt(2), [0.0]
    if isinstance(channel, Gaussian):
        return lambda z: math.exp(-z * z / 2) / math.sqrt(2 * math.pi), [-3.0, 0.0, 3.0]
    if isinstance(channel, Logistic):
        s = math.sqrt(3) / math.pi
        return lambda z: 1 / (4 * s * math.cosh(z / (2 * s)) ** 2), [-3.0, 0.0, 3.0]
    assert isinstance(channel, Huber)
    k = channel.k

    def plain(t: float) -> float:
        return math.exp(-t * t / 2 if abs(t) <= k else k * k / 2 - k * abs(t))

    reach = 700 / k  # beyond it `plain` is zero
    pieces = list(itertools.pairwise([-reach, -30.0, -k, k, 30.0, reach] if reach > 30 else [-reach, -k, k, reach]))
    mass = sum(integrate.quad(plain, a, b, limit=200)[0] for a, b in pieces)
    second = sum(integrate.quad(lambda t: t * t * plain(t), a, b, limit=200)[0] for a, b in pieces)
    deviation = math.sqrt(second / mass)
    return lambda z: plain(z * deviation) * deviation / mass, [-k / deviation, k / deviation]


by_name = pytest.mark.parametrize("channel", LOCATION, ids=str)


# --- laws ---


@by_name
def test_densities_have_mass_one_and_unit_variance(channel: LocationChannel) -> None:
    """The density has mass 1 and variance 1, and the potential is its negative logarithm."""
    p, kinks = density(channel)
    assert integral(p, *kinks) == pytest.approx(1, abs=1e-9)
    assert integral(lambda z: z * z * p(z), *kinks) == pytest.approx(1, abs=1e-8)
    for z in (-7.0, -1.3, -0.2, 0.4, 1.0, 2.7, 9.0):
        assert float(channel.potential(np.array(z))) == pytest.approx(math.log(p(0.0) / p(z)), rel=1e-9)
    assert float(channel.potential(np.array(0.0))) == pytest.approx(0, abs=1e-12)


@by_name
def test_quantile_inverts_the_distribution(channel: LocationChannel) -> None:
    """The mass below quantile(p) is p, in the tails and in the middle."""
    p, kinks = density(channel)
    for probability in (2.0**-17, 1e-3, 0.02, 0.2, 0.4, 0.55, 0.9, 0.9999):
        z = float(channel.quantile(np.array(probability)))
        below = integral(lambda t, z=z: p(t) if t <= z else 0.0, z, *kinks)  # type: ignore[misc]
        assert below == pytest.approx(probability, rel=1e-7)


@by_name
def test_samples_are_centred_sorted_and_of_unit_variance(channel: LocationChannel) -> None:
    """The samples of all 2^16 draws ascend and are symmetric; the missing tails have less than 2e-4 of the variance."""
    z = channel.sample(np.arange(1 << 16).astype(np.uint16))
    assert (np.diff(z) > 0).all()
    assert np.abs(z + z[::-1]).max() < 1e-9
    assert 1 - 2e-4 < np.mean(z * z) < 1


@pytest.mark.parametrize("period", [1, 3, 12])
def test_sign_samples_have_unit_variance_over_a_cycle(period: int) -> None:
    """A coordinate has ±√period in one of `period` steps and 0 in the others."""
    z = Sign(period).sample(np.array([0, 1], np.uint16))
    assert z.tolist() == [-math.sqrt(period), math.sqrt(period)]
    assert np.mean(z * z) / period == pytest.approx(1)


# --- divergences and slopes ---


@by_name
@pytest.mark.parametrize("shift", [0.02, 0.3, 1.0, 2.4])
def test_kl_equals_numerical_integration(channel: LocationChannel, shift: float) -> None:
    """The closed form equals ∫ p(z − μ)·log2(p(z − μ)/p(z)) dz within 1e-7."""
    p, kinks = density(channel)

    def integrand(z: float) -> float:
        moved, still = p(z - shift), p(z)
        return moved * math.log2(moved / still) if min(moved, still) > 1e-290 else 0.0

    exact = integral(integrand, *kinks, *(k + shift for k in kinks))
    assert channel.kl(np.array([shift, -shift])).tolist() == pytest.approx([exact, exact], rel=1e-7, abs=1e-11)


@by_name
@pytest.mark.parametrize("shift", [0.0, 0.01, 0.3, 1.0])
def test_quantised_kl_is_close_to_the_closed_form(channel: LocationChannel, shift: float) -> None:
    """Sixteen bits per draw change the KL by 1e-3 for the Gaussian, whose tails are cut, and by 1e-7 for others."""
    tolerance = 1e-3 if isinstance(channel, Gaussian) else 1e-7
    got, exact = float(LocationChannel.kl(channel, np.array(shift))), float(channel.kl(np.array(shift)))
    assert got == pytest.approx(exact, rel=tolerance, abs=1e-14)


@pytest.mark.parametrize("period", [1, 3])
@pytest.mark.parametrize("shift", [-2.0, -0.1, 0.0, 1e-3, 0.5, 4.0, 40.0])
def test_sign_kl_is_the_divergence_of_two_coins(period: int, shift: float) -> None:
    """A bit is 1 with probability 1/(1 + e^−2θ), and the KL is the divergence from a fair coin."""
    up = 1 / (1 + math.exp(-2 * math.sqrt(period) * shift))
    exact = sum(share * math.log2(2 * share) for share in (up, 1 - up) if share > 0)
    assert float(Sign(period).kl(np.array(shift))) == pytest.approx(exact, rel=1e-9, abs=1e-14)


@pytest.mark.parametrize("channel", [*LOCATION, Sign(1), Sign(3)], ids=str)
def test_kl_is_zero_at_zero_and_grows(channel: Channel) -> None:
    shifts = np.linspace(0, 6, 400)
    values = channel.kl(shifts)
    assert abs(values[0]) < 1e-14
    assert (np.diff(values) > 0).all()
    assert channel.kl(-shifts).tolist() == pytest.approx(values.tolist())


def test_kl_is_never_negative() -> None:
    for channel in (*LOCATION, Sign(1), Sign(3)):
        assert (channel.kl(10.0 ** -np.arange(0, 13.0, 0.25)) >= 0).all(), channel


@pytest.mark.parametrize(
    ("channel", "slope", "fisher"),
    [(Laplace(), 1.414, 2.00), (Huber(1.0), 1.498, 1.31), (Logistic(), 1.814, 1.10), (Sign(1), 1.0, 1.0)],
    ids=str,
)
def test_slopes_and_fisher_informations_agree_with_the_table(channel: Channel, slope: float, fisher: float) -> None:
    """L agrees with the documented table to three decimals, and I = KL/(μ²/2) for small μ to two."""
    shift = 1e-3
    assert round(channel.slope, 3) == slope
    nats = float(channel.kl(np.array(shift))) * math.log(2)
    assert nats / (shift**2 / 2) == pytest.approx(fisher, abs=0.006)


def test_sign_information_does_not_depend_on_the_period() -> None:
    """A touched coordinate has `period` times the information, in one of `period` steps."""
    for period in (1, 3, 12):
        nats = float(Sign(period).kl(np.array(1e-3))) * math.log(2)
        assert nats / period / 0.5e-6 == pytest.approx(1, rel=1e-3)
        assert Sign(period).slope == pytest.approx(math.sqrt(period))


@pytest.mark.parametrize("channel", [c for c in LOCATION if c.certified], ids=str)
def test_slope_is_the_supremum_of_the_potentials(channel: LocationChannel) -> None:
    """|φ'| never exceeds L and comes within 0.1 % of it; L ≥ 1, which is the least for unit variance."""
    z = np.linspace(-12, 12, 100_001)
    steepest = np.abs(np.diff(channel.potential(z)) / np.diff(z)).max()
    assert 0.999 * channel.slope < steepest < channel.slope * (1 + 1e-9)
    assert channel.slope >= 1


def test_only_the_gaussian_has_no_certificate() -> None:
    """An unbounded score has no ε, so `require_certified` raises."""
    assert not Gaussian().certified
    assert math.isinf(Gaussian().slope)
    with refused("gaussian", kind=NoCertificateError):
        Gaussian().require_certified()
    for channel in CERTIFIED:
        assert channel.certified
        channel.require_certified()


@pytest.mark.parametrize("k", [0.0, -1.0, math.nan, math.inf])
def test_huber_refuses_invalid_corners(k: float) -> None:
    with refused("k"):
        Huber(k)


# --- integer arithmetic ---

channels = st.sampled_from(CERTIFIED)
gains = st.floats(math.log(1e-5), math.log(50)).map(math.exp)
alphas = st.builds(Fraction, st.integers(1, 40), st.integers(1, 20)).filter(lambda a: a <= 8)


@bounded
@given(channels, gains, alphas)
def test_stated_epsilon_is_just_below_the_real_epsilon(channel: Channel, gain: float, alpha: Fraction) -> None:
    """ε ≤ 2α·L·√ΔSNR·Δ + η with Δ = 2, and within 1/128 of it, or within one unit if S is at its cap."""
    arithmetic = Arithmetic(channel, gain, alpha)
    real = 2 * float(alpha) * channel.slope * math.sqrt(gain) * 2
    cap = selection.MAX_FRACTION_BITS - max(0, math.ceil(math.log2(alpha)))
    for touched in (1, 3):
        stated = selection_epsilon(arithmetic, touched)
        assert stated <= (touched * real + selection.ETA) * (1 + 1e-14)
        assert stated > touched * (real - 4 * math.log(2) * 2.0**-arithmetic.fraction_bits)
        if arithmetic.fraction_bits < cap:
            assert stated > touched * real * (1 - 1 / MIN_LEVEL)
        record = Flat(alpha).charge(Reach(arithmetic.sensitivity, arithmetic.limit, arithmetic.fraction_bits), touched)
        assert -1e-14 * stated <= record.epsilon - stated <= 3 * selection.ETA


@bounded
@given(channels, gains, alphas)
@example(Sign(1), 1e-7, Fraction(8))
@example(Laplace(), 1e-7, Fraction(1))
def test_the_scale_is_the_smallest_that_is_fine_enough(channel: Channel, gain: float, alpha: Fraction) -> None:
    """128 ≤ A(1) < 1024 unless S is at its cap, and half of the real level would be below 128."""
    arithmetic = Arithmetic(channel, gain, alpha)
    level = float(alpha) * channel.slope * math.sqrt(gain) / math.log(2) * 2.0**arithmetic.fraction_bits
    assume(abs(level - MIN_LEVEL) > 1e-9)
    cap = selection.MAX_FRACTION_BITS - max(0, math.ceil(math.log2(alpha)))
    assert 0 <= arithmetic.fraction_bits <= cap
    assert arithmetic.level_of_one == pytest.approx(level, abs=1)
    assert arithmetic.level_of_one >= MIN_LEVEL or arithmetic.fraction_bits == cap
    assert arithmetic.level_of_one < MAX_LEVEL
    assert arithmetic.fraction_bits == 0 or level / 2 < MIN_LEVEL
    assert arithmetic.limit == arithmetic.sensitivity == 2 * arithmetic.level_of_one


@pytest.mark.parametrize(("channel", "gain"), [(Laplace(), 0.9609060278364026), (Sign(1), 1.921812055672805)], ids=str)
def test_the_scale_is_fine_enough_at_a_power_of_two(channel: Channel, gain: float) -> None:
    """A(1) ≥ 128 even if the real level is a rounding error below 128."""
    assert Arithmetic(channel, gain).level_of_one >= MIN_LEVEL


def test_integers_of_steps_are_pinned() -> None:
    """The certificate of a file follows from S, A(1) and ε of each step."""
    got = [
        (a.fraction_bits, a.level_of_one, round(selection_epsilon(a), 9))
        for a in (Arithmetic(Laplace(), 0.01, Fraction(2)), Arithmetic(Sign(3), 0.03), Arithmetic(Huber(), 1e-5))
    ]
    assert got == [(9, 208, 1.126364168), (9, 221, 1.196761929), (15, 223, 0.018868631)]


@bounded
@given(channels, gains, alphas, st.lists(st.floats(-1, 1), min_size=1, max_size=20), st.lists(st.floats(-3, 3)))
def test_levels_centres_and_shifts_follow_their_definitions(
    channel: Channel, gain: float, alpha: Fraction, x: list[float], public: list[float]
) -> None:
    """A truncates towards zero, is odd and rises; c is rounded and clamped; |m| stays within the limit."""
    arithmetic = Arithmetic(channel, gain, alpha)
    top = arithmetic.level_of_one
    values = np.array(sorted([-1.0, *x, 1.0]))
    levels = arithmetic.levels(values)
    assert levels.dtype == np.int32
    assert (levels[0], levels[-1]) == (-top, top)
    assert (np.diff(levels) >= 0).all()
    assert (np.abs(levels) <= np.abs(arithmetic.unit * values)).all()
    assert (np.abs(levels) > np.abs(arithmetic.unit * values) - 1).all()
    assert arithmetic.levels(-values).tolist() == (-levels).tolist()
    x_hat = np.resize(np.array([*public, -9.0, 9.0]), len(values))
    centres = arithmetic.centres(x_hat)
    assert (np.abs(centres) <= top).all()
    inside = np.abs(arithmetic.unit * x_hat) <= top
    assert (np.abs(centres - arithmetic.unit * x_hat)[inside] <= 0.5).all()
    shifts = arithmetic.shifts(values, x_hat)
    assert shifts.tolist() == (levels - centres).tolist()
    assert (np.abs(shifts) <= arithmetic.limit).all()


@pytest.mark.parametrize("channel", CERTIFIED, ids=str)
def test_no_pixel_value_moves_more_than_the_sensitivity(channel: Channel) -> None:
    """Over all pairs of the 256 pixel values, the largest move of the shift is the sensitivity."""
    arithmetic = Arithmetic(channel, 0.02, Fraction(3, 2))
    shifts = arithmetic.shifts(np.linspace(-1, 1, 256), np.full(256, 0.37)).astype(np.int64)
    assert np.abs(shifts[:, None] - shifts[None]).max() == arithmetic.sensitivity


@pytest.mark.parametrize("gain", [0.0, -1.0, math.nan, math.inf, -math.inf])
def test_invalid_gains_are_refused(gain: float) -> None:
    with refused("snr_gain"):
        Arithmetic(Laplace(), gain)


def test_steps_that_are_too_large_are_refused() -> None:
    """The remedy names smaller steps."""
    with refused("snr_gain", remedy="smaller"):
        Arithmetic(Laplace(), 1e9)


@pytest.mark.parametrize("alpha", [Fraction(0), Fraction(-1), Fraction(-1, 1000)])
def test_invalid_alphas_are_refused(alpha: Fraction) -> None:
    with refused("alpha"):
        Arithmetic(Laplace(), 1.0, alpha)


@pytest.mark.parametrize(
    ("gain", "alpha"),
    [(1.0, math.inf), (1.0, math.nan), (1.0, Fraction(1, 10**400)), (1e-12, Fraction(1 << 20))],
    ids=["infinite", "nan", "vanishing", "beyond the tables"],
)
def test_alphas_without_a_scale_are_refused(gain: float, alpha: Fraction) -> None:
    """α = ∞ has no ε, and for a very large α no scale S ≥ 0 is left."""
    with refused("alpha"):
        Arithmetic(Laplace(), gain, alpha).law.score(np.zeros(1, np.uint16), np.zeros(1, np.int32))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1.0 + 1e-12, -1.5, 255.0])
def test_private_values_outside_the_range_are_refused(bad: float) -> None:
    """NaN and values outside [−1, 1] raise, and the message does not contain the private value."""
    arithmetic = Arithmetic(Sign(), 0.1)
    with refused("x", "values") as error:
        arithmetic.levels(np.array([0.0, bad, 1.0]))
    assert str(bad) not in str(error.value)
    with refused("x"):
        arithmetic.shifts(np.array([bad]), np.array([0.0]))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_predictions_that_are_not_finite_count_as_zero(bad: float) -> None:
    """If the encoder failed and were run again, its file would be conditioned on not failing."""
    centres = Arithmetic(Sign(), 0.1).centres(np.array([0.25, bad, -0.25]))
    assert centres.tolist() == Arithmetic(Sign(), 0.1).centres(np.array([0.25, 0.0, -0.25])).tolist()


# --- periods ---


@pytest.mark.parametrize("period", [0, -1, 1.0, "3"])
def test_invalid_periods_of_the_sign_channel_are_refused(period: int) -> None:
    with refused("period"):
        Sign(period)


def test_channels_have_the_masks_of_their_periods() -> None:
    assert [Sign(period).mask for period in (1, 3, 12)] == [FullMask(), TurnMask(3), TurnMask(12)]
    assert all(channel.mask == FullMask() for channel in LOCATION)
