"""Certificates against dp-accounting and OpenDP, which compute them in other ways."""

from __future__ import annotations

import itertools
import math
from typing import Any

import dp_accounting
import numpy as np
import opendp.prelude as opendp
import pytest
from dp_accounting import rdp
from dp_accounting.pld import privacy_loss_distribution
from helpers.geometry import of_pixels
from helpers.ledgers import terms
from helpers.statistics import integer_weights

from dipp.core import selection
from dipp.core.plan import Coding, Plan
from dipp.core.steps import Step
from dipp.planning.presets import PAPER
from dipp.privacy import conversions
from dipp.privacy.certificate import Certificate
from experiments.comparisons.unclipped import SHARP

GAINS = (2**-10, 2**-9, 2**-8, 2**-6)


def certificate(coding: Coding, gains: tuple[float, ...] = GAINS) -> Certificate:
    times = itertools.pairwise(range(len(gains), -1, -1))
    units = 0 if coding.code.fixed_length else 80
    steps = tuple(Step(t, s, gain, 64, 8, units) for (t, s), gain in zip(times, gains, strict=True))
    return Certificate.of(Plan(coding, steps), of_pixels(1024))


@pytest.fixture(scope="module", autouse=True)
def _features() -> None:
    opendp.enable_features("contrib")


@pytest.mark.parametrize("measure", ["pure", "zcdp"])
@pytest.mark.parametrize(("units", "bits"), [(1, 0), (260, 9), (318, 10), (511, 15)])
def test_opendp_prices_a_selection_alike(measure: str, units: int, bits: int) -> None:
    """OpenDP's noisy max on integer scores is the same exponential mechanism; a nat is 2^S/ln 2 units."""
    wanted = opendp.max_divergence() if measure == "pure" else opendp.zero_concentrated_divergence()
    space = opendp.vector_domain(opendp.atom_domain(T=int)), opendp.linf_distance(T=int)
    peer = opendp.m.make_noisy_max(*space, wanted, scale=2**bits / math.log(2))
    loss = selection.epsilon(units, bits)
    found = loss if measure == "pure" else (loss**2 / 8 * conversions.UP)
    theirs = peer.map(units)
    assert found == pytest.approx(theirs, rel=1e-6)


@pytest.mark.parametrize("coding", [PAPER, SHARP], ids=lambda m: m.name)
def test_opendp_composes_and_converts_alike(coding: Coding) -> None:
    """OpenDP composes one selection for each in which the worst pixel takes part, and converts the sum of ρ to δ(ε)."""
    found = certificate(coding)
    space = opendp.vector_domain(opendp.atom_domain(T=int)), opendp.linf_distance(T=int)
    total = 0.0
    for one in found.releases[0].selections:
        peer = opendp.m.make_noisy_max(
            *space, opendp.zero_concentrated_divergence(), scale=2 ** terms(one).fraction_bits / math.log(2)
        )
        total += one.touched * peer.map(terms(one).sensitivity)
    assert found.rho == pytest.approx(total, rel=1e-6)
    atom = opendp.atom_domain(T=float, nan=False), opendp.absolute_distance(T=float)
    gaussian = opendp.m.make_gaussian(*atom, scale=1 / math.sqrt(2 * found.rho))
    curve = opendp.c.make_zCDP_to_approxDP(gaussian).map(1.0)
    for delta in (1e-3, 1e-6, 1e-9):
        ours = conversions.epsilon_of_zcdp(found.rho, delta)
        assert ours == pytest.approx(curve.epsilon(delta), rel=2e-3)


@pytest.mark.parametrize("coding", [PAPER, SHARP], ids=lambda m: m.name)
@pytest.mark.parametrize("delta", [1e-3, 1e-6])
def test_dp_accounting_converts_alike(coding: Coding, delta: float) -> None:
    found = certificate(coding, (2**-13,) * 64)
    accountant = rdp.RdpAccountant(orders=[1 + 10 ** (i / 40) for i in range(-80, 120)])
    for cost in found.steps:
        accountant.compose(dp_accounting.ZCDpEvent(cost.rho))
    theirs = accountant.get_epsilon(delta)
    assert theirs * (1 - 1e-3) <= found.approximate(delta) <= theirs * (1 + 1e-9)
    assert found.approximate(delta) < found.epsilon


def laws(units: int, bits: int, adversarial: bool, generator: Any) -> tuple[dict[int, float], dict[int, float]]:
    """Return the exact laws of a selection for two neighbouring inputs, in the form that dp-accounting takes."""
    scores = generator.integers(-3 * units, 3 * units, 64).astype(np.int32)
    moves = generator.integers(-units, units + 1, 64)
    if adversarial:
        moves = np.where(np.arange(64) % 2, units, -units)
        scores[0] += 200 * units
    found = []
    for row in (scores, scores + moves.astype(np.int32)):
        weights = integer_weights(row[None], bits)[0]
        whole = sum(weights)
        found.append({k: weight / whole for k, weight in enumerate(weights)})
    return found[0], found[1]


@pytest.mark.parametrize("adversarial", [False, True])
@pytest.mark.parametrize("selections", [1, 12])
def test_the_exact_privacy_loss_of_real_selections_is_covered(adversarial: bool, selections: int) -> None:
    """dp-accounting composes the exact laws P[K | x] and P[K | x']: no δ(ε) exceeds what ε, ρ and (ε, δ) promise."""
    units, bits, generator = 130, 10, np.random.default_rng(5)
    loss = selection.epsilon(units, bits)
    pure, rho = conversions.total([loss] * selections), selections * (loss**2 / 8 * conversions.UP)
    whole = None
    for _ in range(selections):
        lower, upper = laws(units, bits, adversarial, generator)
        logs = ({k: math.log(p) for k, p in law.items()} for law in (lower, upper))
        one = privacy_loss_distribution.from_two_probability_mass_functions(
            *logs, value_discretization_interval=1e-4, pessimistic_estimate=False
        )
        whole = one if whole is None else whole.compose(one)
    assert whole is not None
    assert whole.get_delta_for_epsilon(pure) <= 1e-12
    for delta in (1e-2, 1e-5):
        assert whole.get_epsilon_for_delta(delta) <= min(pure, conversions.epsilon_of_zcdp(rho, delta))
    if adversarial and selections == 1:
        assert whole.get_delta_for_epsilon(0.98 * pure) > 0
