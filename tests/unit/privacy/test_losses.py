"""Test (ε, δ) from laws of the privacy loss against exact fractions, dp-accounting and the other bounds."""

from __future__ import annotations

import itertools
import math
import time
from collections import Counter
from decimal import Decimal, localcontext
from fractions import Fraction

import pytest
from dp_accounting.pld import privacy_loss_distribution
from helpers.questions import PLANS
from helpers.refusals import refused
from helpers.toy_code import Nearest
from helpers.toy_unit import Band
from hypothesis import given, settings
from hypothesis import strategies as st

from dipp import codes
from dipp.core import units
from dipp.core.channels import Sign
from dipp.core.closest import DECIMALS, Weights
from dipp.core.geometry import Geometry
from dipp.core.plan import Coding, Plan
from dipp.core.price import Loss
from dipp.core.steps import SensingStep
from dipp.privacy import conversions, losses
from dipp.privacy.certificate import Certificate
from dipp.privacy.losses import epsilon_of_draws

LAWS = (Weights(64, 16, 178145, 65536), Weights(4, 1, 3, 1), Weights(1024, 1, 2980, 1), Weights(6, 4, 9, 2))


def exact(draws: list[Weights], epsilon: float) -> Decimal:
    """Return δ(ε) by trying every outcome of every draw, in exact probabilities and losses of a hundred digits."""
    found = Decimal(0)
    with localcontext(DECIMALS):
        for signs in itertools.product((1, 0, -1), repeat=len(draws)):
            mass, loss = Fraction(1), Decimal(0)
            for sign, law in zip(signs, draws, strict=True):
                heavy, light = (Fraction(law.differing * weight, law.total) for weight in (law.heavy, law.light))
                mass *= {1: heavy, -1: light, 0: 1 - heavy - light}[sign]
                loss += sign * (Decimal(law.heavy) / law.light).ln()
            told = 1 - (Decimal(epsilon) - loss).exp()
            found += max(told, Decimal(0)) * mass.numerator / mass.denominator
    return found


@settings(deadline=None, max_examples=40)
@given(st.lists(st.sampled_from(LAWS), min_size=1, max_size=5), st.floats(-12, -0.3))
def test_the_smallest_epsilon(draws: list[Weights], exponent: float) -> None:
    """By every outcome in exact arithmetic, δ holds at the returned ε, and fails at a slightly smaller one."""
    delta = 10.0**exponent
    epsilon = epsilon_of_draws(Counter(law.loss for law in draws), delta)
    assert exact(draws, epsilon) <= Decimal(delta)
    if epsilon > 0:
        assert exact(draws, epsilon * (1 - 1e-7)) > Decimal(delta) * (1 - Decimal(10) ** -7)
    assert epsilon <= math.fsum(law.epsilon for law in draws) * (1 + 1e-12)


@pytest.mark.parametrize("count", [1, 3, 100, 200, 255])
def test_losses_that_nearly_cancel_round_up(count: int) -> None:
    """Draws of one law lose ε and those of the other win slightly less; the difference is not rounded away."""
    up = Loss(1.1, Fraction(1), Fraction(0))
    down = Loss(math.nextafter(1.1, 0), Fraction(0), Fraction(1))
    left, delta = count * (Fraction(up.epsilon) - Fraction(down.epsilon)), 1e-17
    epsilon = epsilon_of_draws({up: count, down: count}, delta)
    assert left - Fraction(2 * delta) <= epsilon <= left + Fraction(3 * count) / 2**48


@pytest.mark.parametrize(("law", "count"), [(LAWS[0], 40), (LAWS[1], 200), (LAWS[2], 7)])
@pytest.mark.parametrize("delta", [1e-3, 1e-6])
def test_dp_accounting_agrees(law: Weights, count: int, delta: float) -> None:
    """It composes the same two laws, and rounds their losses up to a grid."""
    heavy, light = (float(value) for value in (law.loss.gains, law.loss.drops))
    first, second = {0: heavy, 1: light, 2: 1 - heavy - light}, {0: light, 1: heavy, 2: 1 - heavy - light}
    logs = [{name: math.log(mass) for name, mass in law.items()} for law in (first, second)]
    step = 1e-4
    peer = privacy_loss_distribution.from_two_probability_mass_functions(*logs, value_discretization_interval=step)
    theirs = peer.self_compose(count).get_epsilon_for_delta(delta)
    ours = epsilon_of_draws({law.loss: count}, delta)
    assert theirs - count * step - 1e-6 <= ours <= theirs + 1e-6


