"""Scoring: candidates are generated, scored and binned on the CPU or on a CUDA device, without storing them.

Three backends return identical integers: `reference` (NumPy, the definition), `cpu` (numba) and `cuda` (Triton, and
CUDA C++ where that is faster). `select` is the only way to a private index: a backend scores the candidates and sums
their weights, `core.selection` draws, and the backend locates the drawn index. Before that the kernels must give their
known answers (`known`), and a public share of selections is checked against the reference (`rescoring`).

| module | what it is |
|---|---|
| `task` | the input of a scoring call |
| `reference` | the definition, in NumPy |
| `cpu`, `cpu_kernels` | the backend of the CPU, and its loops |
| `gpu`, `triton_kernels`, `cuda_kernels` | the backend of CUDA devices, and its kernels |
| `known`, `rescoring` | the two checks of backends |
| `blocks` | the private content of blocks, and the search for the nearest candidates of a question |
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
    """The interface of a scoring backend. Scores stay in its own memory; only sums and indices come to the host."""

    name: str
    """Name of the backend: "cpu", "cuda" or "reference"."""
    scores_per_batch: int
    """Number of scores that are held at a time; chunks are scored in batches of about this size."""

    def scores(self, task: ScoringTask) -> Any:
        """Return chunks × n scores, int32, in the backend's own memory.

        Args:
            task: The task.
        """

    def bin_sums(self, scores: Any, fraction_bits: int) -> selection.Sums:
        """Return the exact sums of weights in each bin, chunks × `selection.BINS`, as a NumPy array.

        Args:
            scores: What `scores` returned.
            fraction_bits: S, the number of bits after the binary point of a score.
        """

    def locate(
        self, scores: Any, fraction_bits: int, bins: NDArray[np.int64], offsets: selection.Sums
    ) -> NDArray[np.int64]:
        """Return the index at the drawn offset of each chunk, or −1 if the weights of its bin end before the offset.

        Args:
            scores: What `scores` returned.
            fraction_bits: S, the number of bits after the binary point of a score.
            bins: Drawn bin of each chunk, int64.
            offsets: Offset into the weights of the bin, for each chunk.
        """

    def best(self, scores: Any) -> NDArray[np.int64]:
        """Return the first index of the largest score of each chunk as a NumPy array.

        Args:
            scores: What `scores` returned.
        """

    def winners(
        self, law: IntegerLaw, streams: NDArray[np.uint32], offsets: NDArray[np.int64], indices: NDArray[np.int64]
    ) -> Any:
        """Return the draws of candidate indices[i] for all coordinates of chunk i, in the backend's own memory.

        Args:
            law: The law of the step.
            streams: A row (key0, key1, nonce, number of the chunk) for each chunk, from which its draws follow.
            offsets: Where each chunk begins: chunk i has the coordinates offsets[i] … offsets[i + 1] − 1.
            indices: The chosen candidate of each chunk.
        """

    def host(self, values: Any) -> NDArray[Any]:
        """Return values from the backend's own memory as a NumPy array.

        Args:
            values: Values in the backend's own memory.
        """


def select(task: ScoringTask, on: Backend) -> NDArray[np.int64]:
    """Draw one index for each chunk of a task, with the exact law of `core.selection`.

    Args:
        task: The chunks with their private shifts.
        on: The backend.

    Returns:
        The index of each chunk, int64.

    Raises:
        MiscomputedError: The backend does not compute what the reference computes; nothing is released.

    """
    known.require(on, task.law)
    parts, indices = list(_parts(task, on)), []
    scores = on.scores(parts[0])
    for part, following in itertools.zip_longest(parts, parts[1:]):
        sums = on.bin_sums(scores, task.fraction_bits)
        # The next batch is started before the draw, so that a GPU scores it while the host draws.
        ahead = None if following is None else on.scores(following)
        checked = rescoring.chosen(part, on)
        rescoring.require_scores(part, on, scores, sums, checked)
        drawn = selection.draw_bins(sums)
        indices.append(on.locate(scores, task.fraction_bits, *drawn))
        if (indices[-1] < 0).any():
            raise MiscomputedError(on.name, "located other weights than it summed", "nothing of this was released")
        rescoring.require_located(part, on, scores, drawn, indices[-1], checked)
        scores = ahead
    return np.concatenate(indices)


def best(task: ScoringTask, on: Backend) -> NDArray[np.int64]:
    """Return the index of the best score of each chunk (α = ∞), int64: a private value without any certificate.

    Args:
        task: The task.
        on: The backend.
    """
    return np.concatenate([on.best(on.scores(part)) for part in _parts(task, on)])


@dataclass(frozen=True, eq=False)
class Candidates:
    """The candidates of a task with their private scores, from which a code draws (`core.code.ScoredCandidates`)."""

    task: ScoringTask
    """The chunks with their private shifts."""
    on: Callable[[], Backend]
    """Function that returns the backend, so that codes without a search need not wait for its compiler."""
    terms: Terms | None = None
    """The terms by which the draw is made; None if nothing is certified."""

    def select(self) -> NDArray[np.int64]:
        """Draw one index for each chunk by the exponential mechanism."""
        return select(self.task, self.on())

    def best(self) -> NDArray[np.int64]:
        """Return the index of the best score of each chunk."""
        return best(self.task, self.on())

    def scores(self) -> NDArray[np.int32]:
        """Return the private scores as a NumPy array of chunks × candidates."""
        on = self.on()
        return on.host(on.scores(self.task))

    def shifts(self) -> NDArray[np.int32]:
        """Return the private shifts as a NumPy array."""
        shifts: Any = self.task.shifts
        return shifts if isinstance(shifts, np.ndarray) else self.on().host(shifts)

    @property
    def offsets(self) -> NDArray[np.int64]:
        """Where each chunk begins: chunk i has the shifts numbered offsets[i] … offsets[i + 1] − 1."""
        return self.task.offsets

    @property
    def limit(self) -> int:
        """The largest absolute value of an integer shift."""
        return self.task.law.limit

    @property
    def fraction_bits(self) -> int:
        """The number S of bits after the binary point: scores are counted in multiples of 2^−S bits."""
        return self.task.fraction_bits


def _parts(task: ScoringTask, on: Backend) -> Iterator[ScoringTask]:
    """Yield batches of chunks, each with about as many scores as the backend holds at a time."""
    batch = max(1, on.scores_per_batch // task.candidates)
    if batch >= task.chunks:
        yield task
    else:
        for first in range(0, task.chunks, batch):
            yield task.part(first, min(first + batch, task.chunks))


_process_with_threads: int | None = None
"""Id of the process that loaded the backend of the CPU; None before it is loaded."""


def backend(device: str = "cpu") -> Backend:
    """Return the backend of a device.

    A process that was forked from a process with numba's threads gets the reference backend instead of the CPU backend,
    because numba would end it without a message. The reference returns the same integers, more slowly.

    Args:
        device: "cpu", "cuda" or "reference"; "mps" gives the backend of the CPU.

    Raises:
        DippError: The device is unknown or not available.

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
    raise DippError("device", f"must be cpu, mps, cuda or reference, got {device}")
