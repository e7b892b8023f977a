"""Geometry, and every registered unit: its partition, the windows that meet it, its bytes and its JSON."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from helpers.refusals import refused
from helpers.toy_unit import Band
from hypothesis import given
from hypothesis import strategies as st

from dipp.core import units
from dipp.core.geometry import MAX_CHANNELS, MAX_PIXELS, Geometry
from dipp.core.regions import Place, Regions
from dipp.core.unit import Unit
from dipp.core.units import UNITS, Cells, Picture, Pixel

SIDES = st.integers(1, 9)
GEOMETRIES = st.builds(Geometry, SIDES, SIDES, st.integers(1, 4))
WHOLE: tuple[Unit, ...] = (Pixel(), Cells(2), Cells(3), Cells(4), Picture())
EXAMPLES: tuple[Unit, ...] = (
    *WHOLE,
    Regions((Place(0, 1, 2, 3, 4), Place(1, 5, 2, 2, 2, (1, 3)), Place(0, 7, 0, 1, 1))),
)
"""At least one unit of every kind."""
PARTITIONS = (*WHOLE, Band(1), Band(3))
"""The units of whole pictures and the bands of a toy unit: all divide a picture of any size."""


def test_a_geometry_counts_pixels_and_coordinates() -> None:
    geometry = Geometry(4, 6, 3)
    assert (geometry.pixels, geometry.coordinates, geometry.shape, str(geometry)) == (24, 72, (4, 6, 3), "4×6×3")
    assert Geometry.of(np.zeros((4, 6, 3)).shape) == geometry
    assert Geometry(1, MAX_PIXELS, MAX_CHANNELS).pixels == MAX_PIXELS


@pytest.mark.parametrize(
    ("sides", "tokens"),
    [
        ((0, 4, 3), ("size", "0×4")),
        ((4, -1, 3), ("size", "4×-1")),
        ((4.0, 4, 3), ("size", "4.0×4")),
        ((True, 4, 3), ("size", "True×4")),
        ((1 << 16, 1 << 15, 3), ("size", f"{MAX_PIXELS}", "65536×32768")),
        ((4, 4, 0), ("channels", "16")),
        ((4, 4, 17), ("channels", "16")),
    ],
)
def test_an_impossible_geometry_is_refused(sides: tuple[Any, Any, Any], tokens: tuple[str, ...]) -> None:
    with refused(*tokens):
        Geometry(*sides)


def test_a_shape_of_two_dimensions_is_refused() -> None:
    with refused("shape", "dimensions"):
        Geometry.of((4, 6))


def test_every_kind_of_unit_has_an_example() -> None:
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
def test_no_window_meets_more_units_than_met_returns(unit: Unit, geometry: Geometry, width: int, height: int) -> None:
    worst = worst_of(unit, min(width, geometry.width), min(height, geometry.height), geometry)
    assert worst <= unit.met(width, height, geometry) <= min(unit.met(width, height), unit.count(geometry))


@given(st.sampled_from(EXAMPLES))
def test_a_unit_is_read_back_from_bytes_and_json(unit: Unit) -> None:
    assert units.from_bytes(unit.to_bytes()) == unit
    assert unit.to_bytes()[0] == unit.number
    assert units.from_dict(json.loads(json.dumps(unit.to_dict()))) == unit
    assert unit.to_dict()["kind"] == unit.kind


def test_a_pixel_is_a_unit_of_one_pixel() -> None:
    geometry = Geometry(2, 3, 2)
    assert Pixel().ids(geometry).tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    assert (Pixel().met(4, 2), Pixel().met(4, 2, geometry)) == (8, 6)
    assert Pixel().to_dict() == {"kind": "pixel"}
    assert Pixel().to_bytes() == b"\0"
    assert Pixel().words == "one pixel (all its channels) of the array that was encoded"
    assert Pixel().several(4) == "any 4 pixels (all their channels) of the array that was encoded"


def worst_of(unit: Unit, width: int, height: int, geometry: Geometry) -> int:
    """Return the largest number of units that a window meets, by trying every position."""
    ids = unit.ids(geometry).reshape(geometry.shape)
    windows = (
        ids[top : top + height, left : left + width]
        for top in range(geometry.height - height + 1)
        for left in range(geometry.width - width + 1)
    )
    return max(len(np.unique(window)) for window in windows)


@given(st.integers(2, 5), st.integers(1, 9), st.integers(1, 9))
def test_some_window_meets_as_many_cells_as_met_returns(side: int, width: int, height: int) -> None:
    """In a large picture, a window at its worst position meets exactly as many cells as `met` returns."""
    large = Geometry(height + 2 * side, width + 2 * side, 1)
    assert worst_of(Cells(side), width, height, large) == Cells(side).met(width, height)
    assert Cells(side).met(width, height) == (-(-(width - 1) // side) + 1) * (-(-(height - 1) // side) + 1)


def test_a_cell_is_a_unit_of_square_pixels() -> None:
    geometry = Geometry(3, 5, 1)
    assert Cells(2).ids(geometry).reshape(3, 5).tolist() == [[0, 0, 1, 1, 2], [0, 0, 1, 1, 2], [3, 3, 4, 4, 5]]
    assert (Cells(16).met(1, 1), Cells(16).met(16, 16), Cells(16).met(60, 80)) == (1, 4, 30)
    assert (Cells(2).met(9, 9), Cells(2).met(9, 9, geometry)) == (25, 6)
    assert Cells(16).to_dict() == {"kind": "cell", "side": 16}
    assert Cells(4096).to_bytes() == b"\1\0\x10"
    assert Cells(16).short == "16×16 cell"
    assert Cells(16).plural == "16×16 cells"
    assert Cells(16).words.startswith("one 16×16 cell (all its pixels) of the grid")
    assert Cells(16).several(4).startswith("any 4 16×16 cells (all their pixels) of the grid")
    assert Cells(16).neighbours.startswith("one 16×16 cell of one image, in any way")


@pytest.mark.parametrize("side", [1, 0, -4, 4097, 16.0, True, "16"])
def test_impossible_sides_of_cells_are_refused(side: Any) -> None:
    with refused("unit", "4096"):
        Cells(side)
    with refused("unit"):
        units.from_dict({"kind": "cell", "side": side})


def test_a_picture_is_one_unit() -> None:
    assert Picture().ids(Geometry(2, 2, 1)).tolist() == [0, 0, 0, 0]
    assert (Picture().met(1, 1), Picture().met(900, 900, Geometry(8, 8, 3))) == (1, 1)
    assert Picture().to_dict() == {"kind": "picture"}
    assert Picture().to_bytes() == b"\2"
    assert Picture().words == "the whole picture (everything but its size), as the array that was encoded"
    assert Picture().several(2).startswith("any 2 whole pictures")


def test_the_smallest_picture_has_the_fewest_units() -> None:
    tall, wide = Geometry(8, 8, 3), Geometry(4, 20, 3)
    assert Pixel().smallest([wide, tall]) == tall
    assert Band(4).smallest([wide, tall]) == wide
    assert Pixel().smallest([]) is None


@pytest.mark.parametrize(
    ("content", "token"),
    [
        (b"", "kind"),
        (b"\xff", "255"),
        (b"\0\0", "parameters"),
        (b"\1", "2 bytes"),
        (b"\1\4", "2 bytes"),
        (b"\1\4\0\0", "2 bytes"),
        (b"\1\1\0", "4096"),
        (b"\2\0", "parameters"),
    ],
)
def test_bytes_that_are_no_unit_are_refused(content: bytes, token: str) -> None:
    with refused("unit", token):
        units.from_bytes(content)


@pytest.mark.parametrize(
    "content", [{}, {"kind": "planet"}, {"kind": "pixel", "side": 4}, {"kind": ["pixel"]}, None, "pixel"]
)
def test_json_that_is_no_unit_is_refused(content: Any) -> None:
    with refused("unit", "pixel"):
        units.from_dict(content)


@pytest.mark.parametrize("window", [(0, 1), (1, 0), (1.5, 1), (1 << 32, 1), (1, 10**30)])
def test_impossible_windows_are_refused(window: tuple[Any, Any]) -> None:
    with refused("object", "height"):
        Pixel().met(*window)


@pytest.mark.parametrize(
    ("text", "unit"),
    [("pixel", Pixel()), ("picture", Picture()), ("16", Cells(16)), ("1", Pixel()), ("4096", Cells(4096))],
)
def test_a_unit_is_parsed_from_text(text: str, unit: Unit) -> None:
    assert units.parse(text) == unit


@pytest.mark.parametrize("text", ["", "cell", "16x16", "0", "-4", "016", "4097", "٣", "Pixel"])
def test_text_that_names_no_unit_is_refused(text: str) -> None:
    with refused("unit"):
        units.parse(text)


def test_a_size_is_parsed_from_text() -> None:
    assert units.parse_size("60x80") == units.parse_size("60×80") == (60, 80)
    for text in ("", "64", "64x", "0x4", "4x4x4", "-1x4", "4 x 4", "1e3x4"):
        with refused("size", "64x64"):
            units.parse_size(text)


def test_each_unit_names_its_reader() -> None:
    """The reader differs for the unit `picture`, outside which the picture has nothing."""
    assert Pixel().reader == "somebody who knows every other pixel of the picture"
    assert Cells(8).reader == "somebody who knows everything else in the picture"
    assert Picture().reader == "somebody who knows that it is one of two pictures"


@given(st.sampled_from([Cells(8), Cells(16), Cells(24), Picture()]), st.integers(1, 300), st.sampled_from([1, 2, 4, 8]))
def test_pieces_equal_the_number_of_divisions(unit: Unit, length: int, parts: int) -> None:
    assert unit.pieces(length, parts) == len(unit.divisions(length, parts)) - 1


def test_pieces_of_a_huge_length_need_no_memory() -> None:
    assert Cells(16).pieces((1 << 31) - 1, 4) == 1 << 29
    assert Picture().pieces((1 << 31) - 1, 4) == 4


@pytest.mark.parametrize(("unit", "side"), [(Pixel(), 1.0), (Cells(16), 16.0), (Picture(), 24.0)])
def test_the_side_of_a_unit_in_pixels(unit: Unit, side: float) -> None:
    assert unit.side_in(Geometry(18, 32, 3)) == side