def test_many_draws_are_summed_fast() -> None:
    """Thousands of draws of one law are summed. For more draws or many laws, the result is infinite."""
    law, other = LAWS[0].loss, LAWS[1].loss
    begun = time.perf_counter()
    epsilon = epsilon_of_draws({law: losses.MAX_DRAWS}, 1e-6)
    assert time.perf_counter() - begun < 20
    assert epsilon < conversions.epsilon_of_zcdp(LAWS[0].rho * losses.MAX_DRAWS, 1e-6)
    assert epsilon_of_draws({law: losses.MAX_DRAWS + 1}, 1e-6) == math.inf
    assert epsilon_of_draws({law: 1000, other: 1000}, 1e-6) == math.inf
    assert epsilon_of_draws({law: 1}, 1e-300) == math.inf
    assert epsilon_of_draws({law: 1}, 0.99) == 0.0
    with refused("delta", "1.0"):
        epsilon_of_draws({law: 1}, 1.0)


@pytest.fixture
def band(monkeypatch: pytest.MonkeyPatch) -> Certificate:
    """Return a certificate of eight questions to each band, at odds of three to one among four words."""
    monkeypatch.setitem(units.UNITS, Band.number, Band)
    monkeypatch.setitem(codes.CODES, Nearest.name, Nearest)
    step = SensingStep(1.0, 0.5, 2.0**-4, 1, 2)
    return Certificate.of(Plan(Coding(Sign(period=1), Nearest()), (step,) * 8, unit=Band(4)), Geometry(16, 8, 3))


@pytest.mark.parametrize("count", [1, 3, 40])
def test_a_certificate_states_the_smallest_bound(band: Certificate, count: int) -> None:
    """This holds over steps, releases and units: k units take part in k times as many draws."""
    both, delta = band.compose(band, band).for_units(count), 1e-6
    epsilon = both.approximate(delta)
    assert epsilon == epsilon_of_draws({LAWS[1].loss: 8 * 3 * count}, delta)
    assert epsilon < min(both.epsilon, conversions.epsilon_of_zcdp(both.rho, delta))
    stated = Certificate((*both.releases,), delta, count)
    assert Certificate.from_json(stated.to_json()) == stated
    assert stated.epsilon_at_delta == epsilon
    with refused("certificate", "ledgers"):
        Certificate.from_json(stated.to_json().replace(f'"epsilon_at_delta": {epsilon}', '"epsilon_at_delta": 0.5'))


@pytest.mark.parametrize("name", PLANS)
def test_questions_to_blocks_count_a_draw_for_each_block(name: str) -> None:
    """A unit of split × split blocks takes part in split² draws of a question, and k units in k times as many."""
    plan, delta = PLANS[name], 1e-5
    certificate = Certificate.of(plan, Geometry(32, 48, 3), delta)
    for count in (1, 6):
        draws: Counter[Loss] = Counter()
        for step in plan.steps:
            draws[step.weights.loss] += step.split**2 * count
        many = certificate.for_units(count)
        assert many.approximate(delta) == epsilon_of_draws(draws, delta) <= many.epsilon
        assert many.epsilon == pytest.approx(sum(loss.epsilon * number for loss, number in draws.items()))
    with localcontext(DECIMALS):
        laws = [(step.weights, step.split**2) for step in plan.steps]
        exactly = sum(number * (Decimal(law.heavy) / law.light).ln() for law, number in laws)
    assert Decimal(certificate.epsilon) >= exactly


def test_too_many_draws_use_the_conversion_of_rho(band: Certificate) -> None:
    many = band.for_units(2000)
    assert many.approximate(1e-6) == conversions.epsilon_of_zcdp(many.rho, 1e-6) < many.epsilon
