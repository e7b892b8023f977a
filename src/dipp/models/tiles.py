"""Large pictures in bounded memory: a convolutional network on tiles, with the output of the whole picture.

An output depends only on the inputs within the network's margin. So each tile is cut out with that margin around it, as
far as the picture goes, and the margin of its output is thrown away. The rest is the network's output on the whole
picture, to float rounding, so no seam shows. Tiles start at multiples of the stride, so that the network's cells fall
on the same pixels. At the picture's border a tile is padded as the whole picture is. The tiles of a picture are as
equal in size as the stride allows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from dipp.core.arrays import Array, room
from dipp.models import watch


def tiled(
    predict: Callable[[slice, slice], Array], size: tuple[int, int], stride: int, margin: int, side: int
) -> Array:
    """Return predictions (N, C, H, W) for pictures, computed in tiles.

    Args:
        predict: Function from rows and columns of the pictures to their predictions (N, C, h, w).
        size: Height and width of the pictures.
        stride: Number of pixels that one position at the network's coarsest scale covers.
        margin: Number of pixels around a tile that its output depends on, a multiple of the stride.
        side: Largest side of a tile without its margin, in pixels, a multiple of the stride.
    """
    height, width = size
    if height <= side + margin and width <= side + margin:  # margins would cost more than they save
        x_hat = predict(slice(0, height), slice(0, width))
        watch.predicted(len(x_hat) * height * width)
        return x_hat
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
    """Yield start and end of each tile along one side of a picture, in pixels.

    Args:
        length: Length of the picture's side.
        stride: Number that divides all starts.
        side: Largest length of a tile.
    """
    cells = -(-length // stride)
    count = -(-cells * stride // side)
    for tile in range(count):
        start, end = (cells * number // count * stride for number in (tile, tile + 1))
        yield start, min(end, length)
