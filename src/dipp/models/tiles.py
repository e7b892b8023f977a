"""Large pictures in bounded memory: a convolutional network on tiles, with the output of the whole picture.

An output depends on the inputs within the network's margin alone. So a tile is cut out with that margin around it, as
far as the picture goes, and the margin of the output is thrown away: what is left is what the network gives on the
whole picture, to float rounding, and no seam is there to show. Tiles start at multiples of the stride, so that the
network's cells fall on the same pixels, and where a tile touches the picture's border it is continued there just as the
whole picture is. The tiles of a picture are as equal as the stride allows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from dipp.core.arrays import Array, room
from dipp.models import watch


def tiled(
    predict: Callable[[slice, slice], Array], size: tuple[int, int], stride: int, margin: int, side: int
) -> Array:
    """Predictions for pictures of a size, in tiles of at most `side` pixels a side.

    `predict` is the network on some rows and columns of the pictures. `stride` divides `margin` and `side`.
    """
    height, width = size
    if height <= side + margin and width <= side + margin:  # margins would cost more than they save
        found = predict(slice(0, height), slice(0, width))
        watch.predicted(len(found) * height * width)
        return found
    whole: Array = None
    for top, bottom in spans(height, stride, side):
        for left, right in spans(width, stride, side):
            above, before = max(0, top - margin), max(0, left - margin)
            tile = predict(slice(above, bottom + margin), slice(before, right + margin))
            if whole is None:
                whole = room((*tile.shape[:2], height, width), tile)
            whole[..., top:bottom, left:right] = tile[..., top - above : bottom - above, left - before : right - before]
            watch.predicted(len(tile) * (bottom - top) * (right - left))
    return whole


def spans(length: int, stride: int, side: int) -> Iterator[tuple[int, int]]:
    """Where tiles along one side of a picture start and end."""
    cells = -(-length // stride)
    count = -(-cells * stride // side)
    for tile in range(count):
        start, end = (cells * number // count * stride for number in (tile, tile + 1))
        yield start, min(end, length)
