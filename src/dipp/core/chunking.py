"""Chunks: which coordinates of a step are coded together, one index for each chunk.

The deal depends on public values alone (seed, step, geometry, unit) and is the same for all images of a geometry:
chunks cut by the realised shifts would leak information about the image.

| deal | chunks |
|---|---|
| `Shuffled` | of equal size, by a public shuffle: a step's divergence is too large for one index |
| `ByUnit` | the touched coordinates of a unit, all of them |
| `ByBlock` | the coarse pixels of a block of a unit (`core.steps.Question`), in the order of the rounds |

**Shuffled.** Pixels are ranked by a public shuffle, and the coordinates are dealt to the chunks in turn, pixel after
pixel: the i-th coordinate goes to chunk i mod count. So sizes differ by one at most, and the C coordinates of a pixel,
being consecutive, go to C different chunks whenever there are at least C. That leaves pure ε as it is, but divides ρ by
C: a pixel then moves C selections by s each instead of one by C·s, and ρ grows with the square. A pixel of rank r deals
its channels starting from channel −r mod C, so that chunks mix the colours. Where every coordinate is a chunk of its
own, nothing is shuffled: chunk i is the i-th touched coordinate.
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
from dipp.core.steps import BLOCK, ROUNDS
from dipp.core.unit import Unit
from dipp.core.units import Pixel
from dipp.errors import DippError

Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Chunks:
    """Coordinates divided into chunks: chunk i holds order[offsets[i]:offsets[i + 1]], ascending and never empty."""

    order: Integers
    offsets: Integers
    rounds: tuple[int, ...] = ()
    """Number of the first chunk of each round after the first, if the chunks are asked in several rounds."""

    def in_round(self, number: int) -> Chunks:
        """Return the chunks of one round, whose number is counted from 0."""
        first, last = (0, *self.rounds, self.count)[number : number + 2]
        begin, end = self.offsets[first], self.offsets[last]
        return Chunks(self.order[begin:end], self.offsets[first : last + 1] - begin)

    @property
    def count(self) -> int:
        """Number of chunks."""
        return len(self.offsets) - 1

    def part(self, chunk: int) -> Integers:
        """Coordinates of one chunk, ascending."""
        if not 0 <= chunk < self.count:
            raise DippError("chunk", f"0 to {self.count - 1} is needed, got {chunk}")
        return self.order[self.offsets[chunk] : self.offsets[chunk + 1]]

    def owners(self) -> Integers:
        """Return the chunk of each coordinate of `order`."""
        return np.repeat(np.arange(self.count), np.diff(self.offsets))


NOTHING = Chunks(np.empty(0, np.int64), np.zeros(1, np.int64))
"""The chunks of a step that touches no coordinate: none."""


class Touched(NamedTuple):
    """What a step touches of a picture."""

    number: int
    """Number of the step."""
    step: CodedStep
    coordinates: Integers
    """The touched coordinates, ascending and at least one."""
    unit: Unit
    geometry: Geometry


class Dealt(NamedTuple):
    """What a deal did to the units of a picture."""

    parts: Integers
    """How often each unit takes part in the selections of the step."""
    apart: bool
    """Whether the deal kept what it keeps apart: two coordinates of a pixel, or two units."""


class Deal(ABC):
    """How the coordinates that a step touches are dealt to chunks."""

    alone: ClassVar[bool]
    """Whether every chunk lies in one unit."""

    @abstractmethod
    def require_unit(self, unit: Unit) -> None:
        """Raise if the deal does not serve a unit."""

    def require_separate(self, separate: bool) -> None:  # noqa: B027 - a shuffle may keep channels together
        """Raise if parts of a unit may share a chunk, and the deal keeps them apart."""

    @abstractmethod
    def counts(self, mask: Mask, unit: Unit, geometry: Geometry, steps: Sequence[CodedStep]) -> Integers:
        """Return the chunks of each step of a picture."""

    @abstractmethod
    def touches(self, mask: Mask, channels: int, step: CodedStep, unit: Unit) -> int:
        """Return how often a unit takes part in the selections of a step, at most."""

    def require_touched(self, touched: int, mask: Mask, channels: int, unit: Unit) -> None:  # noqa: ARG002
        """Raise if a unit cannot take part so often in the selections of a step, as a ledger says."""
        if touched != (wanted := self._touches(mask, channels)):
            raise DippError("touched", f"{wanted} in every step is needed with period {mask.period}")

    def _touches(self, mask: Mask, channels: int) -> int:  # noqa: ARG002
        """Return `touches` where it is the same for all steps."""
        return 1

    @abstractmethod
    def apart(self, mask: Mask, channels: int, count: int, separate: bool) -> bool:
        """Return whether a step of `count` chunks has no two parts of a unit in one chunk, for certain."""

    @abstractmethod
    def chunks(self, seed: bytes, touched: Touched, apart: bool) -> Chunks:
        """Deal the coordinates that a step touches to chunks, kept `apart` or not (`Deal.apart`)."""

    @abstractmethod
    def dealt(self, dealt: Chunks, unit: Unit, geometry: Geometry) -> Dealt:
        """Return what chunks that were dealt mean for the units: this looks at the chunks, and not at a plan."""


class Shuffled(Deal):
    """By a public shuffle of the pixels."""

    alone = False

    def require_unit(self, unit: Unit) -> None:
        """Raise for a unit other than the pixel, whose coordinates the shuffle keeps apart."""
        if unit != Pixel():
            raise DippError("unit", f"this code prices single pixels, got {unit.short}")

    def counts(self, mask: Mask, unit: Unit, geometry: Geometry, steps: Sequence[CodedStep]) -> Integers:  # noqa: ARG002
        """Return the touched coordinates over the sizes, rounded up."""
        sizes = np.array([step.chunk_size for step in steps])
        return np.asarray(-(-mask.counts(len(sizes), geometry) // sizes), np.int64)

    def touches(self, mask: Mask, channels: int, step: CodedStep, unit: Unit) -> int:  # noqa: ARG002
        """Return the coordinates of a pixel that a step touches."""
        return self._touches(mask, channels)

    def _touches(self, mask: Mask, channels: int) -> int:
        return mask.touches(channels)

    def apart(self, mask: Mask, channels: int, count: int, separate: bool) -> bool:
        """Return true if a step touches one coordinate of a pixel, or has chunks enough and keeps them apart."""
        return mask.touches(channels) == 1 or (separate and count >= channels)

    def chunks(self, seed: bytes, touched: Touched, apart: bool) -> Chunks:
        """Deal in turn to as many chunks as the size needs."""
        count = -(-len(touched.coordinates) // touched.step.chunk_size)
        number, geometry = touched.number, touched.geometry
        return chunks(seed, number, geometry, count, apart=apart, coordinates=touched.coordinates)

    def dealt(self, dealt: Chunks, unit: Unit, geometry: Geometry) -> Dealt:
        """Return the coordinates of each pixel, and whether no two of a pixel are in one chunk."""
        units, chunk = unit.of(dealt.order, geometry), dealt.owners()
        # Coordinates ascend within a chunk, so that those of a pixel are neighbours.
        apart = not ((units[1:] == units[:-1]) & (chunk[1:] == chunk[:-1])).any()
        return Dealt(np.bincount(units, minlength=unit.count(geometry)), apart)


class ByUnit(Deal):
    """All touched coordinates of a unit together, and no others with them: one draw for each unit."""

    alone = True

    def require_unit(self, unit: Unit) -> None:
        """Accept any unit."""

    def counts(self, mask: Mask, unit: Unit, geometry: Geometry, steps: Sequence[CodedStep]) -> Integers:
        """Return the units that each step touches."""
        return mask.units(len(steps), unit, geometry)

    def touches(self, mask: Mask, channels: int, step: CodedStep, unit: Unit) -> int:  # noqa: ARG002
        """Return 1: a unit is a chunk."""
        return 1

    def apart(self, mask: Mask, channels: int, count: int, separate: bool) -> bool:  # noqa: ARG002
        """Return true: a unit takes part in one selection."""
        return True

    def chunks(self, seed: bytes, touched: Touched, apart: bool) -> Chunks:  # noqa: ARG002
        """Deal by the partition alone, in the order of the units."""
        coordinates = touched.coordinates
        units = touched.unit.of(coordinates, touched.geometry)
        order = coordinates[np.argsort(units, kind="stable")]
        sizes = np.bincount(units)
        offsets = np.concatenate([[0], np.cumsum(sizes[sizes > 0])]).astype(np.int64)
        order.flags.writeable = offsets.flags.writeable = False
        return Chunks(order, offsets)

    def dealt(self, dealt: Chunks, unit: Unit, geometry: Geometry) -> Dealt:
        """Return the chunks in which each unit has coordinates, and whether every chunk lies in one unit."""
        pairs = np.unique(np.stack([unit.of(dealt.order, geometry), dealt.owners()]), axis=1)
        return Dealt(np.bincount(pairs[0], minlength=unit.count(geometry)), pairs.shape[1] == dealt.count)


class ByBlock(ByUnit):
    """The 4×4 coarse pixels of each block of a unit, as `core.steps.Question` divides it: a draw for each block.

    Coordinates, unit and geometry are those of the coarse picture (`CodedStep.grid`). Each unit is divided by whole
    blocks, so a block lies in one unit; at the picture's edges blocks may be cut off. Blocks come in the order of the
    rounds, and within a round row by row.
    """

    def require_separate(self, separate: bool) -> None:
        """Raise if parts of a unit may share a chunk: each block has one of its own."""
        if not separate:
            raise DippError("separate", "must be true where each block of a unit has a draw of its own, got false")

    def counts(self, mask: Mask, unit: Unit, geometry: Geometry, steps: Sequence[CodedStep]) -> Integers:  # noqa: ARG002
        """Return the blocks of the coarse picture of each step."""
        grids = (step.grid(unit, geometry)[1] for step in steps)
        return np.array([-(-grid.height // BLOCK) * -(-grid.width // BLOCK) for grid in grids], np.int64)

    def touches(self, mask: Mask, channels: int, step: CodedStep, unit: Unit) -> int:  # noqa: ARG002
        """Return the blocks of a unit: those of each of its places."""
        return unit.most_places * step.draws

    def require_touched(self, touched: int, mask: Mask, channels: int, unit: Unit) -> None:  # noqa: ARG002
        """Raise if this is not the number of blocks of a unit whose places are divided by a power of two."""
        if touched not in {unit.most_places * 4**i for i in range(6)}:
            several = f" times its {unit.most_places} places" * (unit.most_places > 1)
            raise DippError("touched", f"1, 4, 16, 64, 256 or 1024 blocks of a unit{several} are needed, got {touched}")

    def chunks(self, seed: bytes, touched: Touched, apart: bool) -> Chunks:  # noqa: ARG002
        """Deal by the grid of blocks alone, in the order of the rounds."""
        step, coordinates, geometry = touched.step, touched.coordinates, touched.geometry
        row, column = np.divmod(coordinates // geometry.channels, geometry.width)
        row, column = row // BLOCK, column // BLOCK
        blocks = row * -(-geometry.width // BLOCK) + column
        pattern = np.array(ROUNDS[step.turns])
        turn = pattern[row % len(pattern), column % len(pattern)]
        keys = turn * (int(blocks.max()) + 1) + blocks
        dealt, sizes = np.argsort(keys, kind="stable"), np.unique(keys, return_counts=True)[1]
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        starts = np.searchsorted(turn[dealt][offsets[:-1]], np.arange(1, step.turns))
        order = coordinates[dealt]
        order.flags.writeable = offsets.flags.writeable = False
        return Chunks(order, offsets, tuple(starts.tolist()))


SHUFFLED, BY_UNIT, BY_BLOCK = Shuffled(), ByUnit(), ByBlock()


def chunks(
    seed: bytes,
    step: int,
    geometry: Geometry,
    count: int,
    *,
    apart: bool = True,
    coordinates: Integers | None = None,
) -> Chunks:
    """Deal the coordinates of one step to chunks, by the public seed.

    Args:
        seed: The public seed.
        step: Number of the step.
        geometry: The geometry of the picture.
        count: Number of chunks.
        apart: Whether no two coordinates of a pixel may meet in a chunk. If false, any coordinates may meet.
        coordinates: The coordinates that the step touches, ascending; by default all of the picture.

    Raises:
        DippError: There are fewer chunks than coordinates of a pixel, or more than coordinates.

    """
    dims, channels = geometry.coordinates, geometry.channels if apart else 1
    touched = np.arange(dims, dtype=np.int64) if coordinates is None else _checked(coordinates, dims)
    pixel, channel = np.divmod(touched, channels)
    crowd = int(np.bincount(pixel).max())
    if not crowd <= count <= len(touched):
        raise DippError(
            "count", f"{crowd} (coordinates of a pixel) to {len(touched)} (of the step) chunks are needed, got {count}"
        )
    if count == len(touched):
        return _alone(touched)
    shuffled = randomness.permutation(randomness.stream(seed, 0, step, "chunks"), dims // channels)
    place = np.empty_like(shuffled)
    place[shuffled] = np.arange(len(shuffled))
    rank = place[pixel]
    deal = np.argsort(rank * channels + (channel + rank) % channels)  # all keys differ: any sort gives the same
    chunk = np.empty(len(touched), np.int64)
    chunk[deal] = np.arange(len(touched)) % count
    order = touched[np.argsort(chunk, kind="stable")]
    offsets = np.concatenate([[0], np.cumsum(np.bincount(chunk, minlength=count))]).astype(np.int64)
    order.flags.writeable = offsets.flags.writeable = False
    return Chunks(order, offsets)


def _alone(touched: Integers) -> Chunks:
    """Return the chunks of one coordinate each, in ascending order."""
    order, offsets = touched.copy(), np.arange(len(touched) + 1, dtype=np.int64)
    order.flags.writeable = offsets.flags.writeable = False
    return Chunks(order, offsets)


def _checked(coordinates: Integers, dims: int) -> Integers:
    """The coordinates in int64; refused unless they ascend strictly within 0 … dims − 1."""
    if coordinates.ndim != 1 or coordinates.dtype.kind not in "iu" or not len(coordinates):
        raise DippError("coordinates", f"a row of one or more integers is needed, got shape {coordinates.shape}")
    wide = coordinates.astype(np.int64)
    if wide[0] < 0 or wide[-1] >= dims or (np.diff(wide) <= 0).any():
        raise DippError("coordinates", f"ascending ones from 0 to {dims - 1} are needed, each once")
    return wide
