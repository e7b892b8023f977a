"""The kinds of units, which a certificate protects (`core.unit`).

| kind | what may change | units that an object of w×h pixels meets |
|---|---|---|
| `pixel` | all channels of one pixel | w·h |
| `cell` b | everything in one b×b square of a grid from the top left corner | (⌈(w−1)/b⌉ + 1)·(⌈(h−1)/b⌉ + 1) |
| `region` | everything in one declared region; what lies outside all of them is public | see `core.regions` |
| `picture` | everything but the size | 1 |
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dipp.core.geometry import Geometry
from dipp.core.regions import Regions
from dipp.core.unit import Integers, Size, Unit, within
from dipp.errors import DippError

MAX_SIDE = 4096
"""Largest side of a cell, in pixels."""
FACE = (60, 80)
"""Width and height of a face, as an example of an object that is larger than most cells."""


@dataclass(frozen=True)
class Pixel(Unit):
    """The unit pixel: all channels of one pixel."""

    kind, number = "pixel", 0

    @property
    def words(self) -> str:
        """One pixel with all its channels, in words."""
        return "one pixel (all its channels) of the array that was encoded"

    def several(self, count: int) -> str:
        """Return `count` pixels with all their channels, in words."""
        return f"any {count} pixels (all their channels) of the array that was encoded"

    @property
    def reader(self) -> str:
        """A reader who knows all pixels but one."""
        return "somebody who knows every other pixel of the picture"

    @property
    def neighbours(self) -> str:
        """One pixel of one image, in words."""
        return "one pixel of one image, in any way (all its channels, from any value to any other)"

    @property
    def uncovered(self) -> tuple[str, ...]:
        """Texts on three gaps: what neighbouring pixels tell, what many pixels show together, and mixed pixels."""
        return (
            "what the neighbours of a pixel tell about it: ε bounds what the file adds for somebody who knows them all",
            "what many pixels show together: k of them cost k times ε, so faces, plates, text and places stay "
            "recognisable",
            "what was mixed before encoding: after a resize or a blur, a pixel of the original is in many pixels",
        )

    def recognisable(self, epsilon: str, *, strong: bool) -> str:  # noqa: ARG002
        """Return "yes" with the reason: whatever identifies people consists of many pixels."""
        return (
            "yes, because an ε per pixel is about single pixels, and faces, plates, places and text (burnt-in names "
            "too) are made of many: treat the people in the pictures as identifiable in the release"
        )

    @property
    def square(self) -> int:
        """Side of a pixel: 1."""
        return 1

    def count(self, geometry: Geometry) -> int:
        """Return the number of pixels."""
        return geometry.pixels

    def total(self, pixels: int, images: int) -> int:  # noqa: ARG002
        """Return the number of pixels."""
        return pixels

    def of(self, coordinates: Integers, geometry: Geometry) -> Integers:
        """Return the pixel of each coordinate: the coordinate divided by the number of channels, rounded down."""
        return coordinates // geometry.channels

    def met(self, width: int, height: int, geometry: Geometry | None = None) -> int:
        """Return the number of pixels of the part of the object that can lie in the picture."""
        width, height = within(width, height, geometry)
        return width * height


@dataclass(frozen=True)
class Cells(Unit):
    """Square cells of `side`×`side` pixels, with all channels, in a grid from the top left corner of a picture.

    Cells at the right and bottom edge of a picture are smaller if its width or height is no multiple of `side`.

    Raises:
        DippError: `side` is not a whole number from 2 to `MAX_SIDE`.

    """

    side: int
    kind, number = "cell", 1

    def __post_init__(self) -> None:
        if type(self.side) is not int or not 2 <= self.side <= MAX_SIDE:
            raise DippError("unit", f"must have cells with a side from 2 to {MAX_SIDE} pixels, got {self.side}")

    @property
    def short(self) -> str:
        """A cell with its side, such as "16×16 cell"."""
        return f"{self.side}×{self.side} cell"

    @property
    def words(self) -> str:
        """One cell with everything in it, in words."""
        return f"one {self.short} (all its pixels) of the grid from the top left corner of the array that was encoded"

    def several(self, count: int) -> str:
        """Return `count` cells with everything in them, in words."""
        return (
            f"any {count} {self.plural} (all their pixels) of the grid from the top left corner of the array that was "
            "encoded"
        )

    @property
    def neighbours(self) -> str:
        """One cell of one image, in words."""
        return f"one {self.short} of one image, in any way (all its pixels, from any values to any others)"

    @property
    def _example(self) -> str:
        """The price of an object as large as a human face, in cells."""
        width, height = FACE
        return f"; {width}×{height} pixels, as a face may have, meet up to {self.met(*FACE)} and pay that many times ε"

    @property
    def square(self) -> int:
        """Side of a whole cell."""
        return self.side

    def count(self, geometry: Geometry) -> int:
        """Return the number of cells, including the smaller ones at the edges."""
        return -(-geometry.height // self.side) * -(-geometry.width // self.side)

    def side_in(self, geometry: Geometry) -> float:  # noqa: ARG002
        """Return the side of a whole cell in pixels."""
        return self.side

    def total(self, pixels: int, images: int) -> int:
        """Return the larger of the number of cells that the pixels fill and the number of pictures."""
        return max(images, -(-pixels // self.side**2))

    def of(self, coordinates: Integers, geometry: Geometry) -> Integers:
        """Return the cell of each coordinate; cells are numbered row by row."""
        row, column = np.divmod(coordinates // geometry.channels, geometry.width)
        return np.asarray(row // self.side * -(-geometry.width // self.side) + column // self.side, np.int64)

    def met(self, width: int, height: int, geometry: Geometry | None = None) -> int:
        """Return (⌈(w−1)/b⌉ + 1)·(⌈(h−1)/b⌉ + 1) for an object of w×h pixels and cells of side b.

        Along one axis w pixels from position p on meet the cells ⌊p/b⌋ … ⌊(p + w − 1)/b⌋. That is ⌈(w − 1)/b⌉ + 1 of
        them at most, reached at p = b − 1. Each factor is limited to the cells of the picture along its axis.
        """
        width, height = within(width, height, geometry)
        wide, high = (-(-(side - 1) // self.side) + 1 for side in (width, height))
        if geometry is not None:
            wide, high = min(wide, -(-geometry.width // self.side)), min(high, -(-geometry.height // self.side))
        return wide * high

    def divisions(self, length: int, parts: int) -> Integers:
        """Return the multiples of side/parts below `length`, then `length`; raise if side/parts is not whole."""
        if parts < 1 or self.side % parts:
            raise DippError("unit", f"is a {self.short}, whose side {parts} does not divide", "take a multiple of it")
        return np.append(np.arange(0, length, self.side // parts), length)

    def pieces(self, length: int, parts: int) -> int:
        """Return length/(side/parts), rounded up.

        A file may state any length, so no memory in proportion to it is allocated.
        """
        self.divisions(1, parts)  # raises if the parts are not whole
        return -(-length // (self.side // parts))

    def divided(self, parts: int) -> Cells:
        """Return cells whose side is `parts` coarse pixels."""
        return Cells(parts)

    def _parameters_to_bytes(self) -> bytes:
        """Return the side in two bytes, the lower one first."""
        return self.side.to_bytes(2, "little")

    @classmethod
    def _from_parameters(cls, content: bytes) -> Cells:
        """Return the cells whose side is these two bytes, the lower one first."""
        if len(content) != 2:
            raise DippError("unit", f"must have 2 bytes for the side of its cells, got {len(content)}")
        return cls(int.from_bytes(content, "little"))


@dataclass(frozen=True)
class Picture(Unit):
    """The unit picture: everything in a picture except its size."""

    kind, number = "picture", 2
    whole = True

    @property
    def words(self) -> str:
        """The whole picture, in words."""
        return "the whole picture (everything but its size), as the array that was encoded"

    def several(self, count: int) -> str:
        """Return `count` pictures, in words."""
        return f"any {count} whole pictures (everything but their sizes), as the arrays that were encoded"

    @property
    def reader(self) -> str:
        """A reader who has to choose between two pictures, because no part of the picture is outside the unit."""
        return "somebody who knows that it is one of two pictures"

    @property
    def neighbours(self) -> str:
        """One whole image, in words."""
        return "one whole image, in any way (everything but its size)"

    @property
    def uncovered(self) -> tuple[str, ...]:
        """Texts on two gaps: other pictures of the same subject, and what somebody knows beforehand."""
        return (
            "what other pictures of the same person, place or object show: each pays for itself, and their ε add up",
            "what somebody knows about the picture beforehand: ε bounds what the file adds to it",
        )

    def recognisable(self, epsilon: str, *, strong: bool) -> str:
        """Return "no" with the reason if the bound is strong, and "perhaps" otherwise."""
        answer, why = ("no", "leaves nobody sure of anything in it") if strong else ("perhaps", "may allow a likeness")
        return (
            f"{answer}, because ε is about the whole picture, and one of {epsilon} {why}; other pictures of the same "
            "people are not covered"
        )

    def count(self, geometry: Geometry) -> int:  # noqa: ARG002
        """Return 1: a picture is one unit."""
        return 1

    def of(self, coordinates: Integers, geometry: Geometry) -> Integers:  # noqa: ARG002
        """Return unit 0 for every coordinate."""
        return np.zeros_like(coordinates)

    def met(self, width: int, height: int, geometry: Geometry | None = None) -> int:
        """Return 1: an object lies in one picture."""
        within(width, height, geometry)
        return 1

    def divisions(self, length: int, parts: int) -> Integers:
        """Return the cuts ⌊i·length/parts⌋, each once: an axis of fewer pixels than `parts` is cut at every pixel."""
        return np.unique(np.arange(parts + 1, dtype=np.int64) * length // parts)

    def divided(self, parts: int) -> Picture:  # noqa: ARG002
        """Return the same unit: a whole coarse picture is one unit too."""
        return self


UNITS: dict[int, type[Unit]] = {kind.number: kind for kind in (Pixel, Cells, Picture, Regions)}
"""Class of each kind of unit by its number in files. A new kind needs its class and an entry here."""


def from_bytes(content: bytes) -> Unit:
    """Return the unit that `Unit.to_bytes` wrote.

    Raises:
        DippError: The kind is unknown, or the parameters are invalid.

    """
    if not content or content[0] not in UNITS:
        raise DippError("unit", f"is of an unknown kind, number {content[0] if content else 'missing'}", "upgrade dipp")
    return UNITS[content[0]]._from_parameters(content[1:])


def from_dict(content: Mapping[str, Any]) -> Unit:
    """Return the unit that `Unit.to_dict` wrote.

    Raises:
        DippError: The kind is unknown, or the parameters are invalid.

    """
    kinds = {kind.kind: kind for kind in UNITS.values()}
    try:
        parameters = {name: value for name, value in content.items() if name != "kind"}
        return kinds[content["kind"]](**parameters)
    except (AttributeError, KeyError, TypeError):
        raise DippError("unit", f"must be one of {', '.join(kinds)} with its parameters, got {content!r:.80}") from None


def parse(text: str) -> Unit:
    """Return the unit that a text names: "pixel", "picture", or the side of square cells in pixels, such as "16".

    Raises:
        DippError: The text is not one of these, or the side is larger than `MAX_SIDE`.

    """
    for unit in (Pixel(), Picture()):
        if text == unit.kind:
            return unit
    if not re.fullmatch(r"[1-9]\d{0,5}", text, re.ASCII):
        raise DippError("unit", f"must be pixel, picture or the side of square cells in pixels, got {text:.40}")
    return Cells(int(text)) if int(text) > 1 else Pixel()


def parse_size(text: str, argument: str = "size") -> Size:
    """Return the width and height in pixels of a text WIDTHxHEIGHT, such as "64x48".

    Args:
        text: The text.
        argument: Name of the argument that it was given as, for the error.

    Raises:
        DippError: The text has another form.

    """
    if not (match := re.fullmatch(r"([1-9]\d{0,8})[x×]([1-9]\d{0,8})", text, re.ASCII)):
        raise DippError(argument, f"must be WIDTHxHEIGHT in pixels, such as 64x64, got {text:.40}")
    return int(match[1]), int(match[2])
