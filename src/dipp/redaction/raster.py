"""`Raster`: a picture as whole numbers of 8 or 16 bits a channel; some of its pixels are filled."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dipp.redaction.crops import crops
from dipp.redaction.outlines import Mask
from dipp.redaction.paint import Fill, Signal


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


def reduced(picture: Raster, unknown: Mask) -> Raster:
    """Return a picture without the channels and bits that its known pixels do not need.

    Programs that shrink files choose colour type and depth by looking at every pixel: one coloured, transparent or deep
    pixel in a region makes a file RGB, RGBA or one of 16 bits. What is written must not tell of it, so it is chosen
    again, by what is known.

    Args:
        picture: A picture with zeros in the place of what is hidden.
        unknown: (H, W): which pixels are hidden.
    """
    values = picture.values
    if picture.alpha and (unknown | (values[..., -1] == np.iinfo(values.dtype).max)).all():
        values = values[..., :-1]
    if values.shape[2] > 2 and all((values[..., 0] == values[..., one]).all() for one in (1, 2)):
        values = values[..., [0, *range(3, values.shape[2])]]
    if values.dtype == np.uint16 and not (values % 257).any():
        values = (values // 257).astype(np.uint8)
    return replace(picture, values=values)


def filled(
    values: NDArray[Any], unknown: Mask, fill: Fill, *, alpha: bool, span: tuple[int, int] | None = None
) -> NDArray[Any]:
    """Return whole numbers (H, W, C) with some pixels filled.

    Args:
        values: The picture without what is hidden, of any whole type.
        unknown: (H, W): which pixels are hidden.
        fill: What is painted there.
        alpha: Whether the last channel is alpha; it becomes opaque there.
        span: The least and the largest value that can be stored; None for those of the type.
    """
    if not unknown.any():
        return values
    made, most = values.copy(), np.iinfo(values.dtype).max
    whole = (np.iinfo(values.dtype).min, most) if span is None else span
    painted = made[..., :-1] if alpha else made
    for part, own in crops(unknown):
        low, high = _range(painted[part], unknown[part], whole)
        known = ((painted[part].astype(np.float32) - low) * np.float32(2 / (high - low)) - 1).astype(np.float32)
        signal: Signal = fill(np.where(unknown[part][..., None], np.float32(0), known), unknown[part], part)
        levels = np.rint((np.clip(signal, -1, 1).astype(np.float64) + 1) / 2 * (high - low) + low)
        painted[part] = np.where(own[..., None], levels.astype(values.dtype), painted[part])
    if alpha:
        made[..., -1][unknown] = most
    return made


def _range(values: NDArray[Any], unknown: Mask, whole: tuple[int, int]) -> tuple[float, float]:
    """Return the values that are painted as black and white.

    Of 16 bits, scans use a few thousand values: there they are the least and the largest of the surroundings; the least
    and the largest that can be stored if there are none.
    """
    if values.dtype == np.uint8:
        return 0.0, 255.0
    around = values[~unknown]
    low, high = (float(around.min()), float(around.max())) if around.size else (float(whole[0]), float(whole[1]))
    return (low, high) if high > low else (low, low + 1)
