"""The layout of a release: how many indices an image has, and how they are packed.

All of it follows from the plan and the size of the image: public, and the same for sender and receiver.
"""

from __future__ import annotations

import binascii
import functools
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dipp import entropy
from dipp.errors import DippError
from dipp.header import MAX_PIXELS, Integers, checked, damaged
from dipp.plan import Plan

Shape = tuple[int, int, int]
"""Height, width, channels."""

CHECKSUM_FROM_BITS = 512
"""Images whose indices have at least so many bits carry a checksum of their own: it costs 3 % at most."""
CHECKSUM_BITS = 16
ROW_INDICES = 4096
"""Images of more indices are unpacked step by step: a row at a time would take hundreds of bytes an index."""


def chunk_counts(plan: Plan, shape: Shape) -> tuple[int, ...]:
    """How many chunks, and so indices, each step of an image has: public, from the plan and the size alone.

    A sign channel with a period above C touches, in some steps, no coordinate of an image of very few pixels: such a
    step has no chunk and takes no bits. The first step of a cycle always has one, the pixel of rank 0.
    """
    height, width, channels = shape
    return counts_of(plan, height * width, channels)


def counts_of(plan: Plan, pixels: int, channels: int) -> tuple[int, ...]:
    """`chunk_counts` of images with so many pixels, whatever their sides."""
    checked("pixels", pixels, 1, MAX_PIXELS)
    touched = _touched(_period(plan, channels), len(plan.steps), pixels, channels)
    sizes = np.array([step.chunk_size for step in plan.steps])
    return tuple((-(-touched // sizes)).tolist())


def least_indices(plan: Plan, channels: int) -> int:
    """Indices that an image of any size has, at least: one in the first step of every cycle."""
    return -(-len(plan.steps) // _period(plan, channels))


def _period(plan: Plan, channels: int) -> int:
    """Steps after which every coordinate was touched once."""
    period = plan.mechanism.channel.period
    if 1 < period < channels:
        raise DippError(f"period: 1, or at least the {channels} channels, is needed, got {period}")
    return period


@functools.lru_cache(maxsize=256)
def _touched(period: int, steps: int, pixels: int, channels: int) -> Integers:
    """Coordinates that each step touches: the length of `Sign.touched`, in closed form.

    A pixel's rank r and a channel's position p fill slot (r + p·q) mod P, q = ⌊P/C⌋. Whole cycles of P ranks fill every
    slot C times. The m ranks that are left fill slot s once for each p·q from s − m + 1 to s or, going round, above
    s − m + P.
    """
    if period == 1:
        touched = np.full(steps, pixels * channels)
    else:
        slot, (cycles, left) = np.arange(steps) % period, divmod(pixels, period)

        def positions_up_to(place: Integers) -> Integers:
            return np.clip(place // (period // channels) + 1, 0, channels)

        inside = positions_up_to(slot) - positions_up_to(slot - left)
        touched = cycles * channels + inside + channels - positions_up_to(slot - left + period)
    touched.flags.writeable = False  # it is kept, and certificates follow from it
    return touched


@dataclass(frozen=True)
class Layout:
    """What every image of a size has in the file: as many indices of each step, and perhaps a checksum."""

    plan: Plan
    counts: tuple[int, ...]

    @functools.cached_property
    def indices(self) -> int:
        """Indices of an image."""
        return sum(self.counts)

    @functools.cached_property
    def index_bits(self) -> int:
        """Bits of all indices at fixed length."""
        return sum(count * step.index_bits for count, step in zip(self.counts, self.plan.steps, strict=True))

    @property
    def has_checksum(self) -> bool:
        """Whether each image carries a checksum of its own."""
        return self.index_bits >= CHECKSUM_FROM_BITS

    @property
    def least_bits(self) -> int:
        """Fewest bits of an image in the file, and all of them at fixed length.

        Zeta coded indices take a bit each, at least, in whole bytes: the likeliest would cost nothing, and a small file
        must not ask for endless work. Shorter payloads are filled up with zeros.
        """
        bits = 8 * self._least_bytes if self.plan.mechanism.ordered else self.index_bits
        return bits + CHECKSUM_BITS * self.has_checksum

    @property
    def _least_bytes(self) -> int:
        return -(-self.indices // 8)

    @functools.cached_property
    def _groups(self) -> list[tuple[int, int]]:
        """How many numbers of how many bits follow each other in an image of fixed length."""
        groups = [(count, step.index_bits) for count, step in zip(self.counts, self.plan.steps, strict=True)]
        return groups + [(1, CHECKSUM_BITS)] * self.has_checksum

    @functools.cached_property
    def _row_code(self) -> entropy.FixedLength:
        return entropy.FixedLength(tuple(width for count, width in self._groups for _ in range(count)))

    @functools.cached_property
    def _zeta_codes(self) -> list[entropy.ZetaCode]:
        """The code of each index."""
        codes = [entropy.ZetaCode(s.candidates, Fraction(s.exponent_units, 64)) for s in self.plan.steps]
        return [code for code, count in zip(codes, self.counts, strict=True) for _ in range(count)]

    def pack(self, rows: Integers) -> bytes:
        """Images × indices at fixed length, each with its checksum, bit to bit."""
        return self._row_code.pack(np.hstack([rows, _checksums(rows)]) if self.has_checksum else rows)

    def unpack(self, data: bytes, images: int) -> Integers:
        """The rows that `pack` packed."""
        if self.indices <= ROW_INDICES:
            return self._verified(self._row_code.unpack(data, images))
        return self._verified(np.stack([self._unpack_one(data, i * self.least_bits) for i in range(images)]))

    def _unpack_one(self, data: bytes, at: int) -> Integers:
        parts = []
        for count, width in self._groups:
            part = cut(data, at, at + count * width)
            parts.append(entropy.FixedLength((width,)).unpack(part, count)[:, 0])
            at += count * width
        return np.concatenate(parts)

    def encode(self, row: Integers) -> bytes:
        """The zeta coded indices of an image, and their checksum."""
        coded = entropy.encode(zip(self._zeta_codes, row.tolist(), strict=True)).ljust(self._least_bytes, b"\0")
        return coded + int(_checksums(row[None])[0, 0]).to_bytes(2, "big") if self.has_checksum else coded

    def decode(self, data: bytes) -> Integers:
        """The row that `encode` encoded."""
        coded, checksum = (data[:-2], data[-2:]) if self.has_checksum else (data, b"")
        shortest = coded.rstrip(b"\0")
        if len(coded) > max(len(shortest), self._least_bytes):
            raise damaged("an image is longer than needed")
        row = entropy.decode(shortest, self._zeta_codes) + [int.from_bytes(checksum, "big")] * self.has_checksum
        return self._verified(np.array([row], np.int64)).reshape(-1)

    def _verified(self, rows: Integers) -> Integers:
        if self.has_checksum and (_checksums(rows[:, :-1]) != rows[:, -1:]).any():
            raise damaged("the checksum of an image is wrong")
        return rows[:, : self.indices]


def _checksums(rows: Integers) -> Integers:
    """CRC-16 of each row, the indices as four bytes each with the highest first; a column."""
    return np.array([[binascii.crc_hqx(row, 0xFFFF)] for row in np.ascontiguousarray(rows, ">u4")], np.int64)


def cut(data: bytes | memoryview, low: int, high: int) -> bytes:
    """Bits low … high − 1, the highest of a byte first, as a byte string of their own, filled up with zeros."""
    value = int.from_bytes(data[low // 8 : -(-high // 8)], "big") >> -high % 8
    bits = high - low
    return ((value & ((1 << bits) - 1)) << -bits % 8).to_bytes(-(-bits // 8), "big")
