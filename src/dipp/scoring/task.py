"""The input of a scoring call: many chunks, of one image or of several."""

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
    """Chunks of any sizes that share one step's law, scale and number of candidates.

    Chunk i has the shifts shifts[offsets[i]:offsets[i + 1]], and its candidates are those of the row streams[i], which
    is (key0, key1, nonce, chunk). The shifts are private; everything else is public. In every chunk the largest
    possible size of a score, with the order, stays below 2^30 (checked here), so that int32 sums are exact whatever
    their order.
    """

    law: IntegerLaw
    fraction_bits: int
    """S: scores are in units of 2^−S bits."""
    candidates: int
    """n, the same for all chunks."""
    streams: NDArray[np.uint32]
    offsets: NDArray[np.int64]
    shifts: Any = field(repr=False)
    """Private integer shifts m (int32), in an array on the host or a tensor in the backend's own memory."""
    order: NDArray[np.int32] | None = None
    """Public integers −α·log2 T_k·2^S that are added to the scores of candidate k (Poisson order); None: nothing is
    added."""

    def __post_init__(self) -> None:
        if not 1 <= self.candidates <= MAX_CANDIDATES:
            raise DippError("candidates", f"n from 1 to {MAX_CANDIDATES} is needed, got {self.candidates}")
        if not 0 <= self.fraction_bits <= MAX_FRACTION_BITS:
            raise DippError("fraction_bits", f"0 to {MAX_FRACTION_BITS} is needed, got {self.fraction_bits}")
        if self.streams.shape != (self.chunks, 4) or self.streams.dtype != np.uint32:
            raise DippError(
                "streams",
                f"{self.chunks} rows of four uint32 are needed, got {self.streams.shape} {self.streams.dtype}",
            )
        sizes = np.diff(self.offsets)
        if self.chunks < 1 or self.offsets[0] != 0 or (sizes < 1).any():
            raise DippError("offsets", "chunks of at least one coordinate each are needed, starting at 0")
        if self.shifts.shape != (self.offsets[-1],) or str(self.shifts.dtype).removeprefix("torch.") != "int32":
            raise DippError(
                "shifts", f"{self.offsets[-1]} int32 are needed, got {self.shifts.shape} {self.shifts.dtype}"
            )
        if max(-int(self.shifts.min()), int(self.shifts.max())) > self.law.limit:
            raise DippError("shifts", f"sizes up to the law's limit {self.law.limit} are needed")
        largest = int(sizes.max()) * self.law.bound
        if self.order is not None:
            if self.order.shape != (self.candidates,) or self.order.dtype != np.int32:
                raise DippError(
                    "order", f"{self.candidates} int32 are needed, got {self.order.shape} {self.order.dtype}"
                )
            largest += max(-int(self.order.min()), int(self.order.max()))
        if largest >= MAX_ABS_SCORE:
            raise DippError(
                "offsets", f"a chunk of {sizes.max()} coordinates can overflow the scores", "use more chunks"
            )

    @property
    def chunks(self) -> int:
        """Number of chunks."""
        return len(self.offsets) - 1

    def part(self, first: int, last: int) -> ScoringTask:
        """The task of chunks first … last − 1 alone."""
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
    """Rows (key0, key1, nonce, chunk) of chunk numbers on their streams, for `ScoringTask.streams`."""
    return np.array([(*s, c) for s, c in zip(streams, chunks, strict=True)], np.uint32).reshape(-1, 4)
