"""Write numbers as varints and packed columns, and read them with every check.

`docs/format.md` describes both. Each number has exactly one spelling. Each number that is read has a range, and nothing
is allocated before it is known to fit into the file.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dipp.errors import FILE, DippError

MAX_VARINT_BYTES = 10
MAX_COLUMN_WIDTH = 62
"""Largest number of bits of a difference in a column: weights of `core.closest` go up to 2^62."""

Integers = NDArray[np.int64]


class ByteReader:
    """A reader that goes through a buffer from front to back, and never beyond its end.

    Every method raises `DippError` if the bytes are not the one spelling of a value in its range.
    """

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self.at = 0

    @property
    def left(self) -> int:
        """Number of bytes that were not read yet."""
        return len(self._data) - self.at

    def take(self, count: int) -> bytes:
        """Read the next `count` bytes.

        Returns:
            The bytes.

        Raises:
            DippError: The file has fewer bytes left.
        """
        if count > self.left:
            raise damaged("it ends too early")
        self.at += count
        return bytes(self._data[self.at - count : self.at])

    def varint(self, name: str, low: int, high: int) -> int:
        """Read a whole number from low to high: seven bits per byte, the lowest first, in as few bytes as possible.

        Args:
            name: Name of the number, for errors.
            low: Smallest valid number.
            high: Largest valid number.

        Returns:
            The number.

        Raises:
            DippError: The number is out of range, has too many bytes, or the file ends.
        """
        value = 0
        for position in range(MAX_VARINT_BYTES):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << 7 * position
            if byte < 0x80:
                break
        if byte >= 0x80 or (position and not byte):
            raise damaged(f"{name} has too many bytes")
        return self._within(name, value, low, high)

    def byte(self, name: str, low: int, high: int) -> int:
        """Read a whole number from low to high that takes one byte.

        Args:
            name: Name of the number, for errors.
            low: Smallest valid number.
            high: Largest valid number.

        Returns:
            The number.
        """
        return self._within(name, self.take(1)[0], low, high)

    def column(self, name: str, count: int, low: int, high: int) -> Integers:
        """Read `count` whole numbers from low to high.

        A column holds the smallest number, the width in bits of the differences from it, and the differences. The
        caller makes sure that the file is large enough for that many numbers.

        Args:
            name: Name of the column, for errors.
            count: How many numbers the column has.
            low: Smallest valid number.
            high: Largest valid number.

        Raises:
            DippError: A number is out of range, the column is packed in another way than dipp does, or the file ends.
        """
        if not count:
            return np.zeros(0, np.int64)
        base = self.varint(name, low, high)
        if count == 1:
            return np.array([base])
        width = self.byte(name, 0, MAX_COLUMN_WIDTH)
        bits = np.unpackbits(np.frombuffer(self.take(-(-count * width // 8)), np.uint8))
        differences = np.zeros(count, np.int64)
        for bit in bits[: count * width].reshape(count, width).T:
            differences = differences << 1 | bit
        if bits[count * width :].any() or differences.min() or int(differences.max()).bit_length() != width:
            raise damaged(f"the column {name} is packed in another way than dipp does")
        self._within(name, base + int(differences.max()), low, high)
        return differences + base

    @staticmethod
    def _within(name: str, value: int, low: int, high: int) -> int:
        if not low <= value <= high:
            raise damaged(f"{name} is {value}, outside {low} to {high}")
        return value


def varint(value: int) -> bytes:
    """Return the bytes of a whole number from 0, which `ByteReader.varint` reads."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def column(values: Integers) -> bytes:
    """Return the bytes of whole numbers from 0, which `ByteReader.column` reads."""
    if len(values) < 2:
        return b"".join(varint(int(value)) for value in values)
    base = int(values.min())
    width = (int(values.max()) - base).bit_length()
    bits = (values - base)[:, None] >> np.arange(width)[::-1] & 1
    return varint(base) + bytes([width]) + np.packbits(bits.astype(np.uint8)).tobytes()


def damaged(reason: str) -> DippError:
    """Return the error for a file that no version of dipp can have written."""
    return DippError(FILE, f"is damaged or cut short: {reason}", "get it again")


def newer(what: str) -> DippError:
    """Return the error for a file with a part that this version of dipp does not know."""
    return DippError(FILE, f"was written by a newer dipp ({what})", "upgrade dipp")


def checked(name: str, value: int, low: int, high: int) -> int:
    """Return the value, or raise `DippError` if it is not from low to high.

    Args:
        name: Name of the value in the error.
        value: The value.
        low: Smallest valid value.
        high: Largest valid value.

    Raises:
        DippError: The value is out of range.
    """
    if not low <= value <= high:
        raise DippError(name, f"must be from {low} to {high}, got {value}")
    return value
