"""Grids of coarse pixels: average and interpolate pictures between them. Everything here is public.

A grid cuts the rows and the columns of a picture into intervals (`Unit.divisions`). A coarse pixel is the rectangle of
one interval of rows and one of columns. The picture itself is the grid that cuts at every pixel.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from dipp.core.arrays import Array, alike, host, library, room, single
from dipp.core.geometry import Geometry
from dipp.core.steps import BLOCK, ROUNDS

Integers = NDArray[np.int64]

BAND = 1 << 16
"""Number of pixels of a large picture that are interpolated at a time, about."""
REACH = 2 * BLOCK
"""Largest distance, in coarse pixels, of the answers from which a coarse pixel without an answer is predicted."""

SUSPICION = 0.05
"""Factor of the odds of a wrong answer, chosen on public photographs, in which neighbours sometimes differ."""
LEAST_USUAL = 1e-3
"""Smallest usual squared difference of a block from its neighbours: that of four grey levels."""


class Cuts(NamedTuple):
    """The positions, in pixels, at which a grid cuts the rows and the columns of a picture, from 0 to its sides."""

    rows: Integers
    columns: Integers


def squares(length: int, side: int) -> Integers:
    """Return the cuts of an axis of `length` pixels into parts of `side` pixels; the last part may be shorter.

    Args:
        length: Number of pixels of the axis.
        side: Number of pixels of a part.
    """
    return np.minimum(np.arange(0, length + side, side), length)


def averaged(values: Array, side: int) -> Array:
    """Return the means of pictures over squares, which the right and lower edges may cut off.

    Args:
        values: Pictures (N, C, H, W).
        side: Side of a square in pixels.
    """
    for axis in (2, 3):
        parts = [values[_part(axis, slice(first, None, side))] for first in range(side)]
        sizes = np.diff(squares(values.shape[axis], side)).astype(np.float32)
        means = parts[0] * _weights(1 / sizes, axis, values)
        for part in parts[1:]:
            means[_part(axis, slice(part.shape[axis]))] += part * _weights(1 / sizes[: part.shape[axis]], axis, values)
        values = means
    return values


def rounds(grid: Geometry, turns: int) -> NDArray[np.int64]:
    """Return the number of the round in which each coarse pixel of a grid is asked, from 0, (H, W).

    Args:
        grid: Geometry of the coarse picture.
        turns: Number of rounds.
    """
    pattern = np.array(ROUNDS[turns])
    row, column = (np.arange(side) // BLOCK % len(pattern) for side in (grid.height, grid.width))
    return pattern[row][:, column]


def between(answers: Array, known: Array) -> Array:
    """Return answers, with unknown ones predicted by a mean of known ones within `REACH`.

    An answer at distance d has the weight exp(−d²/16).

    Args:
        answers: Answers (N, C, H, W).
        known: Which coarse pixels are known, (H, W).

    Returns:
        Answers (N, C, H, W). Coarse pixels without a known one within `REACH` are 0.
    """
    lib = library(answers)
    weights = lib.ones_like(answers[:1, :1]) * known
    return lib.where(known, answers, _spread(answers * weights) / _spread(weights).clip(1e-6))


def steadied(answers: Array, odds: float) -> Array:
    """Return answers in which blocks that are probably wrong are moved towards their neighbours.

    A draw may give a word that is not the nearest, which shows as a speck. Let d be the mean squared difference of a
    block from the mean of the coarse pixels of other blocks within `REACH`, weighted as in `between`. Let m be the
    median of d over the up to eight blocks around it. The block keeps the share 1/(1 + odds·`SUSPICION`·(d/m)²) of the
    difference.

    Args:
        answers: Answers (N, C, H, W).
        odds: Odds of a wrong answer to a right one, by the law of the draws.
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
    """Return the sums (N, C, H, W) of values at distances d ≤ `REACH` of each coarse pixel, weighted by exp(−d²/16)."""
    for axis in (2, 3):
        length, sums = values.shape[axis], values * 0
        for distance in range(1 - min(REACH + 1, length), min(REACH + 1, length)):
            weight = math.exp(-((distance / BLOCK) ** 2))
            target, source = (slice(max(0, by), length - max(0, -by)) for by in (-distance, distance))
            sums[_part(axis, target)] += weight * values[_part(axis, source)]
        values = sums
    return values


def _within(values: Array) -> Array:
    """Return the sums (N, C, H, W) of values in the block of each coarse pixel, weighted by exp(−d²/16)."""
    position = np.arange(BLOCK)
    weights = alike(np.exp(-(((position[:, None] - position) / BLOCK) ** 2)).astype(np.float32), values)
    sums = library(values).einsum("nchiwj,ki,lj->nchkwl", _blocks(values), weights, weights)
    height, width = sums.shape[2] * BLOCK, sums.shape[4] * BLOCK
    return sums.reshape(*values.shape[:2], height, width)[..., : values.shape[2], : values.shape[3]]


