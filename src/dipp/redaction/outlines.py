"""Outlines of regions, and the pixels that they touch.

Coordinates are continuous, from the top left corner: the pixel in column x and row y is the square from (x, y) to
(x + 1, y + 1). **Regions are rasterised outward**: a pixel is hidden if its inside overlaps a box, or if it touches a
polygon at any point, even at its border. Everything that the outline of a polygon encloses is hidden too, even if the
outline crosses itself. A margin grows the region further.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dipp.errors import DippError
from dipp.models.denoiser import MAX_PICTURE

Mask = NDArray[np.bool_]

LARGEST = 1e9
"""Largest magnitude of a coordinate; a larger number is taken for a mistake."""


@dataclass(frozen=True)
class Margin:
    """How far regions grow on each side: a number of pixels, plus a share of the region's own width and height."""

    pixels: float = 0.0
    share: float = 0.0

    @classmethod
    def parse(cls, text: str | float) -> Margin:
        """Return the margin that a text states: a number of pixels, or a percentage of the region such as "10%".

        Raises:
            DippError: The text is neither.
        """
        words = str(text).strip()
        try:
            number = float(words.removesuffix("%"))
        except ValueError:
            number = math.nan
        if not 0 <= number < LARGEST:
            raise DippError("margin", f"must be a number of pixels, or a percentage such as 10%, got {text}")
        return cls(share=number / 100) if words.endswith("%") else cls(pixels=number)

    def of(self, width: float, height: float) -> tuple[float, float]:
        """Return by how many pixels a region of this size grows, horizontally and vertically.

        Args:
            width: Width of the region in pixels.
            height: Height of the region in pixels.
        """
        return self.pixels + self.share * width, self.pixels + self.share * height


class Outline(ABC):
    """The shape of a region."""

    @abstractmethod
    def bounds(self) -> tuple[float, float, float, float]:
        """Return the left, top, right and bottom edges of the outline."""

    @abstractmethod
    def scaled(self, width: float, height: float) -> Outline:
        """Return the outline with its coordinates multiplied by a width and a height.

        Args:
            width: Factor of horizontal coordinates.
            height: Factor of vertical coordinates.
        """

    @abstractmethod
    def fill(self, mask: Mask, margin: Margin) -> None:
        """Set every pixel of a mask (H, W) that the outline touches after it has grown by a margin.

        Args:
            mask: The mask, which is changed.
            margin: How far the outline grows.

        Raises:
            DippError: The outline contains no pixel of the mask, or is far larger than the mask.
        """

    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """Return the JSON of the outline in dipp's own format (`formats.own`)."""


@dataclass(frozen=True)
class Box(Outline):
    """A rectangle whose sides are horizontal and vertical."""

    left: float
    top: float
    right: float
    bottom: float

    def __post_init__(self) -> None:
        _require_numbers((self.left, self.top, self.right, self.bottom))
        if not (self.left < self.right and self.top < self.bottom):
            size = f"{self.right - self.left:g}×{self.bottom - self.top:g}"
            raise DippError("regions", f"must not contain an empty box, got {size}", "give it an area, or leave it out")

    def bounds(self) -> tuple[float, float, float, float]:
        """Return the left, top, right and bottom edges of the outline."""
        return self.left, self.top, self.right, self.bottom

    def scaled(self, width: float, height: float) -> Box:
        """Return the box with its coordinates multiplied by a width and a height."""
        return Box(self.left * width, self.top * height, self.right * width, self.bottom * height)

    def fill(self, mask: Mask, margin: Margin) -> None:
        """Set every pixel that the grown box overlaps."""
        across, down = margin.of(self.right - self.left, self.bottom - self.top)
        rows = slice(max(0, math.floor(self.top - down)), max(0, math.ceil(self.bottom + down)))
        columns = slice(max(0, math.floor(self.left - across)), max(0, math.ceil(self.right + across)))
        mask[rows, columns] = True

    def facts(self) -> dict[str, Any]:
        """Return left, top, width and height for dipp's own JSON, or the four edges if rounding would move an edge."""
        width, height = self.right - self.left, self.bottom - self.top
        if (self.left + width, self.top + height) == (self.right, self.bottom):
            return {"box": [self.left, self.top, width, height]}
        return {"edges": [self.left, self.top, self.right, self.bottom]}


