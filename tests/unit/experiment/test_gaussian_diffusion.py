"""Gaussian diffusion without a code, compared with numbers of fifty digits and with dp-accounting."""

from __future__ import annotations

import math
from typing import Any

import mpmath
import pytest
from dp_accounting.pld import privacy_loss_distribution
from helpers.geometry import of_pixels
from helpers.statistics import bounded
from hypothesis import given
from hypothesis import strategies as st

from dipp.core.plan import Plan
from dipp.core.steps import Step
from dipp.errors import DippError
from dipp.planning.presets import PAPER
from dipp.privacy import conversions
from dipp.privacy.certificate import Certificate
from experiments.comparisons.gaussian import GaussianDiffusion
from experiments.comparisons.unclipped import SHARP


def exact_delta(mu: float, epsilon: float) -> Any:
    """Return δ by Balle and Wang's formula as it stands, with 400 digits."""
    with mpmath.workdps(400):
        mu, epsilon = mpmath.mpf(mu), mpmath.mpf(epsilon)
        return mpmath.ncdf(mu / 2 - epsilon / mu) - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu)


@bounded
@given(snr=st.floats(1e-5, 30), channels=st.sampled_from([1, 3]), epsilon=st.floats(0, 300))
def test_delta_follows_the_formula(snr: float, channels: int, epsilon: float) -> None:
    diffusion = GaussianDiffusion(snr, channels)
    expected = float(exact_delta(2 * math.sqrt(channels * snr), epsilon))
    assert diffusion.delta(epsilon) == pytest.approx(expected, rel=1e-7, abs=1e-300)


@bounded
@given(snr=st.floats(1e-4, 10), log_delta=st.floats(-40, -1))
def test_epsilon_is_the_inverse_of_delta(snr: float, log_delta: float) -> None:
    diffusion, delta = GaussianDiffusion(snr), math.exp(log_delta)
    epsilon = diffusion.epsilon(delta)
    assert diffusion.delta(epsilon) <= delta
    if epsilon:
        assert diffusion.delta(epsilon * (1 - 1e-9)) > delta


@pytest.mark.parametrize("snr", [0.001, 0.02, 0.27, 1.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-6])
def test_dp_accounting_agrees_on_one_release(snr: float, delta: float) -> None:
    diffusion = GaussianDiffusion(snr)
    peer = privacy_loss_distribution.from_gaussian_mechanism(
        1 / diffusion.mu, value_discretization_interval=1e-4, use_connect_dots=True
    )
    assert diffusion.epsilon(delta) == pytest.approx(peer.get_epsilon_for_delta(delta), abs=2e-4)


def test_dp_accounting_agrees_on_a_schedule() -> None:
    """dp-accounting composes four steps by convolution; here their sum counts."""
    gains = [0.001, 0.004, 0.02, 0.1]
    peer = None
    for gain in gains:
        one = privacy_loss_distribution.from_gaussian_mechanism(
            1 / (2 * math.sqrt(3 * gain)), value_discretization_interval=1e-4, use_connect_dots=True
        )
        peer = one if peer is None else peer.compose(one)
    assert peer is not None
    whole = GaussianDiffusion.of_steps(gains)
    for delta in (1e-3, 1e-6, 1e-9):
        assert whole.epsilon(delta) == pytest.approx(peer.get_epsilon_for_delta(delta), abs=5e-4)


def test_a_schedule_counts_by_where_it_ends() -> None:
    coarse, fine = GaussianDiffusion.of_steps([0.5]), GaussianDiffusion.of_steps([0.001] * 500)
    assert fine.epsilon(1e-6) == pytest.approx(coarse.epsilon(1e-6), rel=1e-12)
    # By hand: μ = 2·√(3·0.5) = 2.449, ρ = 3. The conversion of ρ is not tight.
    assert coarse.mu == pytest.approx(2.449, abs=1e-3)
    assert coarse.rho == pytest.approx(3.0)
    assert float(exact_delta(math.sqrt(6), coarse.epsilon(1e-6))) == pytest.approx(1e-6, rel=1e-9)
    assert coarse.epsilon(1e-6) < 0.99 * conversions.epsilon_of_zcdp(3.0, 1e-6)


def test_codes_cost_as_much_rho_as_stated_beside_gaussian_states() -> None:
    """The paper's code pays ρ = 144·SNR where Gaussian states pay 6·SNR; the sign channel pays 6·SNR as well."""
    steps = tuple(Step(9 - i, 8 - i, 2.0**-9, 1024, 8, 64) for i in range(4))
    gaussian = GaussianDiffusion.of_steps(step.snr_gain for step in steps)
    paper = Certificate.of(Plan(PAPER, steps, separate=False), of_pixels(1024))
    sharp = Certificate.of(Plan(SHARP, steps), of_pixels(1024))
    assert paper.rho / gaussian.rho == pytest.approx(24, rel=0.02)
    assert sharp.rho / gaussian.rho == pytest.approx(1, rel=0.02)
    assert paper.approximate(1e-5) > 4 * gaussian.epsilon(1e-5)
    # Its loss is bounded and a Gaussian's is not, so in a few large steps it costs less.
    large = tuple(Step(3 - i, 2 - i, 2.0**-5, 1024, 8) for i in range(3))
    few = Certificate.of(Plan(SHARP, large), of_pixels(1024)).approximate(1e-5)
    assert few < 0.9 * GaussianDiffusion.of_steps(step.snr_gain for step in large).epsilon(1e-5)


@pytest.mark.parametrize(
    "call",
    [
        lambda: GaussianDiffusion(0.0),
        lambda: GaussianDiffusion(math.inf),
        lambda: GaussianDiffusion(1.0, 0),
        lambda: GaussianDiffusion.of_steps([0.1, -0.05]),
        lambda: GaussianDiffusion.of_steps([]),
        lambda: GaussianDiffusion(1.0).delta(-1),
        lambda: GaussianDiffusion(1.0).epsilon(0),
        lambda: GaussianDiffusion(1.0).epsilon(1),
    ],
)
def test_bad_numbers_are_refused(call: Any) -> None:
    with pytest.raises(DippError):
        call()
