"""Units: what a certificate protects. A unit is one part of a public partition of a picture's coordinates.

Two pictures are *neighbours* if they have the same geometry and agree outside one unit. A certificate bounds how well
a reader of the file can tell neighbours apart. The partition follows from the geometry and from public parameters
alone, never from what is in a picture.

| kind | what may change | units that a w×h window meets |
|---|---|---|
| `pixel` | all channels of one pixel | w·h |
| `cell` b | everything in one b×b square of a grid from the top left corner | (⌈(w−1)/b⌉ + 1)·(⌈(h−1)/b⌉ + 1) |
| `picture` | everything but the size | 1 |

**The price of a larger object.** If a w×h window meets at most k units, a change of everything in it is a chain of k
neighbours. So its pure ε is at most k times that of a unit (`privacy.certificate`).
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dipp.core.geometry import Geometry
from dipp.errors import DippError

Integers = NDArray[np.int64]
Size = tuple[int, int]
"""Width and height of an object, in pixels."""

MAX_SIDE = 4096
"""Largest side of a cell, in pixels."""


class Unit(ABC):
    """A public partition of a picture's coordinates. Units are frozen dataclasses of their public parameters."""

    kind: ClassVar[str]
    """Name of the kind in JSON and in words."""
    number: ClassVar[int]
    """Number of the kind in files."""

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

    @abstractmethod
    def count(self, geometry: Geometry) -> int:
        """Return the number of units of a picture."""

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
        raise DippError(f"unit: a {self.short} cannot be divided into {parts} parts of the {length} pixels")

    def pieces(self, length: int, parts: int) -> int:
        """Return how many parts `divisions` makes of an axis."""
        return len(self.divisions(length, parts)) - 1

    def divided(self, parts: int) -> Unit:
        """Return this unit on the coarse picture that has one pixel for each of the parts of `divisions`."""
        raise DippError(f"unit: a {self.short} cannot be divided into {parts} parts")

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
            raise DippError(f"unit: {cls.kind} has no parameters, got {len(content)} bytes")
        return cls()

    def to_dict(self) -> dict[str, Any]:
        """Return the kind and the parameters for JSON."""
        return {"kind": self.kind, **asdict(self)}  # type: ignore[call-overload] # units are dataclasses


@dataclass(frozen=True)
class Pixel(Unit):
    """All channels of one pixel."""

    kind, number = "pixel", 0

    @property
    def words(self) -> str:
        """One pixel, with all its channels."""
        return "one pixel (all its channels) of the array that was encoded"

    def several(self, count: int) -> str:
        """Return the words for any `count` pixels, with all their channels."""
        return f"any {count} pixels (all their channels) of the array that was encoded"

    @property
    def reader(self) -> str:
        """Somebody who knows all pixels but one."""
        return "somebody who knows every other pixel of the picture"

    @property
    def neighbours(self) -> str:
        """One pixel of one image."""
        return "one pixel of one image, in any way (all its channels, from any value to any other)"

    def count(self, geometry: Geometry) -> int:
        """Return the number of pixels."""
        return geometry.pixels

    def total(self, pixels: int, images: int) -> int:  # noqa: ARG002
        """Return the number of pixels."""
        return pixels

    def of(self, coordinates: Integers, geometry: Geometry) -> Integers:
        """Return each coordinate divided by the number of channels."""
        return coordinates // geometry.channels

    def met(self, width: int, height: int, geometry: Geometry | None = None) -> int:
        """Return the pixels of the part of the window that lies in the picture."""
        width, height = within(width, height, geometry)
        return width * height


