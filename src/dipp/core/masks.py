"""Masks: which coordinates each step touches. No other module knows periods, passes and groups.

A mask says which coordinates each step of a plan touches. Everything about it is public: it follows from the seed, the
number of the step and the geometry of the picture, and is known before a picture is read. A coordinate is pixel·C +
channel.

| mask | a step touches | a pixel is touched |
|---|---|---|
| `FullMask` | every coordinate | in every step, with all its C channels |
| `TurnMask(P)` | a share 1/P of the coordinates, at most one channel of a pixel | in C of every P steps |

**Turns.** In a cycle of P ≥ C steps every coordinate is touched exactly once, and no pixel twice in a step. A public
shuffle, a new one for each cycle, gives every pixel a rank r, and every pixel shuffles its channels. Step (slot) s of
the cycle touches the channel at position p of the pixel of rank r if

    s = (r + p·⌊P/C⌋) mod P,      p = 0 … C − 1.

With P = C·g this is g *groups a pass*: any g consecutive slots touch each pixel once (its slots lie g apart), so that a
pass is g steps and T·g steps are T passes, whole or not. The worst pixel of those is touched ⌈T⌉ times.

Certificates ask for the worst pixel, never for an average. Ranks that fall into the same class modulo P share their
slots, so a cycle has P kinds of pixels at the most, and `worst` looks at each of them. As ranks are shuffled anew for
the next cycle, some pixel may be of the dearest kind every time: the worst of each cycle adds up.
"""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dipp.core import randomness
from dipp.core.geometry import Geometry
from dipp.core.unit import Unit
from dipp.core.units import Pixel
from dipp.errors import DippError

Integers = NDArray[np.int64]

MAX_PERIOD = (1 << 16) - 1
"""Largest period of a mask, in steps."""


