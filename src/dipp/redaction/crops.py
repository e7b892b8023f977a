"""Crops: rectangles around hidden pixels that include enough surroundings to paint from."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dipp.redaction.outlines import Mask

CONTEXT = 48
"""Least width of the known surroundings in a crop, in pixels; a large region gets half of its own side."""
JOIN = 32
"""Side of a square of the coarse grid, in pixels: regions in neighbouring squares are painted together."""


def crops(unknown: Mask) -> Iterator[tuple[tuple[slice, slice], Mask]]:
    """Yield rectangles around groups of hidden pixels, with the pixels to paint in each.

    Args:
        unknown: (H, W): which pixels are hidden.

    Returns:
        Rows and columns of each rectangle, and a mask of its size. Every hidden pixel is in exactly one mask.
    """
    from scipy import ndimage

    # Groups are found on a coarse grid, because they need not be exact.
    tall, wide = (-(-side // JOIN) for side in unknown.shape)
    padded = np.zeros((tall * JOIN, wide * JOIN), bool)
    padded[: unknown.shape[0], : unknown.shape[1]] = unknown
    coarse = padded.reshape(tall, JOIN, wide, JOIN).any(axis=(1, 3))
    groups, _ = ndimage.label(coarse, np.ones((3, 3), bool))
    for number, box in enumerate(ndimage.find_objects(groups), 1):
        rows, columns = (slice(side.start * JOIN, side.stop * JOIN) for side in box)
        mine = (groups[box] == number).repeat(JOIN, axis=0).repeat(JOIN, axis=1)
        group = np.zeros_like(padded)
        group[rows, columns] = padded[rows, columns] & mine
        spans = []
        for axis in (0, 1):
            places = np.flatnonzero(group.any(axis=1 - axis))
            first, last = int(places[0]), int(places[-1]) + 1
            context = max(CONTEXT, (last - first) // 2)
            spans.append(slice(max(0, first - context), min(unknown.shape[axis], last + context)))
        part = spans[0], spans[1]
        yield part, group[part]