def _blocks(values: Array) -> Array:
    """Return values (N, C, H, W) as blocks (N, C, rows, `BLOCK`, columns, `BLOCK`), with 0 beyond the edges."""
    height, width = values.shape[2:]
    rows, columns = (-(-side // BLOCK) for side in (height, width))
    padded = alike(np.zeros((*values.shape[:2], rows * BLOCK, columns * BLOCK), np.float32), values)
    padded[..., :height, :width] = values
    return padded.reshape(*values.shape[:2], rows, BLOCK, columns, BLOCK)


def interpolated(values: Array, source: Cuts, onto: Cuts) -> Array:
    """Return values of one grid interpolated at the centres of another by a Catmull-Rom cubic, clipped to [−1, 1].

    It is computed in bands of rows, which stay in the processor's cache.

    Args:
        values: Values of the grid `source`, (N, C, rows, columns).
        source: The grid that the values belong to.
        onto: The grid of the result.
    """
    height, width = (len(cuts) - 1 for cuts in onto)
    down, across = (_taps(*cuts) for cuts in zip(source, onto, strict=True))
    step = max(1, BAND // width)
    if step >= height:
        return _along(_along(values, 2, down), 3, across).clip(-1, 1)
    whole = room((*values.shape[:2], height, width), values)
    for first in range(0, height, step):
        rows = slice(first, min(first + step, height))
        part = None if down is None else [(places[rows], weights[rows]) for places, weights in down]
        band = values[:, :, rows] if part is None else _along(values, 2, part)
        whole[:, :, rows] = _along(band, 3, across).clip(-1, 1)
    return whole


Taps = Sequence[tuple[Integers, NDArray[np.float32]]] | None
"""The four neighbours of each position along an axis with their weights; None if the positions stay as they are."""


def _taps(cuts: Integers, target_cuts: Integers) -> Taps:
    """Return the neighbours and weights that interpolate from the centres of intervals to those of target intervals."""
    if np.array_equal(cuts, target_cuts):
        return None
    centres, targets = ((edges[:-1] + edges[1:]) / 2 for edges in (cuts, target_cuts))
    last = len(centres) - 1
    left = np.clip(np.searchsorted(centres, targets, side="right") - 1, 0, max(last - 1, 0))
    width = np.ones_like(targets) if last == 0 else centres[np.minimum(left + 1, last)] - centres[left]
    t = np.clip((targets - centres[left]) / width, 0, 1)
    taps = (-t + 2 * t**2 - t**3, 2 - 5 * t**2 + 3 * t**3, t + 4 * t**2 - 3 * t**3, -(t**2) + t**3)
    places = (np.clip(left + offset, 0, last) for offset in (-1, 0, 1, 2))
    return [(place, (tap / 2).astype(np.float32)) for place, tap in zip(places, taps, strict=True)]


def _along(values: Array, axis: int, taps: Taps) -> Array:
    """Return values interpolated along one axis, by the neighbours and weights in `taps`."""
    if taps is None:
        return values
    total: Array = 0
    for places, weights in taps:
        part = values[_part(axis, alike(places, values))]
        part *= _weights(weights, axis, values)
        part += total  # in place, which saves a copy of large pictures
        total = part
    return total


def _part(axis: int, positions: Any) -> tuple[Any, ...]:
    """Return the index that selects positions along one axis of an array."""
    return (*(slice(None),) * axis, positions)


def _weights(values: NDArray[Any], axis: int, other: Array) -> Array:
    """Return weights (length,), reshaped so that they multiply another array along one axis."""
    return alike(values.reshape(-1, *(1,) * (other.ndim - 1 - axis)), other)


def pooled(values: Array, onto: Cuts) -> Array:
    """Return the means of pictures over the coarse pixels of a grid, (N, C, rows, columns).

    Args:
        values: Pictures (N, C, H, W).
        onto: The grid.
    """
    for axis, cuts in enumerate(onto, 2):
        sums = alike(np.zeros([length + (i == axis) for i, length in enumerate(values.shape)]), values)
        sums[_part(axis, slice(1, None))] = values
        sums = sums.cumsum(axis)
        ends = (sums[_part(axis, alike(positions, values))] for positions in (cuts[1:], cuts[:-1]))
        totals = next(ends) - next(ends)
        values = totals * _weights(1 / np.diff(cuts), axis, values)
    return single(values)
