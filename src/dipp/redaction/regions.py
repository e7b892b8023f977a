"""Regions: what is to be hidden in a picture, and the pixels that this means.

Coordinates are continuous, from the top left corner: the pixel in column x and row y is the square from (x, y) to
(x + 1, y + 1). **Regions are rasterised outward**: every pixel that shares a point of its inside with a box, or any
point with a polygon, is hidden, and so is everything that a polygon's outline encloses, however it crosses itself. A
margin grows this further.

Outlines lie in a picture as it is stored or as a viewer turns it by its EXIF orientation. `Declared.mask` gives pixels
as they are stored.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dipp.errors import DippError
from dipp.models.denoiser import MAX_PICTURE

Mask = NDArray[np.bool_]
Size = tuple[int, int]
"""Width and height."""

SWAPPED = (5, 6, 7, 8)
"""EXIF orientations that exchange width and height."""
LARGEST = 1e9
"""Largest magnitude of a coordinate: a larger one is a mistake."""


@dataclass(frozen=True)
class Margin:
    """How far regions grow: pixels, and a share of the region's own width and height."""

    pixels: float = 0.0
    share: float = 0.0

    @classmethod
    def parse(cls, text: str | float) -> Margin:
        """Read a margin: a number of pixels, or a percentage of a region's width and height such as "10%"."""
        words = str(text).strip()
        try:
            number = float(words.removesuffix("%"))
        except ValueError:
            number = math.nan
        if not 0 <= number < LARGEST:
            raise DippError(f"margin: pixels, or a percentage such as 10%, are needed, got {text}")
        return cls(share=number / 100) if words.endswith("%") else cls(pixels=number)

    def of(self, width: float, height: float) -> tuple[float, float]:
        """Return the margin in pixels, horizontally and vertically, of a region of this size."""
        return self.pixels + self.share * width, self.pixels + self.share * height


class Outline(ABC):
    """The shape of a region."""

    @abstractmethod
    def bounds(self) -> tuple[float, float, float, float]:
        """Return left, top, right and bottom."""

    @abstractmethod
    def scaled(self, width: float, height: float) -> Outline:
        """Return the outline with coordinates multiplied by a width and a height."""

    @abstractmethod
    def fill(self, mask: Mask, margin: Margin) -> None:
        """Set every pixel (H, W) that the outline grown by a margin touches."""

    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """Return the outline as our own JSON has it."""


@dataclass(frozen=True)
class Box(Outline):
    """A rectangle along the axes."""

    left: float
    top: float
    right: float
    bottom: float

    def __post_init__(self) -> None:
        _require_numbers((self.left, self.top, self.right, self.bottom))
        if not (self.left < self.right and self.top < self.bottom):
            size = f"{self.right - self.left:g}×{self.bottom - self.top:g}"
            raise DippError(f"a box of {size} is empty; give one that has an area, or leave it out")

    def bounds(self) -> tuple[float, float, float, float]:
        """Return left, top, right and bottom."""
        return self.left, self.top, self.right, self.bottom

    def scaled(self, width: float, height: float) -> Box:
        """Return the box with coordinates multiplied by a width and a height."""
        return Box(self.left * width, self.top * height, self.right * width, self.bottom * height)

    def fill(self, mask: Mask, margin: Margin) -> None:
        """Set every pixel that the grown box overlaps."""
        across, down = margin.of(self.right - self.left, self.bottom - self.top)
        rows = slice(max(0, math.floor(self.top - down)), max(0, math.ceil(self.bottom + down)))
        columns = slice(max(0, math.floor(self.left - across)), max(0, math.ceil(self.right + across)))
        mask[rows, columns] = True

    def facts(self) -> dict[str, Any]:
        """Return left, top, width and height as our own JSON; the four edges where rounding would move one."""
        width, height = self.right - self.left, self.bottom - self.top
        if (self.left + width, self.top + height) == (self.right, self.bottom):
            return {"box": [self.left, self.top, width, height]}
        return {"edges": [self.left, self.top, self.right, self.bottom]}


