"""Geometry, and every registered unit: a partition, the windows that meet it, and its bytes and JSON."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from helpers.toy_unit import Band
from hypothesis import given
from hypothesis import strategies as st

from dipp.core import units
from dipp.core.geometry import MAX_CHANNELS, MAX_PIXELS, Geometry
from dipp.core.units import UNITS, Pixel, Unit
from dipp.errors import DippError

SIDES = st.integers(1, 9)
GEOMETRIES = st.builds(Geometry, SIDES, SIDES, st.integers(1, 4))
EXAMPLES: tuple[Unit, ...] = (Pixel(),)
"""At least one unit of every kind."""
PARTITIONS = (*EXAMPLES, Band(1), Band(3))
"""And some of a toy, which are larger than a pixel."""


def test_a_geometry_counts() -> None:
    found = Geometry(4, 6, 3)
    assert (found.pixels, found.coordinates, found.shape, str(found)) == (24, 72, (4, 6, 3), "4×6×3")
    assert Geometry.of(np.zeros((4, 6, 3)).shape) == found
    assert Geometry(1, MAX_PIXELS, MAX_CHANNELS).pixels == MAX_PIXELS


@pytest.mark.parametrize(
    ("sides", "said"),
    [
        ((0, 4, 3), "whole numbers from 1, got 0×4"),
        ((4, -1, 3), "whole numbers from 1, got 4×-1"),
        ((4.0, 4, 3), "whole numbers from 1, got 4.0×4"),
        ((True, 4, 3), "whole numbers from 1, got True×4"),
        ((1 << 16, 1 << 15, 3), f"at most {MAX_PIXELS} pixels, got 65536×32768"),
        ((4, 4, 0), "from 1 to 16, got 0"),
        ((4, 4, 17), "from 1 to 16, got 17"),
    ],
)
def test_a_geometry_that_is_impossible(sides: tuple[Any, Any, Any], said: str) -> None:
    with pytest.raises(DippError, match=said):
        Geometry(*sides)


def test_a_shape_has_three_dimensions() -> None:
    with pytest.raises(DippError, match="got 2 dimensions"):
        Geometry.of((4, 6))


def test_every_kind_has_an_example() -> None:
    assert {type(unit) for unit in EXAMPLES} == set(UNITS.values())
    assert all(number == kind.number < 256 for number, kind in UNITS.items())
    assert len({kind.kind for kind in UNITS.values()}) == len(UNITS)


@given(st.sampled_from(PARTITIONS), GEOMETRIES)
def test_units_are_a_partition(unit: Unit, geometry: Geometry) -> None:
    """Every coordinate is in one unit, and every unit has a coordinate. No pixel is divided."""
    ids = unit.ids(geometry)
    assert ids.dtype == np.int64
    assert ids.shape == (geometry.coordinates,)
    assert np.unique(ids).tolist() == list(range(unit.count(geometry)))
    by_pixel = ids.reshape(geometry.pixels, geometry.channels)
    assert (by_pixel == by_pixel[:, :1]).all()


@given(st.sampled_from(PARTITIONS), GEOMETRIES, st.integers(1, 12), st.integers(1, 12))
def test_no_window_meets_more_units(unit: Unit, geometry: Geometry, width: int, height: int) -> None:
    ids = unit.ids(geometry).reshape(geometry.shape)
    high, wide = min(height, geometry.height), min(width, geometry.width)
    windows = (
        ids[top : top + high, left : left + wide]
        for top in range(geometry.height - high + 1)
        for left in range(geometry.width - wide + 1)
    )
    worst = max(len(np.unique(window)) for window in windows)
    assert worst <= unit.met(width, height, geometry) <= min(unit.met(width, height), unit.count(geometry))


@given(st.sampled_from(EXAMPLES))
def test_bytes_and_json(unit: Unit) -> None:
    assert units.from_bytes(unit.to_bytes()) == unit
    assert unit.to_bytes()[0] == unit.number
    assert units.from_dict(json.loads(json.dumps(unit.to_dict()))) == unit
    assert unit.to_dict()["kind"] == unit.kind


def test_a_pixel() -> None:
    geometry = Geometry(2, 3, 2)
    assert Pixel().ids(geometry).tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    assert (Pixel().met(4, 2), Pixel().met(4, 2, geometry)) == (8, 6)
    assert Pixel().to_dict() == {"kind": "pixel"}
    assert Pixel().to_bytes() == b"\0"
    assert Pixel().words == "one pixel (all its channels) of the array that was encoded"
    assert Pixel().several(4) == "any 4 pixels (all their channels) of the array that was encoded"


def test_the_smallest_picture_has_the_fewest_units() -> None:
    tall, wide = Geometry(8, 8, 3), Geometry(4, 20, 3)
    assert Pixel().smallest([wide, tall]) == tall
    assert Band(4).smallest([wide, tall]) == wide
    assert Pixel().smallest([]) is None


@pytest.mark.parametrize("content", [b"", b"\xff", b"\0\0"])
def test_bytes_of_no_unit(content: bytes) -> None:
    with pytest.raises(DippError, match=r"unit: .*(no kind|no parameters)"):
        units.from_bytes(content)


@pytest.mark.parametrize(
    "content", [{}, {"kind": "planet"}, {"kind": "pixel", "side": 4}, {"kind": ["pixel"]}, None, "pixel"]
)
def test_json_of_no_unit(content: Any) -> None:
    with pytest.raises(DippError, match="unit: one of pixel"):
        units.from_dict(content)


@pytest.mark.parametrize("window", [(0, 1), (1, 0), (1.5, 1)])
def test_a_window_that_is_impossible(window: tuple[Any, Any]) -> None:
    with pytest.raises(DippError, match="window: width and height must be whole numbers from 1"):
        Pixel().met(*window)
