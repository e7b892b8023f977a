"""Predict pictures of any size by a network of one size: on overlapping windows, which are then blended.

Windows stand on a grid, evenly spread from edge to edge. Along an axis that is long enough, they are twice as long as
the pictures that the network was trained on. A convolutional network makes use of the larger view (on a photograph, the
error of x̂0 fell by 11, 7 and 3 % at SNR 0.03, 0.3 and 2), and even larger windows gained nothing more. Neighbours
overlap by at least a quarter of the network's own side. Along each axis a window's weight rises over the overlap and
falls again, and is divided by the sum of the weights at the same place. So the weights of a pixel sum to 1, and change
gradually: where the predictions of two windows differ, one fades into the other and no seam shows. A picture that is
smaller than the network's own size is mirrored at its edges until it has that size.

All windows cost the same, so time is linear in the number of pixels. Memory is that of a few copies of the picture and
a batch of windows. The order of all sums is fixed, so a machine repeats its results to the bit.

Everything here is public: x̂0 is a function of the public state alone. Every pixel is still coded once, by its own
coordinates, so its certificate is that of a pixel of a small picture.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray

from dipp.models import watch

OVERLAP = 0.25
"""Smallest overlap of neighbouring windows, as a share of the network's own side."""
WINDOWS = 256
"""Largest number of windows that are cut out at a time, to bound memory."""

Size = tuple[int, int]
"""Height and width in pixels."""


def blend(predict: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor, native: Size) -> torch.Tensor:
    """Return predictions for images, blended from the predictions for overlapping windows.

    Args:
        predict: Function from a batch of windows (M, C, h, w) to predictions of the same shape.
        x: Images (N, C, H, W).
        native: Height and width that the network was trained on.

    Returns:
        Predictions of the shape of x.
    """
    height, width = x.shape[2:]
    inside = mirrored(x, native)
    sides = [*zip(inside.shape[2:], native, strict=True)]
    (tall, rows), (wide, columns) = ((window(*axis), grid(*axis)) for axis in sides)
    down, across = (torch.from_numpy(_weights(*axis)).to(x) for axis in sides)
    blended = torch.zeros_like(inside)
    places = itertools.product(range(len(x)), enumerate(rows), enumerate(columns))
    share = height * width // (len(rows) * len(columns))  # of the picture, for each window
    while part := list(itertools.islice(places, WINDOWS)):
        cut = [inside[n, :, top : top + tall, left : left + wide] for n, (_, top), (_, left) in part]
        for (n, (i, top), (j, left)), x_hat in zip(part, predict(torch.stack(cut)), strict=True):
            weight = down[i, :, None] * across[j]
            blended[n, :, top : top + tall, left : left + wide] += weight * x_hat
        watch.predicted(len(part) * share)
    return blended[:, :, :height, :width]


def mirrored(x: torch.Tensor, size: Size) -> torch.Tensor:
    """Return images of at least a given size: smaller ones are extended by their mirror images.

    Args:
        x: Images (N, C, H, W).
        size: Smallest height and width of the result. It is extended below and to the right.
    """
    for axis, least in zip((2, 3), size, strict=True):
        side = x.shape[axis]
        if side < least:
            turn = np.arange(least) % max(1, 2 * side - 2)
            x = x.index_select(axis, torch.from_numpy(np.minimum(turn, 2 * side - 2 - turn)).to(x.device))
    return x


def window(side: int, native: int) -> int:
    """Return the length of windows along an axis with `side` pixels, for a network of `native` pixels."""
    return 2 * native if side >= 2 * native else native


@functools.lru_cache(maxsize=64)
def grid(side: int, native: int) -> tuple[int, ...]:
    """Return where windows along one axis start, in pixels.

    The first starts at 0, the last ends at the edge, and there are as few as the smallest overlap allows.

    Args:
        side: Length of the picture along the axis.
        native: Length of the network's own pictures along it.
    """
    room = side - window(side, native)
    stride = max(1, window(side, native) - _overlap(native))
    count = 1 + max(0, -(-room // stride))
    return tuple((i * room + (count - 1) // 2) // max(1, count - 1) for i in range(count))


def _overlap(native: int) -> int:
    """Return the smallest overlap of neighbouring windows, in pixels."""
    return max(1, round(OVERLAP * native))


@functools.lru_cache(maxsize=64)
def _weights(side: int, native: int) -> NDArray[np.float32]:
    """Return the weights of windows along one axis, windows × positions in the window.

    They are trapezia, divided by the sum of all windows' trapezia at each position of the picture.
    """
    starts, size = grid(side, native), window(side, native)
    ramp = np.minimum(np.arange(1, size + 1), np.arange(size, 0, -1)).astype(np.float64)
    shape = np.minimum(ramp / _overlap(native), 1.0)
    total = np.zeros(side)
    for start in starts:
        total[start : start + size] += shape
    return np.stack([shape / total[start : start + size] for start in starts]).astype(np.float32)
