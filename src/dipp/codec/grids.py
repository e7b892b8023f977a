"""Grids: pictures between the coarse pixels of one grid and those of another. Everything here is public.

A grid cuts rows and columns of a picture into intervals (`Unit.divisions`); a coarse pixel is one interval of each. The
picture itself is the grid that cuts at every pixel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dipp.core.geometry import Geometry
from dipp.core.steps import BLOCK, ROUNDS

if TYPE_CHECKING:
    import torch

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


def averaged(values: torch.Tensor, side: int) -> torch.Tensor:
    """Return the means of a picture's values (N, C, H, W) over squares, which the right and lower edges may cut off."""
    import torch

    return torch.nn.functional.avg_pool2d(values, side, ceil_mode=True, count_include_pad=False)


def rounds(grid: Geometry, turns: int) -> torch.Tensor:
    """Return in which of `turns` rounds each coarse pixel of a grid is asked, (H, W)."""
    import torch

    pattern = np.array(ROUNDS[turns])
    row, column = (np.arange(side) // BLOCK % len(pattern) for side in (grid.height, grid.width))
    return torch.from_numpy(pattern[row][:, column])


def between(answers: torch.Tensor, known: torch.Tensor) -> torch.Tensor:
    """Return answers, with the unknown ones predicted by the mean of those within reach, weighted by exp(−d²/16).

    Args:
        answers: (N, C, H, W).
        known: (H, W), which of the coarse pixels are known.

    Returns:
        (N, C, H, W); coarse pixels without a known one within reach are 0.
    """
    import torch

    there = known.to(torch.float32)[None, None]
    predicted = _spread(answers * there) / _spread(there).clamp_min(1e-6)
    return torch.where(known, answers, predicted)


def steadied(answers: torch.Tensor, odds: float) -> torch.Tensor:
    """Return answers, with those of a block drawn towards its neighbours where a wrong answer is likely.

    Some draws give another word than the nearest one, and it shows as a speck. Let d be the mean squared difference of
    a block from the mean of the coarse pixels of other blocks within reach, weighted as in `between`, and m the median
    of d over the up to eight blocks around it. The block keeps the share 1/(1 + odds·`SUSPICION`·(d/m)²) of the
    difference.

    Args:
        answers: (N, C, H, W).
        odds: Of a wrong answer to a right one, before it is known: from the law of the draws.
    """
    import torch

    batch, _, height, width = answers.shape
    rows, columns = (-(-side // BLOCK) for side in (height, width))
    room = _spread(torch.ones_like(answers[:1, :1])) - _within(torch.ones_like(answers[:1, :1]))
    others = (_spread(answers) - _within(answers)) / room.clamp_min(1e-6)
    squares = _blocks((answers - others).square())
    sizes = _blocks(torch.ones_like(answers[:1])).sum((1, 3, 5))
    distance = squares.sum((1, 3, 5)) / sizes
    around = torch.nn.functional.pad(distance, (1, 1, 1, 1), value=torch.inf).unfold(1, 3, 1).unfold(2, 3, 1)
    around = around.reshape(batch, rows, columns, 9)
    around = torch.cat([around[..., :4], around[..., 5:]], -1).sort(-1).values
    middle = ((around.isfinite().sum(-1) - 1) // 2).clamp_min(0)
    usual = around.gather(-1, middle[..., None])[..., 0] + LEAST_USUAL
    kept = 1 / (1 + odds * SUSPICION * (distance / usual).square())
    kept = kept.repeat_interleave(BLOCK, 1).repeat_interleave(BLOCK, 2)[:, None, :height, :width]
    return torch.where(kept < 1, others + kept * (answers - others), answers)


def _spread(values: torch.Tensor) -> torch.Tensor:
    """Return the sums (N, C, H, W) of the values within reach of each coarse pixel, weighted by exp(−d²/16)."""
    import torch

    distance = torch.arange(-REACH, REACH + 1, device=values.device, dtype=torch.float32)
    weights = torch.exp(-((distance / BLOCK) ** 2))
    flat = values.reshape(-1, 1, *values.shape[-2:])
    flat = torch.nn.functional.conv2d(flat, weights[None, None, :, None], padding=(REACH, 0))
    return torch.nn.functional.conv2d(flat, weights[None, None, None], padding=(0, REACH)).reshape(values.shape)


def _within(values: torch.Tensor) -> torch.Tensor:
    """Return the part of `_spread` that comes from the block of each coarse pixel itself."""
    import torch

    place = torch.arange(BLOCK, device=values.device, dtype=torch.float32)
    weights = torch.exp(-(((place[:, None] - place) / BLOCK) ** 2))
    sums = torch.einsum("nchiwj,ki,lj->nchkwl", _blocks(values), weights, weights)
    height, width = sums.shape[2] * BLOCK, sums.shape[4] * BLOCK
    return sums.reshape(*values.shape[:2], height, width)[..., : values.shape[2], : values.shape[3]]


def _blocks(values: torch.Tensor) -> torch.Tensor:
    """Return values (N, C, H, W) as (N, C, rows, `BLOCK`, columns, `BLOCK`) of blocks, 0 beyond the edges."""
    import torch

    height, width = values.shape[-2:]
    padded = torch.nn.functional.pad(values, (0, -width % BLOCK, 0, -height % BLOCK))
    rows, columns = (side // BLOCK for side in padded.shape[-2:])
    return padded.reshape(*values.shape[:2], rows, BLOCK, columns, BLOCK)


def interpolated(values: torch.Tensor, source: Cuts, onto: Cuts) -> torch.Tensor:
    """Interpolate values of one grid at the centres of another's, by Catmull and Rom's cubic, clipped to [−1, 1].

    Args:
        values: (N, C, rows, columns) of the grid `source`.
        source: The grid that the values belong to.
        onto: The grid that is wanted.
    """
    for axis, (cuts, wanted) in enumerate(zip(source, onto, strict=True)):
        values = _along(values, 2 + axis, cuts, wanted)
    return values.clamp(-1, 1)


def _along(values: torch.Tensor, axis: int, cuts: Integers, wanted: Integers) -> torch.Tensor:
    import torch

    if np.array_equal(cuts, wanted):
        return values
    centres, targets = ((edges[:-1] + edges[1:]) / 2 for edges in (cuts, wanted))
    last = len(centres) - 1
    left = np.clip(np.searchsorted(centres, targets, side="right") - 1, 0, max(last - 1, 0))
    width = np.ones_like(targets) if last == 0 else centres[np.minimum(left + 1, last)] - centres[left]
    t = np.clip((targets - centres[left]) / width, 0, 1)
    taps = (-t + 2 * t**2 - t**3, 2 - 5 * t**2 + 3 * t**3, t + 4 * t**2 - 3 * t**3, -(t**2) + t**3)
    shape = [1] * values.ndim
    shape[axis] = -1
    found = torch.zeros((), device=values.device)
    for offset, tap in zip((-1, 0, 1, 2), taps, strict=True):
        places = torch.from_numpy(np.clip(left + offset, 0, last)).to(values.device)
        weight = torch.from_numpy((tap / 2).astype(np.float32)).to(values.device)
        found = found + values.index_select(axis, places).mul_(
            weight.reshape(shape)
        )  # of large pictures, one copy less
    return found


def pooled(values: torch.Tensor, onto: Cuts) -> torch.Tensor:
    """Return the means (N, C, rows, columns) of a picture's values (N, C, H, W) over the coarse pixels of a grid."""
    import torch

    for axis, cuts in enumerate(onto):
        sums = torch.nn.functional.pad(values.movedim(2 + axis, -1).double().cumsum(-1), (1, 0))
        sizes = torch.from_numpy(np.diff(cuts).astype(np.float32)).to(values.device)
        places = torch.from_numpy(cuts).to(values.device)
        values = (sums.index_select(-1, places).diff(dim=-1) / sizes).float().movedim(-1, 2 + axis)
    return values
