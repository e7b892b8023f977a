"""Chunks: every coordinate once, equal sizes, the channels of a pixel apart, and a deal by public values alone."""

from __future__ import annotations

import inspect
import math

import numpy as np
import pytest
from helpers.geometry import of_pixels
from helpers.refusals import refused
from helpers.toy_unit import Band
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dipp.core import randomness
from dipp.core.chunking import Chunks, StepCoordinates, chunks
from dipp.core.geometry import Geometry
from dipp.core.masks import FullMask, TurnMask
from dipp.core.steps import SensingStep
from dipp.core.unit_deals import BY_UNIT

SEED = bytes(range(16))

seeds = st.binary(min_size=16, max_size=16)


def chunk_of(dealt: Chunks, dims: int) -> NDArray[np.int64]:
    """Return the chunk of each coordinate, and −1 for a coordinate in no chunk."""
    owner = np.full(dims, -1)
    for i in range(dealt.count):
        owner[dealt.part(i)] = i
    return owner


def check(dealt: Chunks, count: int, coordinates: NDArray[np.int64]) -> None:
    """Assert that chunks divide the coordinates into `count` parts whose sizes differ by at most one."""
    assert dealt.count == count
    assert dealt.order.dtype == dealt.offsets.dtype == np.int64
    np.testing.assert_array_equal(np.sort(dealt.order), coordinates)
    sizes = np.diff(dealt.offsets)
    assert dealt.offsets[0] == 0
    assert dealt.offsets[-1] == len(coordinates)
    assert sizes.min() >= 1
    assert sizes.max() - sizes.min() <= 1
    for i in range(count):
        assert (np.diff(dealt.part(i)) > 0).all()


@given(seeds, st.integers(0, 1 << 31), st.integers(1, 300), st.data())
@settings(deadline=None)
def test_chunks_are_a_partition_into_equal_sizes(seed: bytes, step: int, dims: int, data: st.DataObject) -> None:
    count = data.draw(st.integers(1, dims))
    check(chunks(seed, step, of_pixels(dims, 1), count), count, np.arange(dims))


@given(seeds, st.integers(1, 60), st.integers(1, 5), st.data())
@settings(deadline=None)
def test_channels_of_a_pixel_are_apart(seed: bytes, pixels: int, channels: int, data: st.DataObject) -> None:
    dims = pixels * channels
    count = data.draw(st.integers(channels, dims))
    dealt = chunks(seed, 3, of_pixels(pixels, channels), count)
    check(dealt, count, np.arange(dims))
    owner = chunk_of(dealt, dims).reshape(pixels, channels)
    assert all(len(set(row)) == channels for row in owner.tolist())


