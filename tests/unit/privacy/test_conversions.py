"""Test conversions and composition by exact numbers, and costs by the masks and chunks of real encodings."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from helpers.charges import selection_epsilon
from helpers.geometry import of_pixels
from helpers.statistics import bounded
from hypothesis import given
from hypothesis import strategies as st
from scipy import special  # type: ignore[import-untyped,unused-ignore]

from dipp.codes import Flat, StepLimited
from dipp.core import chunking
from dipp.core.arithmetic import Arithmetic
from dipp.core.channels import Channel, Gaussian, Laplace, Sign
from dipp.core.plan import Coding, Plan
from dipp.core.price import Sensitivity
from dipp.core.selection import ETA
from dipp.core.steps import Step
from dipp.errors import DippError, NoCertificateError
from dipp.planning.presets import PAPER
from dipp.privacy import conversions
from dipp.privacy.budget import Budget, losses
from dipp.privacy.certificate import Certificate
from dipp.privacy.ledger import Ledger, StepDraws
from experiments.comparisons.channels import Huber, Logistic
from experiments.comparisons.unclipped import SHARP

SEED = bytes(range(16))

ZCDP_TO_APPROXIMATE = (
    # ρ, δ, ε: the minimum over the order, computed with 40 digits.
    (0.000001, 1e-5, 0.0034566670612757),
    (0.001, 1e-5, 0.15733539316122),
    (0.006, 1e-5, 0.41408798751084),
    (0.06, 1e-5, 1.4454083429282),
    (0.1, 1e-6, 2.1419389283855),
    (0.5, 1e-10, 6.8393294131208),
    (0.6, 1e-5, 5.252161055371),
    (1, 1e-6, 7.7662166253117),
    (2, 1e-6, 11.688596249355),
    (10, 1e-9, 37.637453577913),
    (100, 1e-5, 165.62190403245),
    (1000, 1e-6, 1231.8793230918),
)


@pytest.mark.parametrize(("rho", "delta", "epsilon"), ZCDP_TO_APPROXIMATE)
def test_zcdp_converts_to_the_best_epsilon(rho: float, delta: float, epsilon: float) -> None:
    bound = conversions.epsilon_of_zcdp(rho, delta)
    assert epsilon * (1 - 1e-13) <= bound <= epsilon * (1 + 1e-9)


@pytest.mark.parametrize(("rho", "delta", "epsilon"), ZCDP_TO_APPROXIMATE)
def test_conversions_back_agree(rho: float, delta: float, epsilon: float) -> None:
    assert conversions.zcdp_of_epsilon(epsilon, delta) == pytest.approx(rho, rel=1e-8)


def test_the_conversion_at_a_fixed_order_by_hand() -> None:
    # ρ = 1, δ = 10^−6, α = 5: 5 + ln 0.8 − (ln 10^−6 + ln 5)/4 = 5 − 0.22314355 + 13.81551056/4 − 1.60943791/4.
    assert conversions.epsilon_of_zcdp(1.0, 1e-6) < 5 - 0.22314355 + 3.05151816
    assert conversions._excess_terms(4.0, math.log(1e-6)) == pytest.approx(-0.22314355 + 3.05151816, abs=1e-7)


@bounded
@given(mu=st.floats(0.01, 10), log_delta=st.floats(-40, -1))
def test_the_conversion_is_no_better_than_the_truth(mu: float, log_delta: float) -> None:
    """The Gaussian mechanism is μ²/2-zCDP, and its exact δ(ε) is known [Balle & Wang, 2018]."""
    epsilon = conversions.epsilon_of_zcdp(mu * mu / 2, math.exp(log_delta))
    ahead, behind = special.log_ndtr(mu / 2 - epsilon / mu), special.log_ndtr(-mu / 2 - epsilon / mu)
    exact = math.exp(ahead) - math.exp(epsilon + behind)
    assert exact <= math.exp(log_delta)


@bounded
@given(rho=st.floats(1e-9, 1e4), log_delta=st.floats(-60, -0.01))
def test_inverses_round_in_the_safe_direction(rho: float, log_delta: float) -> None:
    delta = math.exp(log_delta)
    epsilon = conversions.epsilon_of_zcdp(rho, delta)
    assert conversions.epsilon_of_zcdp(conversions.zcdp_of_epsilon(epsilon, delta), delta) <= epsilon
    assert conversions.epsilon_of_zcdp(rho * 1.01, delta) >= epsilon


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 2.0, 8.0])
def test_bounded_range_gives_its_zcdp(epsilon: float) -> None:
    """For two-point laws whose log ratio spans ε, no Rényi divergence exceeds αε²/8, and small orders come close."""
    rho = epsilon**2 / 8
    ratios = []
    for order in (1.001, 1.5, 2.0, 8.0, 64.0):
        for place in np.linspace(0.001, 0.999, 199):
            log_high, log_low = epsilon * (1 - place), -epsilon * place
            # Q puts p on the point where ln P/Q is high; P then adds up to 1.
            p = -math.expm1(log_low) / (math.exp(log_high) - math.exp(log_low))
            moment = p * math.exp(order * log_high) + (1 - p) * math.exp(order * log_low)
            ratios.append(math.log(moment) / (order - 1) / order / rho)
    assert max(ratios) <= 1
    if epsilon <= 1:
        assert max(ratios) > 0.98


def test_prices_of_groups_of_pixels_are_those_of_their_laws() -> None:
    assert conversions.group_epsilon(0.5, 3) == pytest.approx(1.5, rel=1e-11)
    assert conversions.group_zcdp(0.5, 3) == pytest.approx(4.5, rel=1e-11)
    # All in one chunk, three pixels move a score three times as far.
    assert pytest.approx(conversions.group_zcdp(0.7**2 / 8, 3), rel=1e-11) == (3 * 0.7) ** 2 / 8


@pytest.mark.parametrize(
    "call",
    [
        lambda: conversions.epsilon_of_zcdp(-1, 1e-6),
        lambda: conversions.epsilon_of_zcdp(math.nan, 1e-6),
        lambda: conversions.epsilon_of_zcdp(1, 0),
        lambda: conversions.epsilon_of_zcdp(1, 1),
        lambda: conversions.zcdp_of_epsilon(math.inf, 1e-6),
        lambda: conversions.group_epsilon(1, 0),
        lambda: Budget.pure(0),
        lambda: Budget.pure(math.inf),
        lambda: Budget.pure(math.nan),
        lambda: Budget.approximate(1, 1),
        lambda: Budget.zcdp(-2),
        lambda: Budget(),
        lambda: Budget(epsilon=1, rho=1),
        lambda: Budget(delta=1e-6),
        lambda: Budget(delta=1e-6, rho=1),
        lambda: Sign(2).mask.touches(3),
        lambda: Laplace().mask.touches(0),
    ],
)
def test_bad_numbers_are_refused_in_one_line(call: object) -> None:
    assert callable(call)
    with pytest.raises(DippError) as error:
        call()
    assert "\n" not in str(error.value)


def test_budgets_measure_and_allow() -> None:
    cost, many = _certificate([0.5, 0.5, 1.0]), _certificate([0.01] * 1000)
    assert cost.epsilon == pytest.approx(2.0, rel=1e-3)
    assert cost.rho == pytest.approx(1.5 / 8, rel=1e-3)
    assert cost.approximate(1e-6) == cost.epsilon  # three selections gain nothing
    assert many.approximate(1e-6) == pytest.approx(0.70, abs=0.01)
    assert Budget.pure(2.01).allows(cost)
    assert not Budget.pure(1.99).allows(cost)
    assert Budget.pure(cost.epsilon).allows(cost)
    assert not Budget.pure(math.nextafter(cost.epsilon, 0)).allows(cost)
    assert Budget.zcdp(0.19).allows(cost)
    assert not Budget.zcdp(0.18).allows(cost)
    assert Budget.approximate(0.72, 1e-6).allows(many)
    assert not Budget.approximate(0.68, 1e-6).allows(many)
    assert [str(b) for b in (Budget.pure(16), Budget.approximate(4, 1e-6), Budget.zcdp(2))] == [
        "ε = 16 per pixel",
        "ε = 4, δ = 1e-06 per pixel",
        "ρ = 2 per pixel",
    ]


@pytest.mark.parametrize(("snr", "steps", "gain"), [(0.001, 100, 4.6), (0.01, 30, 2.1), (0.1, 30, 1.5), (1.0, 30, 1.0)])
def test_gain_of_delta_over_pure(snr: float, steps: int, gain: float) -> None:
    """For equal steps of the paper's code at δ = 10^−5, what zCDP saves grows with the number of steps."""
    cost = Certificate.of(_plan(PAPER, [snr / steps] * steps, separate=False), of_pixels(1024))
    assert cost.epsilon / cost.approximate(1e-5) == pytest.approx(gain, abs=0.06)