@dataclass(frozen=True)
class Cells(Unit):
    """Squares of `side`×`side` pixels, with all channels, of a grid from the top left corner.

    The cells at the right and bottom edge of a picture are cut off where its sides are no multiples of `side`.

    Raises:
        DippError: `side` is not a whole number from 2 to `MAX_SIDE`.

    """

    side: int
    kind, number = "cell", 1

    def __post_init__(self) -> None:
        if type(self.side) is not int or not 2 <= self.side <= MAX_SIDE:
            raise DippError(f"unit: a cell's side must be a whole number from 2 to {MAX_SIDE}, got {self.side}")

    @property
    def short(self) -> str:
        """The cell with its sides."""
        return f"{self.side}×{self.side} cell"

    @property
    def words(self) -> str:
        """One cell, with everything in it."""
        return f"one {self.short} (all its pixels) of the grid from the top left corner of the array that was encoded"

    def several(self, count: int) -> str:
        """Return the words for any `count` cells, with everything in them."""
        return (
            f"any {count} {self.plural} (all their pixels) of the grid from the top left corner of the array that was "
            "encoded"
        )

    @property
    def neighbours(self) -> str:
        """One cell of one image."""
        return f"one {self.short} of one image, in any way (all its pixels, from any values to any others)"

    def count(self, geometry: Geometry) -> int:
        """Return the number of cells, those that are cut off included."""
        return -(-geometry.height // self.side) * -(-geometry.width // self.side)

    def total(self, pixels: int, images: int) -> int:
        """Return the cells that the pixels fill, or one for each picture if these are more."""
        return max(images, -(-pixels // self.side**2))

    def of(self, coordinates: Integers, geometry: Geometry) -> Integers:
        """Return the cells, numbered row by row."""
        row, column = np.divmod(coordinates // geometry.channels, geometry.width)
        return np.asarray(row // self.side * -(-geometry.width // self.side) + column // self.side, np.int64)

    def met(self, width: int, height: int, geometry: Geometry | None = None) -> int:
        """Return (⌈(w−1)/b⌉ + 1)·(⌈(h−1)/b⌉ + 1), or the cells in a row and a column of the picture if these are fewer.

        Along one axis w pixels from position p on meet the cells ⌊p/b⌋ … ⌊(p + w − 1)/b⌋. That is ⌈(w − 1)/b⌉ + 1 of
        them at most, reached at p = b − 1.
        """
        width, height = within(width, height, geometry)
        wide, high = (-(-(side - 1) // self.side) + 1 for side in (width, height))
        if geometry is not None:
            wide, high = min(wide, -(-geometry.width // self.side)), min(high, -(-geometry.height // self.side))
        return wide * high

    def divisions(self, length: int, parts: int) -> Integers:
        """Return the multiples of side/parts, which must be a whole number: so no part lies in two cells."""
        if parts < 1 or self.side % parts:
            raise DippError(f"unit: a {self.short} cannot be divided into {parts} equal parts; take a multiple of it")
        return np.append(np.arange(0, length, self.side // parts), length)

    def pieces(self, length: int, parts: int) -> int:
        """Return the length over side/parts, rounded up: a file may state any length, so nothing of it is allocated."""
        self.divisions(1, parts)  # raises if the parts are not whole
        return -(-length // (self.side // parts))

    def divided(self, parts: int) -> Cells:
        """Return cells of as many coarse pixels a side."""
        return Cells(parts)

    def _parameters_to_bytes(self) -> bytes:
        """Return the side in two bytes, the lower one first."""
        return self.side.to_bytes(2, "little")

    @classmethod
    def _from_parameters(cls, content: bytes) -> Cells:
        """Return the cells of the side in two bytes."""
        if len(content) != 2:
            raise DippError(f"unit: a cell's side has 2 bytes, got {len(content)}")
        return cls(int.from_bytes(content, "little"))


@dataclass(frozen=True)
class Picture(Unit):
    """A whole picture: everything but its size."""

    kind, number = "picture", 2

    @property
    def words(self) -> str:
        """The whole picture."""
        return "the whole picture (everything but its size), as the array that was encoded"

    def several(self, count: int) -> str:
        """Return the words for any `count` pictures."""
        return f"any {count} whole pictures (everything but their sizes), as the arrays that were encoded"

    @property
    def reader(self) -> str:
        """Somebody who has to choose between two pictures: there is nothing else in the picture to know."""
        return "somebody who knows that it is one of two pictures"

    @property
    def neighbours(self) -> str:
        """One whole image."""
        return "one whole image, in any way (everything but its size)"

    def count(self, geometry: Geometry) -> int:  # noqa: ARG002
        """Return 1."""
        return 1

    def of(self, coordinates: Integers, geometry: Geometry) -> Integers:  # noqa: ARG002
        """Return unit 0 for every coordinate."""
        return np.zeros_like(coordinates)

    def met(self, width: int, height: int, geometry: Geometry | None = None) -> int:
        """Return 1: a window lies in one picture."""
        within(width, height, geometry)
        return 1

    def divisions(self, length: int, parts: int) -> Integers:
        """Return the cuts ⌊i·length/parts⌋; an axis of fewer pixels than parts is cut at every pixel."""
        return np.unique(np.arange(parts + 1, dtype=np.int64) * length // parts)

    def divided(self, parts: int) -> Picture:  # noqa: ARG002
        """Return the picture, whatever its parts."""
        return self


UNITS: dict[int, type[Unit]] = {kind.number: kind for kind in (Pixel, Cells, Picture)}
"""The kinds of units by number. A new kind needs its class and an entry here."""


def from_bytes(content: bytes) -> Unit:
    """Read a unit that `Unit.to_bytes` wrote, or raise."""
    if not content or content[0] not in UNITS:
        raise DippError(f"unit: there is no kind {content[0] if content else 'without a number'}; upgrade dipp")
    return UNITS[content[0]]._from_parameters(content[1:])


def from_dict(content: Mapping[str, Any]) -> Unit:
    """Read a unit that `Unit.to_dict` wrote, or raise."""
    kinds = {kind.kind: kind for kind in UNITS.values()}
    try:
        parameters = {name: value for name, value in content.items() if name != "kind"}
        return kinds[content["kind"]](**parameters)
    except (AttributeError, KeyError, TypeError):
        raise DippError(f"unit: one of {', '.join(kinds)} with its parameters is needed, got {content!r:.80}") from None


def parse(text: str) -> Unit:
    """Return the unit that a text names: "pixel", "picture", or the side of cells in pixels.

    Raises:
        DippError: The text names none of them.

    """
    for unit in (Pixel(), Picture()):
        if text == unit.kind:
            return unit
    if not re.fullmatch(r"[1-9]\d{0,5}", text, re.ASCII):
        raise DippError(f"unit: pixel, picture or the side of square cells is needed, got {text:.40}")
    return Cells(int(text)) if int(text) > 1 else Pixel()


def parse_size(text: str) -> Size:
    """Return the width and height that a text names as WIDTHxHEIGHT, such as "64x64", in pixels.

    Raises:
        DippError: The text names no size.

    """
    if not (found := re.fullmatch(r"([1-9]\d{0,8})[x×]([1-9]\d{0,8})", text, re.ASCII)):
        raise DippError(f"size: WIDTHxHEIGHT in pixels is needed, such as 64x64, got {text:.40}")
    return int(found[1]), int(found[2])


def within(width: int, height: int, geometry: Geometry | None) -> tuple[int, int]:
    """Return the largest width and height of the part of a window that lies in a picture, after checking both."""
    if not all(type(side) is int and side >= 1 for side in (width, height)):
        raise DippError(f"window: width and height must be whole numbers from 1, got {width}×{height}")
    return (width, height) if geometry is None else (min(width, geometry.width), min(height, geometry.height))
