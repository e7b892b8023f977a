"""Windows: which stored values of a picture with more than eight bits become black and white.

    level = clip(round(255·(value − low)/(high − low)), 0, 255),        halves rounded up

in whole numbers. A window is public, the same for all pictures of a release, and fixed before one of them is read: it
stands in the release's description. **It must come from the caller.** A window that follows from a picture's own values
(its minimum and maximum) tells of every pixel, and no certificate covers that. The same holds for tags that are written
for each picture, because they may have been computed from its values. With a fixed window, a pixel of the array
depends on one pixel of the file alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dipp.errors import DippError

LEAST, MOST = -(1 << 31), (1 << 31) - 1
"""Values that a window may name."""
NEEDED = 'LOW:HIGH is needed, two whole numbers of which the second is larger, or "full" for 0:65535'


@dataclass(frozen=True)
class Window:
    """Stored values that become black (`low`, and all below) and white (`high`, and all above)."""

    low: int
    high: int

    def __post_init__(self) -> None:
        whole = all(isinstance(end, int) and not isinstance(end, bool) for end in (self.low, self.high))
        if not whole or not LEAST <= self.low < self.high <= MOST:
            raise DippError("window", f"{NEEDED}, got {self.low}:{self.high}")

    @classmethod
    def of(cls, wanted: Window | str | tuple[int, int] | None) -> Window | None:
        """A window as callers name it: LOW:HIGH or full as text, a pair of numbers, or None for none."""
        if wanted is None or isinstance(wanted, Window):
            return wanted
        if isinstance(wanted, str):
            found = re.fullmatch(r"(-?\d{1,10}):(-?\d{1,10})", wanted, flags=re.ASCII)
            if wanted == "full":
                return FULL
            if not found:
                raise DippError("window", f"{NEEDED}, got {wanted!r:.40}")
            return cls(int(found[1]), int(found[2]))
        try:
            low, high = wanted
            return cls(int(low), int(high)) if int(low) == low and int(high) == high else cls(low, high)
        except (TypeError, ValueError) as error:
            if isinstance(error, DippError):
                raise
            raise DippError("window", f"{NEEDED}, got {wanted!r:.40}") from None

    def levels(self, values: NDArray[Any]) -> NDArray[np.uint8]:
        """The eight-bit levels of whole numbers, each by itself."""
        width = self.high - self.low
        if values.dtype == np.uint64:  # whose larger half has no place in int64
            values = np.minimum(values, np.uint64(MOST))
        above = np.clip(values.astype(np.int64), self.low, self.high) - self.low
        return ((510 * above + width) // (2 * width)).astype(np.uint8)

    def __str__(self) -> str:
        return f"{self.low}:{self.high}"


FULL = Window(0, (1 << 16) - 1)
"""All of sixteen bits."""
