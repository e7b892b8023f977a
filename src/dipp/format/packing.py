"""Pack the indices of images as bits, and unpack them. How follows from the plan and the size of an image alone.

Indices of fixed length follow each other without a gap. Other indices are entropy coded, and an image then takes whole
bytes.
"""

from __future__ import annotations

import binascii
import functools
import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dipp.core import entropy, fixed_length
from dipp.core.geometry import Geometry
from dipp.core.plan import Plan
from dipp.format.bytes import Integers, damaged

CHECKSUM_FROM_BITS = 512
"""An image whose indices have at least this number of bits carries a checksum of its own, which adds 3 % at most."""
CHECKSUM_BITS = 16
ROW_INDICES = 4096
"""Images with more indices are unpacked step by step: a whole row at once takes hundreds of bytes an index."""


def layout_of(plan: Plan, geometry: Geometry) -> Layout:
    """Return the layout of images of one geometry.

    Args:
        plan: The plan.
        geometry: Geometry of the images.
    """
    kind = FixedLayout if plan.code.fixed_length else EntropyLayout
    return kind(plan, plan.chunk_counts(geometry))


@dataclass(frozen=True)
class Layout(ABC):
    """The layout of images of one geometry: how many indices each step has, and whether a checksum follows."""

    plan: Plan
    counts: tuple[int, ...]
    """Number of indices of each step."""

    @functools.cached_property
    def indices(self) -> int:
        """Number of indices of an image."""
        return sum(self.counts)

    @functools.cached_property
    def index_bits(self) -> int:
        """Number of bits of all indices of an image at fixed length."""
        return sum(count * step.index_bits for count, step in zip(self.counts, self.plan.steps, strict=True))

    @property
    def has_checksum(self) -> bool:
        """Whether each image carries a checksum of its own."""
        return self.index_bits >= CHECKSUM_FROM_BITS

    @property
    def checksum_bits(self) -> int:
        """Number of bits of the checksum of an image; 0 if it has none."""
        return CHECKSUM_BITS * self.has_checksum

    @property
    @abstractmethod
    def least_bits(self) -> int:
        """Least number of bits of an image in the file, with its checksum."""

    @abstractmethod
    def payloads(self, rows: Integers) -> list[bytes]:
        """Return the bytes of each image.

        Args:
            rows: Indices, of shape (images, indices) and dtype int64.
        """

    @abstractmethod
    def rows(self, payloads: Sequence[bytes]) -> Integers:
        """Return the indices of images from the bytes of each. Lengths are checked before anything is allocated."""

    @abstractmethod
    def payload_bits(self, sizes: Iterable[int]) -> int:
        """Return the number of bits that the indices of images take, without padding and checksums.

        Args:
            sizes: Number of bytes of each image.
        """

    def _verified(self, rows: Integers) -> Integers:
        if self.has_checksum and (_checksums(rows[:, :-1]) != rows[:, -1:]).any():
            raise damaged("the checksum of an image is wrong")
        return rows[:, : self.indices]


