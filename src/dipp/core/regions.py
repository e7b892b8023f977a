"""The unit `region`: everything in one declared region of a picture; what lies outside all of them is public.

A region consists of one or several *places*: boxes of whole pixels, each perhaps with a mask of those of its pixels
that belong to it. Places with one number are one unit: face, badge and plate of one person. Pixels belong to one unit
at most; regions that overlap must share a number. Positions, sizes, masks and number of the places are public.

Two pictures are neighbours if they agree outside one unit. What lies outside all regions is released as it is: there
is no bound for it, its ε is infinite.

**Coarse pixels.** A place is divided into parts × parts coarse pixels, whatever its size. Coarse pixel (i, j) of a box
of h × w pixels has the rows from ⌊i·h/parts⌋ up to the next such cut, one row at least, and the columns likewise. Its
mean is that of those of its pixels that belong to the place; it is 0 if none does, which is public. The coarse
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
"""Largest number of pixels of all boxes with masks, which a reader unpacks."""
EXACT_PLACES = 64
"""Places up to which `Regions.met` tries all positions of a window; for more it takes the number of units."""


class Place(NamedTuple):
    """One box of a unit."""

    unit: int
    """Number of the unit, from 0."""
    left: int
    top: int
    width: int
    height: int
    runs: tuple[int, ...] = ()
    """Lengths of runs of pixels outside and inside, in turn, row by row, beginning outside; empty for a whole box."""

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
        """Rows and columns of the box."""
        return slice(self.top, self.bottom), slice(self.left, self.right)

    @property
    def inside(self) -> Mask:
        """Pixels (height, width) of the box that belong to the unit."""
        if not self.runs:
            return np.ones((self.height, self.width), bool)
        return np.repeat(np.arange(len(self.runs)) % 2 == 1, self.runs).reshape(self.height, self.width)

    @classmethod
    def of(cls, unit: int, mask: Mask) -> Place:
        """Return the place of the pixels of a mask (H, W), in its smallest box."""
        rows, columns = (np.flatnonzero(mask.any(axis=axis)) for axis in (1, 0))
        top, left, bottom, right = (int(one) for one in (rows[0], columns[0], rows[-1] + 1, columns[-1] + 1))
        flat = mask[top:bottom, left:right].reshape(-1)
        changes = np.flatnonzero(flat[1:] != flat[:-1]) + 1
        lengths = np.diff(np.concatenate([[0] if not flat[0] else [0, 0], changes, [flat.size]])).tolist()
        return cls(unit, left, top, right - left, bottom - top, () if flat.all() else tuple(lengths))

    def require(self) -> None:
        """Raise if a number is out of its range, or the runs are not those of one spelling."""
        box = self.unit, self.left, self.top, self.width, self.height
        if not all(type(one) is int and 0 <= one <= MAX_PIXELS for one in (*box, *self.runs)):
            raise DippError("regions", "unit, left, top, width, height and runs must be whole numbers from 0")
        if self.width < 1 or self.height < 1 or self.width * self.height > MAX_PIXELS:
            raise DippError("regions", f"a box of {self.width}×{self.height} pixels is empty or too large")
        if self.runs and (
            sum(self.runs) != self.width * self.height or len(self.runs) < 2 or 0 in self.runs[1:] or self.whole
        ):
            raise DippError("regions", f"the runs do not make a mask of {self.width}×{self.height} pixels")

    @property
    def whole(self) -> bool:
        """Whether runs say what no runs say more shortly: that the whole box belongs to the unit."""
        return self.runs[0] == 0 and len(self.runs) == 2

    def meets(self, other: Place) -> bool:
        """Return whether a pixel belongs to both places."""
        left, top = max(self.left, other.left), max(self.top, other.top)
        right, bottom = min(self.right, other.right), min(self.bottom, other.bottom)
        if left >= right or top >= bottom:
            return False
        if not (self.runs or other.runs):
            return True
        first, second = (
            one.inside[top - one.top : bottom - one.top, left - one.left : right - one.left] for one in (self, other)
        )
        return bool((first & second).any())


@dataclass(frozen=True)
class Regions(Unit):
    """Declared regions of one picture.

    Raises:
        DippError: There is no place, units are not numbered in the order in which they first come, pixels belong to two
            units, or a place is invalid.

    """

    places: tuple[Place, ...]
    """The places; rows of their numbers will do, as JSON has them."""
    kind, number = "region", 3
    surrounded = True

    def __post_init__(self) -> None:
        try:
            rows = tuple(Place(*row[:5], tuple(row[5]) if len(row) > 5 else ()) for row in self.places)
        except TypeError:
            raise DippError("regions", "rows of unit, left, top, width, height and runs are needed") from None
        object.__setattr__(self, "places", rows)
        if not 1 <= len(rows) <= MAX_PLACES:
            raise DippError("regions", f"1 to {MAX_PLACES} places are needed, got {len(rows)}")
        for row in rows:
            row.require()
        if sum(row.width * row.height for row in rows if row.runs) > MAX_MASKED:
            raise DippError("regions", f"masks may have {MAX_MASKED} pixels together", "declare boxes instead")
        seen = 0
        for row in rows:
            if row.unit > seen:
                raise DippError("regions", "units must be numbered in the order in which they first come")
            seen = max(seen, row.unit + 1)
        for first, second in _near(rows):
            if first.unit != second.unit and first.meets(second):
                raise DippError("regions", "overlapping ones must be one unit", "give them one number")

    @property
    def words(self) -> str:
        """One region, with everything in it."""
        return "one declared region (everything in it) of the array that was read; what lies outside is not protected"

    def several(self, count: int) -> str:
        """Return the words for any `count` regions, with everything in them."""
        return (
            f"any {count} declared regions (everything in them) of the array that was read; what lies outside is not "
            "protected"
        )

    @property
    def neighbours(self) -> str:
        """One region of one image."""
        return "one declared region of one image, in any way (everything in it)"

    @property
    def uncovered(self) -> tuple[str, ...]:
        """What lies outside, and what declaring regions told."""
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
        """Return what can be recognised outside the regions, and inside."""
        return (
            "outside the regions everything is as it was; inside perhaps, because the answers may allow a likeness "
            "unless ε is small"
        )

    @property
    def beyond(self) -> str:
        """Everything outside the regions."""
        return ", as far as it lies in regions; what lies outside has no bound"

    def count(self, geometry: Geometry) -> int:  # noqa: ARG002
        """Return the number of units, which is the same for any geometry."""
        return 1 + max(place.unit for place in self.places)

    def total(self, pixels: int, images: int) -> int:  # noqa: ARG002
        """Return the units of all images, which have the same regions."""
        return images * (1 + max(place.unit for place in self.places))

    @property
    def most_places(self) -> int:
        """Places of the unit that has the most."""
        return int(np.bincount([place.unit for place in self.places]).max())

    def of(self, coordinates: Integers, geometry: Geometry) -> Integers:
        """Return the unit of each coordinate, and −1 for what lies outside all regions."""
        self.require_within(geometry)
        owners = np.full((geometry.height, geometry.width), -1, np.int64)
        for place in self.places:
            owners[place.part][place.inside] = place.unit
        return owners.reshape(-1)[coordinates // geometry.channels]

    def require_within(self, geometry: Geometry) -> None:
        """Raise if a place does not lie in a picture of this geometry."""
        for place in self.places:
            if place.right > geometry.width or place.bottom > geometry.height:
                raise DippError("regions", f"a box does not lie in the picture of {geometry.width}×{geometry.height}")

    def met(self, width: int, height: int, geometry: Geometry | None = None) -> int:  # noqa: ARG002
        """Return how many regions a window can meet, wherever it lies; what else it meets is not protected.

        A window that meets some boxes still meets them after it moved left and up until its last column is the first
        one of a box, and its last row likewise. So those positions are enough.
        """
        within(width, height, None)
        return _met(self, width, height)

    def require_parts(self, parts: int) -> None:
        """Accept any number: a box of fewer pixels has coarse pixels that share some."""

    def grid(self, geometry: Geometry, parts: int) -> tuple[Unit, Geometry]:
        """Return the coarse pictures of all places, one below the other, and whose they are."""
        rows = [Place(place.unit, 0, parts * at, parts, parts) for at, place in enumerate(self.places)]
        return Regions(tuple(rows)), Geometry(parts * len(rows), parts, geometry.channels)

    def means(self, pictures: Any, parts: int) -> Any:
        """Return the coarse pixels of the places of pictures (N, H, W, C), one place below the other."""
        found = []
        for place in self.places:
            inside = place.inside[None, :, :, None]
            own = pictures[:, place.part[0], place.part[1]].astype(np.int64) * inside
            counts = _sums(inside, parts)
            found.append(_sums(own, parts) / np.maximum(counts, 1))
        return np.concatenate(found, axis=1)

    def present(self, parts: int) -> NDArray[np.bool_]:
        """Return which coarse pixels (rows, columns) of the places have a pixel of their unit."""
        return np.concatenate([_sums(place.inside[None, :, :, None], parts)[0, ..., 0] > 0 for place in self.places])

    def _parameters_to_bytes(self) -> bytes:
        """Return unit, left, top, width, height, number of runs and runs of each place, in four bytes each."""
        rows = ([*place[:5], len(place.runs), *place.runs] for place in self.places)
        return np.fromiter(itertools.chain.from_iterable(rows), "<u4").tobytes()

    @classmethod
    def _from_parameters(cls, content: bytes) -> Regions:
        """Read places until the bytes end."""
        if len(content) % 4:
            raise DippError("regions", "whole numbers of four bytes are needed")
        numbers: list[int] = np.frombuffer(content, "<u4").tolist()
        rows, at = list[Place](), 0
        while at < len(numbers) and len(rows) <= MAX_PLACES:
            end = at + 6 + sum(numbers[at + 5 : at + 6])
            if end > len(numbers) or at + 6 > len(numbers):
                raise DippError("regions", "a place is cut off")
            unit, left, top, width, height = numbers[at : at + 5]
            rows.append(Place(unit, left, top, width, height, tuple(numbers[at + 6 : end])))
            at = end
        return cls(tuple(rows))

    def to_dict(self) -> dict[str, Any]:
        """Return the kind, and the places as rows of unit, left, top, width, height and runs."""
        return {"kind": self.kind, "places": [[*place[:5], list(place.runs)] for place in self.places]}


def _sums(values: Any, parts: int) -> Any:
    """Return sums (N, parts, parts, C) of the coarse pixels of a box (N, h, w, C)."""
    # Where a cut repeats, reduceat takes the one row or column there, as the module's text has it.
    for axis in (1, 2):
        cuts = np.arange(parts, dtype=np.int64) * values.shape[axis] // parts
        values = np.add.reduceat(values, cuts, axis=axis, dtype=np.int64)
    return values


def _near(places: Sequence[Place]) -> list[tuple[Place, Place]]:
    """Return the pairs of places whose boxes overlap."""
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
