"""The eight-bit pixels of decoded states."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dipp.codec.pictures import Pixels
from dipp.core.arrays import Array, host
from dipp.core.signal import to_levels

LEVELS_AT_ONCE = 1 << 22
"""Largest number of values that are converted to pixels at a time, which bounds the memory of large pictures."""


def to_pixels(x: Array, grey: NDArray[np.bool_] | None = None) -> Pixels:
    """Convert predictions to eight-bit pixels.

    Args:
        x: Predictions (N, C, H, W), an array or a tensor. −1 is black and 1 is white; values beyond are clipped, and
            NaN becomes mid-grey.
        grey: Which pictures are grey, (N,). Their channels are averaged, so that they come out equal. By default none.

    Returns:
        A uint8 array (N, H, W, C).

    Example::

        pixels = dipp.codec.to_pixels(np.zeros((1, 3, 32, 32)))  # mid-grey
    """
    rows = max(1, LEVELS_AT_ONCE // max(1, math.prod(x.shape[:2]) * x.shape[3]))
    firsts = range(0, x.shape[2], rows)
    return np.concatenate([_levels(host(x[:, :, first : first + rows]), grey) for first in firsts], axis=1)


def _levels(x: NDArray[Any], grey: NDArray[np.bool_] | None) -> Pixels:
    """Return rows of predictions (N, C, rows, W) as eight-bit pixels (N, rows, W, C)."""
    x = np.nan_to_num(x.astype(np.float32, copy=False), nan=0.0)
    if grey is not None and grey.any():
        x = np.where(grey[:, None, None, None], x.mean(axis=1, keepdims=True), x)
    pixels: Pixels = to_levels(x).transpose(0, 2, 3, 1).astype(np.uint8)
    return pixels
