"""Grids: pictures between the coarse pixels of one grid and those of another. Everything here is public.

A grid cuts rows and columns of a picture into intervals (`Unit.divisions`); a coarse pixel is one interval of each. The
picture itself is the grid that cuts at every pixel.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from dipp.core.arrays import Array, alike, host, library, single
from dipp.core.geometry import Geometry
from dipp.core.steps import BLOCK, ROUNDS

Integers = NDArray[np.int64]

REACH = 2 * BLOCK
"""Coarse pixels to either side whose answers tell about a coarse pixel that has none."""

SUSPICION = 0.05
"""Factor by which the odds of a wrong answer count. Found on public photographs, whose neighbours differ at times."""
LEAST_USUAL = 1e-3
"""Squared difference from its neighbours that is usual for any block: that of four grey levels."""


class Cuts(NamedTuple):
    """Where a grid cuts the rows and the columns of a picture, from 0 to their number."""

    rows: Integers
    columns: Integers


def squares(length: int, side: int) -> Integers:
    """Return where an axis of a picture is cut every `side` pixels; the last part may be shorter."""
    return np.minimum(np.arange(0, length + side, side), length)


def averaged(values: Array, side: int) -> Array:
    """Return the means of a picture's values (N, C, H, W) over squares, which the right and lower edges may cut off."""
    for axis in (2, 3):
        parts = [values[_part(axis, slice(first, None, side))] for first in range(side)]
        sizes = np.diff(squares(values.shape[axis], side)).astype(np.float32)
        found = parts[0] * _weights(1 / sizes, axis, values)
        for part in parts[1:]:
            found[_part(axis, slice(part.shape[axis]))] += part * _weights(1 / sizes[: part.shape[axis]], axis, values)
        values = found
    return values


