"""Blocks of coefficients to samples and back, chroma sampling, and colour, for a rectangle of whole MCUs.

Chroma is repeated and not interpolated. So a sample depends on its own MCU alone, and nothing crosses the border
between known and hidden MCUs.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dipp.redaction.jpeg.coefficients import BLOCK, Component, Jpeg, Plane

Samples = NDArray[np.float64]

_ROWS = np.arange(BLOCK)
BASIS = np.cos((2 * _ROWS[None, :] + 1) * _ROWS[:, None] * math.pi / (2 * BLOCK)) / 2
BASIS[0] /= math.sqrt(2)
"""Matrix (8, 8) of the orthonormal DCT: coefficients = BASIS · samples · BASISᵀ."""
TO_RGB = np.array([[1, 0, 1.402], [1, -0.344136286201022, -0.714136286201022], [1, 1.772, 0]])
"""Matrix (3, 3) from luma and chroma around 0 to red, green and blue, as JFIF defines it."""
TO_LUMA = np.linalg.inv(TO_RGB)
LARGEST = 1023
"""Largest magnitude of a quantised coefficient."""


def samples(component: Component, top: int, bottom: int, left: int, right: int) -> Samples:
    """Return the samples (H, W) around 0 of a component, for the blocks in rows top…bottom and columns left…right."""
    part = component.blocks[top:bottom, left:right].astype(np.float64) * component.quantisation
    rows, columns = part.shape[:2]
    inverse = BASIS.T @ part.reshape(rows, columns, BLOCK, BLOCK) @ BASIS
    return inverse.transpose(0, 2, 1, 3).reshape(rows * BLOCK, columns * BLOCK)


def transformed(values: Samples, quantisation: NDArray[np.int64]) -> Samples:
    """Return the coefficients (rows, columns, 64) of samples (H, W) around 0, in quantisation steps, not rounded.

    Args:
        values: The samples.
        quantisation: The 64 steps, in the order of the coefficients.
    """
    rows, columns = values.shape[0] // BLOCK, values.shape[1] // BLOCK
    part = values.reshape(rows, BLOCK, columns, BLOCK).transpose(0, 2, 1, 3)
    steps = (BASIS @ part @ BASIS.T).reshape(rows, columns, 64) / quantisation
    return np.clip(steps, -LARGEST, LARGEST)


def rounded(coefficients: Samples) -> Plane:
    """Return coefficients rounded to the integers that are stored."""
    return np.rint(coefficients).astype(np.int16)


def pixels(picture: Jpeg, top: int, bottom: int, left: int, right: int) -> Samples:
    """Return the pixels (H, W, C) of a rectangle of MCUs: levels from 0 to 255, grey or RGB, not rounded.

    Args:
        picture: The picture.
        top: First row of MCUs.
        bottom: Row of MCUs after the last one.
        left: First column of MCUs.
        right: Column of MCUs after the last one.
    """
    most_down, most_across = (side // BLOCK for side in picture.mcu)
    planes = []
    for component in picture.components:
        plane = samples(
            component, top * component.down, bottom * component.down, left * component.across, right * component.across
        )
        planes.append(plane.repeat(most_down // component.down, axis=0).repeat(most_across // component.across, axis=1))
    colours = np.stack(planes, axis=-1)
    if len(planes) == 3 and not picture.rgb:
        colours = colours @ TO_RGB.T
    return np.clip(colours + 128, 0, 255)


def coefficients(picture: Jpeg, levels: Samples) -> tuple[Samples, ...]:
    """Return the coefficients of each component, not rounded, of pixels that fill whole MCUs.

    Args:
        picture: The picture, whose chroma sampling and quantisation are used.
        levels: Pixels (H, W, C) from 0 to 255.
    """
    values = levels - 128
    if len(picture.components) == 3 and not picture.rgb:
        values = values @ TO_LUMA.T
    most_down, most_across = (side // BLOCK for side in picture.mcu)
    quantised = []
    for at, component in enumerate(picture.components):
        tall, wide = most_down // component.down, most_across // component.across
        plane = values[..., at]
        plane = plane.reshape(plane.shape[0] // tall, tall, plane.shape[1] // wide, wide).mean(axis=(1, 3))
        quantised.append(transformed(plane, component.quantisation))
    return tuple(quantised)
