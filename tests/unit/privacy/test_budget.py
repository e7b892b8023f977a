"""Test budgets of a unit and of any object of a size."""

from __future__ import annotations

from typing import Any

import pytest
from helpers.refusals import refused
from helpers.toy_code import Nearest
from helpers.toy_unit import Band
from hypothesis import given
from hypothesis import strategies as st

from dipp import codes
from dipp.core import units
from dipp.core.channels import Sign
from dipp.core.geometry import Geometry
from dipp.core.plan import Coding, Plan
from dipp.core.steps import SensingStep
from dipp.core.unit import Unit
from dipp.core.units import Cells, Picture, Pixel
from dipp.privacy import conversions
from dipp.privacy.budget import Budget
from dipp.privacy.certificate import Certificate

UNITS = st.one_of(st.just(Pixel()), st.just(Picture()), st.integers(2, 256).map(Cells))
SIDES = st.integers(1, 5000)


@given(UNITS, SIDES, SIDES, st.floats(1e-3, 1e3))
def test_an_object_never_pays_more_than_its_budget(unit: Unit, width: int, height: int, epsilon: float) -> None:
    """The price of the worst placement, rounded up as in certificates, is at most E, and nearly E.

    Windows may be larger than any picture.
    """
    share = Budget(epsilon, hidden=(width, height)).for_unit(unit)
    assert share.epsilon is not None
    met = unit.met(width, height)
    price = share.epsilon if met == 1 else conversions.group_epsilon(share.epsilon, met)
    assert epsilon * (1 - 2.0**-45) <= price <= epsilon
    assert (share.unit, share.hidden, share.delta, share.rho) == (unit, None, None, None)


@given(UNITS, SIDES, SIDES, st.floats(1e-3, 1e3), st.booleans())
def test_an_object_never_pays_more_rho(unit: Unit, width: int, height: int, rho: float, alone: bool) -> None:
    met = unit.met(width, height)
    group = conversions.group_epsilon if alone else conversions.group_zcdp
    for budget in (Budget(rho=rho, hidden=(width, height)), Budget(rho, 1e-6, hidden=(width, height))):
        share = budget.for_unit(unit, alone=alone)
        assert share.rho is not None
        assert (share.rho if met == 1 else group(share.rho, met)) <= (budget.zcdp_limit or 0)


@pytest.fixture
def band(monkeypatch: pytest.MonkeyPatch) -> Certificate:
    """Return a certificate of bands of four rows, at ε = ln 3 each."""
    monkeypatch.setitem(units.UNITS, Band.number, Band)
    monkeypatch.setitem(codes.CODES, Nearest.name, Nearest)
    step = SensingStep(1.0, 0.5, 2.0**-4, 1, 2)
    return Certificate.of(Plan(Coding(Sign(period=1), Nearest()), (step,), unit=Band(4)), Geometry(16, 8, 3))


def test_a_budget_measures_the_object(band: Certificate) -> None:
    """Eight rows meet three bands."""
    budget = Budget(3.4, hidden=(5, 8), unit=Band(4))
    assert budget.measure(band) == band.for_units(3).epsilon > 3 * 1.0986
    assert budget.allows(band)
    assert not Budget(3.2, hidden=(5, 8)).allows(band)
    assert Budget(3.2, hidden=(500, 1)).allows(band)
    assert Budget(rho=1.0, hidden=(5, 8)).measure(band) == band.for_units(3).rho
    assert Budget(2.0, 1e-3, hidden=(5, 8)).measure(band) == band.for_units(3).approximate(1e-3)


def test_budgets_are_described_in_words() -> None:
    assert str(Budget(4)) == "ε = 4 per pixel"
    assert str(Budget(4, unit=Cells(16))) == "ε = 4 per 16×16 cell"
    assert str(Budget(4, 1e-6, unit=Picture())) == "ε = 4, δ = 1e-06 per picture"
    assert str(Budget(4, unit=Cells(16), hidden=(64, 80))) == "ε = 4 for any object of at most 64×80 pixels"
    assert Budget(4, unit=Pixel()).for_unit(Cells(8)) == Budget(4, unit=Cells(8))


@pytest.mark.parametrize("size", [(0, 4), (4, -1), (4.0, 4), (True, 4)])
def test_invalid_sizes_of_objects_are_refused(size: Any) -> None:
    with refused("object", "height"):
        Budget(4, hidden=size)
