"""Rescoring: the reference scores a public random share of selections again while a picture is encoded.

Known answers (`known`) are small tasks that run once. This module checks real tasks. For a selection that the common
randomness picks, NumPy computes the scores of some candidates again, and computes the sums of weights and the located
index from all scores of the backend. Public streams alone decide which selections and candidates are checked, so the
choice tells nothing about the picture. A mismatch ends the encoding. Its draws are thrown away, and the program never
draws again by itself: an encoder that is run until it passes has another law.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dipp.core import randomness, selection
from dipp.errors import MiscomputedError
from dipp.scoring.reference import coordinate_draws
from dipp.scoring.task import ScoringTask

if TYPE_CHECKING:
    from dipp.scoring import Backend

SHARES = {"cpu": 1 / 32, "cuda": 1 / 4096, "reference": 0.0}
"""Share of selections that are checked on each backend. On the CPU this takes about 4 per cent more time."""
OTHERS = 1 / 32
"""Share of selections that are checked on any other backend."""
MOST = 4
"""Largest number of selections of a batch that are checked, because a batch may have very many small ones."""
BLOCKS = 32
"""Number of blocks of eight candidates whose scores are computed again."""
EIGHT = randomness.DRAWS_PER_BLOCK


def chosen(task: ScoringTask, on: Backend) -> NDArray[np.int64]:
    """Return the numbers of the chunks of a task that are checked, which follow from its public streams.

    Args:
        task: The task.
        on: The backend that computed it.
    """
    share = SHARES.get(on.name, OTHERS)
    words = _words(task.streams, 0)
    rows: NDArray[np.int64] = np.flatnonzero(words < np.uint32(round(share * 0xFFFFFFFF)))[:MOST]
    return rows


def require_scores(task: ScoringTask, on: Backend, scores: Any, sums: selection.Sums, rows: NDArray[np.int64]) -> None:
    """Raise `MiscomputedError` if scores of the checked chunks, or sums of their weights, differ from the reference.

    Args:
        task: The task.
        on: The backend.
        scores: The scores of all chunks, in the backend's own memory.
        sums: The sums of weights of all chunks.
        rows: Numbers of the checked chunks (`chosen`).
    """
    for row in rows.tolist():
        theirs, candidates = on.host(scores[row : row + 1]), _candidates(task, row)
        low, high = task.offsets[row], task.offsets[row + 1]
        shifts = on.host(task.shifts[low:high])[:, None]
        drawn = coordinate_draws(task.law, task.streams[row], np.arange(high - low)[:, None], candidates[None])
        again = task.law.score(drawn, shifts).sum(axis=0) + (0 if task.order is None else task.order[candidates])
        if not np.array_equal(theirs[0, candidates], again):
            raise _mismatch(on, "scores")
        if not np.array_equal(sums[row : row + 1], selection.bin_sums(theirs, task.fraction_bits)):
            raise _mismatch(on, "sums of weights")


def require_located(
    task: ScoringTask,
    on: Backend,
    scores: Any,
    drawn: tuple[NDArray[np.int64], selection.Sums],
    indices: NDArray[np.int64],
    rows: NDArray[np.int64],
) -> None:
    """Raise `MiscomputedError` if the reference locates another index for a checked chunk.

    Args:
        task: The task.
        on: The backend.
        scores: The scores of all chunks, in the backend's own memory.
        drawn: The drawn bins and offsets of all chunks (`selection.draw_bins`).
        indices: The indices that the backend located.
        rows: Numbers of the checked chunks (`chosen`).
    """
    for row in rows.tolist():
        bins, offsets = (values[row : row + 1] for values in drawn)
        again = selection.locate(on.host(scores[row : row + 1]), task.fraction_bits, bins, offsets)
        if again[0] != indices[row]:
            raise _mismatch(on, "located index")


def _candidates(task: ScoringTask, row: int) -> NDArray[np.int64]:
    """Return the candidates whose scores are computed again: all if they are few, otherwise public random blocks."""
    count = -(-task.candidates // EIGHT)
    if count <= BLOCKS:
        return np.arange(task.candidates)
    blocks = np.unique([int(_words(task.streams[row : row + 1], 1 + i)[0]) % count for i in range(BLOCKS)])
    candidates: NDArray[np.int64] = (blocks[:, None] * EIGHT + np.arange(EIGHT)).reshape(-1)
    return candidates[candidates < task.candidates]


def _words(streams: NDArray[np.uint32], number: int) -> NDArray[np.uint32]:
    """Return a public 32-bit word for each row of streams, from a Philox block that no candidate uses."""
    keys, last = (streams[:, 0], streams[:, 1]), np.asarray(0xFFFFFFFF, np.uint32)
    counter = (np.asarray(number, np.uint32), last, streams[:, 3], streams[:, 2])
    return randomness.philox(counter, keys)[0]


def _mismatch(on: Backend, what: str) -> MiscomputedError:
    return MiscomputedError(
        on.name,
        f"computed another value than the reference for the {what} of a selection",
        "nothing of this was released. Do not repeat the command before the device is known to be sound: each attempt "
        "counts as a release",
    )
