"""`Raster`, a picture as whole numbers of 8 or 16 bits a channel; and `filled`, which fills some of its pixels."""

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
    """A picture as whole numbers, with what its file says about them."""

    values: NDArray[Any]
    """Pixels (H, W, C), uint8 or uint16: grey, grey and alpha, RGB, or RGB and alpha."""
    orientation: int = 1
    """EXIF orientation, 1 to 8."""
    profile: bytes = b""
    """ICC profile; empty if the picture has no profile."""
    others: bool = False
    """Whether the file holds further pictures, which were not read."""
    palette: bool = False
    """Whether the file has a palette, to which its colours may have been reduced."""

    @property
    def alpha(self) -> bool:
        """Whether the last channel is alpha."""
        return self.values.shape[2] in (2, 4)


def reduced(picture: Raster, unknown: Mask) -> Raster:
    """Return a picture without the channels and bits that its known pixels do not need.

    Programs that shrink files choose colour type and depth by looking at every pixel: one coloured, transparent or deep
    pixel in a region makes the file RGB, RGBA or 16-bit. The written file must not tell of that, so the type and the
    depth are chosen again, by the known pixels alone.

    Args:
        picture: A picture with zeros in place of what is hidden.
        unknown: (H, W): which pixels are hidden.
    """
    values = picture.values
    if picture.alpha and (unknown | (values[..., -1] == np.iinfo(values.dtype).max)).all():
        values = values[..., :-1]
    if values.shape[2] > 2 and all((values[..., 0] == values[..., channel]).all() for channel in (1, 2)):
        values = values[..., [0, *range(3, values.shape[2])]]
    if values.dtype == np.uint16 and not (values % 257).any():
        values = (values // 257).astype(np.uint8)
    return replace(picture, values=values)


def filled(
    values: NDArray[Any], unknown: Mask, fill: Fill, *, alpha: bool, span: tuple[int, int] | None = None
) -> NDArray[Any]:
    """Return a picture (H, W, C) as whole numbers, with its hidden pixels painted.

    Args:
        values: The picture with zeros in place of what is hidden, of any integer dtype.
        unknown: (H, W): which pixels are hidden.
        fill: What is painted in the hidden pixels.
        alpha: Whether the last channel is alpha; hidden pixels become opaque.
        span: The least and the largest value that can be stored. By default those of the dtype.
    """
    if not unknown.any():
        return values
    result, most = values.copy(), np.iinfo(values.dtype).max
    whole = (np.iinfo(values.dtype).min, most) if span is None else span
    painted = result[..., :-1] if alpha else result
    for part, group in crops(unknown):
        low, high = _range(painted[part], unknown[part], whole)
        known = ((painted[part].astype(np.float32) - low) * np.float32(2 / (high - low)) - 1).astype(np.float32)
        signal: Signal = fill(np.where(unknown[part][..., None], np.float32(0), known), unknown[part], part)
        levels = np.rint((np.clip(signal, -1, 1).astype(np.float64) + 1) / 2 * (high - low) + low)
        painted[part] = np.where(group[..., None], levels.astype(values.dtype), painted[part])
    if alpha:
        result[..., -1][unknown] = most
    return result


def _range(values: NDArray[Any], unknown: Mask, whole: tuple[int, int]) -> tuple[float, float]:
    """Return the values that count as black and white for painting.

    Scans of 16 bits use only a few thousand values. So for 16 bits, black and white are the least and the largest value
    of the surroundings, or of `whole` if there are no surroundings.
    """
    if values.dtype == np.uint8:
        return 0.0, 255.0
    around = values[~unknown]
    low, high = (float(around.min()), float(around.max())) if around.size else (float(whole[0]), float(whole[1]))
    return (low, high) if high > low else (low, low + 1)
