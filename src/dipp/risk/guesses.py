"""Ordinary guesses: how often a released picture alone tells what a unit shows from what another unit shows.

The question is "does this cell show A, or B?". A is the content of the cell in the original; B is the content of
another random cell of the same original, if the two differ. A reader who knows nothing else chooses the content that is
nearer to the released cell; a tie counts half. Guessing at random is right in 50 % of cases.

A certificate bounds something else: what the file adds for somebody who knows everything outside the unit. A reader of
the picture learns from neighbouring cells, which look alike. So either figure may be the larger.
"""

from __future__ import annotations

import numpy as np

from dipp.risk.recognition import Integers, Pixels

QUESTIONS = 20_000
"""Number of questions that are drawn for the pixels of a picture; questions about equal contents are left out."""


def about_cells(original: Pixels, released: Pixels, side: int, rng: np.random.Generator) -> float | None:
    """Return the share of questions about cells that the released picture answers correctly.

    Args:
        original: The original picture, uint8 (H, W, C).
        released: The picture that a receiver sees, of the same shape.
        side: Side of a cell in pixels; 1 for pixels. Cells that the edge cuts off are left out.
        rng: Generator that draws the questions.

    Returns:
        A number from 0 to 1; None if no two drawn cells differ.
    """
    true, shown = (_cells(picture, side) for picture in (original, released))
    if len(true) < 2:
        return None
    asked, other = rng.integers(len(true), size=(2, QUESTIONS if side == 1 else QUESTIONS // 10))
    return _right(true[asked], true[other], shown[asked])


def about_pictures(originals: Pixels, released: Pixels) -> float | None:
    """Return the share of pairs in which a released picture is nearer to its original than to another original.

    Args:
        originals: The original pictures, uint8 (N, H, W, C).
        released: The pictures that a receiver sees, in the same order and of the same shape.

    Returns:
        A number from 0 to 1; a tie counts half. None if all originals are equal.
    """
    true, released_values = (pictures.reshape(len(pictures), -1).astype(np.int32) for pictures in (originals, released))
    right: list[float] = []
    for original, shown in zip(
        true, released_values, strict=True
    ):  # in turn: all pairs at once would take N² pictures of memory
        others = [other for other in true if (other != original).any()]
        to_own, *to_others = (int(np.square(shown - row).sum(dtype=np.int64)) for row in (original, *others))
        right += [(to_own < to_other) + 0.5 * (to_own == to_other) for to_other in to_others]
    return float(np.mean(right)) if right else None


def _cells(picture: Pixels, side: int) -> Integers:
    """Return the cells of a picture that the edge does not cut off, as integers (cells, values of a cell)."""
    rows, columns = (length // side for length in picture.shape[:2])
    whole = picture[: rows * side, : columns * side].astype(np.int64)
    return whole.reshape(rows, side, columns, side, -1).swapaxes(1, 2).reshape(rows * columns, -1)


def _right(true: Integers, other: Integers, seen: Integers) -> float | None:
    """Return the share of released pictures or cells that are nearer to their original than to another original.

    Args:
        true: A row of values for each original, (N, values).
        other: For each of them, another original.
        seen: For each of them, what was released.

    Returns:
        A number from 0 to 1; a tie counts half. None if `true` and `other` never differ.
    """
    differ = (true != other).any(axis=1)
    if not differ.any():
        return None
    to_true, to_other = (np.square(seen[differ] - content[differ]).sum(axis=1) for content in (true, other))
    return float(((to_true < to_other) + 0.5 * (to_true == to_other)).mean())
