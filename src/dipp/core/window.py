"""Windows: the mapping from stored values of more than eight bits to eight-bit pixels.

    level = clip(round(255·(value − low)/(high − low)), 0, 255),        halves rounded up

computed in whole numbers. A window is public, the same for all pictures of a release, and fixed before one of them is
read: the description of the release states it. **It must come from the caller.** A window computed from a picture's own
values (its minimum and maximum) tells about every pixel, and no certificate covers that. The same holds for tags that
are written for each picture, because they may have been computed from its values. With a fixed window, a pixel of the
array depends on one pixel of the file alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dipp.errors import DippError

LEAST, MOST = -(1 << 31), (1 << 31) - 1
"""Least and largest end of a window."""
NEEDED = 'must be LOW:HIGH, two whole numbers with LOW below HIGH, or "full" for 0:65535'
"""The problem of an invalid window, for errors."""


@dataclass(frozen=True)
class Window:
    """A range of stored values that is spread over the 256 pixel values.

    Raises:
        DippError: The ends are not whole numbers with `low` below `high`, or are out of the range of 32 bits.

    """

    low: int
    """Largest stored value that becomes black."""
    high: int
    """Least stored value that becomes white."""

    def __post_init__(self) -> None:
        whole = all(isinstance(end, int) and not isinstance(end, bool) for end in (self.low, self.high))
        if not whole or not LEAST <= self.low < self.high <= MOST:
            raise DippError("window", f"{NEEDED}, got {self.low}:{self.high}")

    @classmethod
    def of(cls, wanted: Window | str | tuple[int, int] | None) -> Window | None:
        """Return the window that an argument names.

        Args:
            wanted: A window, a text "LOW:HIGH" or "full", or a pair of whole numbers.

        Returns:
            The window; None if `wanted` is None.

        Raises:
            DippError: The argument has another form, or its ends are invalid.

        """
        if wanted is None or isinstance(wanted, Window):
            return wanted
        if isinstance(wanted, str):
            match = re.fullmatch(r"(-?\d{1,10}):(-?\d{1,10})", wanted, flags=re.ASCII)
            if wanted == "full":
                return FULL
            if not match:
                raise DippError("window", f"{NEEDED}, got {wanted!r:.40}")
            return cls(int(match[1]), int(match[2]))
        try:
            low, high = wanted
            return cls(int(low), int(high)) if int(low) == low and int(high) == high else cls(low, high)
        except (TypeError, ValueError) as error:
            if isinstance(error, DippError):
                raise
            raise DippError("window", f"{NEEDED}, got {wanted!r:.40}") from None

    def levels(self, values: NDArray[Any]) -> NDArray[np.uint8]:
        """Return the pixel values of stored values, uint8 of the same shape; each depends on its own value alone."""
        width = self.high - self.low
        if values.dtype == np.uint64:  # values from 2^63 on do not fit into int64
            values = np.minimum(values, np.uint64(MOST))
        above = np.clip(values.astype(np.int64), self.low, self.high) - self.low
        return ((510 * above + width) // (2 * width)).astype(np.uint8)

    def __str__(self) -> str:
        return f"{self.low}:{self.high}"


FULL = Window(0, (1 << 16) - 1)
"""The window of all sixteen-bit values."""
