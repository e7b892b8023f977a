"""Masks: each coordinate once a cycle, counts in closed form, and the worst pixel, checked against every pixel."""

from __future__ import annotations

import inspect
import math
from collections.abc import Sequence

import numpy as np
import pytest
from helpers.geometry import of_pixels
from helpers.refusals import refused
from helpers.statistics import FALSE_ALARM, bounded, chi_square_tail
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from dipp.core.geometry import Geometry
from dipp.core.masks import MAX_PERIOD, FullMask, Mask, TurnMask, of_period

SEED = bytes(range(16))
SHAPES = {"1×1": 1, "1×2": 2, "1×7": 7, "3×3": 9, "5×5": 25}
PERIODS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 24, 37)

seeds = st.binary(min_size=16, max_size=16)
designs = st.tuples(st.integers(1, 4), st.integers(0, 10), st.integers(1, 60), st.integers(0, 3))
charges_drawn = st.lists(st.floats(0, 1e3), min_size=1, max_size=40)


def masks_for(channels: int) -> list[Mask]:
    """Return a mask for each period in `PERIODS` that a picture with this number of channels can have."""
    return [of_period(period) for period in PERIODS if period == 1 or period >= channels]


def slots(period: int, pixels: int, channels: int) -> list[int]:
    """Return how many coordinates each slot of a cycle of turns has, by the formula in the docstring of `masks`."""
    counts = [0] * period
    for rank in range(pixels):
        for position in range(channels):
            counts[(rank + position * (period // channels)) % period] += 1
    return counts


def touched_pixels(mask: Mask, steps: range, pixels: int, channels: int, seed: bytes = SEED) -> NDArray[np.bool_]:
    """Return a mask (steps, pixels) that says which pixels each step touches."""
    met = np.zeros((len(steps), pixels), bool)
    for row, step in enumerate(steps):
        met[row, mask.touched(seed, step, of_pixels(pixels, channels)) // channels] = True
    return met


def charged(mask: Mask, charges: Sequence[float], pixels: int, channels: int, seed: bytes = SEED) -> float:
    """Return the largest charge of any pixel: the sum over cycles of the exact sum of the steps that touch it."""
    met = touched_pixels(mask, range(len(charges)), pixels, channels, seed)
    cycles = [range(first, min(first + mask.period, len(charges))) for first in range(0, len(charges), mask.period)]
    return max(
        math.fsum(math.fsum(charges[step] for step in cycle if met[step, pixel]) for cycle in cycles)
        for pixel in range(pixels)
    )


# --- which coordinates a step touches ---


@bounded
@given(designs, seeds)
def test_a_cycle_touches_every_coordinate_once(design: tuple[int, int, int, int], seed: bytes) -> None:
    """A step touches no two channels of a pixel, and the sizes of steps differ by at most the number of channels."""
    channels, extra, pixels, cycle = design
    period = channels + extra
    assume(period > 1)
    steps = [TurnMask(period).touched(seed, cycle * period + i, of_pixels(pixels, channels)) for i in range(period)]
    assert sorted(np.concatenate(steps).tolist()) == list(range(pixels * channels))
    for touched in steps:
        assert touched.dtype == np.int64
        assert (np.diff(touched) > 0).all()
        assert len(np.unique(touched // channels)) == len(touched)
    sizes = [len(touched) for touched in steps]
    assert max(sizes) - min(sizes) <= channels
    if extra == 0:
        assert sizes == [pixels] * period


@pytest.mark.parametrize("pixels", SHAPES.values(), ids=SHAPES.keys())
@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_tiny_pictures_are_touched_once_a_cycle(pixels: int, channels: int) -> None:
    for mask in masks_for(channels):
        steps = [mask.touched(SEED, step, of_pixels(pixels, channels)) for step in range(mask.period)]
        assert sorted(np.concatenate(steps).tolist()) == list(range(pixels * channels))
        crowd = max(int(np.bincount(touched // channels).max(initial=0)) for touched in steps)
        assert crowd == mask.touches(channels) == (channels if mask.period == 1 else 1)


@bounded
@given(st.integers(1, 4), st.integers(1, 6), st.integers(1, 40), st.integers(0, 2), seeds)
def test_groups_of_a_pass_touch_each_pixel_once(
    channels: int, groups: int, pixels: int, cycle: int, seed: bytes
) -> None:
    """P = C·g: any g consecutive slots of a cycle touch each pixel exactly once."""
    period = channels * groups
    assume(period > 1)
    met = touched_pixels(TurnMask(period), range(cycle * period, (cycle + 1) * period), pixels, channels, seed)
    for first in range(period - groups + 1):
        assert (met[first : first + groups].sum(axis=0) == 1).all()


def test_a_mask_of_period_one_touches_everything() -> None:
    assert of_period(1).touched(SEED, 4, of_pixels(5)).tolist() == list(range(15))
    assert of_period(1) == FullMask()
    assert of_period(7) == TurnMask(7)


def test_touched_coordinates_are_pinned() -> None:
    """The mask design is part of the format."""
    assert [TurnMask(3).touched(SEED, step, of_pixels(6)).tolist() for step in range(4)] == [
        [1, 5, 7, 10, 13, 15],
        [0, 4, 6, 9, 12, 16],
        [2, 3, 8, 11, 14, 17],
        [2, 4, 7, 11, 12, 15],
    ]
    assert TurnMask(7).touched(SEED, 9, of_pixels(10)).tolist() == [5, 8, 10, 12, 25]


@pytest.mark.parametrize("kind", [FullMask, TurnMask])
def test_touched_depends_on_public_numbers_only(kind: type[Mask]) -> None:
    """The arguments are the seed, the step and the geometry, so no pixel can enter."""
    parameters = list(inspect.signature(kind.touched).parameters)
    assert parameters == ["self", "seed", "step", "geometry"]


def test_touched_differs_between_seeds_and_cycles() -> None:
    steps = [
        TurnMask(3).touched(SEED, 0, of_pixels(200)),
        TurnMask(3).touched(SEED[::-1], 0, of_pixels(200)),
        TurnMask(3).touched(SEED, 3, of_pixels(200)),
    ]
    assert len({tuple(touched.tolist()) for touched in steps}) == 3


@pytest.mark.parametrize(("period", "channels"), [(3, 3), (5, 3), (8, 2)])
def test_a_coordinate_has_each_slot_equally_often(period: int, channels: int) -> None:
    """If the period divides the number of pixels, a coordinate has each slot equally often (the seeds are fixed)."""
    slots_met = np.zeros(period, np.int64)
    for cycle in range(500):
        steps = [
            TurnMask(period).touched(SEED, cycle * period + i, Geometry(2, period, channels)) for i in range(period)
        ]
        slots_met[next(i for i, touched in enumerate(steps) if 1 in touched)] += 1
    assert chi_square_tail(slots_met, [1 / period] * period) > FALSE_ALARM


# --- how many coordinates a step touches ---


@pytest.mark.parametrize("pixels", SHAPES.values(), ids=SHAPES.keys())
@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_counts_are_the_numbers_of_touched_coordinates(pixels: int, channels: int) -> None:
    """The test covers one cycle and two steps of the next."""
    for mask in masks_for(channels):
        steps = mask.period + 2
        lengths = [len(mask.touched(SEED, step, of_pixels(pixels, channels))) for step in range(steps)]
        assert mask.counts(steps, of_pixels(pixels, channels)).tolist() == lengths
        assert mask.largest(of_pixels(pixels, channels)) == max(lengths)


@bounded
@given(st.integers(1, 16), st.integers(0, 300), st.integers(1, 2000), st.integers(1, 700))
def test_counts_agree_with_the_formula_of_slots(channels: int, extra: int, pixels: int, steps: int) -> None:
    period = channels + extra
    assume(period > 1)
    mask, expected = TurnMask(period), slots(period, pixels, channels)
    assert mask.counts(steps, of_pixels(pixels, channels)).tolist() == [
        expected[step % period] for step in range(steps)
    ]
    assert mask.largest(of_pixels(pixels, channels)) == max(expected)


@pytest.mark.parametrize("period", [1, 3, 4, 6, MAX_PERIOD])
@pytest.mark.parametrize("pixels", [1, 1024, (1 << 31) - 1])
def test_a_cycle_adds_up_to_all_coordinates(period: int, pixels: int) -> None:
    """The counts of a cycle add up to all coordinates, and their mean agrees with `mean_touches`."""
    mask = of_period(period)
    total = int(mask.counts(period, of_pixels(pixels)).sum())
    assert total == 3 * pixels
    assert total / (period * pixels) == pytest.approx(mask.mean_touches(3), rel=1e-12)


@pytest.mark.parametrize("period", PERIODS)
def test_least_steps_is_the_minimum_over_all_sizes(period: int) -> None:
    """A picture of one coordinate is touched in `least_steps` steps, and a larger picture in at least as many."""
    mask = of_period(period)
    for steps in (1, period - 1, period, period + 1, 3 * period + 2):
        least = mask.least_steps(steps)
        assert np.count_nonzero(mask.counts(steps, of_pixels(1, 1))) == least
        for pixels in (1, 2, 3, 8, 100):
            for channels in {1, min(2, period), min(3, period)}:
                assert np.count_nonzero(mask.counts(steps, of_pixels(pixels, channels))) >= least


def test_counts_cannot_be_changed() -> None:
    """Counts are cached, and certificates follow from them."""
    with pytest.raises(ValueError, match="read-only"):
        TurnMask(5).counts(10, of_pixels(100))[0] = 0


# --- what the worst pixel pays ---


@bounded
@given(st.integers(1, 4), st.integers(0, 9), st.integers(1, 30), charges_drawn, seeds)
def test_no_pixel_is_charged_more_than_the_worst(
    channels: int, extra: int, pixels: int, charges: list[float], seed: bytes
) -> None:
    """This holds for pictures of any size, down to a single pixel, and for any number of steps."""
    for mask in (FullMask(), of_period(channels + extra)):
        assert charged(mask, charges, pixels, channels, seed) <= mask.worst(charges, channels)


@bounded
@given(st.integers(1, 4), st.integers(0, 9), st.integers(0, 20), charges_drawn, seeds)
def test_some_pixel_of_a_cycle_is_charged_the_worst(
    channels: int, extra: int, more: int, charges: list[float], seed: bytes
) -> None:
    """A picture of at least P pixels has a pixel with the worst charge, whatever the shuffle."""
    mask = of_period(channels + extra)
    cycle = charges[: mask.period]
    assert charged(mask, cycle, mask.period + more, channels, seed) == mask.worst(cycle, channels)


@pytest.mark.parametrize(
    ("period", "channels"), [(2, 1), (2, 2), (3, 3), (4, 2), (4, 3), (5, 2), (6, 1), (6, 2), (6, 3), (6, 6)]
)
def test_some_pixel_of_two_cycles_is_charged_the_worst(period: int, channels: int) -> None:
    """One of 600 pixels has the worst charge in both cycles (fixed seed; the chance of no such pixel is 10^−7)."""
    generator = np.random.default_rng(period)
    for steps in (period + 1, 2 * period - 1, 2 * period):
        charges = generator.exponential(size=steps).tolist()
        assert charged(TurnMask(period), charges, 600, channels) == TurnMask(period).worst(charges, channels)


@pytest.mark.parametrize(
    ("period", "channels", "charges", "worst"),
    [
        (1, 3, [1, 2, 4], 7),  # every step
        (3, 3, [1, 2, 4, 8], 15),  # every step, with one channel
        (3, 1, [1, 2, 4, 8], 12),  # one step of a cycle
        (6, 3, [32, 1, 1, 1, 16, 1, 8], 32 + 1 + 16 + 8),  # slots 0, 2, 4 or 1, 3, 5
        (4, 3, [1, 2, 4, 8], 14),  # three of four slots in a row, going round
        (6, 2, [1, 2, 4, 8, 16, 32], 36),  # slots r and r + 3
        (6, 2, [1, 2, 4, 8], 9),
    ],
)
def test_the_worst_charge_worked_out_by_hand(period: int, channels: int, charges: list[float], worst: float) -> None:
    assert of_period(period).worst(charges, channels) == worst


@pytest.mark.parametrize(("passes", "groups"), [(1, 4), (3, 4), (2.25, 4), (0.5, 2), (5, 1), (1.5, 6)])
def test_the_worst_pixel_is_touched_once_per_started_pass(passes: float, groups: int) -> None:
    """P = C·g: T·g equal steps are T passes, and the worst pixel is touched ⌈T⌉ times."""
    steps = round(passes * groups)
    assert of_period(3 * groups).worst([1.0] * steps, 3) == math.ceil(passes)


# --- invalid periods and channels ---


@pytest.mark.parametrize("period", [-1, 0, MAX_PERIOD + 1])
def test_periods_out_of_range_are_refused(period: int) -> None:
    with refused("period", "65535"):
        of_period(period)


def test_channels_that_do_not_fit_the_mask_are_refused() -> None:
    mask = TurnMask(2)
    for ask in (
        lambda: mask.require(3),
        lambda: mask.touches(3),
        lambda: mask.touched(SEED, 0, of_pixels(4)),
        lambda: mask.counts(4, of_pixels(4)),
        lambda: mask.worst([1.0], 3),
    ):
        with refused("period", "channels"):
            ask()
    for wrong, argument in ((TurnMask(2), "period"), (FullMask(), "channels")):
        with refused(argument):
            wrong.touches(0)