@dataclass(frozen=True)
class Polygon(Outline):
    """A closed polygon; everything that its outline encloses belongs to it."""

    points: tuple[tuple[float, float], ...]

    def __post_init__(self) -> None:
        _require_numbers(number for point in self.points for number in point)
        if len(self.points) < 3:
            raise DippError(f"a polygon needs 3 points or more, got {len(self.points)}")

    def bounds(self) -> tuple[float, float, float, float]:
        """Return left, top, right and bottom."""
        across, down = zip(*self.points, strict=True)
        return min(across), min(down), max(across), max(down)

    def scaled(self, width: float, height: float) -> Polygon:
        """Return the polygon with coordinates multiplied by a width and a height."""
        return Polygon(tuple((x * width, y * height) for x, y in self.points))

    def fill(self, mask: Mask, margin: Margin) -> None:
        """Set every pixel that the polygon touches, grown by a margin of whole pixels."""
        left, top, right, bottom = self.bounds()
        across, down = (math.ceil(side) for side in margin.of(right - left, bottom - top))
        first_row, first_column = math.floor(top) - 1, math.floor(left) - 1
        shape = math.ceil(bottom) + 1 - first_row, math.ceil(right) + 1 - first_column
        if shape[0] * shape[1] > 64 * mask.size + 4096:
            raise DippError("a polygon is far larger than the picture; it is for another one")
        own = np.zeros(shape, bool)
        points = [(x - first_column, y - first_row) for x, y in self.points]
        for start, end in zip(points, [*points[1:], points[0]], strict=True):
            _touch(own, start, end)
        _place(mask, _enclosed(own), first_row, first_column, across, down)

    def facts(self) -> dict[str, Any]:
        """Return the points, as our own JSON has them."""
        return {"polygon": [list(point) for point in self.points]}


@dataclass(frozen=True, eq=False)
class Pixels(Outline):
    """A mask: single pixels, whose top left corner lies somewhere in the picture."""

    inside: Mask
    left: int = 0
    top: int = 0

    def __post_init__(self) -> None:
        _require_numbers((self.left, self.top))
        if self.inside.ndim != 2 or not self.inside.any():
            raise DippError("a mask is empty; give one that has pixels, or leave it out")

    def bounds(self) -> tuple[float, float, float, float]:
        """Return left, top, right and bottom of its pixels."""
        rows, columns = np.flatnonzero(self.inside.any(axis=1)), np.flatnonzero(self.inside.any(axis=0))
        return (
            float(self.left + columns[0]),
            float(self.top + rows[0]),
            float(self.left + columns[-1] + 1),
            float(self.top + rows[-1] + 1),
        )

    def scaled(self, width: float, height: float) -> Pixels:
        """Raise: a mask is made of the pixels of one size."""
        raise DippError(f"a mask cannot be scaled by {width:g}×{height:g}; give it in pixels")

    def fill(self, mask: Mask, margin: Margin) -> None:
        """Set its pixels, grown by a margin of whole pixels."""
        left, top, right, bottom = self.bounds()
        across, down = (math.ceil(side) for side in margin.of(right - left, bottom - top))
        _place(mask, self.inside, self.top, self.left, across, down)

    def facts(self) -> dict[str, Any]:
        """Return size, corner and run lengths, as our own JSON has them."""
        height, width = self.inside.shape
        return {"mask": {"size": [width, height], "corner": [self.left, self.top], "runs": runs(self.inside)}}


@dataclass(frozen=True)
class Region:
    """One region of a picture."""

    outline: Outline
    kind: str = "region"
    """What it shows, such as face or plate."""
    id: str | None = None
    """Whom it shows: regions with one id are one unit."""


