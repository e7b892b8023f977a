"""Masks: who is touched when. The one place that knows periods, passes and groups.

A mask says which coordinates each step of a plan touches. Everything about it is public: it follows from the seed, the
number of the step and the geometry of the picture, and is known before a picture is read. A coordinate is pixel·C +
channel.

| mask | a step touches | a pixel is touched |
|---|---|---|
| `Everywhere` | every coordinate | in every step, with all its C channels |
| `Turns(period=P)` | a share 1/P of the coordinates, at most one channel of a pixel | in C of every P steps |

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


class Mask(ABC):
    """Which coordinates of a picture the steps touch. `channels` is C."""

    @property
    @abstractmethod
    def period(self) -> int:
        """Steps after which every coordinate was touched once."""

    @abstractmethod
    def require(self, channels: int) -> None:
        """Refuse a number of channels that the mask is not made for."""

    @abstractmethod
    def touches(self, channels: int) -> int:
        """Coordinates of one pixel that a step touches, at most."""

    @abstractmethod
    def touched(self, seed: bytes, step: int, geometry: Geometry) -> Integers:
        """Return the coordinates that a step touches, ascending. Some steps touch none of a very small picture."""

    @abstractmethod
    def counts(self, steps: int, geometry: Geometry) -> Integers:
        """Return how many coordinates each of the first `steps` steps touches: the lengths of `touched`."""

    @abstractmethod
    def require_unit(self, unit: Unit) -> None:
        """Raise if `worst` would not be that of this unit."""

    @abstractmethod
    def units(self, steps: int, unit: Unit, geometry: Geometry) -> Integers:
        """Return how many units each of the first `steps` steps touches."""

    @abstractmethod
    def worst(self, charges: Sequence[float], channels: int) -> float:
        """Return the most that one unit is charged if step i charges charges[i] to every unit that it touches."""

    def largest(self, geometry: Geometry) -> int:
        """Return the largest number of coordinates that a step touches."""
        return int(self.counts(self.period, geometry).max())

    def mean_touches(self, channels: int) -> float:
        """Coordinates of a pixel that a step touches, on the average: C/P."""
        return channels / self.period

    def least_steps(self, steps: int) -> int:
        """Return how many steps of `steps` touch a picture of any size: the first of every cycle does, at rank 0."""
        return -(-steps // self.period)


@dataclass(frozen=True)
class Everywhere(Mask):
    """Every step touches every coordinate."""

    @property
    def period(self) -> int:
        """1: one step touches all."""
        return 1

    def require(self, channels: int) -> None:
        """Any number will do."""
        if channels < 1:
            raise DippError("channels", f"a whole number of at least 1 is needed, got {channels}")

    def touches(self, channels: int) -> int:
        """All C coordinates of the pixel."""
        self.require(channels)
        return channels

    def touched(self, seed: bytes, step: int, geometry: Geometry) -> Integers:  # noqa: ARG002
        """Return all coordinates of the picture."""
        return np.arange(geometry.coordinates, dtype=np.int64)

    def counts(self, steps: int, geometry: Geometry) -> Integers:
        """Return the number of all coordinates, for every step."""
        return np.full(steps, geometry.coordinates, np.int64)

    def require_unit(self, unit: Unit) -> None:
        """Accept any unit: every step touches all of it."""

    def units(self, steps: int, unit: Unit, geometry: Geometry) -> Integers:
        """Return the number of all units, for every step."""
        return np.full(steps, unit.count(geometry), np.int64)

    def worst(self, charges: Sequence[float], channels: int) -> float:  # noqa: ARG002
        """Return the sum: every unit is charged for every step."""
        return math.fsum(charges)


@dataclass(frozen=True)
class Turns(Mask):
    """One channel of a pixel at a time: see the module's text."""

    cycle: int
    """P: steps of a cycle, from 2 on."""

    def __post_init__(self) -> None:
        if type(self.cycle) is not int or not 2 <= self.cycle <= MAX_PERIOD:
            raise DippError("period", f"a whole number from 1 to {MAX_PERIOD} is needed, got {self.cycle}")

    @property
    def period(self) -> int:
        """The length P of a cycle."""
        return self.cycle

    def require(self, channels: int) -> None:
        """The C channels of a pixel need as many slots."""
        if not 1 <= channels <= self.cycle:
            raise DippError("period", f"1, or at least the {channels} channels, is needed, got {self.cycle}")

    def touches(self, channels: int) -> int:
        """One coordinate of a pixel, at most."""
        self.require(channels)
        return 1

    def touched(self, seed: bytes, step: int, geometry: Geometry) -> Integers:
        """Return the coordinates that have their slot in this step."""
        self.require(geometry.channels)
        cycle, slot = divmod(step, self.cycle)
        return np.flatnonzero(_slots(seed, cycle, self.cycle, geometry) == slot).astype(np.int64)

    def counts(self, steps: int, geometry: Geometry) -> Integers:
        """Return the counts in closed form: P ranks fill every slot C times, `_counts` adds the ranks that are left."""
        self.require(geometry.channels)
        return _counts(self.cycle, steps, geometry)

    def require_unit(self, unit: Unit) -> None:
        """Raise for a unit that is larger than a pixel: its pixels have their turns in different steps."""
        if unit != Pixel():
            raise DippError("period", f"1 is needed for the unit {unit.short}, got {self.cycle}")

    def units(self, steps: int, unit: Unit, geometry: Geometry) -> Integers:
        """Return the counts: a step touches one coordinate of a pixel, or none."""
        self.require_unit(unit)
        return self.counts(steps, geometry)

    def worst(self, charges: Sequence[float], channels: int) -> float:
        """Return the sum over the cycles of the dearest class of ranks modulo P."""
        self.require(channels)
        places = [position * (self.cycle // channels) for position in range(channels)]
        dearest = []
        for first in range(0, len(charges), self.cycle):
            met: defaultdict[int, list[float]] = defaultdict(list)
            for slot, charge in enumerate(charges[first : first + self.cycle]):
                for place in places:
                    met[(slot - place) % self.cycle].append(charge)
            dearest.append(max(map(math.fsum, met.values())))
        return math.fsum(dearest)


@functools.lru_cache(maxsize=1)  # the steps of a cycle follow each other, and the shuffles take long for large pictures
def _slots(seed: bytes, cycle: int, period: int, geometry: Geometry) -> NDArray[np.uint16]:
    """Return the slot of every coordinate in a cycle of P steps."""
    pixels, channels = geometry.pixels, geometry.channels
    rank = np.empty(pixels, np.int64)
    rank[randomness.permutation(randomness.stream(seed, 0, cycle, "mask/pixels"), pixels)] = np.arange(pixels)
    keys = randomness.words(randomness.stream(seed, 0, cycle, "mask/channels"), pixels * channels)
    columns = [*keys.reshape(pixels, channels).T]
    slots = np.empty((pixels, channels), np.uint16)
    for channel, own in enumerate(columns):
        # The position of a channel: how many keys of its pixel are smaller, or equal and of a channel before it.
        before = (key <= own if other < channel else key < own for other, key in enumerate(columns))
        position = functools.reduce(np.add, before, np.zeros(pixels, np.uint16))
        slots[:, channel] = (rank + position * np.int64(period // channels)) % period
    slots.flags.writeable = False
    return slots.reshape(-1)


def of_period(period: int) -> Mask:
    """Return the mask that touches every coordinate once in `period` steps."""
    return Everywhere() if period == 1 else Turns(period)


@functools.lru_cache(maxsize=256)
def _counts(period: int, steps: int, geometry: Geometry) -> Integers:
    """The lengths of `Turns.touched`.

    Of the m = pixels mod P ranks that are left after whole cycles, slot s meets position p once for each p·⌊P/C⌋ from
    s − m + 1 to s or, going round, above s − m + P.
    """
    channels = geometry.channels
    slot, (cycles, left) = np.arange(steps) % period, divmod(geometry.pixels, period)

    def positions_up_to(place: Integers) -> Integers:
        return np.clip(place // (period // channels) + 1, 0, channels)

    inside = positions_up_to(slot) - positions_up_to(slot - left)
    counts: Integers = cycles * channels + inside + channels - positions_up_to(slot - left + period)
    counts.flags.writeable = False  # it is kept, and certificates follow from it
    return counts
