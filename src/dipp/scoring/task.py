"""The input of a scoring call: many chunks of one or several images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dipp.core.laws import IntegerLaw
from dipp.core.randomness import Stream
from dipp.core.selection import MAX_ABS_SCORE, MAX_CANDIDATES, MAX_FRACTION_BITS
from dipp.errors import DippError


@dataclass(frozen=True, eq=False)
class ScoringTask:
    """Chunks of any sizes with the law, the scale and the number of candidates of one step.

    Chunk i has the shifts shifts[offsets[i]:offsets[i + 1]], and its candidates follow from the row streams[i]. The
    shifts are private; everything else is public. In every chunk the largest possible size of a score, with the Poisson
    order, must stay below 2^30, so that int32 sums are exact in any order of addition.

    Raises:
        DippError: An array has another shape, type or range, or scores could overflow.

    """

    law: IntegerLaw
    """The law of the step."""
    fraction_bits: int
    """S: scores are counted in multiples of 2^−S bits."""
    candidates: int
    """n: the number of candidates, the same for all chunks."""
    streams: NDArray[np.uint32]
    """A row (key0, key1, nonce, number of the chunk) for each chunk, from which its candidates follow."""
    offsets: NDArray[np.int64]
    """Where each chunk begins among all shifts: 0 first, and at last the number of shifts."""
    shifts: Any = field(repr=False)
    """Private integer shifts m (int32), in a NumPy array or a tensor in the backend's own memory."""
    order: NDArray[np.int32] | None = None
    """Public integers −α·log2 T_k·2^S, added to the scores of candidate k (Poisson order); None to add nothing."""

    def __post_init__(self) -> None:
        if not 1 <= self.candidates <= MAX_CANDIDATES:
            raise DippError("candidates", f"must be from 1 to {MAX_CANDIDATES}, got {self.candidates}")
        if not 0 <= self.fraction_bits <= MAX_FRACTION_BITS:
            raise DippError("fraction_bits", f"must be from 0 to {MAX_FRACTION_BITS}, got {self.fraction_bits}")
        if self.streams.shape != (self.chunks, 4) or self.streams.dtype != np.uint32:
            raise DippError(
                "streams",
                f"must be {self.chunks} rows of four uint32, got {self.streams.shape} {self.streams.dtype}",
            )
        sizes = np.diff(self.offsets)
        if self.chunks < 1 or self.offsets[0] != 0 or (sizes < 1).any():
            raise DippError("offsets", "must start at 0 and give each chunk at least one coordinate")
        if self.shifts.shape != (self.offsets[-1],) or str(self.shifts.dtype).removeprefix("torch.") != "int32":
            raise DippError("shifts", f"must be {self.offsets[-1]} int32, got {self.shifts.shape} {self.shifts.dtype}")
        if max(-int(self.shifts.min()), int(self.shifts.max())) > self.law.limit:
            raise DippError("shifts", f"must be within the limit of the law, ±{self.law.limit}")
        largest = int(sizes.max()) * self.law.bound
        if self.order is not None:
            if self.order.shape != (self.candidates,) or self.order.dtype != np.int32:
                raise DippError("order", f"must be {self.candidates} int32, got {self.order.shape} {self.order.dtype}")
            largest += max(-int(self.order.min()), int(self.order.max()))
        if largest >= MAX_ABS_SCORE:
            raise DippError(
                "offsets", f"have a chunk of {sizes.max()} coordinates, whose scores can overflow", "use more chunks"
            )

    @property
    def chunks(self) -> int:
        """Number of chunks."""
        return len(self.offsets) - 1

    def part(self, first: int, last: int) -> ScoringTask:
        """Return the task of chunks first … last − 1 alone.

        Args:
            first: Number of the first chunk.
            last: Number after the last chunk.
        """
        low, high = self.offsets[first], self.offsets[last]
        return ScoringTask(
            self.law,
            self.fraction_bits,
            self.candidates,
            self.streams[first:last],
            self.offsets[first : last + 1] - low,
            self.shifts[low:high],
            self.order,
        )


def stream_rows(streams: Sequence[Stream], chunks: Sequence[int]) -> NDArray[np.uint32]:
    """Return the rows of `ScoringTask.streams`, one for each chunk.

    Args:
        streams: The stream of each chunk.
        chunks: Number of each chunk within its step.
    """
    return np.array([(*s, c) for s, c in zip(streams, chunks, strict=True)], np.uint32).reshape(-1, 4)
