"""`Raster`: a picture as whole numbers of 8 or 16 bits a channel, and all that is known of it besides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Raster:
    """A picture as numbers."""

    values: NDArray[Any]
    """(H, W, C), uint8 or uint16: grey, grey and alpha, RGB, or RGB and alpha."""
    orientation: int = 1
    """EXIF orientation, 1 to 8."""
    profile: bytes = b""
    """ICC profile; empty for none."""
    others: bool = False
    """Whether the file holds other pictures, which were not read."""
    palette: bool = False
    """Whether the file has a palette, to which its colours may have been reduced."""

    @property
    def alpha(self) -> bool:
        """Whether the last channel is alpha."""
        return self.values.shape[2] in (2, 4)
