"""Painting of a JPEG: the coefficients of hidden MCUs are dropped, and made anew from their surroundings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dipp.redaction import hidden
from dipp.redaction.crops import crops
from dipp.redaction.jpeg import blocks
from dipp.redaction.jpeg.coefficients import Jpeg
from dipp.redaction.outlines import Mask
from dipp.redaction.paint import Fill


def erased(picture: Jpeg, cells: Mask) -> Jpeg:
    """Return a picture with zeros in place of the coefficients of hidden MCUs.

    Args:
        picture: The picture.
        cells: (rows, columns): which MCUs are hidden.
    """
    planes = []
    for component in picture.components:
        covered = cells.repeat(component.down, axis=0).repeat(component.across, axis=1)
        planes.append(hidden.without(component.blocks, covered))
    return picture.with_blocks(tuple(planes))


@dataclass(frozen=True, eq=False)
class PaintedBlocks:
    """Painted blocks of one component, in one crop."""

    component: int
    """Index of the component in the picture."""
    place: tuple[slice, slice]
    """Rows and columns of the crop's blocks in the component."""
    covered: Mask
    """Mask (rows, columns, 1) of the hidden blocks in the crop."""
    coefficients: blocks.Samples
    """Coefficients (rows, columns, 64) in quantisation steps, not rounded."""


def painted(picture: Jpeg, cells: Mask, fill: Fill) -> Iterator[PaintedBlocks]:
    """Yield the painted blocks of a picture, crop by crop, so that a large picture costs little.

    Args:
        picture: The picture without the coefficients of hidden MCUs (`erased`).
        cells: (rows, columns): which MCUs are hidden.
        fill: What is painted in them.
    """
    tall, wide = picture.mcu
    for (rows, columns), group in crops(cells.repeat(tall, axis=0).repeat(wide, axis=1)):
        top, bottom = rows.start // tall, -(-rows.stop // tall)
        left, right = columns.start // wide, -(-columns.stop // wide)
        mine = np.zeros(((bottom - top) * tall, (right - left) * wide), bool)
        mine[rows.start - top * tall :, columns.start - left * wide :][: group.shape[0], : group.shape[1]] = group
        chosen = mine.reshape(bottom - top, tall, right - left, wide).any(axis=(1, 3))
        # What lies beyond the right and lower edge of the picture is as good as any other surroundings.
        known = (blocks.pixels(picture, top, bottom, left, right) / 127.5 - 1).astype(np.float32)
        unknown = cells[top:bottom, left:right].repeat(tall, axis=0).repeat(wide, axis=1)
        cells_part = slice(top * tall, bottom * tall), slice(left * wide, right * wide)
        signal = fill(np.where(unknown[..., None], np.float32(0), known), unknown, cells_part)
        repainted = blocks.coefficients(picture, (np.clip(signal, -1, 1).astype(np.float64) + 1) * 127.5)
        for at, (part, component) in enumerate(zip(repainted, picture.components, strict=True)):
            cells_part = (
                slice(top * component.down, bottom * component.down),
                slice(left * component.across, right * component.across),
            )
            covered = chosen.repeat(component.down, axis=0).repeat(component.across, axis=1)[..., None]
            yield PaintedBlocks(at, cells_part, covered, part)


def filled(picture: Jpeg, cells: Mask, fill: Fill) -> Jpeg:
    """Return a picture with the hidden MCUs painted.

    Args:
        picture: The picture without the coefficients of hidden MCUs (`erased`).
        cells: (rows, columns): which MCUs are hidden.
        fill: What is painted in them.
    """
    planes = [component.blocks.copy() for component in picture.components]
    for part in painted(picture, cells, fill):
        plane = planes[part.component]
        plane[part.place] = np.where(part.covered, blocks.rounded(part.coefficients), plane[part.place])
    return picture.with_blocks(tuple(planes))
