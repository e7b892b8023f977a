"""Regions: what is to be hidden in a picture, and which of its pixels are meant (`outlines`).

Outlines lie in a picture as it is stored or as a viewer turns it by its EXIF orientation. `PlacedRegions.mask` gives
pixels as they are stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dipp.errors import DippError
from dipp.redaction.outlines import Margin, Mask, Outline, Pixels

Size = tuple[int, int]
"""Width and height."""

SWAPPED = (5, 6, 7, 8)
"""EXIF orientations that exchange width and height."""


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

    def placed(self, size: Size, orientation: int, oriented: bool | None) -> PlacedRegions:
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
            raise DippError(
                self.source, f"must be for a picture of {_by(seen)} pixels, got regions for {_by(self.size)}"
            )
        regions = []
        for number, region in enumerate(self.regions, 1):
            try:
                outline = region.outline.scaled(*seen) if self.relative else region.outline
                left, top, right, bottom = outline.bounds()
            except DippError as error:
                raise error.about(f"{self.source}: region {number}") from None
            if left >= seen[0] or top >= seen[1] or right <= 0 or bottom <= 0:
                raise DippError(
                    self.source,
                    f"must not have region {number} outside the picture of {_by(seen)} pixels, got {left:g},{top:g} to "
                    f"{right:g},{bottom:g}",
                    "is it for another picture?",
                )
            if not self.relative and _looks_relative(outline) and max(seen) > 1:
                raise DippError(
                    self.source,
                    f"must have a number above 1 in region {number}, which may be given in shares of width and height",
                    "multiply them by both, or declare a larger box",
                )
            regions.append(Region(outline, region.kind, region.id))
        return PlacedRegions(tuple(regions), size, orientation if turned else 1)

    def _turned(self, size: Size, orientation: int, oriented: bool | None) -> bool:
        """Return whether coordinates are those of the turned picture; refuse to guess."""
        if orientation == 1 or not self.regions:
            return False
        said = {choice for choice in (self.oriented, oriented) if choice is not None}
        if orientation in SWAPPED and size[0] != size[1] and self.size in (size, size[::-1]):
            said.add(self.size == size[::-1])
        if len(said) > 1:
            raise DippError(self.source, "must not have sizes that contradict --boxes", "leave --boxes out")
        if not said:
            raise DippError(
                self.source,
                f"must say how boxes lie in a picture with the EXIF orientation {orientation}",
                "say whether boxes are meant in the picture as it is stored or as it is shown: --boxes raw or --boxes "
                "oriented",
            )
        return said.pop()


@dataclass(frozen=True)
class PlacedRegions:
    """Regions in pixels of one picture, all of them inside it."""

    regions: tuple[Region, ...]
    size: Size
    """Width and height as the picture is stored."""
    turned: int = 1
    """EXIF orientation of the picture that coordinates lie in; 1 for the picture as it is stored."""

    def each(self) -> Iterator[PlacedRegions]:
        """Yield the regions one by one."""
        for region in self.regions:
            yield PlacedRegions((region,), self.size, self.turned)

    def mask(self, margin: Margin) -> Mask:
        """Return the pixels (H, W) of the stored picture that regions hide."""
        width, height = self.size[::-1] if self.turned in SWAPPED else self.size
        mask = np.zeros((height, width), bool)
        for number, region in enumerate(self.regions, 1):
            try:
                region.outline.fill(mask, margin)
            except DippError as error:
                raise error.about(f"image: region {number}") from None
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


def _looks_relative(outline: Outline) -> bool:
    """Return whether numbers that should be pixels may be shares of width and height: then they hide nothing."""
    left, top, right, bottom = outline.bounds()
    return not isinstance(outline, Pixels) and max(left, top, right - left, bottom - top) <= 1


def _by(size: Size) -> str:
    return f"{size[0]}×{size[1]}"