@dataclass(frozen=True)
class Polygon(Outline):
    """A closed polygon, with everything that its outline encloses."""

    points: tuple[tuple[float, float], ...]

    def __post_init__(self) -> None:
        _require_numbers(number for point in self.points for number in point)
        if len(self.points) < 3:
            raise DippError("regions", f"must give a polygon 3 points or more, got {len(self.points)}")

    def bounds(self) -> tuple[float, float, float, float]:
        """Return the left, top, right and bottom edges of the outline."""
        across, down = zip(*self.points, strict=True)
        return min(across), min(down), max(across), max(down)

    def scaled(self, width: float, height: float) -> Polygon:
        """Return the polygon with its coordinates multiplied by a width and a height."""
        return Polygon(tuple((x * width, y * height) for x, y in self.points))

    def fill(self, mask: Mask, margin: Margin) -> None:
        """Set every pixel that the polygon touches, after it has grown by a margin of whole pixels."""
        left, top, right, bottom = self.bounds()
        across, down = (math.ceil(side) for side in margin.of(right - left, bottom - top))
        first_row, first_column = math.floor(top) - 1, math.floor(left) - 1
        shape = math.ceil(bottom) + 1 - first_row, math.ceil(right) + 1 - first_column
        if shape[0] * shape[1] > 64 * mask.size + 4096:
            raise DippError("regions", "is a polygon far larger than the picture", "is it for another one?")
        filled = np.zeros(shape, bool)
        points = [(x - first_column, y - first_row) for x, y in self.points]
        for start, end in zip(points, [*points[1:], points[0]], strict=True):
            _touch(filled, start, end)
        _place(mask, _enclosed(filled), first_row, first_column, across, down)

    def facts(self) -> dict[str, Any]:
        """Return the points for dipp's own JSON."""
        return {"polygon": [list(point) for point in self.points]}


@dataclass(frozen=True, eq=False)
class Pixels(Outline):
    """A mask: an array of pixels, and the position of its top left corner in the picture."""

    inside: Mask
    left: int = 0
    top: int = 0

    def __post_init__(self) -> None:
        _require_numbers((self.left, self.top))
        if self.inside.ndim != 2 or not self.inside.any():
            raise DippError("regions", "must not contain an empty mask", "give it pixels, or leave it out")

    def bounds(self) -> tuple[float, float, float, float]:
        """Return the left, top, right and bottom edges of the pixels that are set."""
        rows, columns = np.flatnonzero(self.inside.any(axis=1)), np.flatnonzero(self.inside.any(axis=0))
        return (
            float(self.left + columns[0]),
            float(self.top + rows[0]),
            float(self.left + columns[-1] + 1),
            float(self.top + rows[-1] + 1),
        )

    def scaled(self, width: float, height: float) -> Pixels:
        """Raise an error, because a mask has pixels of one size and cannot be scaled."""
        raise DippError(
            "regions",
            f"must not contain a mask in shares of width and height ({width:g}×{height:g})",
            "give it in pixels",
        )

    def fill(self, mask: Mask, margin: Margin) -> None:
        """Set the pixels of the region in a mask, after the region has grown by a margin of whole pixels."""
        left, top, right, bottom = self.bounds()
        across, down = (math.ceil(side) for side in margin.of(right - left, bottom - top))
        _place(mask, self.inside, self.top, self.left, across, down)

    def facts(self) -> dict[str, Any]:
        """Return the size, corner and run lengths for dipp's own JSON."""
        height, width = self.inside.shape
        return {"mask": {"size": [width, height], "corner": [self.left, self.top], "runs": runs(self.inside)}}


def runs(mask: Mask) -> list[int]:
    """Return the lengths of the alternating runs of a mask, row by row; the first run is of pixels that are not set."""
    flat = mask.reshape(-1)
    changes = np.flatnonzero(flat[1:] != flat[:-1]) + 1
    lengths = np.diff(np.concatenate([[0], changes, [flat.size]])).tolist()
    return [0, *lengths] if flat.size and flat[0] else lengths


