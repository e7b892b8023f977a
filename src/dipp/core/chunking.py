"""Chunks: the groups of coordinates of a step that are coded together, each by one index.

A *deal* says which coordinates form a chunk. It depends on public values alone (seed, step, geometry, unit) and is the
same for all images of a geometry: chunks that depend on the shifts of an image would leak information about it.

| deal | a chunk has |
|---|---|
| `ShuffledDeal` | coordinates chosen by a public shuffle; all chunks have nearly the same size |
| `unit_deals.UnitDeal` | all touched coordinates of one unit |
| `unit_deals.BlockDeal` | the coarse pixels of one block (`core.steps.Question`) |

**Shuffled.** Pixels are ranked by a public shuffle, and the coordinates are dealt to the chunks in turn, pixel after
pixel: the i-th coordinate goes to chunk i mod count. So sizes differ by one at most, and the C coordinates of a pixel,
being consecutive, go to C different chunks whenever there are at least C. That leaves pure ε as it is, but divides ρ by
C: if a coordinate moves scores by s, a pixel then moves C selections by s each instead of one by C·s, and ρ grows with
the square. A pixel of rank r deals its channels starting from channel −r mod C, so that chunks mix the colours. Where
every coordinate is a chunk of its own, nothing is shuffled: chunk i is the i-th touched coordinate.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dipp.core import randomness
from dipp.core.geometry import Geometry
from dipp.core.masks import Mask
from dipp.core.step import CodedStep
from dipp.core.unit import Unit
from dipp.core.units import Pixel
from dipp.errors import DippError

Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Chunks:
    """Coordinates divided into chunks: chunk i holds order[offsets[i]:offsets[i + 1]], ascending and never empty."""

    order: Integers
    """All coordinates, chunk after chunk."""
    offsets: Integers
    """Position in `order` at which each chunk begins, and at last the length of `order`."""
    rounds: tuple[int, ...] = ()
    """Number of the first chunk of each round after the first; empty if there is one round."""

    def in_round(self, number: int) -> Chunks:
        """Return the chunks of one round; rounds are numbered from 0."""
        first, last = (0, *self.rounds, self.count)[number : number + 2]
        begin, end = self.offsets[first], self.offsets[last]
        return Chunks(self.order[begin:end], self.offsets[first : last + 1] - begin)

    @property
    def count(self) -> int:
        """Number of chunks."""
        return len(self.offsets) - 1

    def part(self, chunk: int) -> Integers:
        """Return the coordinates of one chunk, ascending.

        Raises:
            DippError: There is no chunk of this number.
        """
        if not 0 <= chunk < self.count:
            raise DippError("chunk", f"must be from 0 to {self.count - 1}, got {chunk}")
        return self.order[self.offsets[chunk] : self.offsets[chunk + 1]]

    def owners(self) -> Integers:
        """Return the chunk of each coordinate of `order`."""
        return np.repeat(np.arange(self.count), np.diff(self.offsets))


NOTHING = Chunks(np.empty(0, np.int64), np.zeros(1, np.int64))
"""No chunks: those of a step that touches no coordinate."""


class StepCoordinates(NamedTuple):
    """The coordinates that a step touches, with everything public that a deal needs."""

    number: int
    """Number of the step."""
    step: CodedStep
    coordinates: Integers
    """The touched coordinates, ascending; at least one."""
    unit: Unit
    geometry: Geometry


class DealtUnits(NamedTuple):
    """How chunks divide the units of a picture."""

    parts: Integers
    """Number of selections of the step in which each unit takes part."""
    apart: bool
    """Whether no chunk has two coordinates of a pixel or, for deals by unit, coordinates of two units."""


class Deal(ABC):
    """A rule by which the coordinates that a step touches are dealt to chunks."""

    alone: ClassVar[bool]
    """Whether each chunk lies in one unit."""

    @abstractmethod
    def require_unit(self, unit: Unit) -> None:
        """Raise if the deal does not serve this kind of unit."""

    def require_separate(self, separate: bool) -> None:  # noqa: B027 - a shuffle may keep channels together
        """Raise if a plan lets parts of a unit share a chunk (`separate` is false) and this deal never does that."""

    @abstractmethod
    def counts(self, mask: Mask, unit: Unit, geometry: Geometry, steps: Sequence[CodedStep]) -> Integers:
        """Return the number of chunks of each step for a picture of this geometry.

        Args:
            mask: The mask of the plan.
            unit: The unit of the plan.
            geometry: Geometry of the picture.
            steps: The steps.
        """

    @abstractmethod
    def touches(self, mask: Mask, channels: int, step: CodedStep, unit: Unit) -> int:
        """Return the largest number of selections of a step in which a unit takes part.

        Args:
            mask: The mask of the plan.
            channels: Number of channels of a picture.
            step: The step.
            unit: The unit of the plan.
        """

    def require_touched(self, touched: int, mask: Mask, channels: int, unit: Unit) -> None:  # noqa: ARG002
        """Raise if a unit cannot take part in `touched` selections of one step.

        Args:
            touched: Number of selections of a step in which a unit takes part, as a ledger states it.
            mask: The mask of the plan.
            channels: Number of channels of a picture.
            unit: The unit of the plan.
        """
        if touched != (wanted := self._touches(mask, channels)):
            raise DippError("touched", f"must be {wanted} in every step with period {mask.period}, got {touched}")

    def _touches(self, mask: Mask, channels: int) -> int:  # noqa: ARG002
        """Return the largest number of selections of a unit in a step, if it is the same for all steps."""
        return 1

    @abstractmethod
    def apart(self, mask: Mask, channels: int, count: int, separate: bool) -> bool:
        """Return whether a step with `count` chunks certainly has no two parts of a unit in one chunk.

        Args:
            mask: The mask of the plan.
            channels: Number of channels of a picture.
            count: Number of chunks of the step.
            separate: Whether the plan deals the parts of a unit to different chunks.
        """

    @abstractmethod
    def chunks(self, seed: bytes, touched: StepCoordinates, apart: bool) -> Chunks:
        """Deal the coordinates that a step touches to chunks.

        Args:
            seed: The public seed.
            touched: The coordinates that the step touches.
            apart: Whether no two coordinates of a pixel may share a chunk.

        Returns:
            The chunks.
        """

    @abstractmethod
    def dealt(self, dealt: Chunks, unit: Unit, geometry: Geometry) -> DealtUnits:
        """Return how chunks divide the units of a picture; the encoder records this from the chunks that it used.

        Args:
            dealt: The chunks of one step.
            unit: The unit of the plan.
            geometry: Geometry of the picture.
        """


class ShuffledDeal(Deal):
    """The deal by a public shuffle of the pixels, to chunks of nearly equal size."""

    alone = False

    def require_unit(self, unit: Unit) -> None:
        """Raise for any unit except the pixel: the shuffle keeps the coordinates of a pixel apart, and no others."""
        if unit != Pixel():
            raise DippError("unit", f"must be the pixel for this code, got {unit.short}")

    def counts(self, mask: Mask, unit: Unit, geometry: Geometry, steps: Sequence[CodedStep]) -> Integers:  # noqa: ARG002
        """Return the number of touched coordinates divided by the size of a chunk, rounded up, for each step."""
        sizes = np.array([step.chunk_size for step in steps])
        return np.asarray(-(-mask.counts(len(sizes), geometry) // sizes), np.int64)

    def touches(self, mask: Mask, channels: int, step: CodedStep, unit: Unit) -> int:  # noqa: ARG002
        """Return the number of coordinates of a pixel that a step touches."""
        return self._touches(mask, channels)

    def _touches(self, mask: Mask, channels: int) -> int:
        return mask.touches(channels)

    def apart(self, mask: Mask, channels: int, count: int, separate: bool) -> bool:
        """Return true if a step touches one coordinate of a pixel, or has at least C chunks and separates channels."""
        return mask.touches(channels) == 1 or (separate and count >= channels)

    def chunks(self, seed: bytes, touched: StepCoordinates, apart: bool) -> Chunks:
        """Deal the coordinates in turn to as few chunks as the size of a chunk allows."""
        count = -(-len(touched.coordinates) // touched.step.chunk_size)
        number, geometry = touched.number, touched.geometry
        return chunks(seed, number, geometry, count, apart=apart, coordinates=touched.coordinates)

    def dealt(self, dealt: Chunks, unit: Unit, geometry: Geometry) -> DealtUnits:
        """Return the number of coordinates of each pixel, and whether no chunk has two coordinates of a pixel."""
        units, chunk = unit.of(dealt.order, geometry), dealt.owners()
        # Coordinates ascend within a chunk, so two coordinates of a pixel follow each other.
        apart = not ((units[1:] == units[:-1]) & (chunk[1:] == chunk[:-1])).any()
        return DealtUnits(np.bincount(units, minlength=unit.count(geometry)), apart)


SHUFFLED = ShuffledDeal()
"""The deal by a public shuffle."""


def chunks(
    seed: bytes,
    step: int,
    geometry: Geometry,
    count: int,
    *,
    apart: bool = True,
    coordinates: Integers | None = None,
) -> Chunks:
    """Deal the coordinates of one step to chunks of nearly equal size, by a public shuffle of the pixels.

    Args:
        seed: The public seed, 16 bytes.
        step: Number of the step, from 0.
        geometry: The geometry of the picture.
        count: Number of chunks.
        apart: Whether no two coordinates of a pixel may share a chunk.
        coordinates: The coordinates that the step touches, ascending; by default all coordinates of the picture.

    Raises:
        DippError: `count` is smaller than the number of coordinates of a pixel (if `apart`), or larger than the number
            of touched coordinates; or the coordinates are invalid.

    """
    dims, channels = geometry.coordinates, geometry.channels if apart else 1
    touched = np.arange(dims, dtype=np.int64) if coordinates is None else _checked(coordinates, dims)
    pixel, channel = np.divmod(touched, channels)
    crowd = int(np.bincount(pixel).max())
    if not crowd <= count <= len(touched):
        raise DippError(
            "count", f"must be from {crowd} (coordinates of a pixel) to {len(touched)} (of the step), got {count}"
        )
    if count == len(touched):
        return _alone(touched)
    shuffled = randomness.permutation(randomness.stream(seed, 0, step, "chunks"), dims // channels)
    ranks = np.empty_like(shuffled)
    ranks[shuffled] = np.arange(len(shuffled))
    rank = ranks[pixel]
    deal = np.argsort(rank * channels + (channel + rank) % channels)  # all keys differ: any sort gives the same
    chunk = np.empty(len(touched), np.int64)
    chunk[deal] = np.arange(len(touched)) % count
    order = touched[np.argsort(chunk, kind="stable")]
    offsets = np.concatenate([[0], np.cumsum(np.bincount(chunk, minlength=count))]).astype(np.int64)
    order.flags.writeable = offsets.flags.writeable = False
    return Chunks(order, offsets)


def _alone(touched: Integers) -> Chunks:
    """Return one chunk for each coordinate, in ascending order."""
    order, offsets = touched.copy(), np.arange(len(touched) + 1, dtype=np.int64)
    order.flags.writeable = offsets.flags.writeable = False
    return Chunks(order, offsets)


def _checked(coordinates: Integers, dims: int) -> Integers:
    """Return the coordinates as int64, or raise unless they ascend strictly within 0 … dims − 1."""
    if coordinates.ndim != 1 or coordinates.dtype.kind not in "iu" or not len(coordinates):
        raise DippError("coordinates", f"must be a row of one or more integers, got shape {coordinates.shape}")
    wide = coordinates.astype(np.int64)
    if wide[0] < 0 or wide[-1] >= dims or (np.diff(wide) <= 0).any():
        raise DippError("coordinates", f"must ascend from 0 to {dims - 1}, each at most once")
    return wide
