"""A second look: a public random share of selections is scored again by the reference while a picture is encoded.

Known answers (`known`) are small and asked once. Here real tasks are checked: of a selection that the common randomness
picks, NumPy computes the scores of some candidates again and, from all scores as the backend has them, the sums of
weights and the located index. Which selections and which candidates, follows from public streams alone, so that nothing
that is checked or not tells of the picture. A mismatch ends the encoding: what was drawn is thrown away, and is not
drawn again by anybody but the user, since an encoder that is run until it passes has another law.
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
"""Share of selections that are checked. On the CPU this takes about 4 per cent more time; a device has far more."""
OTHERS = 1 / 32
"""The same for any other backend."""
MOST = 4
"""Selections of a batch that are checked, at most: of very small ones, a batch has very many."""
BLOCKS = 32
"""Blocks of eight candidates whose scores are computed again."""
EIGHT = randomness.DRAWS_PER_BLOCK


def chosen(task: ScoringTask, on: Backend) -> NDArray[np.int64]:
    """The chunks of a task that are checked, by its public streams."""
    share = SHARES.get(on.name, OTHERS)
    words = _words(task.streams, 0)
    found: NDArray[np.int64] = np.flatnonzero(words < np.uint32(round(share * 0xFFFFFFFF)))[:MOST]
    return found


def require_scores(task: ScoringTask, on: Backend, scores: Any, sums: selection.Sums, rows: NDArray[np.int64]) -> None:
    """Refuse scores of chosen chunks, or sums of their weights, that are not those of the reference."""
    for row in rows.tolist():
        own, mine = on.host(scores[row : row + 1]), _candidates(task, row)
        low, high = task.offsets[row], task.offsets[row + 1]
        shifts = on.host(task.shifts[low:high])[:, None]
        drawn = coordinate_draws(task.law, task.streams[row], np.arange(high - low)[:, None], mine[None])
        again = task.law.score(drawn, shifts).sum(axis=0) + (0 if task.order is None else task.order[mine])
        if not np.array_equal(own[0, mine], again):
            raise _mismatch(on, "scores")
        if not np.array_equal(sums[row : row + 1], selection.bin_sums(own, task.fraction_bits)):
            raise _mismatch(on, "sums of weights")


def require_located(
    task: ScoringTask,
    on: Backend,
    scores: Any,
    drawn: tuple[NDArray[np.int64], selection.Sums],
    indices: NDArray[np.int64],
    rows: NDArray[np.int64],
) -> None:
    """Refuse indices of chosen chunks that are not where the reference locates the `drawn` bins and offsets."""
    for row in rows.tolist():
        bins, offsets = (values[row : row + 1] for values in drawn)
        again = selection.locate(on.host(scores[row : row + 1]), task.fraction_bits, bins, offsets)
        if again[0] != indices[row]:
            raise _mismatch(on, "located index")


def _candidates(task: ScoringTask, row: int) -> NDArray[np.int64]:
    """Candidates that are scored again: all of few, and public random blocks of many."""
    count = -(-task.candidates // EIGHT)
    if count <= BLOCKS:
        return np.arange(task.candidates)
    blocks = np.unique([int(_words(task.streams[row : row + 1], 1 + i)[0]) % count for i in range(BLOCKS)])
    found: NDArray[np.int64] = (blocks[:, None] * EIGHT + np.arange(EIGHT)).reshape(-1)
    return found[found < task.candidates]


def _words(streams: NDArray[np.uint32], number: int) -> NDArray[np.uint32]:
    """A public word for each row of streams; candidates never have blocks of so high a number."""
    keys, last = (streams[:, 0], streams[:, 1]), np.asarray(0xFFFFFFFF, np.uint32)
    counter = (np.asarray(number, np.uint32), last, streams[:, 3], streams[:, 2])
    return randomness.philox(counter, keys)[0]


def _mismatch(on: Backend, what: str) -> MiscomputedError:
    return MiscomputedError(
        on.name,
        f"the {what} of a selection are not what the reference computes",
        "nothing of this was released. Do not repeat the command before the device is known to be sound: each attempt "
        "counts as a release",
    )