@dataclass(frozen=True)
class Declared:
    """The regions that were declared for one picture."""

    regions: tuple[Region, ...]
    size: Size | None = None
    """Width and height of the picture that they were declared for, where that is recorded."""
    relative: bool = False
    """Whether coordinates are shares of width and height."""
    source: str = "regions"
    """Name of the file that they come from."""
    oriented: bool | None = field(default=None)
    """Whether coordinates are those of the picture turned by its EXIF orientation; None where that is not recorded."""

    def chosen(self, kinds: Iterable[str] | None) -> Declared:
        """Return the regions of some kinds alone; None stands for all."""
        if kinds is None:
            return self
        wanted = set(kinds)
        kept = tuple(region for region in self.regions if region.kind in wanted)
        return Declared(kept, self.size, self.relative, self.source, self.oriented)

    def placed(self, size: Size, orientation: int, oriented: bool | None) -> Placed:
        """Return the regions in pixels of a picture of this size.

        Args:
            size: Width and height as they are stored.
            orientation: EXIF orientation, 1 to 8.
            oriented: Whether coordinates are those of the turned picture; None lets recorded sizes decide.

        Raises:
            DippError: The regions are for another size, lie outside, or could be meant in two ways.
        """
        turned = self._turned(size, orientation, oriented)
        seen = size[::-1] if turned and orientation in SWAPPED else size
        if self.size is not None and self.size != seen:
            raise DippError(f"{self.source}: the regions are for {_by(self.size)} pixels, the picture has {_by(seen)}")
        regions = []
        for number, region in enumerate(self.regions, 1):
            try:
                outline = region.outline.scaled(*seen) if self.relative else region.outline
                left, top, right, bottom = outline.bounds()
            except DippError as error:
                raise DippError(f"{self.source}: region {number}: {error}") from None
            if left >= seen[0] or top >= seen[1] or right <= 0 or bottom <= 0:
                raise DippError(
                    f"{self.source}: region {number} lies outside the picture of {_by(seen)} pixels: "
                    f"{left:g},{top:g} to {right:g},{bottom:g}; is it for another picture?"
                )
            if not self.relative and _looks_relative(outline) and max(seen) > 1:
                raise DippError(
                    f"{self.source}: region {number} has no number above 1, so it may be given in shares of width and "
                    "height; multiply them by both, or declare a larger box"
                )
            regions.append(Region(outline, region.kind, region.id))
        return Placed(tuple(regions), size, orientation if turned else 1)

    def _turned(self, size: Size, orientation: int, oriented: bool | None) -> bool:
        """Return whether coordinates are those of the turned picture; refuse to guess."""
        if orientation == 1 or not self.regions:
            return False
        said = {choice for choice in (self.oriented, oriented) if choice is not None}
        if orientation in SWAPPED and size[0] != size[1] and self.size in (size, size[::-1]):
            said.add(self.size == size[::-1])
        if len(said) > 1:
            raise DippError(f"{self.source}: its own sizes contradict --boxes; leave --boxes out")
        if not said:
            raise DippError(
                f"{self.source}: the picture has the EXIF orientation {orientation}; say whether boxes are meant in "
                "the picture as it is stored or as it is shown: --boxes raw or --boxes oriented"
            )
        return said.pop()


@dataclass(frozen=True)
class Placed:
    """Regions in pixels of one picture, all of them inside it."""

    regions: tuple[Region, ...]
    size: Size
    """Width and height as the picture is stored."""
    turned: int = 1
    """EXIF orientation of the picture that coordinates lie in; 1 for the picture as it is stored."""

    def each(self) -> Iterator[Placed]:
        """Yield the regions one by one."""
        for region in self.regions:
            yield Placed((region,), self.size, self.turned)

    def mask(self, margin: Margin) -> Mask:
        """Return the pixels (H, W) of the stored picture that regions hide."""
        width, height = self.size[::-1] if self.turned in SWAPPED else self.size
        mask = np.zeros((height, width), bool)
        for number, region in enumerate(self.regions, 1):
            try:
                region.outline.fill(mask, margin)
            except DippError as error:
                raise DippError(f"image: region {number}: {error}") from None
        return stored(mask, self.turned)