@given(seeds, st.integers(1, 60), st.integers(1, 4), st.data())
@settings(deadline=None)
def test_a_part_of_the_coordinates_is_dealt_into_equal_chunks(
    seed: bytes, pixels: int, channels: int, data: st.DataObject
) -> None:
    dims = pixels * channels
    touched = np.array(sorted(data.draw(st.sets(st.integers(0, dims - 1), min_size=1))), np.int64)
    crowd = int(np.bincount(touched // channels).max())
    count = data.draw(st.integers(crowd, len(touched)))
    dealt = chunks(seed, 3, of_pixels(pixels, channels), count, coordinates=touched)
    check(dealt, count, touched)
    pairs = list(zip((touched // channels).tolist(), chunk_of(dealt, dims)[touched].tolist(), strict=True))
    assert len(set(pairs)) == len(pairs)


@pytest.mark.parametrize("count", [3, 6, 12, 50])
def test_chunks_mix_the_colours(count: int) -> None:
    dealt = chunks(SEED, 0, of_pixels(1024), count)
    for i in range(count):
        colours = np.bincount(dealt.part(i) % 3, minlength=3)
        assert colours.max() - colours.min() <= 2


def test_the_deal_follows_its_description() -> None:
    dealt = chunks(SEED, 5, of_pixels(4), 4)
    expected: list[list[int]] = [[] for _ in range(4)]
    shuffled = randomness.permutation(randomness.stream(SEED, 0, 5, "chunks"), 4).tolist()
    number = 0
    for rank, pixel in enumerate(shuffled):
        for turn in range(3):
            expected[number % 4].append(3 * pixel + (turn - rank) % 3)
            number += 1
    assert [dealt.part(i).tolist() for i in range(4)] == [sorted(part) for part in expected]


def test_chunks_are_pinned() -> None:
    plain = chunks(SEED, 1, of_pixels(10, 1), 3)
    assert plain.order.tolist() == [3, 4, 6, 8, 0, 1, 2, 5, 7, 9]
    assert plain.offsets.tolist() == [0, 4, 7, 10]
    apart = chunks(SEED, 1, of_pixels(4), 4)
    assert apart.order.tolist() == [0, 3, 9, 4, 6, 10, 1, 5, 7, 2, 8, 11]
    assert apart.offsets.tolist() == [0, 3, 6, 9, 12]


def test_the_deal_depends_on_seed_and_step_alone_for_a_geometry() -> None:
    same = chunks(SEED, 1, of_pixels(600, 1), 10).order
    np.testing.assert_array_equal(same, chunks(SEED, 1, of_pixels(600, 1), 10).order)
    for other in (chunks(bytes(16), 1, of_pixels(600, 1), 10), chunks(SEED, 2, of_pixels(600, 1), 10)):
        assert (same != other.order).mean() > 0.9
    assert set(inspect.signature(chunks).parameters) == {"seed", "step", "geometry", "count", "apart", "coordinates"}


def test_pairs_meet_as_often_as_by_chance() -> None:
    # Two unrelated coordinates of 20 in 4 chunks of 5 meet with probability 4/19.
    runs = 4000
    meetings = sum(
        int(np.ptp(chunk_of(chunks(SEED, step, of_pixels(20, 1), 4), 20)[[3, 4]]) == 0) for step in range(runs)
    )
    chance = 4 / 19
    # Five standard deviations: false alarm 1e-6.
    assert abs(meetings - runs * chance) < 5 * math.sqrt(runs * chance * (1 - chance))


def test_coordinates_of_a_turn_fit_into_any_number_of_chunks() -> None:
    touched = TurnMask(3).touched(SEED, 4, of_pixels(50))
    check(chunks(SEED, 4, of_pixels(50), 1, coordinates=touched), 1, touched)
    check(chunks(SEED, 4, of_pixels(50), 7, coordinates=touched), 7, touched)


def test_chunks_cannot_be_changed() -> None:
    dealt = chunks(SEED, 0, of_pixels(5, 1), 2)
    for array in (dealt.order, dealt.offsets):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_one_coordinate_is_one_chunk() -> None:
    dealt = chunks(SEED, 0, of_pixels(1, 1), 1)
    assert (dealt.order.tolist(), dealt.offsets.tolist()) == ([0], [0, 1])


@pytest.mark.parametrize(
    ("pixels", "channels", "count", "apart"),
    [(10, 1, 0, True), (10, 1, 11, True), (4, 3, 2, True), (4, 3, 0, False), (4, 3, 13, False)],
)
def test_impossible_numbers_of_chunks_are_refused(pixels: int, channels: int, count: int, apart: bool) -> None:
    with refused("count"):
        chunks(SEED, 0, of_pixels(pixels, channels), count, apart=apart)


def test_channels_may_meet_if_they_need_not_be_apart() -> None:
    dealt = chunks(SEED, 0, of_pixels(4), 2, apart=False)
    check(dealt, 2, np.arange(12))
    assert dealt.order.tolist() == chunks(SEED, 0, of_pixels(12, 1), 2).order.tolist()


@pytest.mark.parametrize("coordinates", [[], [[1, 2]], [1.0], [2, 1], [1, 1], [-1, 3], [3, 10]])
def test_invalid_coordinates_are_refused(coordinates: list[int]) -> None:
    with refused("coordinates"):
        chunks(SEED, 0, of_pixels(10, 1), 1, coordinates=np.array(coordinates))


STEP = SensingStep(1.0, 1.0, 1.0, 1, 1)


@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 3), st.integers(1, 4))
def test_a_deal_by_unit_is_the_partition(height: int, width: int, channels: int, rows: int) -> None:
    geometry, unit = Geometry(height, width, channels), Band(rows)
    everything = np.arange(geometry.coordinates)
    dealt = BY_UNIT.chunks(SEED, StepCoordinates(0, STEP, everything, unit, geometry), True)
    assert dealt.count == unit.count(geometry) == BY_UNIT.counts(FullMask(), unit, geometry, [STEP])[0]
    for number in range(dealt.count):
        assert dealt.part(number).tolist() == np.flatnonzero(unit.ids(geometry) == number).tolist()
    parts, apart = BY_UNIT.dealt(dealt, unit, geometry)
    assert apart
    assert parts.tolist() == [1] * dealt.count
    if dealt.count > 1:  # a chunk that meets two units
        together = Chunks(dealt.order, dealt.offsets[[0, *range(2, dealt.count + 1)]])
        assert not BY_UNIT.dealt(together, unit, geometry).apart


@pytest.mark.parametrize("chunk", [-1, 2])
def test_a_chunk_that_does_not_exist_is_refused(chunk: int) -> None:
    with refused("chunk"):
        chunks(SEED, 0, of_pixels(10, 1), 2).part(chunk)
