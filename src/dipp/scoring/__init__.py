"""Scoring: candidates are generated, scored and binned on the CPU or on a CUDA device, and never stored.

Three backends return identical integers: `reference` (NumPy, the definition), `cpu` (numba) and `cuda` (Triton, and
CUDA C++ where that is faster). `select` is the only way to a private index: a backend scores the candidates and sums
their weights, `core.selection` draws, and the backend locates the index that was drawn. On the way the kernels must
give their known answers (`known`), and a public share of selections is checked against the reference (`rescoring`).

| module | what it is |
|---|---|
| `task` | the input of a scoring call |
| `reference` | the definition, in NumPy |
| `cpu`, `cpu_kernels` | the backend of the CPU, and its loops |
| `gpu`, `triton_kernels`, `cuda_kernels` | the backend of CUDA devices, and its kernels |
| `known`, `rescoring` | the two checks |
| `blocks` | the private content of blocks, and which candidates of a question are nearest to it |
"""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dipp.core import selection
from dipp.core.laws import IntegerLaw
from dipp.core.price import Terms
from dipp.errors import DippError, MiscomputedError
from dipp.scoring import known, rescoring
from dipp.scoring.task import ScoringTask, stream_rows

__all__ = ["Backend", "Candidates", "ScoringTask", "backend", "best", "select", "stream_rows"]


class Backend(Protocol):
    """What a device must offer. Scores stay in its own memory; only sums and indices come to the host."""

    name: str
    scores_per_batch: int
    """Scores that are held at a time: chunks are taken in batches of about this many candidates together."""

    def scores(self, task: ScoringTask) -> Any:
        """Chunks × n integer scores, in the backend's own memory."""

    def bin_sums(self, scores: Any, fraction_bits: int) -> selection.Sums:
        """Chunks × (R + 1) exact sums of weights (`selection.bin_sums`), on the host."""

    def locate(
        self, scores: Any, fraction_bits: int, bins: NDArray[np.int64], offsets: selection.Sums
    ) -> NDArray[np.int64]:
        """The index at each drawn offset (`selection.locate`), on the host; −1 if the bin's weights end before it."""

    def best(self, scores: Any) -> NDArray[np.int64]:
        """The first index of the largest score of each chunk, on the host."""

    def winners(
        self, law: IntegerLaw, streams: NDArray[np.uint32], offsets: NDArray[np.int64], indices: NDArray[np.int64]
    ) -> Any:
        """The draws of candidate indices[i] for all coordinates of chunk i, in the backend's own memory."""

    def host(self, values: Any) -> NDArray[Any]:
        """Copy values from the backend's own memory to the host."""


def select(task: ScoringTask, on: Backend) -> NDArray[np.int64]:
    """Draw one index for each chunk, with the exact law of `core.selection`."""
    known.require(on, task.law)
    parts, found = list(_parts(task, on)), []
    scores = on.scores(parts[0])
    for part, following in itertools.zip_longest(parts, parts[1:]):
        sums = on.bin_sums(scores, task.fraction_bits)
        # The next batch is launched before the draw, so that a GPU scores it while the host draws.
        ahead = None if following is None else on.scores(following)
        checked = rescoring.chosen(part, on)
        rescoring.require_scores(part, on, scores, sums, checked)
        drawn = selection.draw_bins(sums)
        found.append(on.locate(scores, task.fraction_bits, *drawn))
        if (found[-1] < 0).any():
            raise MiscomputedError(on.name, "the weights located are not those summed", "nothing of this was released")
        rescoring.require_located(part, on, scores, drawn, found[-1], checked)
        scores = ahead
    return np.concatenate(found)


def best(task: ScoringTask, on: Backend) -> NDArray[np.int64]:
    """The index of the best score of each chunk (α = ∞): a function of the private input, without any certificate."""
    return np.concatenate([on.best(on.scores(part)) for part in _parts(task, on)])


@dataclass(frozen=True, eq=False)
class Candidates:
    """The scored candidates of a task, from which a code draws (`core.code.Scored`)."""

    task: ScoringTask
    on: Callable[[], Backend]
    """Loads the backend, when first asked: a code that searches nothing need not wait for its compiler."""
    terms: Terms | None = None
    """The terms by which the draw is to be made; None if nothing is certified."""

    def select(self) -> NDArray[np.int64]:
        """One index for each chunk, by the exponential mechanism."""
        return select(self.task, self.on())

    def best(self) -> NDArray[np.int64]:
        """The index of the best score of each chunk."""
        return best(self.task, self.on())

    def scores(self) -> NDArray[np.int32]:
        """Return the scores, chunks × candidates, on the host."""
        on = self.on()
        return on.host(on.scores(self.task))

    def shifts(self) -> NDArray[np.int32]:
        """Return the private shifts, on the host."""
        shifts: Any = self.task.shifts
        return shifts if isinstance(shifts, np.ndarray) else self.on().host(shifts)

    @property
    def offsets(self) -> NDArray[np.int64]:
        """Bounds of the chunks."""
        return self.task.offsets

    @property
    def limit(self) -> int:
        """The largest size of a shift."""
        return self.task.law.limit

    @property
    def fraction_bits(self) -> int:
        """S of the task."""
        return self.task.fraction_bits


def _parts(task: ScoringTask, on: Backend) -> Iterator[ScoringTask]:
    """Divide the task into batches of about as many scores as the backend holds at a time."""
    batch = max(1, on.scores_per_batch // task.candidates)
    if batch >= task.chunks:
        yield task
    else:
        for first in range(0, task.chunks, batch):
            yield task.part(first, min(first + batch, task.chunks))


_process_with_threads: int | None = None
"""The process that has loaded the backend of the CPU; None before that."""


def backend(device: str = "cpu") -> Backend:
    """The backend of a device: "cpu", which also serves the networks on "mps"; "cuda"; or "reference".

    In a process that was forked from one with numba's threads, which would end it without a word, that of the CPU is
    the reference: the same integers, more slowly.
    """
    global _process_with_threads
    if device in ("cpu", "mps"):
        if _process_with_threads not in (None, os.getpid()):
            return _loaded("reference")
        _process_with_threads = os.getpid()
    return _loaded(device)


@functools.cache
def _loaded(device: str) -> Backend:
    if device in ("cpu", "mps"):
        from dipp.scoring.cpu import CpuBackend

        return CpuBackend()
    if device == "cuda":
        from dipp.scoring.gpu import GpuBackend

        return GpuBackend()
    if device == "reference":
        from dipp.scoring.reference import ReferenceBackend

        return ReferenceBackend()
    raise DippError("device", f"cpu, mps, cuda or reference is needed, got {device}")
