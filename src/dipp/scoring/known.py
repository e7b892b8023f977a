"""Known answers: the results that every kernel must give for fixed small tasks before it may score a private picture.

They catch a stale cache of compiled code, a broken compiler and a broken device. For each kind of law there are a few
tasks of several chunks, with and without the Poisson order. Their scores, bin sums, located indices, best scores and
chosen draws are hashed, and compared with hashes that the reference computed. `scoring.select`, the only way to a
private index, checks this before its first selection by a kind of law, which takes a few milliseconds.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from dipp.core import randomness
from dipp.core.laws import IntegerLaw, LaplaceLaw, PotentialLaw, SignLaw
from dipp.errors import MiscomputedError
from dipp.scoring.task import ScoringTask, stream_rows

if TYPE_CHECKING:
    from dipp.scoring import Backend

CANDIDATES = 213
"""Number of candidates of a task: no multiple of eight, so that the last block of eight candidates is not full."""
FRACTION_BITS = 7
"""S of the tasks: scores are counted in multiples of 2^−S bits."""
SIZES = (1, 37, 16)
"""Number of coordinates of each chunk."""
ANSWERS: dict[type[IntegerLaw], str] = {
    SignLaw: "0c772a547d794545cc8890f5069c2f16efcdf8732985eae296f98ed1ba21e5b3",
    LaplaceLaw: "4e6bc8b2b88d5b00ec59f3c800bc5c8e03fc17c13d9cc0150b8ac687e87ce16d",
    PotentialLaw: "6553560290702c782db1ba9ba67fdbcda6fc59aeae9666911e965d74bcddd742",
}
"""SHA-256 of all answers for each kind of law."""


def require(on: Backend, law: IntegerLaw) -> None:
    """Raise `MiscomputedError` if the kernels of a backend for this kind of law do not give the known answers.

    Args:
        on: The backend.
        law: A law of the kind to check.
    """
    if type(law) in ANSWERS:
        hashable: Any = on  # the cache compares backends by their identity
        _require(hashable, type(law))


@functools.cache
def _require(on: Any, kind: type[IntegerLaw]) -> None:
    if answers(on, kind) != ANSWERS[kind]:
        raise MiscomputedError(
            on.name,
            f"has kernels of {kind.__name__} that do not give their known answers",
            "nothing of this was released. Clear the caches of compiled code (__pycache__), check the device, and "
            "release nothing until this error is gone",
        )


def answers(on: Backend, kind: type[IntegerLaw]) -> str:
    """Return the SHA-256, in hex digits, of all results of a backend for the tasks of a kind of law.

    Args:
        on: The backend.
        kind: Class of the law.
    """
    digest = hashlib.sha256()
    for task in _tasks(kind):
        scores = on.scores(task)
        sums = on.bin_sums(scores, task.fraction_bits)
        bins = np.array([int(np.flatnonzero(row)[-1]) for row in sums], np.int64)
        last = np.array([int(row[j]) - 1 for row, j in zip(sums, bins, strict=True)], np.int64)
        chosen = on.locate(scores, task.fraction_bits, bins, last // 2)
        draws = on.host(on.winners(task.law, task.streams, task.offsets, chosen))
        results = (on.host(scores), sums, on.locate(scores, task.fraction_bits, bins, last), chosen, on.best(scores))
        for result in (*results, draws):
            digest.update(np.ascontiguousarray(result, "<i8").tobytes())
    return digest.hexdigest()


def _tasks(kind: type[IntegerLaw]) -> Iterator[ScoringTask]:
    offsets = np.concatenate([[0], np.cumsum(SIZES)]).astype(np.int64)
    order = -np.arange(CANDIDATES, dtype=np.int32) * 3
    for number, law in enumerate(_laws(kind)):
        source = randomness.stream(bytes(range(16)), number, purpose="known answers")
        wide = np.arange(offsets[-1], dtype=np.int64) * 7919 % (2 * law.limit + 1) - law.limit
        rows = stream_rows([source] * len(SIZES), range(len(SIZES)))
        for added in (None, order):
            yield ScoringTask(law, FRACTION_BITS, CANDIDATES, rows, offsets, wide.astype(np.int32), added)


def _laws(kind: type[IntegerLaw]) -> tuple[IntegerLaw, ...]:
    """Return a law of this kind for each kernel; its parameters do not depend on the platform's logarithm."""
    if kind is SignLaw:
        return SignLaw(3), SignLaw(2000)
    if kind is LaplaceLaw:
        return LaplaceLaw(4, 3, 0), LaplaceLaw(1500, 12_000, 3)
    draws = np.arange(1 << 16, dtype=np.int64)
    short, long = (((draws - (1 << 15)) * reach >> 15).astype(np.int32) for reach in (900, 1 << 16))
    knots = np.minimum(np.arange(80, dtype=np.int64) ** 2, np.arange(80) * 32).astype(np.int32)
    return PotentialLaw(60, short, knots, 4), PotentialLaw(500, long, np.arange(1100, dtype=np.int32) * 60, 6)
