"""Pictures that differ in one box only, saved in every way that a camera or a program might use."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFile

from dipp.redaction.jpeg import blocks, coefficients
from dipp.redaction.jpeg.coefficients import Component, Jpeg

BOX = (37, 21, 30, 26)
"""Left, top, width and height of the box."""
SIZE = (131, 83)
"""Width and height of the pictures; no block size divides them."""

Pixels = NDArray[np.uint8]


def scene(seed: int = 0) -> Pixels:
    """Return a picture with edges, textures and colours."""
    rng = np.random.default_rng(seed)
    rows, columns = np.mgrid[: SIZE[1], : SIZE[0]]
    waves = [np.sin(columns / (5 + 3 * one) + rows / (9 - 2 * one)) for one in range(3)]
    values = 128 + 70 * np.stack(waves, axis=-1) + rng.normal(0, 12, (SIZE[1], SIZE[0], 3))
    values[rows > columns / 2 + 20] *= 0.6
    return np.clip(values, 0, 255).astype(np.uint8)


def inside(shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """Return the mask of the box."""
    left, top, width, height = BOX
    mask = np.zeros(shape[:2], bool)
    mask[top : top + height, left : left + width] = True
    return mask


def pair() -> tuple[Pixels, Pixels]:
    """Return two pictures that differ in every pixel of the box, and nowhere else."""
    first = scene()
    second = first.copy()
    mask = inside(first.shape)
    second[mask] = np.random.default_rng(7).integers(0, 256, (int(mask.sum()), 3))
    return first, second


def saved(pixels: NDArray[Any], kind: str, **options: Any) -> bytes:
    """Return a file of pixels, written by Pillow."""
    before, ImageFile.MAXBLOCK = ImageFile.MAXBLOCK, 1 << 22
    file = io.BytesIO()
    try:
        Image.fromarray(pixels).save(file, kind, **options)
    finally:
        ImageFile.MAXBLOCK = before
    return file.getvalue()


def opened(content: bytes) -> NDArray[Any]:
    """Return the pixels of a file, read by Pillow."""
    with Image.open(io.BytesIO(content)) as image:
        return np.asarray(image)


def sampled(pixels: Pixels, across: int, down: int, quantisation: int = 12) -> bytes:
    """Return a JPEG with any chroma sampling, by a simple encoder that codes a block from its own pixels alone."""
    tall, wide = 8 * down, 8 * across
    height, width = pixels.shape[:2]
    padded = np.pad(pixels, ((0, -height % tall), (0, -width % wide), (0, 0)), "edge").astype(np.float64)
    table = np.full(64, quantisation, np.int64)
    rows, columns = padded.shape[0] // 8, padded.shape[1] // 8
    factors = [(across, down), (1, 1), (1, 1)]
    empty = [
        Component(a, d, table, np.zeros((rows * d // down, columns * a // across, 64), np.int16)) for a, d in factors
    ]
    picture = Jpeg(width, height, tuple(empty))
    found = tuple(blocks.rounded(plane) for plane in blocks.coefficients(picture, padded))
    return coefficients.write(picture.with_blocks(found))


def jpegs() -> Iterator[dict[str, Any]]:
    """Return JPEG files that Pillow saves in different ways."""
    for subsampling in (0, 1, 2):
        for quality in (50, 75, 95):
            for progressive in (False, True):
                for optimize in (False, True):
                    yield {
                        "subsampling": subsampling,
                        "quality": quality,
                        "progressive": progressive,
                        "optimize": optimize,
                    }
