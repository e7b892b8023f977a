"""The one mapping between eight-bit pixels and the signal x in [−1, 1] that is noised, scored and predicted.

    x = v/127.5 − 1,        v = round((clip(x, −1, 1) + 1)·127.5)

The functions take NumPy arrays and torch tensors. A uint8 array becomes float64, a uint8 tensor becomes float32. No
byte maps outside [−1, 1], so the type of a pixel also clamps the signal before its first private use.
"""

from __future__ import annotations

from typing import Any

import numpy as np

HALF = 127.5
"""Half of the largest pixel value: the number of pixel levels in a change of x by 1."""


def to_signal(pixels: Any) -> Any:
    """Return the signal x = v/127.5 − 1 of pixel values v from 0 to 255, elementwise."""
    return pixels / HALF - 1


def to_levels(x: Any) -> Any:
    """Return the nearest pixel values of a signal, elementwise, as floats from 0 to 255 without a fraction.

    Values of the signal outside [−1, 1] are clipped first.
    """
    return ((x.clip(-1, 1) + 1) * HALF).round()


SIGNAL_OF_PIXEL = to_signal(np.arange(256))
"""x of each of the 256 pixel values, in float64."""
SIGNAL_OF_PIXEL.flags.writeable = False