def rounds(grid: Geometry, turns: int) -> NDArray[np.int64]:
    """Return in which of `turns` rounds each coarse pixel of a grid is asked, (H, W)."""
    pattern = np.array(ROUNDS[turns])
    row, column = (np.arange(side) // BLOCK % len(pattern) for side in (grid.height, grid.width))
    return pattern[row][:, column]


def between(answers: Array, known: Array) -> Array:
    """Return answers, with the unknown ones predicted by the mean of those within reach, weighted by exp(−d²/16).

    Args:
        answers: (N, C, H, W).
        known: (H, W), which of the coarse pixels are known.

    Returns:
        (N, C, H, W); coarse pixels without a known one within reach are 0.
    """
    lib = library(answers)
    there = lib.ones_like(answers[:1, :1]) * known
    return lib.where(known, answers, _spread(answers * there) / _spread(there).clip(1e-6))


def steadied(answers: Array, odds: float) -> Array:
    """Return answers, with those of a block drawn towards its neighbours where a wrong answer is likely.

    Some draws give another word than the nearest one, and it shows as a speck. Let d be the mean squared difference of
    a block from the mean of the coarse pixels of other blocks within reach, weighted as in `between`, and m the median
    of d over the up to eight blocks around it. The block keeps the share 1/(1 + odds·`SUSPICION`·(d/m)²) of the
    difference.

    Args:
        answers: (N, C, H, W).
        odds: Of a wrong answer to a right one, before it is known: from the law of the draws.
    """
    lib, (batch, _, height, width) = library(answers), answers.shape
    rows, columns = (-(-side // BLOCK) for side in (height, width))
    ones = lib.ones_like(answers[:1])
    room = _spread(ones[:, :1]) - _within(ones[:, :1])
    others = (_spread(answers) - _within(answers)) / room.clip(1e-6)
    distance = host(_blocks((answers - others) ** 2).sum((1, 3, 5)) / _blocks(ones).sum((1, 3, 5)))
    padded = np.pad(distance, ((0, 0), (1, 1), (1, 1)), constant_values=np.inf)
    around = sliding_window_view(padded, (3, 3), (1, 2)).reshape(batch, rows, columns, 9)
    around = np.sort(np.delete(around, 4, axis=-1), axis=-1)
    middle = ((np.isfinite(around).sum(-1) - 1) // 2).clip(0)
    usual = np.take_along_axis(around, middle[..., None], -1)[..., 0] + LEAST_USUAL
    share = (1 / (1 + odds * SUSPICION * (distance / usual) ** 2)).astype(np.float32)
    kept = alike(share.repeat(BLOCK, 1).repeat(BLOCK, 2)[:, None, :height, :width], answers)
    return lib.where(kept < 1, others + kept * (answers - others), answers)


def _spread(values: Array) -> Array:
    """Return the sums (N, C, H, W) of the values within reach of each coarse pixel, weighted by exp(−d²/16)."""
    for axis in (2, 3):
        length, found = values.shape[axis], values * 0
        for distance in range(1 - min(REACH + 1, length), min(REACH + 1, length)):
            weight = math.exp(-((distance / BLOCK) ** 2))
            here, there = (slice(max(0, one), length - max(0, -one)) for one in (-distance, distance))
            found[_part(axis, here)] += weight * values[_part(axis, there)]
        values = found
    return values


def _within(values: Array) -> Array:
    """Return the part of `_spread` that comes from the block of each coarse pixel itself."""
    place = np.arange(BLOCK)
    weights = alike(np.exp(-(((place[:, None] - place) / BLOCK) ** 2)).astype(np.float32), values)
    sums = library(values).einsum("nchiwj,ki,lj->nchkwl", _blocks(values), weights, weights)
    height, width = sums.shape[2] * BLOCK, sums.shape[4] * BLOCK
    return sums.reshape(*values.shape[:2], height, width)[..., : values.shape[2], : values.shape[3]]


def _blocks(values: Array) -> Array:
    """Return values (N, C, H, W) as (N, C, rows, `BLOCK`, columns, `BLOCK`) of blocks, 0 beyond the edges."""
    height, width = values.shape[2:]
    rows, columns = (-(-side // BLOCK) for side in (height, width))
    padded = alike(np.zeros((*values.shape[:2], rows * BLOCK, columns * BLOCK), np.float32), values)
    padded[..., :height, :width] = values
    return padded.reshape(*values.shape[:2], rows, BLOCK, columns, BLOCK)


def interpolated(values: Array, source: Cuts, onto: Cuts) -> Array:
    """Interpolate values of one grid at the centres of another's, by Catmull and Rom's cubic, clipped to [−1, 1].

    Args:
        values: (N, C, rows, columns) of the grid `source`.
        source: The grid that the values belong to.
        onto: The grid that is wanted.
    """
    for axis, (cuts, wanted) in enumerate(zip(source, onto, strict=True)):
        values = _along(values, 2 + axis, cuts, wanted)
    return values.clip(-1, 1)


def _along(values: Array, axis: int, cuts: Integers, wanted: Integers) -> Array:
    if np.array_equal(cuts, wanted):
        return values
    centres, targets = ((edges[:-1] + edges[1:]) / 2 for edges in (cuts, wanted))
    last = len(centres) - 1
    left = np.clip(np.searchsorted(centres, targets, side="right") - 1, 0, max(last - 1, 0))
    width = np.ones_like(targets) if last == 0 else centres[np.minimum(left + 1, last)] - centres[left]
    t = np.clip((targets - centres[left]) / width, 0, 1)
    taps = (-t + 2 * t**2 - t**3, 2 - 5 * t**2 + 3 * t**3, t + 4 * t**2 - 3 * t**3, -(t**2) + t**3)
    found: Array = 0
    for offset, tap in zip((-1, 0, 1, 2), taps, strict=True):
        part = values[_part(axis, alike(np.clip(left + offset, 0, last), values))]
        part *= _weights((tap / 2).astype(np.float32), axis, values)
        part += found  # of large pictures, one copy less
        found = part
    return found


def _part(axis: int, places: Any) -> tuple[Any, ...]:
    """Return the index of some places along an axis."""
    return (*(slice(None),) * axis, places)


def _weights(values: NDArray[Any], axis: int, other: Array) -> Array:
    """Return weights along an axis of another array, which they are multiplied with."""
    return alike(values.reshape(-1, *(1,) * (other.ndim - 1 - axis)), other)


def pooled(values: Array, onto: Cuts) -> Array:
    """Return the means (N, C, rows, columns) of a picture's values (N, C, H, W) over the coarse pixels of a grid."""
    for axis, cuts in enumerate(onto, 2):
        sums = alike(np.zeros([length + (i == axis) for i, length in enumerate(values.shape)]), values)
        sums[_part(axis, slice(1, None))] = values
        sums = sums.cumsum(axis)
        ends = (sums[_part(axis, alike(places, values))] for places in (cuts[1:], cuts[:-1]))
        found = next(ends) - next(ends)
        values = found * _weights(1 / np.diff(cuts), axis, values)
    return single(values)
