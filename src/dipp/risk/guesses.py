"""Ordinary guesses: how often a released picture alone tells what a unit shows from what another one shows.

The question is "does this cell show this, or that?", where that is what another random cell of the same picture shows,
if it differs. A reader who knows nothing else takes what is nearer to the released cell; a tie counts half. Who merely
guesses is right in 50 % of cases.

This is not what a certificate is about. That bounds what the file adds for somebody who knows everything outside the
unit; a reader of the picture has neighbours, which look alike. So either figure may be the larger.
"""

from __future__ import annotations

import numpy as np

from dipp.risk.recognition import Integers, Pixels

QUESTIONS = 20_000
"""Pairs that are drawn of a picture; those that are equal are left out."""


def about_cells(original: Pixels, released: Pixels, side: int, rng: np.random.Generator) -> float | None:
    """Return the share of questions about cells that the released picture answers right.

    Args:
        original: The picture (H, W, C).
        released: What a reader sees, of the same shape.
        side: Pixels of a cell's side; 1 for pixels. Cells that the edge cuts off are not asked about.
        rng: Draws the questions.

    Returns:
        A number from 0 to 1; None if the picture has no two cells that differ.
    """
    true, seen = (_cells(one, side) for one in (original, released))
    if len(true) < 2:
        return None
    asked, other = rng.integers(len(true), size=(2, QUESTIONS if side == 1 else QUESTIONS // 10))
    return _right(true[asked], true[other], seen[asked])


def about_pictures(originals: Pixels, released: Pixels) -> float | None:
    """Return the share of pairs of pictures (N, H, W, C) in which the released one is nearer to its own original."""
    true, seen = (one.reshape(len(one), -1).astype(np.int32) for one in (originals, released))
    found: list[float] = []
    for own, shown in zip(true, seen, strict=True):  # one by one: all pairs at once would take N² pictures of memory
        others = [one for one in true if (one != own).any()]
        to_own, *to_others = (int(np.square(shown - one).sum(dtype=np.int64)) for one in (own, *others))
        found += [(to_own < other) + 0.5 * (to_own == other) for other in to_others]
    return float(np.mean(found)) if found else None


def _cells(picture: Pixels, side: int) -> Integers:
    """Return whole cells × values."""
    rows, columns = (length // side for length in picture.shape[:2])
    whole = picture[: rows * side, : columns * side].astype(np.int64)
    return whole.reshape(rows, side, columns, side, -1).swapaxes(1, 2).reshape(rows * columns, -1)


def _right(true: Integers, other: Integers, seen: Integers) -> float | None:
    differ = (true != other).any(axis=1)
    if not differ.any():
        return None
    to_true, to_other = (np.square(seen[differ] - one[differ]).sum(axis=1) for one in (true, other))
    return float(((to_true < to_other) + 0.5 * (to_true == to_other)).mean())
