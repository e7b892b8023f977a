"""Pictures of any size through a network of one size: x̂0 on overlapping windows, blended.

Windows of the network's native size stand on a grid, evenly spread from edge to edge with an overlap of at least a
quarter. In each row of the grid a window's weight rises over the overlap and falls again, and is divided by the sum of
the weights there; likewise in each column. So the weights of a pixel sum to 1, and change gradually: where the
predictions of two windows differ, one fades into the other and no seam shows. A picture that is smaller than a window
is mirrored at its edges until it fills one.

A window costs the same wherever it is, so time is linear in the number of pixels, and memory is that of a few copies
of the picture beside a batch of windows. The order of all sums is fixed: a machine repeats itself to the bit.

Nothing of this is private: x̂0 is a function of the public state alone. Every pixel is still coded once, by its own
coordinates, so its certificate is that of a pixel of a small picture.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray

OVERLAP = 0.25
"""Share of a window's side that it has in common with its neighbour, at least."""
WINDOWS = 256
"""Windows that are cut out at a time."""

Size = tuple[int, int]


def blend(predict: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor, size: Size) -> torch.Tensor:
    """`predict` of images (N, C, H, W), which takes batches of windows (M, C, *size) and returns the like."""
    height, width = x.shape[2:]
    (tall, wide), inside = size, mirrored(x, size)
    rows, columns = grid(inside.shape[2], tall), grid(inside.shape[3], wide)
    down, across = (
        torch.from_numpy(w).to(x) for w in (_weights(inside.shape[2], tall), _weights(inside.shape[3], wide))
    )
    blended = torch.zeros_like(inside)
    places = itertools.product(range(len(x)), enumerate(rows), enumerate(columns))
    while part := list(itertools.islice(places, WINDOWS)):
        cut = [inside[n, :, top : top + tall, left : left + wide] for n, (_, top), (_, left) in part]
        for (n, (i, top), (j, left)), window in zip(part, predict(torch.stack(cut)), strict=True):
            weight = down[i, :, None] * across[j]
            blended[n, :, top : top + tall, left : left + wide] += weight * window
    return blended[:, :, :height, :width]


def mirrored(x: torch.Tensor, size: Size) -> torch.Tensor:
    """Images of at least that size: smaller ones are continued by their mirror images, below and to the right."""
    for axis, least in zip((2, 3), size, strict=True):
        side = x.shape[axis]
        if side < least:
            turn = np.arange(least) % max(1, 2 * side - 2)
            x = x.index_select(axis, torch.from_numpy(np.minimum(turn, 2 * side - 2 - turn)).to(x.device))
    return x


@functools.lru_cache(maxsize=64)
def grid(side: int, size: int) -> tuple[int, ...]:
    """Where the windows along one axis start: as few as overlap enough, the first at 0, the last at side − size."""
    stride = size - max(1, round(OVERLAP * size)) if size > 1 else 1
    count = 1 + max(0, -(-(side - size) // stride))
    return tuple((i * (side - size) + (count - 1) // 2) // max(1, count - 1) for i in range(count))


@functools.lru_cache(maxsize=64)
def _weights(side: int, size: int) -> NDArray[np.float32]:
    """Windows × positions in the window, along one axis: trapezia, divided by their sum at each place."""
    starts = grid(side, size)
    ramp = np.minimum(np.arange(1, size + 1), np.arange(size, 0, -1)).astype(np.float64)
    shape = np.minimum(ramp / (OVERLAP * size), 1.0)
    total = np.zeros(side)
    for start in starts:
        total[start : start + size] += shape
    return np.stack([shape / total[start : start + size] for start in starts]).astype(np.float32)
