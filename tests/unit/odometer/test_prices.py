"""Test that releases of different units add up by the size of an object."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from helpers.refusals import refused
from hypothesis import given
from hypothesis import strategies as st

import dipp
from dipp.core.geometry import Geometry
from dipp.core.unit import Unit
from dipp.core.units import Cells, Picture, Pixel
from dipp.odometer import Charge, LimitError, Meter, Odometer, prices
from dipp.odometer.prices import Price, ReleasePrice
from dipp.privacy import conversions

PICTURE, OTHER = bytes(32), bytes(31) + b"\x01"
RELEASES = [ReleasePrice(Pixel(), 0.5, 0.1), ReleasePrice(Cells(16), 2.0, 1.5), ReleasePrice(Picture(), 8.0, 6.0)]


@pytest.fixture
def counted(odometer: Path) -> Odometer:
    found = Odometer.open(odometer)
    for number, (unit, epsilon, rho) in enumerate(RELEASES):
        found.charge(f"r{number}", "encode", [Charge(0, PICTURE, epsilon, rho, unit=unit)])
    return found


@pytest.mark.parametrize(
    ("size", "epsilon"),
    [((1, 1), 0.5 + 2 + 8), ((16, 16), 256 * 0.5 + 4 * 2 + 8), ((60, 80), 4800 * 0.5 + 30 * 2 + 8)],
)
def test_prices_of_an_object_add_up(counted: Odometer, size: tuple[int, int], epsilon: float) -> None:
    """Releases of pixels, of cells and of pictures count by the number of units that the object can meet."""
    price = prices.of_object(RELEASES, size)
    assert price.epsilon == pytest.approx(epsilon, rel=1e-9)
    assert price.epsilon >= epsilon
    spent = counted.spent(PICTURE, size)
    assert (spent.releases, spent.size) == (3, size)
    assert (spent.epsilon, spent.rho) == pytest.approx(price)
    assert spent.epsilon >= epsilon
    assert counted.pictures(9, size) == [spent]


def test_rho_of_an_object_depends_on_shared_draws() -> None:
    """Cells do not share draws. Pixels may share them, but their ρ is never more than their ε implies."""
    pixel, cell, picture = RELEASES
    assert prices.of_units(cell, 4).rho == pytest.approx(6.0)
    assert prices.of_units(picture, 1) == Price(8.0, 6.0)
    assert prices.of_units(pixel, 2).rho == pytest.approx(0.4)
    assert prices.of_units(pixel, 100).rho == pytest.approx(conversions.zcdp_of_pure(50.0))
    assert prices.of_units(ReleasePrice(Pixel(), math.inf, math.inf), 9) == Price(math.inf, math.inf)


def test_a_whole_picture_costs_the_sum_of_its_units() -> None:
    price = prices.of_picture(RELEASES, Geometry(20, 33, 3))
    assert price.epsilon == pytest.approx(660 * 0.5 + 6 * 2 + 8)
    assert prices.of_picture([], Geometry(20, 33, 3)) == Price(0.0, 0.0)


UNITS = st.sampled_from([Pixel(), Cells(4), Cells(16), Picture()])


ROWS = st.tuples(UNITS, st.floats(0.01, 9), st.floats(0.1, 1))


@given(st.lists(ROWS, min_size=1), st.integers(1, 99), st.integers(1, 99))
def test_sums_are_never_too_small(rows: list[tuple[Unit, float, float]], width: int, height: int) -> None:
    """Sums are compared with exact fractions, and never fall with the size of the object."""
    releases = [ReleasePrice(unit, pure, share * conversions.zcdp_of_pure(pure)) for unit, pure, share in rows]
    price = prices.of_object(releases, (width, height))
    assert Fraction(price.epsilon) >= sum(
        Fraction(release.epsilon) * release.unit.met(width, height) for release in releases
    )
    assert price.epsilon <= prices.of_object(releases, (width + 1, height)).epsilon
    assert price.rho <= prices.of_object(releases, (width, height + 1)).rho * (1 + 1e-9)


def test_a_limit_holds_for_objects_of_a_size(counted: Odometer, odometer: Path) -> None:
    """The same release passes a limit for pixels, and exceeds the same limit for larger objects."""
    row = [Charge(0, OTHER, 1.0, 0.4, unit=Cells(8))]
    with refused("odometer", "4.00001", kind=LimitError) as error:
        counted.charge("a", "encode", row, limit=3.0, size=(8, 8))
    assert "limit ε = 3 " in str(error.value)
    assert counted.spent(OTHER).releases == 0
    reading = counted.charge("b", "encode", row, limit=3.0)
    assert reading.worst is not None
    assert reading.worst.epsilon == 1.0
    assert Meter(limit=3.0, size=(8, 8), folder=odometer).size == (8, 8)
    with refused("object"):
        Meter(size=(0, 8))


def test_a_limit_holds_by_default_for_the_objects_to_hide(odometer: Path) -> None:
    """An object of this size costs four cells, and a single pixel costs one."""
    picture = np.zeros((64, 64, 3), np.uint8)
    with refused("odometer", "20×20", kind=LimitError):
        dipp.encode(picture, hide=(20, 20), epsilon=24.0, odometer=Meter(limit=10.0, begin=True))
    assert not Odometer.open(odometer).pictures(1)
    named = Meter(limit=10.0, size=(1, 1))
    assert len(dipp.encode(picture, hide=(20, 20), epsilon=24.0, odometer=named)) == 1
    (spent,) = Odometer.open(odometer).pictures(1)
    assert 5.9 < spent.epsilon <= 6.0
    assert spent.statement().endswith("zCDP for any one pixel")


def test_epsilon_at_delta_of_an_object(counted: Odometer) -> None:
    """ε at δ follows from the sums for the object."""
    for number in range(40):
        counted.charge(f"d{number}", "encode", [Charge(0, OTHER, 0.5, 0.03, unit=Cells(16))])
    spent = counted.spent(OTHER, (16, 16))
    assert spent.at(1e-6) == conversions.epsilon_of_zcdp(spent.rho, 1e-6) < spent.epsilon
    assert spent.statement(1e-6).endswith("zCDP for any object of at most 16×16 pixels")
