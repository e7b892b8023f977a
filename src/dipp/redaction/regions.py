"""Regions: what to hide in a picture, and the pixels that this covers (`outlines`).

The coordinates of outlines belong to the picture as it is stored, or as a viewer turns it by its EXIF orientation.
`PlacedRegions.mask` returns pixels as they are stored.
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
    """A region of a picture: its outline, its kind, and whom it shows."""

    outline: Outline
    kind: str = "region"
    """What the region shows, such as face or plate."""
    id: str | None = None
    """Whom the region shows; None if that is not stated. Regions with one id are one unit."""


@dataclass(frozen=True)
class DeclaredRegions:
    """The regions that were declared for one picture."""

    regions: tuple[Region, ...]
    size: Size | None = None
    """Width and height of the picture for which they were declared; None if that is not recorded."""
    relative: bool = False
    """Whether coordinates are shares of width and height, 0 to 1, and not pixels."""
    source: str = "regions"
    """Name of the file that declares them, for errors."""
    oriented: bool | None = field(default=None)
    """Whether coordinates belong to the picture turned by its EXIF orientation; None if that is not recorded."""

    def chosen(self, kinds: Iterable[str] | None) -> DeclaredRegions:
        """Return only the regions of the given kinds; None keeps all regions."""
        if kinds is None:
            return self
        wanted = set(kinds)
        chosen = tuple(region for region in self.regions if region.kind in wanted)
        return DeclaredRegions(chosen, self.size, self.relative, self.source, self.oriented)

    def placed(self, size: Size, orientation: int, oriented: bool | None) -> PlacedRegions:
        """Return the regions in the pixels of a picture.

        Args:
            size: Width and height of the picture as it is stored.
            orientation: Its EXIF orientation, 1 to 8.
            oriented: Whether coordinates belong to the turned picture; None lets recorded sizes decide.

        Raises:
            DippError: The regions are for a picture of another size, lie outside the picture, or are ambiguous.
        """
        turned = self._turned(size, orientation, oriented)
        shown = size[::-1] if turned and orientation in SWAPPED else size
        if self.size is not None and self.size != shown:
            raise DippError(
                self.source, f"must be for a picture of {_by(shown)} pixels, got regions for {_by(self.size)}"
            )
        regions = []
        for number, region in enumerate(self.regions, 1):
            try:
                outline = region.outline.scaled(*shown) if self.relative else region.outline
                left, top, right, bottom = outline.bounds()
            except DippError as error:
                raise error.about(f"{self.source}: region {number}") from None
            if left >= shown[0] or top >= shown[1] or right <= 0 or bottom <= 0:
                raise DippError(
                    self.source,
                    f"must not have region {number} outside the picture of {_by(shown)} pixels, got {left:g},{top:g} "
                    f"to {right:g},{bottom:g}",
                    "is it for another picture?",
                )
            if not self.relative and _looks_relative(outline) and max(shown) > 1:
                raise DippError(
                    self.source,
                    f"must have a number above 1 in region {number}, which may be given in shares of width and height",
                    "multiply them by both, or declare a larger box",
                )
            regions.append(Region(outline, region.kind, region.id))
        return PlacedRegions(tuple(regions), size, orientation if turned else 1)

    def _turned(self, size: Size, orientation: int, oriented: bool | None) -> bool:
        """Return whether coordinates belong to the turned picture; raise if that is not stated."""
        if orientation == 1 or not self.regions:
            return False
        stated = {choice for choice in (self.oriented, oriented) if choice is not None}
        if orientation in SWAPPED and size[0] != size[1] and self.size in (size, size[::-1]):
            stated.add(self.size == size[::-1])
        if len(stated) > 1:
            raise DippError(self.source, "must not have sizes that contradict --boxes", "leave --boxes out")
        if not stated:
            raise DippError(
                self.source,
                f"must say how boxes lie in a picture with the EXIF orientation {orientation}",
                "say whether boxes are meant in the picture as it is stored or as it is shown: --boxes raw or --boxes "
                "oriented",
            )
        return stated.pop()


@dataclass(frozen=True)
class PlacedRegions:
    """Regions in the pixels of one picture; each of them overlaps the picture."""

    regions: tuple[Region, ...]
    size: Size
    """Width and height of the picture as it is stored."""
    turned: int = 1
    """EXIF orientation by which the picture is turned that coordinates belong to; 1 for the picture as it is stored."""

    def singles(self) -> Iterator[PlacedRegions]:
        """Yield each region by itself, in a `PlacedRegions` that contains no other."""
        for region in self.regions:
            yield PlacedRegions((region,), self.size, self.turned)

    def mask(self, margin: Margin) -> Mask:
        """Return the mask (H, W) of the pixels of the stored picture that the regions hide, grown by a margin.

        Raises:
            DippError: A region contains no pixel of the picture.
        """
        width, height = self.size[::-1] if self.turned in SWAPPED else self.size
        mask = np.zeros((height, width), bool)
        for number, region in enumerate(self.regions, 1):
            try:
                region.outline.fill(mask, margin)
            except DippError as error:
                raise error.about(f"image: region {number}") from None
        return stored(mask, self.turned)


def stored(mask: NDArray[Any], orientation: int) -> NDArray[Any]:
    """Return a mask (H, W) or pixels (H, W, C) of the turned picture in the order of the stored picture.

    Args:
        mask: The array.
        orientation: EXIF orientation, 1 to 8.
    """
    if orientation in SWAPPED:
        mask = mask.swapaxes(0, 1)
    # A viewer exchanges the sides of the stored picture, and then flips its columns and rows.
    columns, rows = {1: (0, 0), 2: (1, 0), 3: (1, 1), 4: (0, 1), 5: (0, 0), 6: (0, 1), 7: (1, 1), 8: (1, 0)}[
        orientation
    ]
    mask = mask[:, ::-1] if columns else mask
    return np.ascontiguousarray(mask[::-1] if rows else mask)


def _looks_relative(outline: Outline) -> bool:
    """Return whether coordinates that should be pixels may be shares of width and height, which would hide nothing."""
    left, top, right, bottom = outline.bounds()
    return not isinstance(outline, Pixels) and max(left, top, right - left, bottom - top) <= 1


def _by(size: Size) -> str:
    """Return a size as text, such as 640×480."""
    return f"{size[0]}×{size[1]}"
