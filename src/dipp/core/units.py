"""The kinds of units (`core.unit`): what a certificate protects.

| kind | what may change | units that a w×h window meets |
|---|---|---|
| `pixel` | all channels of one pixel | w·h |
| `cell` b | everything in one b×b square of a grid from the top left corner | (⌈(w−1)/b⌉ + 1)·(⌈(h−1)/b⌉ + 1) |
| `region` | everything in one declared region (`core.regions`); what lies outside all of them is public | see there |
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

    @property
    def uncovered(self) -> tuple[str, ...]:
        """What neighbours tell, what many pixels show, and what was mixed."""
        return (
            "what the neighbours of a pixel tell about it: ε bounds what the file adds for somebody who knows them all",
            "what many pixels show together: k of them cost k times ε, so faces, plates, text and places stay "
            "recognisable",
            "what was mixed before encoding: after a resize or a blur, a pixel of the original is in many pixels",
        )

    def recognisable(self, epsilon: str, *, strong: bool) -> str:  # noqa: ARG002
        """Return yes: what identifies people consists of many pixels."""
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
            raise DippError("unit", f"a cell's side must be a whole number from 2 to {MAX_SIDE}, got {self.side}")

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

    @property
    def _example(self) -> str:
        """The price of a face."""
        width, height = FACE
        return f"; {width}×{height} pixels, as a face may have, meet up to {self.met(*FACE)} and pay that many times ε"

    @property
    def square(self) -> int:
        """Side of a whole cell."""
        return self.side

    def count(self, geometry: Geometry) -> int:
        """Return the number of cells, those that are cut off included."""
        return -(-geometry.height // self.side) * -(-geometry.width // self.side)

    def side_in(self, geometry: Geometry) -> float:  # noqa: ARG002
        """Return the side of a whole cell."""
        return self.side

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
            raise DippError(
                "unit", f"a {self.short} cannot be divided into {parts} equal parts", "take a multiple of it"
            )
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
            raise DippError("unit", f"a cell's side has 2 bytes, got {len(content)}")
        return cls(int.from_bytes(content, "little"))


@dataclass(frozen=True)
class Picture(Unit):
    """A whole picture: everything but its size."""

    kind, number = "picture", 2
    whole = True

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

    @property
    def uncovered(self) -> tuple[str, ...]:
        """Other pictures, and what is known beforehand: there is nothing else in the picture."""
        return (
            "what other pictures of the same person, place or object show: each pays for itself, and their ε add up",
            "what somebody knows about the picture beforehand: ε bounds what the file adds to it",
        )

    def recognisable(self, epsilon: str, *, strong: bool) -> str:
        """Return no where the bound is strong, and perhaps otherwise."""
        answer, why = ("no", "leaves nobody sure of anything in it") if strong else ("perhaps", "may allow a likeness")
        return (
            f"{answer}, because ε is about the whole picture, and one of {epsilon} {why}; other pictures of the same "
            "people are not covered"
        )

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


UNITS: dict[int, type[Unit]] = {kind.number: kind for kind in (Pixel, Cells, Picture, Regions)}
"""The kinds of units by number. A new kind needs its class and an entry here."""


def from_bytes(content: bytes) -> Unit:
    """Read a unit that `Unit.to_bytes` wrote, or raise."""
    if not content or content[0] not in UNITS:
        raise DippError("unit", f"there is no kind {content[0] if content else 'without a number'}", "upgrade dipp")
    return UNITS[content[0]]._from_parameters(content[1:])


def from_dict(content: Mapping[str, Any]) -> Unit:
    """Read a unit that `Unit.to_dict` wrote, or raise."""
    kinds = {kind.kind: kind for kind in UNITS.values()}
    try:
        parameters = {name: value for name, value in content.items() if name != "kind"}
        return kinds[content["kind"]](**parameters)
    except (AttributeError, KeyError, TypeError):
        raise DippError(
            "unit", f"one of {', '.join(kinds)} with its parameters is needed, got {content!r:.80}"
        ) from None


def parse(text: str) -> Unit:
    """Return the unit that a text names: "pixel", "picture", or the side of cells in pixels.

    Raises:
        DippError: The text names none of them.

    """
    for unit in (Pixel(), Picture()):
        if text == unit.kind:
            return unit
    if not re.fullmatch(r"[1-9]\d{0,5}", text, re.ASCII):
        raise DippError("unit", f"pixel, picture or the side of square cells is needed, got {text:.40}")
    return Cells(int(text)) if int(text) > 1 else Pixel()


def parse_size(text: str) -> Size:
    """Return the width and height that a text names as WIDTHxHEIGHT, such as "64x64", in pixels.

    Raises:
        DippError: The text names no size.

    """
    if not (found := re.fullmatch(r"([1-9]\d{0,8})[x×]([1-9]\d{0,8})", text, re.ASCII)):
        raise DippError("size", f"WIDTHxHEIGHT in pixels is needed, such as 64x64, got {text:.40}")
    return int(found[1]), int(found[2])
