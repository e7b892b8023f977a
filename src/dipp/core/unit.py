"""The face of a unit: one part of a public partition of a picture's coordinates, which a certificate protects.

Two pictures are *neighbours* if they have the same geometry and agree outside one unit. A certificate bounds how well
a reader of the file can tell neighbours apart. The partition follows from the geometry and from public parameters
alone, never from what is in a picture. The kinds of units are in `core.units`.

**The price of a larger object.** If a w×h window meets at most k units, a change of everything in it is a chain of k
neighbours. So its pure ε is at most k times that of a unit (`privacy.certificate`).
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
    """A public partition of a picture's coordinates. Units are frozen dataclasses of their public parameters."""

    kind: ClassVar[str]
    """Name of the kind in JSON and in words."""
    number: ClassVar[int]
    """Number of the kind in files."""
    whole: ClassVar[bool] = False
    """Whether each picture is one unit, so that ε speaks of everything in it."""
    surrounded: ClassVar[bool] = False
    """Whether units belong to one picture, and what lies outside all of them is public and known before any answer."""

    @property
    @abstractmethod
    def words(self) -> str:
        """The unit in words that end a sentence, such as "one pixel (all its channels) of the array"."""

    @abstractmethod
    def several(self, count: int) -> str:
        """Return the words for any `count` units together, as `words` has them for one."""

    @property
    def short(self) -> str:
        """The unit in a word or two, to be used after "per"."""
        return self.kind

    @property
    def plural(self) -> str:
        """Several units in a word or two."""
        return f"{self.short}s"

    @property
    def reader(self) -> str:
        """The reader to whom the bound of ε is made, in words that follow "for"."""
        return "somebody who knows everything else in the picture"

    @property
    @abstractmethod
    def neighbours(self) -> str:
        """In what two neighbouring collections of pictures differ, in words that follow "differ in"."""

    @property
    def uncovered(self) -> tuple[str, ...]:
        """What a certificate of the unit does not cover because of what the unit is: a text each, no full stop."""
        return (
            f"what the rest of the picture tells about a {self.short}: ε bounds what the file adds for somebody who "
            "knows it all",
            f"an object of several {self.plural}: it pays for all that it meets{self._example}",
            "what was mixed before encoding: a resize, a blur or lossy compression (4:2:0 JPEG, WebP, AVIF) spreads an "
            "object of the scene over the pixels around it; ε speaks of the decoded array",
        )

    def recognisable(self, epsilon: str, *, strong: bool) -> str:  # noqa: ARG002
        """Return whether people and things can be recognised in a release, and why, in words.

        Args:
            epsilon: The ε of a unit, in digits.
            strong: Whether such an ε is a strong bound (`privacy.advice`).
        """
        return (
            f"perhaps, because ε is about single {self.plural}, and whatever is larger pays for each that it meets: "
            "treat the people in the pictures as identifiable in the release, unless the price of an object of their "
            "size is small"
        )

    @property
    def _example(self) -> str:
        """An example of an object of several units; by default none."""
        return ""

    @abstractmethod
    def count(self, geometry: Geometry) -> int:
        """Return the number of units of a picture."""

    def side_in(self, geometry: Geometry) -> float:
        """Return the side, in pixels, of a square as large as a unit of a picture, on the average."""
        return math.sqrt(geometry.pixels / self.count(geometry))

    @property
    def square(self) -> int | None:
        """Side of the squares of pixels that units are; None if they have other shapes."""
        return None

    def total(self, pixels: int, images: int) -> int:  # noqa: ARG002
        """Return a number of units that pictures of this number of pixels have together, at least."""
        return images

    def smallest(self, geometries: Iterable[Geometry]) -> Geometry | None:
        """Return the geometry with the fewest units, whose certificate is the worst; None without geometries."""
        return min(geometries, key=self._rank, default=None)

    def largest(self, geometries: Iterable[Geometry]) -> Geometry | None:
        """Return the geometry with the most units, which as a whole has the highest price; None without geometries."""
        return max(geometries, key=self._rank, default=None)

    def _rank(self, geometry: Geometry) -> tuple[int, int, Geometry]:
        return self.count(geometry), geometry.coordinates, geometry

    @abstractmethod
    def of(self, coordinates: Integers, geometry: Geometry) -> Integers:
        """Return the unit of each of some coordinates, as int64 from 0 to count − 1."""

    def ids(self, geometry: Geometry) -> Integers:
        """Return the unit of every coordinate of a picture; every unit has a coordinate."""
        return self.of(np.arange(geometry.coordinates, dtype=np.int64), geometry)

    @abstractmethod
    def met(self, width: int, height: int, geometry: Geometry | None = None) -> int:
        """Return how many units a window can meet, wherever it lies.

        Args:
            width: Width of the window in pixels, at least 1.
            height: Height of the window in pixels, at least 1.
            geometry: The picture in which the window lies; by default one of any size.

        """

    def divisions(self, length: int, parts: int) -> Integers:
        """Return where an axis of a picture is cut if each unit is divided into `parts` equal parts along it.

        Args:
            length: Height or width of the picture.
            parts: Number of parts of a whole unit; units that the picture's edge cuts off may have fewer.

        Returns:
            The cuts, ascending from 0 to `length`: part i has the pixels cuts[i] … cuts[i + 1] − 1, all of one unit.

        Raises:
            DippError: The units cannot be divided so.

        """
        raise DippError("unit", f"a {self.short} cannot be divided into {parts} parts of the {length} pixels")

    def pieces(self, length: int, parts: int) -> int:
        """Return how many parts `divisions` makes of an axis."""
        return len(self.divisions(length, parts)) - 1

    def divided(self, parts: int) -> Unit:
        """Return this unit on the coarse picture that has one pixel for each of the parts of `divisions`."""
        raise DippError("unit", f"a {self.short} cannot be divided into {parts} parts")

    @property
    def beyond(self) -> str:
        """What a price by size leaves out, in words that follow it; empty if units cover the whole picture."""
        return ""

    def require_within(self, geometry: Geometry) -> None:  # noqa: B027 - most units divide any picture
        """Raise if the unit is one of parts that do not lie in a picture of this geometry."""

    def require_parts(self, parts: int) -> None:
        """Raise if a unit cannot be divided into `parts` × `parts` coarse pixels."""
        self.divisions(1, parts)

    @property
    def most_places(self) -> int:
        """Number of places that are divided for one unit, at most: 1, but for regions that share an id."""
        return 1

    def grid(self, geometry: Geometry, parts: int) -> tuple[Unit, Geometry]:
        """Return unit and geometry of the coarse picture of `parts` × `parts` coarse pixels for each place of a unit.

        A file may state any geometry, so nothing of its size is allocated.
        """
        height, width = (self.pieces(side, parts) for side in (geometry.height, geometry.width))
        return self.divided(parts), Geometry(height, width, geometry.channels)

    def means(self, pictures: Any, parts: int) -> Any:
        """Return the coarse pixels of pictures (N, H, W, C), private ones too: means over pixels of one unit each."""
        rows, columns = (self.divisions(side, parts) for side in pictures.shape[1:3])
        sums = np.add.reduceat(np.add.reduceat(pictures, rows[:-1], axis=1, dtype=np.int64), columns[:-1], axis=2)
        return sums / np.multiply.outer(np.diff(rows), np.diff(columns))[..., None]

    def to_bytes(self) -> bytes:
        """Return the number of the kind, and the parameters behind it: what `from_bytes` reads."""
        return bytes([self.number]) + self._parameters_to_bytes()

    def _parameters_to_bytes(self) -> bytes:
        """Return the parameters as bytes, in one spelling; by default no bytes."""
        return b""

    @classmethod
    def _from_parameters(cls, content: bytes) -> Unit:
        """Return the unit whose parameters are these bytes, all of them; by default no bytes."""
        if content:
            raise DippError("unit", f"{cls.kind} has no parameters, got {len(content)} bytes")
        return cls()

    def to_dict(self) -> dict[str, Any]:
        """Return the kind and the parameters for JSON."""
        return {"kind": self.kind, **asdict(self)}  # type: ignore[call-overload] # units are dataclasses


def within(width: int, height: int, geometry: Geometry | None) -> tuple[int, int]:
    """Return the largest width and height of the part of a window that lies in a picture, after checking both."""
    if not all(type(side) is int and 1 <= side <= MAX_LENGTH for side in (width, height)):
        said = f"width and height must be whole numbers from 1 to {MAX_LENGTH}, got {width}×{height}"
        raise DippError("window", said)
    return (width, height) if geometry is None else (min(width, geometry.width), min(height, geometry.height))
