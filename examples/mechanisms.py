"""Mechanisms to audit: functions from a picture to everything that they release of it, each with its claim.

    dipp audit --mechanism examples.mechanisms:noise          # keeps its claim, as far as can be counted
    dipp audit --mechanism examples.mechanisms:blurred        # mixes neighbouring pixels before its noise
    dipp audit --mechanism examples.mechanisms:every_epoch    # draws fresh noise in every epoch, and counts one

A pixel that goes from black to white moves each of its channels by 255, so Laplace noise of scale 255·C/ε on every
number keeps a pure ε per pixel. That is mathematics: lowest bits of floating-point noise tell more than they should.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Picture = NDArray[np.uint8]
Floats = NDArray[np.float64]

EPSILON = 1.0
EPOCHS = 30
SHAPE = (4, 4, 3)
"""Shape of the pictures. Small ones are told apart as well as large ones, and faster."""
_generator = np.random.default_rng()


def noise(picture: Picture) -> Floats:
    """Return the picture with Laplace noise for a change of one pixel."""
    scale = 255 * picture.shape[2] / EPSILON
    return picture + _generator.laplace(0, scale, picture.shape)


def blurred(picture: Picture) -> Floats:
    """Return means over 3 × 3 pixels with too little noise: one pixel moves nine means. BROKEN."""
    padded = np.pad(picture.astype(np.float64), ((1, 1), (1, 1), (0, 0)), mode="edge")
    height, width, channels = picture.shape
    mean = sum(padded[i : i + height, j : j + width] for i in range(3) for j in range(3)) / 9
    return np.asarray(mean + _generator.laplace(0, 255 / 9 * channels / EPSILON, picture.shape))


def every_epoch(picture: Picture) -> list[Floats]:
    """Return what a training loop sees that adds new noise to a picture in each epoch. BROKEN."""
    return [noise(picture) for _ in range(EPOCHS)]


for mechanism in (noise, blurred, every_epoch):
    vars(mechanism).update(epsilon=EPSILON, shape=SHAPE)  # the claim per pixel, and the pictures that it takes