class FixedLayout(Layout):
    """The layout of indices of fixed length, which follow each other without a gap."""

    @property
    def least_bits(self) -> int:
        """Number of bits of any image in the file, with its checksum."""
        return self.index_bits + self.checksum_bits

    def pack(self, rows: Integers) -> bytes:
        """Return the bytes of images without a gap between them, each with its checksum.

        Args:
            rows: Indices, of shape (images, indices) and dtype int64.
        """
        whole = np.hstack([rows, _checksums(rows)]) if self.has_checksum else rows
        if self.indices <= ROW_INDICES:
            return self._row_code.pack(whole)
        return np.packbits(np.concatenate([self._bits(row) for row in whole])).tobytes()

    def unpack(self, data: bytes, images: int) -> Integers:
        """Return the indices of images that `pack` packed, of shape (images, indices).

        Args:
            data: The bytes that `pack` returned.
            images: Number of images.
        """
        if self.indices <= ROW_INDICES:
            return self._verified(self._row_code.unpack(data, images))
        return self._verified(np.stack([self._unpack_one(data, i * self.least_bits) for i in range(images)]))

    def payloads(self, rows: Integers) -> list[bytes]:
        """Return the bytes of each image, padded with zeros to whole bytes."""
        bits = np.unpackbits(np.frombuffer(self.pack(rows), np.uint8), count=len(rows) * self.least_bits)
        return [row.tobytes() for row in np.packbits(bits.reshape(len(rows), -1), axis=1)]

    def rows(self, payloads: Sequence[bytes]) -> Integers:
        """Return the indices of images from the bytes of each, of shape (images, indices).

        Raises:
            DippError: The bytes are damaged.
        """
        if any(len(payload) != -(-self.least_bits // 8) for payload in payloads):
            raise damaged("a payload has a wrong length")
        bits = np.unpackbits(np.frombuffer(b"".join(payloads), np.uint8)).reshape(len(payloads), -1)
        if bits[:, self.least_bits :].any():
            raise damaged("padding after an image is not zero")
        return self.unpack(np.packbits(bits[:, : self.least_bits]).tobytes(), len(payloads))

    def payload_bits(self, sizes: Iterable[int]) -> int:
        """Return the number of bits of the indices: every image has the same."""
        return self.index_bits * sum(1 for _ in sizes)

    @functools.cached_property
    def _groups(self) -> list[tuple[int, int]]:
        """Pairs (count, bits) in the order of an image's bits: `count` indices (or a checksum) of `bits` bits each."""
        groups = [(count, step.index_bits) for count, step in zip(self.counts, self.plan.steps, strict=True)]
        return groups + [(1, CHECKSUM_BITS)] * self.has_checksum

    @functools.cached_property
    def _row_code(self) -> fixed_length.FixedLength:
        return fixed_length.FixedLength(tuple(width for count, width in self._groups for _ in range(count)))

    def _bits(self, row: Integers) -> NDArray[np.uint8]:
        """Return the bits of one image, group by group, because packing all widths at once would take gigabytes."""
        parts, ends = [], itertools.accumulate(count for count, _ in self._groups)
        for (count, width), end in zip(self._groups, ends, strict=True):
            packed = fixed_length.FixedLength((width,)).pack(row[end - count : end, None])
            parts.append(np.unpackbits(np.frombuffer(packed, np.uint8), count=count * width))
        return np.concatenate(parts)

    def _unpack_one(self, data: bytes, at: int) -> Integers:
        parts = []
        for count, width in self._groups:
            part = cut(data, at, at + count * width)
            parts.append(fixed_length.FixedLength((width,)).unpack(part, count)[:, 0])
            at += count * width
        return np.concatenate(parts)


class EntropyLayout(Layout):
    """The layout of entropy-coded indices: an image takes whole bytes."""

    @property
    def least_bits(self) -> int:
        """Number of bits of an image whose indices take one bit each, in whole bytes, with its checksum.

        Shorter payloads are padded with zeros. The likeliest indices would otherwise cost nothing, and a small file
        could ask for endless work.
        """
        return 8 * self._least_bytes + self.checksum_bits

    @property
    def _least_bytes(self) -> int:
        return -(-self.indices // 8)

    @functools.cached_property
    def _models(self) -> list[entropy.Model]:
        """The probability model of each index."""
        models = [self.plan.code.index_model(step.index_bits, step.exponent_units) for step in self.plan.steps]
        return [model for model, count in zip(models, self.counts, strict=True) for _ in range(count)]

    def payloads(self, rows: Integers) -> list[bytes]:
        """Return the entropy-coded bytes of each image, with its checksum."""
        return [self._encode(row) for row in rows]

    def _encode(self, row: Integers) -> bytes:
        coded = entropy.encode(zip(self._models, row.tolist(), strict=True)).ljust(self._least_bytes, b"\0")
        return coded + int(_checksums(row[None])[0, 0]).to_bytes(2, "big") if self.has_checksum else coded

    def rows(self, payloads: Sequence[bytes]) -> Integers:
        """Return the indices of images from the bytes of each, of shape (images, indices).

        Raises:
            DippError: The bytes are damaged.
        """
        if any(8 * len(payload) < self.least_bits for payload in payloads):
            raise damaged("a payload has a wrong length")
        return np.stack([self._decode(payload) for payload in payloads])

    def _decode(self, data: bytes) -> Integers:
        coded, checksum = (data[:-2], data[-2:]) if self.has_checksum else (data, b"")
        shortest = coded.rstrip(b"\0")
        if len(coded) > max(len(shortest), self._least_bytes):
            raise damaged("an image is longer than needed")
        row = entropy.decode(shortest, self._models) + [int.from_bytes(checksum, "big")] * self.has_checksum
        return self._verified(np.array([row], np.int64)).reshape(-1)

    def payload_bits(self, sizes: Iterable[int]) -> int:
        """Return the number of bits of all bytes, less the checksums."""
        return sum(8 * size - self.checksum_bits for size in sizes)


def _checksums(rows: Integers) -> Integers:
    """Return the CRC-16 of each row as a column. Each index counts as four bytes, the highest first."""
    return np.array([[binascii.crc_hqx(row, 0xFFFF)] for row in np.ascontiguousarray(rows, ">u4")], np.int64)


def cut(data: bytes | memoryview, low: int, high: int) -> bytes:
    """Return bits low to high − 1 of a byte string, counted from the highest bit of a byte, padded with zeros.

    Args:
        data: The byte string.
        low: Number of the first bit.
        high: Number after the last bit.
    """
    value = int.from_bytes(data[low // 8 : -(-high // 8)], "big") >> -high % 8
    bits = high - low
    return ((value & ((1 << bits) - 1)) << -bits % 8).to_bytes(-(-bits // 8), "big")
