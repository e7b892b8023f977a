"""Indices of fixed length, packed bit by bit, one image after the other."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dipp.core.selection import MAX_CANDIDATES
from dipp.errors import DippError

MAX_WIDTH = MAX_CANDIDATES.bit_length() - 1
"""Largest width of a fixed-length index, in bits."""
BLOCK_BITS = 1 << 22
"""Number of bits that are packed or unpacked at a time; each takes a byte of memory."""


@dataclass(frozen=True)
class FixedLength:
    """A packing of indices with fixed lengths: index j of each image takes widths[j] bits.

    Image i starts at bit i·Σ widths. The highest bit of a byte and of an index comes first. Only the very last byte is
    padded, with zeros.
    """

    widths: tuple[int, ...]
    """Bits of each index of an image, from 1 to `MAX_WIDTH`."""

    def __post_init__(self) -> None:
        if not self.widths or not all(1 <= width <= MAX_WIDTH for width in self.widths):
            raise DippError("widths", f"must be one or more numbers of bits from 1 to {MAX_WIDTH}, got {self.widths}")

    @property
    def bits(self) -> int:
        """Number of bits of an image."""
        return sum(self.widths)

    def size(self, images: int) -> int:
        """Return the number of bytes that this number of images takes."""
        return -(-images * self.bits // 8)

    def pack(self, indices: NDArray[np.integer]) -> bytes:
        """Return the bytes of indices, an integer array of images × len(widths).

        Args:
            indices: The indices; each is at least 0 and fits into its width.

        Raises:
            DippError: The array has another shape, or an index does not fit.
        """
        if indices.ndim != 2 or indices.shape[1] != len(self.widths) or indices.dtype.kind not in "iu":
            raise DippError("indices", f"must be images × {len(self.widths)} integers, got shape {indices.shape}")
        if (indices < 0).any() or (indices >= 1 << np.array(self.widths)).any():
            raise DippError("indices", "must each be at least 0 and fit into their width")
        blocks = (np.ascontiguousarray(indices[rows], ">u4").view(np.uint8) for rows in self._blocks(len(indices)))
        return b"".join(np.packbits(np.unpackbits(wide, axis=1)[:, self._used]).tobytes() for wide in blocks)

    def unpack(self, data: bytes, images: int) -> NDArray[np.int64]:
        """Return the indices of this number of packed images: int64, images × len(widths).

        Args:
            data: The bytes that `pack` returned.
            images: Number of images.

        Raises:
            DippError: The bytes have another length, or bits after the last image are set.
        """
        if len(data) != self.size(images):
            raise DippError("data", f"must have {self.size(images)} bytes for {images} images, got {len(data)}")
        if data and data[-1] & ((1 << (8 * len(data) - images * self.bits)) - 1):
            raise DippError("data", "is damaged: the bits after the last image are not zero")
        out = np.empty((images, len(self.widths)), np.int64)
        for rows in self._blocks(images):
            low, high = rows.start * self.bits, rows.stop * self.bits
            bits = np.unpackbits(np.frombuffer(data[low // 8 : -(-high // 8)], np.uint8))[low % 8 :][: high - low]
            wide = np.zeros((rows.stop - rows.start, 32 * len(self.widths)), np.uint8)
            wide[:, self._used] = bits.reshape(-1, self.bits)
            out[rows] = np.packbits(wide, axis=1).view(">u4")
        return out

    @functools.cached_property
    def _used(self) -> NDArray[np.intp]:
        """Positions of the stored bits in a row of 32-bit integers, one for each index of an image."""
        return np.flatnonzero(np.arange(32) >= 32 - np.array(self.widths)[:, None])

    def _blocks(self, images: int) -> Iterable[slice]:
        """Yield slices of images to work on in turn, to bound memory; eight images pack to whole bytes."""
        step = 8 * max(BLOCK_BITS // (256 * len(self.widths)), 1)
        return (slice(i, min(i + step, images)) for i in range(0, images, step))
