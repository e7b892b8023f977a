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


class Cuts(NamedTuple):
    """Where a grid cuts the rows and the columns of a picture, from 0 to their number."""

    rows: Integers
    columns: Integers


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

    distance = torch.arange(-REACH, REACH + 1, device=answers.device, dtype=torch.float32)
    weights = torch.exp(-((distance / BLOCK) ** 2))

    def spread(values: torch.Tensor) -> torch.Tensor:
        flat = values.reshape(-1, 1, *values.shape[-2:])
        flat = torch.nn.functional.conv2d(flat, weights[None, None, :, None], padding=(REACH, 0))
        return torch.nn.functional.conv2d(flat, weights[None, None, None], padding=(0, REACH)).reshape(values.shape)

    there = known.to(torch.float32)[None, None]
    predicted = spread(answers * there) / spread(there).clamp_min(1e-6)
    return torch.where(known, answers, predicted)


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
        found = found + weight.reshape(shape) * values.index_select(axis, places)
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
