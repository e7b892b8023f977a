"""The reference backend: plain NumPy, the definition of what the other backends compute."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dipp.core import randomness, selection
from dipp.core.laws import IntegerLaw
from dipp.scoring.task import ScoringTask

SLICE = 1 << 15
"""Number of candidates that are scored at a time, to bound the memory of temporary arrays."""


def coordinate_draws(
    law: IntegerLaw, stream: NDArray[np.uint32], coordinate: NDArray[np.integer], candidate: NDArray[np.integer]
) -> randomness.Draws:
    """Return the draws of pairs of coordinate and candidate, elementwise.

    Args:
        law: The law of the step.
        stream: The row (key0, key1, nonce, number of the chunk) of the chunk (`ScoringTask.streams`).
        coordinate: Numbers of coordinates in the chunk.
        candidate: Numbers of candidates; broadcast against `coordinate`.

    Returns:
        16-bit draws, or the bits 0 and 1 if coordinates share a draw.
    """
    source = randomness.Stream(int(stream[0]), int(stream[1]), int(stream[2]))
    coordinate = np.asarray(coordinate)
    drawn = randomness.draws(source, int(stream[3]), coordinate // law.group_size, candidate)
    if law.group_size == 1:
        return drawn
    return (drawn >> (coordinate % law.group_size).astype(np.uint16)) & np.uint16(1)


class ReferenceBackend:
    """The scoring backend that computes everything by NumPy, as the definitions in `core` say it."""

    name = "reference"
    scores_per_batch = 1 << 20

    def scores(self, task: ScoringTask) -> selection.Scores:
        """Return chunks × n scores, int32."""
        out = np.zeros((task.chunks, task.candidates), np.int32)
        for row in range(task.chunks):
            shifts = task.shifts[task.offsets[row] : task.offsets[row + 1]]
            for first in range(0, task.candidates, SLICE):
                candidate = np.arange(first, min(first + SLICE, task.candidates))
                for i, shift in enumerate(shifts):
                    drawn = coordinate_draws(task.law, task.streams[row], np.asarray(i), candidate)
                    out[row, candidate] += task.law.score(drawn, shift)
        return out if task.order is None else out + task.order

    def bin_sums(self, scores: selection.Scores, fraction_bits: int) -> selection.Sums:
        """Return the exact sums of weights of each bin (`selection.bin_sums`)."""
        return selection.bin_sums(scores, fraction_bits)

    def locate(
        self, scores: selection.Scores, fraction_bits: int, bins: NDArray[np.int64], offsets: selection.Sums
    ) -> NDArray[np.int64]:
        """Return the index at the drawn offset of each chunk."""
        return selection.locate(scores, fraction_bits, bins, offsets)

    def best(self, scores: selection.Scores) -> NDArray[np.int64]:
        """Return the first index of the largest score of each chunk."""
        indices: NDArray[np.int64] = np.argmax(scores, axis=1).astype(np.int64)
        return indices

    def winners(
        self, law: IntegerLaw, streams: NDArray[np.uint32], offsets: NDArray[np.int64], indices: NDArray[np.int64]
    ) -> randomness.Draws:
        """Return the draws of the chosen candidate of each chunk, coordinate after coordinate."""
        rows = [
            coordinate_draws(law, stream, np.arange(high - low), np.asarray(index))
            for stream, low, high, index in zip(streams, offsets[:-1], offsets[1:], indices, strict=True)
        ]
        return np.concatenate(rows)

    def host(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the values, which are NumPy arrays already."""
        return values
