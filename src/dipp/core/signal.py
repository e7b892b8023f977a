"""The one mapping between eight-bit pixels and the signal x in [−1, 1] that is noised, scored and predicted.

    x = v/127.5 − 1,        v = round((clip(x, −1, 1) + 1)·127.5)

Written for NumPy arrays and torch tensors alike, and neither is imported for it. An array of bytes becomes float64, a
tensor of bytes float32. The pixel's type is also the clamp before the first private use: no byte maps outside [−1, 1].
"""

from __future__ import annotations

from typing import Any

import numpy as np

HALF = 127.5
"""Half of the largest pixel: one unit of x in levels."""


def to_signal(pixels: Any) -> Any:
    """x of pixels, in the shape that they have."""
    return pixels / HALF - 1


def to_levels(x: Any) -> Any:
    """The nearest pixel values of a signal, as whole floats; what lies outside [−1, 1] is clipped."""
    return ((x.clip(-1, 1) + 1) * HALF).round()


SIGNAL_OF_PIXEL = to_signal(np.arange(256))
"""x of each of the 256 pixel values, in float64."""
SIGNAL_OF_PIXEL.flags.writeable = False
