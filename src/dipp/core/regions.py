"""The unit `region`: everything in one declared region of a picture; what lies outside all of them is public.

A region consists of one or several *places*: boxes of whole pixels. A place may have a mask that says which pixels of
its box belong to it. Places with the same number are one unit, such as face, badge and plate of one person. A pixel
belongs to at most one unit, so regions that overlap must share a number. Positions, sizes and masks of the places are
public, and so is how many there are.

Two pictures are neighbours if they agree outside one unit. What lies outside all regions is released as it is: there
is no bound for it, its ε is infinite.

**Coarse pixels.** A place is divided into parts × parts coarse pixels, whatever its size. Coarse pixel (i, j) of a box
of h × w pixels has the rows from ⌊i·h/parts⌋ up to the next such cut, one row at least, and the columns likewise. Its
value is the mean of its pixels that belong to the place; it is 0 if it has no such pixel, which is public. The coarse
pictures of the places stand one below the other. So a coarse pixel depends on pixels of one unit alone.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dipp.core.geometry import MAX_PIXELS, Geometry
from dipp.core.unit import Integers, Unit, within
from dipp.errors import DippError

Mask = NDArray[np.bool_]

MAX_PLACES = 1024
"""Largest number of places of a picture."""
MAX_MASKED = 1 << 26
"""Largest number of pixels of all boxes with masks together: it limits the memory of a reader."""
EXACT_PLACES = 64
"""Largest number of places for which `Regions.met` is exact; beyond it, the number of units is the bound."""


class Place(NamedTuple):
    """One box of pixels that belongs to a unit, perhaps with a mask."""

    unit: int
    """Number of the unit, from 0."""
    left: int
    top: int
    width: int
    height: int
    runs: tuple[int, ...] = ()
    """The mask as lengths of runs: pixels outside, inside, outside … the unit, row by row; empty for a whole box."""

    @property
    def right(self) -> int:
        """First column beyond the box."""
        return self.left + self.width

    @property
    def bottom(self) -> int:
        """First row beyond the box."""
        return self.top + self.height

    @property
    def part(self) -> tuple[slice, slice]:
        """Slices of the rows and of the columns of the box."""
        return slice(self.top, self.bottom), slice(self.left, self.right)

    @property
    def inside(self) -> Mask:
        """Mask (height, width) of the pixels of the box that belong to the unit."""
        if not self.runs:
            return np.ones((self.height, self.width), bool)
        return np.repeat(np.arange(len(self.runs)) % 2 == 1, self.runs).reshape(self.height, self.width)

    @classmethod
    def of(cls, unit: int, mask: Mask) -> Place:
        """Return the smallest box that holds all pixels of a mask, with the mask.

        Args:
            unit: Number of the unit to which the pixels belong.
            mask: Mask (H, W) of a whole picture.
        """
        rows, columns = (np.flatnonzero(mask.any(axis=axis)) for axis in (1, 0))
        top, left, bottom, right = (int(edge) for edge in (rows[0], columns[0], rows[-1] + 1, columns[-1] + 1))
        flat = mask[top:bottom, left:right].reshape(-1)
        changes = np.flatnonzero(flat[1:] != flat[:-1]) + 1
        lengths = np.diff(np.concatenate([[0] if not flat[0] else [0, 0], changes, [flat.size]])).tolist()
        return cls(unit, left, top, right - left, bottom - top, () if flat.all() else tuple(lengths))

    def require(self) -> None:
        """Raise if a number is out of its range, or the runs are not those that `of` writes for a mask of the box."""
        box = self.unit, self.left, self.top, self.width, self.height
        if not all(type(number) is int and 0 <= number <= MAX_PIXELS for number in (*box, *self.runs)):
            raise DippError("regions", "must be whole numbers from 0: unit, left, top, width, height and runs")
        if self.width < 1 or self.height < 1 or self.width * self.height > MAX_PIXELS:
            raise DippError("regions", f"have a box of {self.width}×{self.height} pixels, which is empty or too large")
        if self.runs and (
            sum(self.runs) != self.width * self.height or len(self.runs) < 2 or 0 in self.runs[1:] or self.redundant
        ):
            raise DippError("regions", f"have runs that do not make a mask of {self.width}×{self.height} pixels")

    @property
    def redundant(self) -> bool:
        """Whether runs are listed although the mask is the whole box; such a mask must be written as empty runs."""
        return self.runs[0] == 0 and len(self.runs) == 2

    def meets(self, other: Place) -> bool:
        """Return whether any pixel belongs to both places."""
        left, top = max(self.left, other.left), max(self.top, other.top)
        right, bottom = min(self.right, other.right), min(self.bottom, other.bottom)
        if left >= right or top >= bottom:
            return False
        if not (self.runs or other.runs):
            return True
        first, second = (
            place.inside[top - place.top : bottom - place.top, left - place.left : right - place.left]
            for place in (self, other)
        )
        return bool((first & second).any())


@dataclass(frozen=True)
class Regions(Unit):
    """Declared regions of one picture, as a unit.

    Raises:
        DippError: There is no place, units are not numbered in the order of their first place, a pixel belongs to two
            units, or a place is invalid.

    """

    places: tuple[Place, ...]
    """The boxes of all regions; lists of numbers, as in JSON, are converted to `Place`."""
    kind, number = "region", 3
    surrounded = True

    def __post_init__(self) -> None:
        try:
            rows = tuple(Place(*row[:5], tuple(row[5]) if len(row) > 5 else ()) for row in self.places)
        except TypeError:
            raise DippError("regions", "must be lists of unit, left, top, width, height and runs") from None
        object.__setattr__(self, "places", rows)
        if not 1 <= len(rows) <= MAX_PLACES:
            raise DippError("regions", f"must have 1 to {MAX_PLACES} places, got {len(rows)}")
        for row in rows:
            row.require()
        if sum(row.width * row.height for row in rows if row.runs) > MAX_MASKED:
            raise DippError("regions", f"have masks of more than {MAX_MASKED} pixels together", "declare boxes instead")
        units_so_far = 0
        for row in rows:
            if row.unit > units_so_far:
                raise DippError("regions", "must number their units in the order of each unit's first place")
            units_so_far = max(units_so_far, row.unit + 1)
        for first, second in _near(rows):
            if first.unit != second.unit and first.meets(second):
                raise DippError("regions", "overlap but are different units", "give them the same number")

    @property
    def words(self) -> str:
        """One region with everything in it, in words."""
        return "one declared region (everything in it) of the array that was read; what lies outside is not protected"

    def several(self, count: int) -> str:
        """Return `count` regions with everything in them, in words."""
        return (
            f"any {count} declared regions (everything in them) of the array that was read; what lies outside is not "
            "protected"
        )

    @property
    def neighbours(self) -> str:
        """One region of one image, in words."""
        return "one declared region of one image, in any way (everything in it)"

    @property
    def uncovered(self) -> tuple[str, ...]:
        """Texts on two gaps: the pixels outside the regions, and what the positions of the regions tell."""
        return (
            "what lies outside the regions: it is released as it was, and its ε is infinite",
            "where the regions are, their sizes, masks, kinds and number: declaring them told that",
            "what no region covers, and what the surroundings tell about a region: ε bounds what the answers add for "
            "somebody who knows everything else",
            "a person in several regions that were not declared to be one unit: each pays for itself, and their ε add "
            "up",
            "what was mixed before the regions were read: a resize, a blur or lossy compression spreads an object of "
            "the scene beyond them; ε speaks of the decoded array",
        )

    def recognisable(self, epsilon: str, *, strong: bool) -> str:  # noqa: ARG002
        """Return a sentence on what can be recognised outside and inside the regions."""
        return (
            "outside the regions everything is as it was; inside perhaps, because the answers may allow a likeness "
            "unless ε is small"
        )

    @property
    def beyond(self) -> str:
        """A text that says that no ε bounds what is told about pixels outside the regions."""
        return ", as far as it lies in regions; what lies outside has no bound"

    def count(self, geometry: Geometry) -> int:  # noqa: ARG002
        """Return the number of units, which is the same for every geometry."""
        return 1 + max(place.unit for place in self.places)

    def total(self, pixels: int, images: int) -> int:  # noqa: ARG002
        """Return the number of units of all images together; every image has the same regions."""
        return images * (1 + max(place.unit for place in self.places))

    @property
    def most_places(self) -> int:
        """Number of places of the unit that has the most."""
        return int(np.bincount([place.unit for place in self.places]).max())

    def of(self, coordinates: Integers, geometry: Geometry) -> Integers:
        """Return the unit of each coordinate, and −1 for a coordinate outside all regions."""
        self.require_within(geometry)
        owners = np.full((geometry.height, geometry.width), -1, np.int64)
        for place in self.places:
            owners[place.part][place.inside] = place.unit
        return owners.reshape(-1)[coordinates // geometry.channels]

    def require_within(self, geometry: Geometry) -> None:
        """Raise if a place does not lie in a picture of this geometry."""
        for place in self.places:
            if place.right > geometry.width or place.bottom > geometry.height:
                raise DippError("regions", f"have a box outside the picture of {geometry.width}×{geometry.height}")

    def met(self, width: int, height: int, geometry: Geometry | None = None) -> int:  # noqa: ARG002
        """Return the largest number of regions that an object can overlap; pixels between regions are not protected.

        Move an object left until its last column is the first column of a box, and up until its last row is the first
        row of a box: it still overlaps the boxes that it overlapped before. So those positions are enough.
        """
        within(width, height, None)
        return _met(self, width, height)

    def require_parts(self, parts: int) -> None:
        """Accept any number: in a box of fewer pixels, coarse pixels share pixels."""

    def grid(self, geometry: Geometry, parts: int) -> tuple[Unit, Geometry]:
        """Return the unit and the geometry of the coarse pictures of all places, one below the other."""
        rows = [Place(place.unit, 0, parts * at, parts, parts) for at, place in enumerate(self.places)]
        return Regions(tuple(rows)), Geometry(parts * len(rows), parts, geometry.channels)

    def means(self, pictures: Any, parts: int) -> Any:
        """Return the coarse pixels of the places of pictures (N, H, W, C), one place below the other."""
        means = []
        for place in self.places:
            inside = place.inside[None, :, :, None]
            values = pictures[:, place.part[0], place.part[1]].astype(np.int64) * inside
            counts = _sums(inside, parts)
            means.append(_sums(values, parts) / np.maximum(counts, 1))
        return np.concatenate(means, axis=1)

    def present(self, parts: int) -> NDArray[np.bool_]:
        """Return a mask (rows, columns) of the coarse pixels that contain a pixel of their unit."""
        return np.concatenate([_sums(place.inside[None, :, :, None], parts)[0, ..., 0] > 0 for place in self.places])

    def _parameters_to_bytes(self) -> bytes:
        """Return each place as whole numbers of four bytes: unit, left, top, width, height, number of runs, runs."""
        rows = ([*place[:5], len(place.runs), *place.runs] for place in self.places)
        return np.fromiter(itertools.chain.from_iterable(rows), "<u4").tobytes()

    @classmethod
    def _from_parameters(cls, content: bytes) -> Regions:
        """Return the regions whose places are these bytes, one place after the other."""
        if len(content) % 4:
            raise DippError("regions", "must be stored as whole numbers of four bytes")
        numbers: list[int] = np.frombuffer(content, "<u4").tolist()
        rows, at = list[Place](), 0
        while at < len(numbers) and len(rows) <= MAX_PLACES:
            end = at + 6 + sum(numbers[at + 5 : at + 6])
            if end > len(numbers) or at + 6 > len(numbers):
                raise DippError("regions", "end in the middle of a place")
            unit, left, top, width, height = numbers[at : at + 5]
            rows.append(Place(unit, left, top, width, height, tuple(numbers[at + 6 : end])))
            at = end
        return cls(tuple(rows))

    def to_dict(self) -> dict[str, Any]:
        """Return the kind, and the places as lists of unit, left, top, width, height and runs."""
        return {"kind": self.kind, "places": [[*place[:5], list(place.runs)] for place in self.places]}


def _sums(values: Any, parts: int) -> Any:
    """Return the sum of the values of each coarse pixel (N, parts, parts, C) of a box of values (N, h, w, C)."""
    # Where a cut repeats, reduceat takes the single row or column at the cut, as the module's docstring defines.
    for axis in (1, 2):
        cuts = np.arange(parts, dtype=np.int64) * values.shape[axis] // parts
        values = np.add.reduceat(values, cuts, axis=axis, dtype=np.int64)
    return values


def _near(places: Sequence[Place]) -> list[tuple[Place, Place]]:
    """Return each pair of places whose boxes overlap."""
    left, top, right, bottom = (
        np.array([getattr(place, name) for place in places], np.int64) for name in ("left", "top", "right", "bottom")
    )
    across = np.maximum.outer(left, left) < np.minimum.outer(right, right)
    down = np.maximum.outer(top, top) < np.minimum.outer(bottom, bottom)
    pairs = np.argwhere(np.triu(across & down, 1)).tolist()
    return [(places[first], places[second]) for first, second in pairs]


@functools.lru_cache(maxsize=1024)
def _met(regions: Regions, width: int, height: int) -> int:
    places = regions.places
    units = 1 + max(place.unit for place in places)
    if len(places) > EXACT_PLACES:
        return units
    most = 1
    for column, row in itertools.product({place.left for place in places}, {place.top for place in places}):
        met = {
            place.unit
            for place in places
            if place.left <= column < place.right + width - 1 and place.top <= row < place.bottom + height - 1
        }
        most = max(most, len(met))
    return most
