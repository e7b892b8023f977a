"""Regions as a unit: places and masks, what a coarse pixel depends on, windows, bytes and JSON."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers.refusals import refused
from hypothesis import given, settings
from hypothesis import strategies as st

from dipp.core import units
from dipp.core.geometry import Geometry
from dipp.core.regions import Place, Regions

SIDE = 12


@st.composite
def some_regions(draw: st.DrawFn) -> Regions:
    """Draw units of one or two masks each, in a picture of 12×12 pixels; no pixel belongs to two units."""
    free = np.ones((SIDE, SIDE), bool)
    places: list[Place] = []
    unit = 0
    for _ in range(draw(st.integers(1, 4))):
        added = 0
        for _ in range(draw(st.integers(1, 2))):
            left, top, width, height = (draw(st.integers(0, 7)) for _ in range(4))
            box = np.zeros((SIDE, SIDE), bool)
            box[top : top + 1 + height, left : left + 1 + width] = True
            mask = box & free & np.random.default_rng(draw(st.integers(0, 99))).choice([True, True, False], box.shape)
            mask = mask if draw(st.booleans()) else box & free
            if mask.any():
                places.append(Place.of(unit, mask))
                added += 1
        for place in places[len(places) - added :] if added else []:
            free[place.part] &= ~place.inside
        unit += added > 0
    return Regions(tuple(places)) if places else Regions((Place(0, 1, 1, 3, 3),))


@given(some_regions())
@settings(max_examples=60, deadline=None)
def test_regions_are_read_back_and_own_the_pixels_of_their_masks(regions: Regions) -> None:
    assert units.from_bytes(regions.to_bytes()) == regions == units.from_dict(regions.to_dict())
    geometry = Geometry(SIDE, SIDE, 2)
    ids = regions.ids(geometry).reshape(SIDE, SIDE, 2)
    expected = np.full((SIDE, SIDE), -1)
    for place_ in regions.places:
        for row, column in np.argwhere(place_.inside).tolist():
            expected[place_.top + row, place_.left + column] = place_.unit
        assert Place.of(place_.unit, np.pad(place_.inside, 2))[3:] == place_[3:]
    np.testing.assert_array_equal(ids, np.dstack([expected] * 2))
    assert {*np.unique(ids).tolist()} - {-1} == {*range(regions.count(geometry))}


@given(some_regions(), st.integers(1, 14), st.integers(1, 14))
@settings(max_examples=40, deadline=None)
def test_a_window_meets_at_most_the_stated_number_of_regions(regions: Regions, width: int, height: int) -> None:
    met = [
        {
            place_.unit
            for place_ in regions.places
            if place_.left < x + width and x < place_.right and place_.top < y + height and y < place_.bottom
        }
        for x in range(-13, SIDE)
        for y in range(-13, SIDE)
    ]
    assert regions.met(width, height) == max(map(len, met))


@given(some_regions(), st.sampled_from([4, 8]), st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_a_coarse_pixel_is_a_mean_over_one_unit(regions: Regions, parts: int, seed: int) -> None:
    """Pixels outside all units change no mean, and pixels of a unit change only the means of that unit, to the bit."""
    generator, geometry = np.random.default_rng(seed), Geometry(SIDE, SIDE, 3)
    picture = generator.integers(0, 256, (1, *geometry.shape), np.uint8)
    ids = regions.ids(geometry).reshape(geometry.shape)
    means = regions.means(picture, parts)
    coarse_unit, coarse = regions.grid(geometry, parts)
    assert means.shape == (1, *coarse.shape)
    owners = coarse_unit.ids(coarse).reshape(coarse.shape)
    other = generator.integers(0, 256, picture.shape, np.uint8)
    np.testing.assert_array_equal(regions.means(np.where(ids < 0, other, picture), parts), means)
    for unit in range(regions.count(geometry)):
        moved = regions.means(np.where(ids == unit, other, picture), parts)
        np.testing.assert_array_equal(moved[0][owners != unit], means[0][owners != unit])
    for at, place in enumerate(regions.places):
        values = np.where(place.inside[..., None], picture[0][place.part], 0).astype(np.int64)
        row, column = generator.integers(0, parts, 2).tolist()
        spans = []
        for index, side in ((row, place.height), (column, place.width)):
            first = index * side // parts
            spans.append(slice(first, max((index + 1) * side // parts, first + 1)))
        count = place.inside[spans[0], spans[1]].sum()
        expected = values[spans[0], spans[1]].sum(axis=(0, 1)) / max(count, 1)
        np.testing.assert_array_equal(means[0, parts * at + row, column], expected)
        assert regions.present(parts)[parts * at + row, column] == (count > 0)


def test_boxes_with_the_same_number_are_one_unit() -> None:
    regions = Regions(
        (Place(0, 0, 0, 4, 4), Place(1, 10, 0, 4, 4), Place(0, 0, 10, 4, 4), Place(0, 2, 2, 8, 1, (2, 6)))
    )
    assert (regions.count(Geometry(20, 20, 3)), regions.most_places, regions.total(400, 1)) == (2, 3, 2)
    assert (regions.met(1, 1), regions.met(2, 1), regions.met(99, 99)) == (1, 2, 2)
    assert "what lies outside is not protected" in regions.words
    with refused("regions", "13×13"):
        regions.ids(Geometry(13, 13, 3))


BOX = Place(0, 0, 0, 4, 4)


@pytest.mark.parametrize(
    ("places", "token"),
    [
        ((), "1024"),
        ((BOX,) * 1025, "1024"),
        ((7,), "lists"),
        (((1, 0, 0, 4, 4),), "order"),
        ((BOX, (2, 9, 9, 4, 4)), "order"),
        ((BOX, (1, 3, 3, 4, 4)), "overlap"),
        ((BOX, (1, 3, 3, 4, 4, (0, 1, 15))), "overlap"),
        (((0, -1, 0, 4, 4),), "height"),
        (((0, 0.5, 0, 4, 4),), "height"),
        (((0, 0, 0, 0, 4),), "0×4"),
        (((0, 0, 0, 1 << 16, 1 << 16),), "large"),
        (((0, 0, 0, 4, 4, (1, 14)),), "4×4"),
        (((0, 0, 0, 4, 4, (0, 16)),), "4×4"),
        (((0, 0, 0, 4, 4, (16,)),), "4×4"),
        (((0, 0, 0, 4, 4, (1, 0, 1, 14)),), "4×4"),
        (((0, 0, 0, 1 << 14, 1 << 14, (1, (1 << 28) - 1)),), "masks"),
    ],
)
def test_invalid_places_are_refused(places: Any, token: str) -> None:
    with refused("regions", token):
        Regions(places)


def test_boxes_may_overlap_if_their_masks_do_not() -> None:
    assert Regions((BOX, Place(1, 3, 3, 4, 4, (1, 15)))).count(Geometry(9, 9, 3)) == 2


@pytest.mark.parametrize(
    ("content", "token"),
    [
        (b"\3\0", "four"),
        (b"\3" + b"\0" * 20, "middle"),
        (b"\3" + np.array([*BOX[:5], 2, 1], "<u4").tobytes(), "middle"),
    ],
)
def test_bytes_that_are_cut_off_are_refused(content: bytes, token: str) -> None:
    with refused("regions", token):
        units.from_bytes(content)