@pytest.mark.parametrize(
    ("coding", "separate", "pure", "rho"),
    [(PAPER, False, 33.94, 144), (PAPER, True, 33.94, 48), (SHARP, False, 6.93, 6), (SHARP, True, 6.93, 6)],
)
def test_the_laws_of_the_two_presets(coding: Coding, separate: bool, pure: float, rho: float) -> None:
    """ε is 33.94·Σ√ΔSNR or 6.93·Σ√ΔSNR, and ρ is 144, 48 (kept apart) or 6 times the final SNR."""
    gains = [0.001, 0.01, 0.05, 0.2]
    cost = Certificate.of(_plan(coding, gains, separate=separate), of_pixels(1024))
    real = pure * sum(map(math.sqrt, gains))
    assert real * (1 - 1 / 128) < cost.epsilon < real * 1.001
    assert rho * sum(gains) * (1 - 1 / 64) < cost.rho < rho * sum(gains) * 1.001


@pytest.mark.parametrize("chunk_size", [64, 1024, 1025, 2000, 3072])
def test_chunks_keep_a_pixel_apart_as_charged(chunk_size: int) -> None:
    """The coordinates of each pixel, counted in the chunks that are really dealt, cost at most the certificate."""
    pixels, channels = 1024, 3
    plan = _plan(PAPER, [0.1], chunk_size)
    count = -(-pixels * channels // chunk_size)
    dealt = chunking.chunks(SEED, 0, of_pixels(pixels, channels), count, apart=count >= channels)
    arithmetic = plan.arithmetic(plan.steps[0])
    together: Counter[tuple[int, int]] = Counter(
        (int(pixel), chunk) for chunk in range(count) for pixel in dealt.part(chunk) // channels
    )
    by_pixel: dict[int, list[float]] = {}
    for (pixel, _), touched in together.items():
        by_pixel.setdefault(pixel, []).append(selection_epsilon(arithmetic, touched))
    assert len(by_pixel) == pixels
    charged = Certificate.of(plan, of_pixels(pixels, channels))
    assert max(sum(charges) for charges in by_pixel.values()) <= charged.epsilon * (1 + 1e-14)
    assert max(sum(e * e / 8 for e in charges) for charges in by_pixel.values()) <= charged.rho * (1 + 1e-14)
    assert charged.rho <= Certificate.of(dataclasses.replace(plan, separate=False), of_pixels(pixels, channels)).rho
    if count >= channels:
        assert charged.rho == pytest.approx(3 * selection_epsilon(arithmetic) ** 2 / 8, rel=1e-9)


@pytest.mark.parametrize(("period", "channels"), [(1, 3), (3, 3), (4, 3), (7, 3), (6, 3), (3, 1), (5, 2)])
def test_the_worst_pixel_of_the_real_masks(period: int, channels: int) -> None:
    """Every pixel, followed through the masks of the public seed, costs at most the certificate, and some cost that."""
    pixels, gains = 64, [0.01 * 1.7**i for i in range(2 * period + 1)][: 2 * period + 1]
    coding = Coding(Sign(period), Flat())
    plan = _plan(coding, gains)
    pure, squares = np.zeros(pixels), np.zeros(pixels)
    for number, step in enumerate(plan.steps):
        coordinates = plan.mask.touched(SEED, number, of_pixels(pixels, channels))
        loss = selection_epsilon(plan.arithmetic(step))
        touched = np.bincount(coordinates // channels, minlength=pixels)
        pure += touched * loss
        squares += (touched * loss) ** 2 / 8
    charged = Certificate.of(plan, of_pixels(pixels, channels))
    # Sums of floats here, exact ones there.
    assert pure.max() <= charged.epsilon * (1 + 1e-14)
    assert squares.max() <= charged.rho * (1 + 1e-14)
    # With growing steps the last cycle decides, and 64 pixels are enough to meet the worst of two cycles nearly.
    assert pure.max() > 0.93 * charged.epsilon
    one_cycle = Certificate.of(Plan(coding, plan.steps[:period]), of_pixels(pixels, channels))
    average = sum(selection_epsilon(plan.arithmetic(step)) for step in plan.steps[:period]) * channels / period
    assert one_cycle.epsilon * (1 + 1e-14) >= average


def test_a_long_period_skips_pixels_in_some_steps() -> None:
    """With P = 6 and C = 3, a pixel is touched in even or in odd steps, and the dearer half of each cycle counts."""
    coding = Coding(Sign(6), Flat())
    plan = _plan(coding, [0.04, 0.01, 0.04, 0.01, 0.04, 0.01, 0.01, 0.04])
    dear, cheap = (selection_epsilon(plan.arithmetic(plan.steps[i])) for i in (0, 1))
    assert Certificate.of(plan, of_pixels(64)).epsilon == pytest.approx(3 * dear + max(dear, cheap), rel=1e-11)


def test_pure_and_rho_may_have_different_worst_pixels() -> None:
    """With P = 4 and C = 2, three medium steps cost more ε, and one large step costs more ρ."""
    coding = Coding(Sign(4), Flat())
    plan = _plan(coding, [1.0, 0.36, 1e-6, 0.36])
    big, middling = (selection_epsilon(plan.arithmetic(plan.steps[i])) for i in (0, 1))
    cost = Certificate.of(plan, of_pixels(64, 2))
    assert 2 * middling > big
    assert cost.epsilon == pytest.approx(2 * middling, rel=1e-9)
    assert cost.rho == pytest.approx(big**2 / 8, rel=1e-2)
    assert big**2 > 2 * middling**2


def test_smaller_images_may_cost_more() -> None:
    plan = _plan(PAPER, [0.1], chunk_size=1024)
    large, small = (Certificate.of(plan, of_pixels(pixels)) for pixels in (1024, 512))
    assert large.epsilon == small.epsilon
    assert small.rho == pytest.approx(3 * large.rho, rel=1e-9)


def test_codings_without_a_certificate_have_no_price() -> None:
    with pytest.raises(NoCertificateError):
        Certificate.of(_plan(Coding(Gaussian(), StepLimited()), [0.1]), of_pixels(1024))


@pytest.mark.parametrize("channel", [Laplace(), Logistic(), Huber(1.0), Sign(1), Sign(3), Sign(7)])
@pytest.mark.parametrize("alpha", [Fraction(1), Fraction(3, 2), Fraction(2), Fraction(5)])
def test_vectorised_losses_are_those_of_the_integers(channel: Channel, alpha: Fraction) -> None:
    coding = Coding(channel, Flat(alpha))
    powers = (128 / 2.0 ** np.arange(-6, 16) * math.log(2) / (float(alpha) * channel.unit_slope)) ** 2
    gains = np.concatenate([np.geomspace(1e-8, 1e3, 400), powers, np.nextafter(powers, 0), np.nextafter(powers, 1e9)])
    gains = gains.astype(np.float32).astype(np.float64)
    levels, found = losses(coding, gains)
    fits = levels < 1023
    exact = [selection_epsilon(Arithmetic(channel, gain, alpha)) for gain in gains[fits].tolist()]
    ratio = found[fits] / exact
    assert (ratio >= 1).all()
    # Next to a power of two the level may be left untruncated; else it is the same one.
    assert (ratio[:300] < 1 + 1e-8).mean() > 0.98
    assert (ratio <= 1 + 1.01 / np.floor(levels[fits]).clip(1)).all()


@pytest.mark.parametrize(
    ("channel", "channels", "chunk_size", "separate", "times", "squares"),
    [
        (Laplace(), 3, 96, True, 3, 9),  # two chunks
        (Laplace(), 3, 64, True, 3, 3),  # three
        (Laplace(), 3, 64, False, 3, 9),
        (Sign(3), 3, 64, False, 1, 1),
        (Sign(1), 3, 192, False, 3, 9),
        (Laplace(), 1, 64, False, 1, 1),
    ],
)
def test_costs_of_the_table_by_hand(
    channel: Channel, channels: int, chunk_size: int, separate: bool, times: int, squares: int
) -> None:
    plan = _plan(Coding(channel, Flat()), [0.1], chunk_size, separate)
    found, loss = Certificate.of(plan, of_pixels(64, channels)), selection_epsilon(plan.arithmetic(plan.steps[0]))
    assert found.epsilon == pytest.approx(times * loss, rel=1e-12)
    assert found.rho == pytest.approx(squares * loss**2 / 8, rel=1e-12)


def _certificate(losses: list[float]) -> Certificate:
    """Return the certificate of selections with about the given ε each: whole numbers of units of 2^−15 bits."""
    units = [round(loss * 2**15 / (2 * math.log(2))) for loss in losses]
    made = (Sensitivity(Fraction(1), s, 15, ETA) for s in units)
    rows = (StepDraws(i, "flat", one, 256, 1, touched=1, apart=True) for i, one in enumerate(made))
    return Certificate((Ledger(1, 1, tuple(rows)),))


def _plan(coding: Coding, gains: list[float], chunk_size: int = 256, separate: bool = True) -> Plan:
    """Return a plan of steps with these SNR gains; the timesteps do not matter here."""
    times = range(len(gains), -1, -1)
    pairs = zip(itertools.pairwise(times), gains, strict=True)
    steps = tuple(Step(t, s, float(np.float32(gain)), chunk_size, 8) for (t, s), gain in pairs)
    return Plan(coding, steps, separate)


@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1.0, 3.0, 20.0])
def test_pure_epsilon_is_concentrated(epsilon: float) -> None:
    """Randomised response is the worst ε-DP mechanism: its Rényi divergences are at most ρ·a, and one comes close."""
    rho, p = conversions.zcdp_of_pure(epsilon), 1 / (1 + math.exp(-epsilon))
    ratios = []
    for order in (1 + 1e-6, 1.1, 1.5, 2.0, 5.0, 20.0):
        terms = p**order * (1 - p) ** (1 - order), (1 - p) ** order * p ** (1 - order)
        ratios.append(math.log(math.fsum(terms)) / (order - 1) / order / rho)
    assert 0.99 < max(ratios) < 1 + 1e-4
    assert rho <= epsilon**2 / 2 * conversions.UP
