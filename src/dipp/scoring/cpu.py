"""The CPU backend: numba kernels on NumPy arrays.

numba caches a compiled function by the source file that defines it, and ignores the functions that it inlines. After a
change in `cpu_kernels` or `core.selection`, clear __pycache__; otherwise the functions here keep the old code.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from dipp.compiling import compiled
from dipp.core.laws import IntegerLaw, LaplaceLaw, PotentialLaw, SignLaw
from dipp.core.randomness import DRAWS_PER_BLOCK, Draws
from dipp.core.selection import BINS, RANGE_BITS, Scores, Sums, fraction_weights
from dipp.errors import DippError
from dipp.scoring.cpu_kernels import GROUP, fill, laplace_scores, potential_scores, round_keys, sign_scores
from dipp.scoring.task import ScoringTask

SLICE = 4096
"""Number of candidates that one parallel task sums into bins."""
MAX_LIMIT = 0x7FFF // GROUP
"""Largest absolute value of a shift with which the sum of sixteen shifts fits into a signed 16-bit integer."""
SERIAL_WORK = 1 << 21
"""Number of candidates × coordinates below which one thread is faster than several."""


@compiled(parallel=True)
def _bin_sums(scores: Scores, best: NDArray[np.int32], weights: Sums, fraction_bits: int) -> Sums:
    """Return the exact sums of the weights of each bin, computed by slices of candidates in parallel."""
    rows, n = scores.shape
    slices = -(-n // SLICE)
    partial = np.zeros((rows * slices, BINS), np.int64)
    last = np.int64(RANGE_BITS) << fraction_bits
    for task in numba.prange(rows * slices):
        row, first = task // slices, (task % slices) * SLICE
        for k in range(first, min(first + SLICE, n)):
            e = min(np.int64(best[row]) - np.int64(scores[row, k]), last)
            partial[task, e >> fraction_bits] += weights[e & ((1 << fraction_bits) - 1)]
    sums: Sums = partial.reshape(rows, slices, BINS).sum(axis=1)
    return sums


@compiled(parallel=True)
def _locate(
    scores: Scores, best: NDArray[np.int32], weights: Sums, fraction_bits: int, bins: NDArray[np.int64], offsets: Sums
) -> NDArray[np.int64]:
    """Return the index at the drawn offset of each chunk, or −1 where the weights of its bin end before the offset."""
    rows, n = scores.shape
    indices = np.full(rows, -1, np.int64)
    last = np.int64(RANGE_BITS) << fraction_bits
    for row in numba.prange(rows):
        running = np.int64(0)
        for k in range(n):
            e = min(np.int64(best[row]) - np.int64(scores[row, k]), last)
            if e >> fraction_bits == bins[row]:
                running += weights[e & ((1 << fraction_bits) - 1)]
                if running > offsets[row]:
                    indices[row] = k
                    break
    return indices


@compiled(parallel=True)
def _winners(
    streams: NDArray[np.uint32], offsets: NDArray[np.int64], indices: NDArray[np.int64], group_size: int, out: Draws
) -> None:
    """Fill `out` with the draws of the chosen candidate of each chunk, coordinate after coordinate."""
    for row in numba.prange(len(indices)):
        keys, words = round_keys(streams[row]), np.empty((4, 1), np.uint32)
        block, word, half = indices[row] // 8, indices[row] % 8 // 2, indices[row] % 2
        for i in range(offsets[row + 1] - offsets[row]):
            if i % group_size == 0:
                fill(words, keys, i // group_size, block, streams[row, 3], streams[row, 2])
            draw = np.uint16(words[word, 0] >> (16 * half))
            out[offsets[row] + i] = draw if group_size == 1 else (draw >> (i % group_size)) & 1


def _use_threads(work: int) -> None:
    """Use all threads for large work, and one thread for small work, which numba then runs in place."""
    numba.set_num_threads(1 if work < SERIAL_WORK else numba.config.NUMBA_NUM_THREADS)


class CpuBackend:
    """The scoring backend of the CPU: numba kernels on NumPy arrays."""

    name = "cpu"
    scores_per_batch = 1 << 23

    def scores(self, task: ScoringTask) -> Scores:
        """Return chunks × n scores, int32."""
        if task.law.limit > MAX_LIMIT:
            raise DippError(
                "law", f"must have a limit of at most {MAX_LIMIT} for the CPU's lanes, got {task.law.limit}"
            )
        out = np.empty((task.chunks, task.candidates), np.int32)
        _use_threads(len(task.shifts) * task.candidates)
        match task.law:
            case SignLaw():
                sizes = np.diff(task.offsets)
                groups = -(-sizes // GROUP)
                first = np.concatenate([[0], np.cumsum(groups)]).astype(np.int64)
                padded = np.arange(len(task.shifts)) - np.repeat(task.offsets[:-1] - GROUP * first[:-1], sizes)
                m = np.zeros(GROUP * first[-1], np.int16)
                m[padded] = task.shifts
                totals = np.add.reduceat(task.shifts, task.offsets[:-1]).astype(np.int32)
                safe_groups = 0x7FFF // (GROUP * max(1, task.law.limit))
                sign_scores(task.streams, first, m.reshape(-1, GROUP), totals, safe_groups, out)
            case LaplaceLaw(unit=unit, extra_bits=extra) as law:
                c1, c2, c3 = law.coefficients
                numbers = np.array([unit, c1, c2, extra, law.octaves, c3], np.uint16)
                safe_shifts = 0xFFFF // max(1, law.limit)
                laplace_scores(task.streams, task.offsets, task.shifts, numbers, safe_shifts, out)
            case PotentialLaw(values=values, knots=knots, knot_bits=bits):
                potential_scores(task.streams, task.offsets, task.shifts, values, knots, bits, out)
            case other:
                raise DippError("law", f"must have a kernel of the CPU backend, got {type(other).__name__}")
        if task.order is not None:
            out += task.order
        return out

    def bin_sums(self, scores: Scores, fraction_bits: int) -> Sums:
        """Return the exact sums of weights of each bin (`selection.bin_sums`)."""
        _use_threads(scores.size)
        sums: Sums = _bin_sums(scores, scores.max(axis=1), fraction_weights(fraction_bits), fraction_bits)
        return sums

    def locate(self, scores: Scores, fraction_bits: int, bins: NDArray[np.int64], offsets: Sums) -> NDArray[np.int64]:
        """Return the index at the drawn offset of each chunk, or −1 if the weights of its bin end before the offset."""
        _use_threads(scores.size)
        indices: NDArray[np.int64] = _locate(
            scores, scores.max(axis=1), fraction_weights(fraction_bits), fraction_bits, bins, offsets
        )
        return indices

    def best(self, scores: Scores) -> NDArray[np.int64]:
        """Return the first index of the largest score of each chunk."""
        indices: NDArray[np.int64] = np.argmax(scores, axis=1).astype(np.int64)
        return indices

    def winners(
        self, law: IntegerLaw, streams: NDArray[np.uint32], offsets: NDArray[np.int64], indices: NDArray[np.int64]
    ) -> Draws:
        """Return the draws of the chosen candidate of each chunk, coordinate after coordinate."""
        out = np.empty(offsets[-1], np.uint16)
        _use_threads(DRAWS_PER_BLOCK * len(out))
        _winners(streams, offsets, indices, law.group_size, out)
        return out

    def host(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the values, which are NumPy arrays already."""
        return values
