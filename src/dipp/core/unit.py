"""The interface of a unit: one part of a public partition of a picture's coordinates, which a certificate protects.

Two pictures are *neighbours* if they have the same geometry and agree outside one unit. A certificate bounds how well
a reader of the file can tell neighbours apart. The partition follows from the geometry and from public parameters
alone, never from what is in a picture. The kinds of units are in `core.units`.

**The price of a larger object.** If an object of w×h pixels meets at most k units, a change of everything in it is a
chain of k neighbours. So its pure ε is at most k times that of a unit (`privacy.certificate`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dipp.core.geometry import Geometry
from dipp.errors import DippError

Integers = NDArray[np.int64]
Size = tuple[int, int]
"""Width and height of an object, in pixels."""
MAX_LENGTH = (1 << 32) - 1
"""Largest width and height of an object: files have 32 bits for each."""


class Unit(ABC):
    """A public partition of a picture's coordinates into units.

    Subclasses are frozen dataclasses of the public parameters of the partition.
    """

    kind: ClassVar[str]
    """Name of the kind of unit, in JSON and in texts."""
    number: ClassVar[int]
    """Number of the kind of unit in files."""
    whole: ClassVar[bool] = False
    """Whether each picture is a single unit, so that ε bounds what a file tells about everything in it."""
    surrounded: ClassVar[bool] = False
    """Whether pixels outside all units exist; they are public, and the receiver knows them before the first step."""

    @property
    @abstractmethod
    def words(self) -> str:
        """A unit in words, for the end of a sentence, such as "one pixel (all its channels) of the array"."""

    @abstractmethod
    def several(self, count: int) -> str:
        """Return `count` units in words, for the end of a sentence, such as "any 3 pixels of the array"."""

    @property
    def short(self) -> str:
        """A unit in a word or two, for use after "per": "pixel", "16×16 cell"."""
        return self.kind

    @property
    def plural(self) -> str:
        """Plural of `short`: "pixels", "16×16 cells"."""
        return f"{self.short}s"

    @property
    def reader(self) -> str:
        """The strongest reader against whom ε holds, in words that follow "for"."""
        return "somebody who knows everything else in the picture"

    @property
    @abstractmethod
    def neighbours(self) -> str:
        """The difference between two neighbouring collections of pictures, in words that follow "differ in"."""

    @property
    def uncovered(self) -> tuple[str, ...]:
        """What a certificate for this kind of unit does not cover: one text for each gap, without a full stop."""
        return (
            f"what the rest of the picture tells about a {self.short}: ε bounds what the file adds for somebody who "
            "knows it all",
            f"an object of several {self.plural}: it pays for all that it meets{self._example}",
            "what was mixed before encoding: a resize, a blur or lossy compression (4:2:0 JPEG, WebP, AVIF) spreads an "
            "object of the scene over the pixels around it; ε speaks of the decoded array",
        )

    def recognisable(self, epsilon: str, *, strong: bool) -> str:  # noqa: ARG002
        """Return a sentence that says whether people and things can be recognised in a release, and why.

        Args:
            epsilon: The ε of a unit, as text.
            strong: Whether this ε is a strong bound (`privacy.advice`).
        """
        return (
            f"perhaps, because ε is about single {self.plural}, and whatever is larger pays for each that it meets: "
            "treat the people in the pictures as identifiable in the release, unless the price of an object of their "
            "size is small"
        )

    @property
    def _example(self) -> str:
        """The price of an example object of several units, as the end of a sentence; empty by default."""
        return ""

    @abstractmethod
    def count(self, geometry: Geometry) -> int:
        """Return the number of units of a picture."""

    def side_in(self, geometry: Geometry) -> float:
        """Return the side, in pixels, of a square with as many pixels as a unit of the picture has on average."""
        return math.sqrt(geometry.pixels / self.count(geometry))

    @property
    def square(self) -> int | None:
        """Side of each unit in pixels if units are squares; None if they have other shapes."""
        return None

    def total(self, pixels: int, images: int) -> int:  # noqa: ARG002
        """Return a lower bound on the number of units in a collection of pictures.

        Args:
            pixels: Number of pixels of all pictures together.
            images: Number of pictures.
        """
        return images

    def smallest(self, geometries: Iterable[Geometry]) -> Geometry | None:
        """Return the geometry with the fewest units, which has the largest ε; None if there are no geometries."""
        return min(geometries, key=self._rank, default=None)

    def largest(self, geometries: Iterable[Geometry]) -> Geometry | None:
        """Return the geometry with the most units, whose whole picture has the largest ε; None without any."""
        return max(geometries, key=self._rank, default=None)

    def _rank(self, geometry: Geometry) -> tuple[int, int, Geometry]:
        return self.count(geometry), geometry.coordinates, geometry

    @abstractmethod
    def of(self, coordinates: Integers, geometry: Geometry) -> Integers:
        """Return the number of the unit that each coordinate belongs to.

        Args:
            coordinates: Coordinates of a picture (`Geometry`), int64 of any shape.
            geometry: The geometry of the picture.

        Returns:
            Numbers of units from 0 to `count` − 1, int64 of the same shape; −1 for a coordinate outside all units.
        """

    def ids(self, geometry: Geometry) -> Integers:
        """Return the number of the unit of every coordinate of a picture, in order; every unit occurs."""
        return self.of(np.arange(geometry.coordinates, dtype=np.int64), geometry)

    @abstractmethod
    def met(self, width: int, height: int, geometry: Geometry | None = None) -> int:
        """Return the largest number of units of a picture that a rectangular object can overlap, wherever it lies.

        Args:
            width: Width of the object in pixels, at least 1.
            height: Height of the object in pixels, at least 1.
            geometry: The geometry of the picture in which the object lies; by default a picture of any size.

        """

    def divisions(self, length: int, parts: int) -> Integers:
        """Return the positions at which an axis is cut to divide each unit into `parts` equal parts along it.

        Args:
            length: Height or width of the picture.
            parts: Number of parts of a whole unit; units that the picture's edge cuts off may have fewer.

        Returns:
            The cuts, ascending from 0 to `length`: part i has the pixels cuts[i] … cuts[i + 1] − 1, all of one unit.

        Raises:
            DippError: The units cannot be divided into this number of parts.

        """
        raise DippError("unit", f"is a {self.short}, which does not divide {length} pixels into {parts} parts")

    def pieces(self, length: int, parts: int) -> int:
        """Return the number of parts into which `divisions` cuts an axis.

        Args:
            length: Number of pixels of the axis.
            parts: Number of parts of a side of a unit.
        """
        return len(self.divisions(length, parts)) - 1

    def divided(self, parts: int) -> Unit:
        """Return the unit that divides the coarse picture, which has one pixel for each part of `divisions`.

        Args:
            parts: Number of parts of a side of a unit.

        Raises:
            DippError: The unit does not divide into that many parts.
        """
        raise DippError("unit", f"is a {self.short}, which does not divide into {parts} parts")

    @property
    def beyond(self) -> str:
        """A text on the pixels that the price of an object leaves out; empty if units cover the whole picture."""
        return ""

    def require_within(self, geometry: Geometry) -> None:  # noqa: B027 - most units divide any picture
        """Raise if a part of the unit lies outside a picture of this geometry; by default accept any."""

    def require_parts(self, parts: int) -> None:
        """Raise if a unit cannot be divided into `parts` × `parts` coarse pixels."""
        self.divisions(1, parts)

    @property
    def most_places(self) -> int:
        """Largest number of boxes of one unit; 1 except for regions in which several boxes share a unit."""
        return 1

    def grid(self, geometry: Geometry, parts: int) -> tuple[Unit, Geometry]:
        """Return the coarse picture in which each box of a unit has `parts` × `parts` coarse pixels.

        A file may state any geometry, so no memory in proportion to it is allocated.

        Args:
            geometry: Geometry of the picture.
            parts: Number of coarse pixels along a side of a unit.

        Returns:
            The unit that divides the coarse picture, and the geometry of the coarse picture.
        """
        height, width = (self.pieces(side, parts) for side in (geometry.height, geometry.width))
        return self.divided(parts), Geometry(height, width, geometry.channels)

    def means(self, pictures: Any, parts: int) -> Any:
        """Return the coarse pixels of pictures: each is the mean over pixels of a single unit.

        Args:
            pictures: Eight-bit pixels (N, H, W, C); they may be private.
            parts: Number of parts into which each unit is divided along each axis (`divisions`).

        Returns:
            Means (N, rows, columns, C) as float64, from 0 to 255.
        """
        rows, columns = (self.divisions(side, parts) for side in pictures.shape[1:3])
        sums = np.add.reduceat(np.add.reduceat(pictures, rows[:-1], axis=1, dtype=np.int64), columns[:-1], axis=2)
        return sums / np.multiply.outer(np.diff(rows), np.diff(columns))[..., None]

    def to_bytes(self) -> bytes:
        """Return the unit as bytes: the number of its kind, then its parameters (read by `units.from_bytes`)."""
        return bytes([self.number]) + self._parameters_to_bytes()

    def _parameters_to_bytes(self) -> bytes:
        """Return the parameters as bytes; equal units give equal bytes. Empty by default."""
        return b""

    @classmethod
    def _from_parameters(cls, content: bytes) -> Unit:
        """Return the unit whose parameters are exactly these bytes, or raise; by default they must be empty."""
        if content:
            raise DippError("unit", f"must have no parameters if it is a {cls.kind}, got {len(content)} bytes")
        return cls()

    def to_dict(self) -> dict[str, Any]:
        """Return the unit as a dictionary for JSON: its kind and its parameters."""
        return {"kind": self.kind, **asdict(self)}  # type: ignore[call-overload] # units are dataclasses


def within(width: int, height: int, geometry: Geometry | None) -> tuple[int, int]:
    """Return the width and height, in pixels, of the largest part of an object that can lie within a picture.

    Args:
        width: Width of the object in pixels.
        height: Height of the object in pixels.
        geometry: Geometry of the picture; None for a picture of any size.

    Raises:
        DippError: A side of the object is not a whole number from 1 to `MAX_LENGTH`.
    """
    if not all(type(side) is int and 1 <= side <= MAX_LENGTH for side in (width, height)):
        problem = f"must have a width and a height that are whole numbers from 1 to {MAX_LENGTH}, got {width}×{height}"
        raise DippError("object", problem)
    return (width, height) if geometry is None else (min(width, geometry.width), min(height, geometry.height))
