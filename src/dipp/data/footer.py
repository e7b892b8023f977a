"""The footer of a Parquet file, read far enough to see that nothing in the file is compressed.

dipp writes its shards without compression. A compressed file may expand to any size as soon as its first row is read: a
file of 54 kB took 14.5 GB. pyarrow cannot answer the question, because some of its versions end the process at a
compression that they do not know. So this module walks through the footer, and keeps nothing of it.

A footer is a structure in Thrift's compact protocol: fields with ascending numbers, each with its type, then a zero.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

from dipp.errors import FILE, DippError
from dipp.format.bytes import damaged

MAGIC = b"PAR1"
"""Last four bytes of a Parquet file."""
TAIL = struct.Struct("<I4s")
"""The end of a file: the length of the footer, and the magic bytes."""
MAX_DEPTH = 16
"""Largest nesting depth of structures and lists; a real footer has seven."""
MAX_VARINT_BYTES = 10
"""Largest number of bytes of an integer."""
TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)
"""Types of the compact protocol."""
CODEC = (4, 1, 3, 4)
"""Field numbers on the way from the file to the compression of a column: row groups, columns, metadata, codec."""
UNCOMPRESSED = 0
"""Value of the field `codec` of a column without compression."""


def require_uncompressed(path: Path) -> None:
    """Raise if a column of a Parquet file is compressed, or if its footer is invalid.

    Args:
        path: The file.

    Raises:
        DippError: The file is not a Parquet file, is compressed, or has an invalid footer.
    """
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - TAIL.size))
        tail = file.read(TAIL.size)
        length, magic = TAIL.unpack(tail) if len(tail) == TAIL.size else (0, b"")
        if magic != MAGIC or length > size - TAIL.size:
            raise DippError(FILE, "is not a Parquet file")
        file.seek(size - TAIL.size - length)
        footer = _Footer(file.read(length))
    footer.require(CODEC)


class _Footer:
    """A Parquet footer, read once from front to back."""

    def __init__(self, content: bytes) -> None:
        self._content, self._at = content, 0

    def require(self, way: tuple[int, ...]) -> None:
        """Read a structure; raise unless each value at `way`, a path of field numbers, is `UNCOMPRESSED`."""
        reached = False
        for number, kind in self._fields():
            if number != way[0]:
                self._skip(kind)
                continue
            reached = True
            if len(way) == 1:
                if kind != I32 or self._varint() != UNCOMPRESSED:
                    raise DippError(FILE, "has compressed columns, unlike a dipp shard", "do not trust it")
            elif kind == STRUCT:
                self.require(way[1:])
            elif kind == LIST:
                element, count = self._list()
                if count and element != STRUCT:
                    raise _strange()
                for _ in range(count):
                    self.require(way[1:])
            else:
                raise _strange()
        if not reached:
            raise _strange()

    def _fields(self) -> Iterator[tuple[int, int]]:
        """Yield number and type of each field; the caller must skip its value before it asks for the next field."""
        number = 0
        while front := self._byte():
            step = front >> 4
            if not step:  # the number is written out, in zigzag
                step = (self._varint() >> 1) - number
            if step < 1:
                raise _strange()
            number += step
            yield number, front & 0x0F

    def _skip(self, kind: int, depth: int = 0) -> None:
        """Skip a value of the type `kind`."""
        if depth == MAX_DEPTH:
            raise _strange()
        if kind in (I16, I32, I64):
            self._varint()
        elif kind in (BYTE, DOUBLE):
            self._advance(1 if kind == BYTE else 8)
        elif kind == BINARY:
            self._advance(self._varint())
        elif kind in (LIST, SET):
            element, count = self._list()
            for _ in range(count):
                self._skip(BYTE if element in (TRUE, FALSE) else element, depth + 1)
        elif kind == STRUCT:
            for _, inner in self._fields():
                self._skip(inner, depth + 1)
        elif kind not in (TRUE, FALSE):  # these have no value, and a footer has no maps
            raise _strange()

    def _list(self) -> tuple[int, int]:
        """Return type and number of the elements of a list."""
        front = self._byte()
        count = front >> 4 if front >> 4 < 15 else self._varint()
        return front & 0x0F, count

    def _varint(self) -> int:
        """Return the next integer."""
        value = 0
        for digit in range(MAX_VARINT_BYTES):
            byte = self._byte()
            value |= (byte & 0x7F) << 7 * digit
            if byte < 0x80:
                return value
        raise _strange()

    def _byte(self) -> int:
        """Return the next byte."""
        self._advance(1)
        return self._content[self._at - 1]

    def _advance(self, count: int) -> None:
        """Skip a number of bytes."""
        if count > len(self._content) - self._at:
            raise _strange()
        self._at += count


def _strange() -> DippError:
    """Return the error about an invalid footer."""
    return damaged("its footer is not that of a Parquet file")
