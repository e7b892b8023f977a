"""Chunks: which coordinates of a step are coded together, by a public shuffle.

A step's divergence is too large for one index, so its coordinates are dealt out to chunks of equal size, each with an
index of its own. The deal depends on public values alone (seed, step, sizes) and is the same for all images of a size:
chunks cut by the realised shifts would leak information about the image.

Pixels are ranked by a public shuffle, and the coordinates are dealt to the chunks in turn, pixel after pixel: the i-th
coordinate goes to chunk i mod count. So sizes differ by one at most, and the C coordinates of a pixel, being
consecutive, go to C different chunks whenever there are at least C. That leaves pure ε as it is, but divides ρ by C: a
pixel then moves C selections by s each instead of one by C·s, and ρ grows with the square. A pixel of rank r deals its
channels starting from channel −r mod C, so that chunks mix the colours.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dipp.core import randomness
from dipp.core.geometry import Geometry
from dipp.errors import DippError

Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Chunks:
    """Coordinates divided into chunks: chunk i holds order[offsets[i]:offsets[i + 1]], ascending and never empty."""

    order: Integers
    offsets: Integers

    @property
    def count(self) -> int:
        """Number of chunks."""
        return len(self.offsets) - 1

    def part(self, chunk: int) -> Integers:
        """Coordinates of one chunk, ascending."""
        if not 0 <= chunk < self.count:
            raise DippError(f"chunk: 0 to {self.count - 1} is needed, got {chunk}")
        return self.order[self.offsets[chunk] : self.offsets[chunk + 1]]


NOTHING = Chunks(np.empty(0, np.int64), np.zeros(1, np.int64))
"""The chunks of a step that touches no coordinate: none."""


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
            f"count: {crowd} (coordinates of a pixel) to {len(touched)} (of the step) chunks are needed, got {count}"
        )
    shuffled = randomness.permutation(randomness.stream(seed, 0, step, "chunks"), dims // channels)
    place = np.empty_like(shuffled)
    place[shuffled] = np.arange(len(shuffled))
    rank = place[pixel]
    deal = np.argsort(rank * channels + (channel + rank) % channels)  # all keys differ: any sort gives the same
    chunk = np.empty(len(touched), np.int64)
    chunk[deal] = np.arange(len(touched)) % count
    alone = count == len(touched)  # each coordinate in a chunk of its own, in the order of the deal
    order = touched[deal if alone else np.argsort(chunk, kind="stable")]
    offsets = np.concatenate([[0], np.cumsum(np.bincount(chunk, minlength=count))]).astype(np.int64)
    order.flags.writeable = offsets.flags.writeable = False
    return Chunks(order, offsets)


def _checked(coordinates: Integers, dims: int) -> Integers:
    """The coordinates in int64; refused unless they ascend strictly within 0 … dims − 1."""
    if coordinates.ndim != 1 or coordinates.dtype.kind not in "iu" or not len(coordinates):
        raise DippError(f"coordinates: a row of one or more integers is needed, got shape {coordinates.shape}")
    wide = coordinates.astype(np.int64)
    if wide[0] < 0 or wide[-1] >= dims or (np.diff(wide) <= 0).any():
        raise DippError(f"coordinates: ascending ones from 0 to {dims - 1} are needed, each once")
    return wide
