"""At which resolution a step of sensing is predicted: a public rule of the SNR and of the size of the picture.

Level ℓ predicts from means of 2^ℓ × 2^ℓ pixels, in 1/4^ℓ of the time (`codec.trajectory`). The less is known, the
larger is what a prediction can see at all; and the more pixels a photograph has, the less neighbours differ. Level ℓ
takes the place of level ℓ − 1 below the SNR

    pixels/(3.5·10^7) · 8^(1 − ℓ),

for 768×512 below 0.011 and 0.0014, for 4000×3000 below 0.34 and 0.043. Up to there, chains of photographs that the
network was not trained on lost nothing that could be told from chance (`benchmarks/levels.py`). On states with Gaussian
noise, levels would pay up to three times this SNR; but in a chain most pixels were not asked yet, and the network sees
which were, as long as they are not averaged with others. Small pictures have no such SNR. A wrong level costs quality
alone: it has no part in the privacy, and every reader finds it in the file.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dipp.core.steps import MAX_LEVEL

Floats = NDArray[np.float64]

PIXELS = 35 * 10**6
"""Pixels of a picture that is predicted at half the resolution up to the SNR 1."""
FALL = 8.0
"""By how much the largest SNR of a level is above that of the next."""
WORK = 12 * 10**7
"""Pixels that the calls of a chain send through the network, at most: about a minute on two cores."""
FEW = 5
"""Steps that any picture may take, whatever its size."""


def work(snrs: Floats, pixels: int) -> Floats:
    """Return the work of steps that start from states of these SNRs, in calls at the full resolution: 1/4^level."""
    levels = np.sum([snrs < largest for largest in _largest(pixels)], axis=0)
    return np.asarray(4.0**-levels, np.float64)


def level_at(snr: float, pixels: int) -> int:
    """Return the level at which a picture of this number of pixels is predicted from a state of this SNR."""
    return sum(snr < largest for largest in _largest(pixels))


def _largest(pixels: int) -> list[float]:
    """Return the SNR below which a picture is predicted at level 1, 2 and so on."""
    return [pixels / PIXELS / FALL**level for level in range(MAX_LEVEL)]