def mask_of_runs(lengths: Iterable[int], height: int, width: int, *, columns: bool = False) -> Mask:
    """Return the mask (height, width) of run lengths, row by row or column by column; the first run is not set.

    Args:
        lengths: Lengths of the runs, in turn not set and set.
        height: Number of rows.
        width: Number of columns.
        columns: Whether runs go down the columns; false by default.

    Raises:
        DippError: The mask is too large, or the runs have another sum.
    """
    counts = list(lengths)
    if height * width > MAX_PICTURE:
        raise DippError(
            "regions",
            f"must not contain a mask of {width:g}×{height:g} pixels, which is too large",
            "is it for another picture?",
        )
    if height < 1 or width < 1 or any(count < 0 for count in counts) or sum(counts) != height * width:
        raise DippError("regions", f"must give a mask runs that add up to {width:g}×{height:g} pixels")
    flat = np.repeat(np.arange(len(counts)) % 2 == 1, counts)
    return flat.reshape(width, height).T.copy() if columns else flat.reshape(height, width)


def _require_numbers(numbers: Iterable[float]) -> None:
    """Raise if a coordinate is not a number, or is too large."""
    for number in numbers:
        if not abs(number) <= LARGEST:
            raise DippError(
                "regions", f"must have coordinates of at most {LARGEST:g}, got {number:g}", "give numbers of pixels"
            )


def _touch(mask: Mask, start: tuple[float, float], end: tuple[float, float]) -> None:
    """Set every pixel that a line segment touches, even if it touches only the border of the pixel."""
    (x0, y0), (x1, y1) = sorted((start, end), key=lambda point: point[1])
    rows = np.arange(math.ceil(y0) - 1, math.floor(y1) + 1)
    if y0 == y1:
        first, last = np.full(rows.shape, min(x0, x1)), np.full(rows.shape, max(x0, x1))
    else:
        slope = (x1 - x0) / (y1 - y0)
        at_top = x0 + (np.clip(rows, y0, y1) - y0) * slope
        at_bottom = x0 + (np.clip(rows + 1, y0, y1) - y0) * slope
        first, last = np.minimum(at_top, at_bottom), np.maximum(at_top, at_bottom)
    slack = 1e-9 * (abs(x0) + abs(x1) + 1)  # rounding of the slope must not cost a pixel
    for row, left, right in zip(rows.tolist(), first - slack, last + slack, strict=True):
        mask[row, max(0, math.ceil(left) - 1) : math.floor(right) + 1] = True


def _enclosed(outline: Mask) -> Mask:
    """Return the pixels of a closed outline together with all pixels that it encloses."""
    from scipy import ndimage

    filled: Mask = ndimage.binary_fill_holes(outline)
    return filled


def _place(mask: Mask, drawing: Mask, top: int, left: int, across: int, down: int) -> None:
    """Set the pixels of a small mask, grown by a margin, in the mask of a picture; raise if all lie outside.

    `top` and `left` are the position of the small mask in the picture, `down` and `across` the margin in pixels.
    """
    from scipy import ndimage

    # A larger margin would reach only pixels outside the picture.
    down = min(down, abs(top) + len(drawing) + mask.shape[0])
    across = min(across, abs(left) + drawing.shape[1] + mask.shape[1])
    grown = np.pad(drawing, ((down, down), (across, across)))
    if across or down:
        grown = ndimage.maximum_filter(grown, size=(2 * down + 1, 2 * across + 1))
    top, left = top - down, left - across
    rows = max(0, top), min(mask.shape[0], top + grown.shape[0])
    columns = max(0, left), min(mask.shape[1], left + grown.shape[1])
    part = grown[max(0, rows[0] - top) : max(0, rows[1] - top), max(0, columns[0] - left) : max(0, columns[1] - left)]
    if not part.any():
        raise DippError("regions", "contains no pixel of the picture", "is it for another one?")
    mask[rows[0] : rows[1], columns[0] : columns[1]] |= part
