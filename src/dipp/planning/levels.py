"""Choose the resolution at which a step of sensing is predicted, from the SNR and the size of the picture.

Level ℓ predicts from means of 2^ℓ × 2^ℓ pixels, in 1/4^ℓ of the time (`codec.trajectory`). The less is known, the
coarser are the details that a prediction can show; and the more pixels a photograph has, the less neighbours differ.
Level ℓ takes the place of level ℓ − 1 below the SNR

    pixels/(3.5·10^7) · 8^(1 − ℓ),

for 768×512 below 0.011 and 0.0014, for 4000×3000 below 0.34 and 0.043. Up to these SNRs, photographs that the network
was not trained on lost no quality beyond chance (`benchmarks/levels.py`). On states with Gaussian noise, levels would
be worth it up to three times this SNR; but in a chain most pixels were not asked yet, and the network sees which were,
as long as they are not averaged with others. Small pictures have no such SNR. A wrong level costs quality alone: it
does not change the privacy, and every reader finds it in the file.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dipp.core.steps import MAX_LEVEL

Floats = NDArray[np.float64]

PIXELS = 35 * 10**6
"""Number of pixels of a picture that is predicted at half the resolution up to the SNR 1."""
FALL = 8.0
"""Ratio of the largest SNRs of a level and of the next coarser one."""
WORK = 12 * 10**7
"""Largest number of pixels that the calls of a chain send through the network: about a minute on two cores."""
FEW = 5
"""Number of steps that a plan for a picture of any size may take."""


def work(snrs: Floats, pixels: int) -> Floats:
    """Return the work of steps that start from states of these SNRs, in calls at the full resolution: 1/4^level each.

    Args:
        snrs: SNRs, in an array of any shape.
        pixels: Number of pixels of the picture.
    """
    levels = np.sum([snrs < largest for largest in _largest(pixels)], axis=0)
    return np.asarray(4.0**-levels, np.float64)


def level_at(snr: float, pixels: int) -> int:
    """Return the level at which a picture of this number of pixels is predicted from a state of this SNR.

    Args:
        snr: SNR of the state.
        pixels: Number of pixels of the picture.
    """
    return sum(snr < largest for largest in _largest(pixels))


def _largest(pixels: int) -> list[float]:
    """Return the SNRs below which a picture is predicted at level 1, 2 and so on."""
    return [pixels / PIXELS / FALL**level for level in range(MAX_LEVEL)]