class Mask(ABC):
    """The rule that says which coordinates of a picture each step touches. `channels` is C."""

    @property
    @abstractmethod
    def period(self) -> int:
        """The number of steps in which every coordinate is touched once (P)."""

    @abstractmethod
    def require(self, channels: int) -> None:
        """Raise if the mask does not serve pictures of this number of channels."""

    @abstractmethod
    def touches(self, channels: int) -> int:
        """Return the largest number of coordinates of one pixel that a step touches."""

    @abstractmethod
    def touched(self, seed: bytes, step: int, geometry: Geometry) -> Integers:
        """Return the coordinates that a step touches.

        Args:
            seed: The public seed, 16 bytes.
            step: Number of the step, from 0.
            geometry: The geometry of the picture.

        Returns:
            Coordinates as int64, ascending; possibly none if the picture is very small.
        """

    @abstractmethod
    def counts(self, steps: int, geometry: Geometry) -> Integers:
        """Return the number of coordinates that each of the first `steps` steps touches, as int64.

        Args:
            steps: Number of steps.
            geometry: Geometry of the picture.
        """

    @abstractmethod
    def require_unit(self, unit: Unit) -> None:
        """Raise if `worst` does not compute the largest cost of this kind of unit."""

    @abstractmethod
    def units(self, steps: int, unit: Unit, geometry: Geometry) -> Integers:
        """Return the number of units that each of the first `steps` steps touches, as int64.

        Args:
            steps: Number of steps.
            unit: The unit.
            geometry: Geometry of the picture.
        """

    @abstractmethod
    def worst(self, costs: Sequence[float], channels: int) -> float:
        """Return the largest total cost of a unit over all steps.

        Args:
            costs: What each step costs every unit that it touches, such as its ε.
            channels: Number of channels of the picture.
        """

    def largest(self, geometry: Geometry) -> int:
        """Return the largest number of coordinates that a step touches."""
        return int(self.counts(self.period, geometry).max())

    def mean_touches(self, channels: int) -> float:
        """Return the mean number of coordinates of a pixel that a step touches: C/P."""
        return channels / self.period

    def least_steps(self, steps: int) -> int:
        """Return the smallest number of the first `steps` steps that touch a picture, over all sizes.

        The first step of every cycle touches every picture, namely its pixel of rank 0.
        """
        return -(-steps // self.period)


@dataclass(frozen=True)
class FullMask(Mask):
    """The mask by which every step touches every coordinate."""

    @property
    def period(self) -> int:
        """One step, because each step touches every coordinate."""
        return 1

    def require(self, channels: int) -> None:
        """Accept any number from 1."""
        if channels < 1:
            raise DippError("channels", f"must be a whole number from 1, got {channels}")

    def touches(self, channels: int) -> int:
        """Return C: a step touches every coordinate of a pixel."""
        self.require(channels)
        return channels

    def touched(self, seed: bytes, step: int, geometry: Geometry) -> Integers:  # noqa: ARG002
        """Return all coordinates of the picture."""
        return np.arange(geometry.coordinates, dtype=np.int64)

    def counts(self, steps: int, geometry: Geometry) -> Integers:
        """Return the number of all coordinates for each step."""
        return np.full(steps, geometry.coordinates, np.int64)

    def require_unit(self, unit: Unit) -> None:
        """Accept any unit, because every step touches all of it."""

    def units(self, steps: int, unit: Unit, geometry: Geometry) -> Integers:
        """Return the number of all units for each step."""
        return np.full(steps, unit.count(geometry), np.int64)

    def worst(self, costs: Sequence[float], channels: int) -> float:  # noqa: ARG002
        """Return the sum of the costs of all steps, because every step touches every unit."""
        return math.fsum(costs)


@dataclass(frozen=True)
class TurnMask(Mask):
    """The mask by which a step touches at most one channel of a pixel (the module's docstring has the rule)."""

    cycle: int
    """P: the number of steps of a cycle, at least 2."""

    def __post_init__(self) -> None:
        if type(self.cycle) is not int or not 2 <= self.cycle <= MAX_PERIOD:
            raise DippError("period", f"must be a whole number from 1 to {MAX_PERIOD}, got {self.cycle}")

    @property
    def period(self) -> int:
        """The length P of a cycle."""
        return self.cycle

    def require(self, channels: int) -> None:
        """Raise if the cycle has fewer steps than a pixel has channels."""
        if not 1 <= channels <= self.cycle:
            raise DippError("period", f"must be 1, or at least the number of channels ({channels}), got {self.cycle}")

    def touches(self, channels: int) -> int:
        """Return 1: a step touches at most one coordinate of a pixel."""
        self.require(channels)
        return 1

    def touched(self, seed: bytes, step: int, geometry: Geometry) -> Integers:
        """Return the coordinates that this step of its cycle touches."""
        self.require(geometry.channels)
        cycle, slot = divmod(step, self.cycle)
        return np.flatnonzero(_slots(seed, cycle, self.cycle, geometry) == slot).astype(np.int64)

    def counts(self, steps: int, geometry: Geometry) -> Integers:
        """Return the number of coordinates that each step touches, by a formula that needs no shuffle (`_counts`)."""
        self.require(geometry.channels)
        return _counts(self.cycle, steps, geometry)

    def require_unit(self, unit: Unit) -> None:
        """Raise for a unit larger than a pixel, because different steps touch its pixels."""
        if unit != Pixel():
            raise DippError("period", f"must be 1 for the unit {unit.short}, got {self.cycle}")

    def units(self, steps: int, unit: Unit, geometry: Geometry) -> Integers:
        """Return the number of touched pixels of each step: one for each touched coordinate."""
        self.require_unit(unit)
        return self.counts(steps, geometry)

    def worst(self, costs: Sequence[float], channels: int) -> float:
        """Return the sum over all cycles of the largest cost that a pixel of any rank has in the cycle."""
        self.require(channels)
        offsets = [position * (self.cycle // channels) for position in range(channels)]
        dearest = []
        for first in range(0, len(costs), self.cycle):
            costs_of_class: defaultdict[int, list[float]] = defaultdict(list)
            for slot, cost in enumerate(costs[first : first + self.cycle]):
                for offset in offsets:
                    costs_of_class[(slot - offset) % self.cycle].append(cost)
            dearest.append(max(map(math.fsum, costs_of_class.values())))
        return math.fsum(dearest)


@functools.lru_cache(maxsize=1)  # the steps of a cycle follow each other, and the shuffles take long for large pictures
def _slots(seed: bytes, cycle: int, period: int, geometry: Geometry) -> NDArray[np.unsignedinteger]:
    """Return the step within a cycle (slot) that touches each coordinate, as bytes if they can hold P − 1."""
    pixels, channels = geometry.pixels, geometry.channels
    rank = np.empty(pixels, np.int64)
    rank[randomness.permutation(randomness.stream(seed, 0, cycle, "mask/pixels"), pixels)] = np.arange(pixels)
    keys = randomness.words(randomness.stream(seed, 0, cycle, "mask/channels"), pixels * channels)
    columns = [*keys.reshape(pixels, channels).T]
    slots = np.empty((pixels, channels), np.min_scalar_type(period - 1))
    for channel, keys_of_channel in enumerate(columns):
        # The position of a channel is the number of keys of its pixel that sort before its own key.
        before = (
            key <= keys_of_channel if other < channel else key < keys_of_channel for other, key in enumerate(columns)
        )
        position = functools.reduce(np.add, before, np.zeros(pixels, np.uint16))
        slots[:, channel] = (rank + position * np.int64(period // channels)) % period
    slots.flags.writeable = False
    return slots.reshape(-1)


def of_period(period: int) -> Mask:
    """Return the mask that touches every coordinate once in each cycle of `period` steps."""
    return FullMask() if period == 1 else TurnMask(period)


@functools.lru_cache(maxsize=256)
def _counts(period: int, steps: int, geometry: Geometry) -> Integers:
    """Return the number of coordinates that each of the first `steps` steps of `TurnMask` touches.

    Any P pixels of consecutive ranks have C coordinates in each slot (step of a cycle). The last m = pixels mod P ranks
    have a coordinate in slot s for each channel position p with p·⌊P/C⌋ from s − m + 1 to s or, going round, above
    s − m + P.
    """
    channels = geometry.channels
    slot, (cycles, remainder) = np.arange(steps) % period, divmod(geometry.pixels, period)

    def positions_up_to(slot: Integers) -> Integers:
        return np.clip(slot // (period // channels) + 1, 0, channels)

    inside = positions_up_to(slot) - positions_up_to(slot - remainder)
    counts: Integers = cycles * channels + inside + channels - positions_up_to(slot - remainder + period)
    counts.flags.writeable = False  # it is cached, and certificates follow from it
    return counts