def stored(mask: NDArray[Any], orientation: int) -> NDArray[Any]:
    """Return a mask (H, W), or pixels (H, W, C), of the turned picture as they lie in the stored one."""
    if orientation in SWAPPED:
        mask = mask.swapaxes(0, 1)
    # What a viewer does to the stored picture: after the exchange of sides, flips of columns and rows.
    columns, rows = {1: (0, 0), 2: (1, 0), 3: (1, 1), 4: (0, 1), 5: (0, 0), 6: (0, 1), 7: (1, 1), 8: (1, 0)}[
        orientation
    ]
    mask = mask[:, ::-1] if columns else mask
    return np.ascontiguousarray(mask[::-1] if rows else mask)


def runs(mask: Mask) -> list[int]:
    """Return the lengths of runs of a mask, row by row, beginning with pixels outside."""
    flat = mask.reshape(-1)
    changes = np.flatnonzero(flat[1:] != flat[:-1]) + 1
    lengths = np.diff(np.concatenate([[0], changes, [flat.size]])).tolist()
    return [0, *lengths] if flat.size and flat[0] else lengths


def mask_of_runs(lengths: Iterable[int], height: int, width: int, *, columns: bool = False) -> Mask:
    """Return the mask (height, width) of run lengths, row by row or column by column."""
    counts = list(lengths)
    if height * width > MAX_PICTURE:
        raise DippError(f"a mask of {width:g}×{height:g} pixels is too large; it is for another picture")
    if height < 1 or width < 1 or any(count < 0 for count in counts) or sum(counts) != height * width:
        raise DippError(f"the runs of a mask do not add up to {width:g}×{height:g} pixels")
    flat = np.repeat(np.arange(len(counts)) % 2 == 1, counts)
    return flat.reshape(width, height).T.copy() if columns else flat.reshape(height, width)


def _looks_relative(outline: Outline) -> bool:
    """Return whether numbers that should be pixels may be shares of width and height: then they hide nothing."""
    left, top, right, bottom = outline.bounds()
    return not isinstance(outline, Pixels) and max(left, top, right - left, bottom - top) <= 1


def _by(size: Size) -> str:
    return f"{size[0]}×{size[1]}"


def _require_numbers(numbers: Iterable[float]) -> None:
    for number in numbers:
        if not abs(number) <= LARGEST:
            raise DippError(f"a coordinate of {number:g} is not one; give a number of pixels")


def _touch(mask: Mask, start: tuple[float, float], end: tuple[float, float]) -> None:
    """Set every pixel that a segment touches, even with its border alone."""
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
    """Return a closed outline with everything that it encloses."""
    from scipy import ndimage

    filled: Mask = ndimage.binary_fill_holes(outline)
    return filled


def _place(mask: Mask, own: Mask, top: int, left: int, across: int, down: int) -> None:
    """Set the pixels of a mask of its own, grown by a margin, in the mask of a picture; raise if there are none."""
    from scipy import ndimage

    # Whatever a larger margin would reach lies outside the picture.
    down = min(down, abs(top) + len(own) + mask.shape[0])
    across = min(across, abs(left) + own.shape[1] + mask.shape[1])
    grown = np.pad(own, ((down, down), (across, across)))
    if across or down:
        grown = ndimage.maximum_filter(grown, size=(2 * down + 1, 2 * across + 1))
    top, left = top - down, left - across
    rows = max(0, top), min(mask.shape[0], top + grown.shape[0])
    columns = max(0, left), min(mask.shape[1], left + grown.shape[1])
    part = grown[max(0, rows[0] - top) : max(0, rows[1] - top), max(0, columns[0] - left) : max(0, columns[1] - left)]
    if not part.any():
        raise DippError("no pixel of the picture lies in it; is it for another one?")
    mask[rows[0] : rows[1], columns[0] : columns[1]] |= part
