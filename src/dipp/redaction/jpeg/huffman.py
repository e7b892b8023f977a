"""Huffman tables of JPEG: as lookup tables for reading, and the best tables for given counts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dipp.redaction.jpeg.segments import damaged

LONGEST = 16
"""Largest number of bits of a code."""


def lookup(table: tuple[int, ...] | None) -> NDArray[np.int32]:
    """Return the lookup table of a Huffman table: an entry for each value of the next 16 bits.

    An entry is 256 × the length of the code + its symbol, or 0 if no code fits.

    Args:
        table: 16 counts by length, then the symbols, as in a file; None for a missing table, which has no codes.

    Raises:
        DippError: The table has more codes than fit.
    """
    entries = np.zeros(1 << LONGEST, np.int32)
    if table is None:
        return entries
    code, symbols = 0, iter(table[LONGEST:])
    for length, count in enumerate(table[:LONGEST], 1):
        for _ in range(count):
            start, width = code << (LONGEST - length), 1 << (LONGEST - length)
            if start + width > 1 << LONGEST:
                raise damaged("a Huffman table has too many codes")
            entries[start : start + width] = length << 8 | next(symbols)
            code += 1
        code <<= 1
    return entries


@dataclass(frozen=True, eq=False)
class ShortestCodes:
    """A Huffman table with the shortest codes for given counts of symbols."""

    table: tuple[int, ...]
    """16 counts by length, then the symbols, as in a file."""
    codes: NDArray[np.int64]
    """Code of each symbol, (256,)."""
    lengths: NDArray[np.int64]
    """Length in bits of each symbol's code, (256,); 0 for a symbol that does not occur."""


def best(counts: NDArray[np.int64]) -> ShortestCodes:
    """Return the best table for the counts (256,) of the symbols, by Annex K.2 of the standard.

    No code consists of ones alone or is longer than 16 bits.
    """
    frequency = [*counts.tolist(), 1]  # the last one reserves the code of all ones
    size, members = [0] * 257, {symbol: [symbol] for symbol in range(257) if frequency[symbol]}
    while len(members) > 1:
        # The two least frequent groups; of equally frequent ones the last.
        first, second = sorted(members, key=lambda symbol: (frequency[symbol], -symbol))[:2]
        frequency[first] += frequency[second]
        members[first] += members.pop(second)
        for symbol in members[first]:
            size[symbol] += 1
    return _coded(_limited(size), size)


def _limited(size: list[int]) -> list[int]:
    """Return the number of codes of each length from 1 to 16, after longer codes were shortened.

    Args:
        size: Length of each symbol's code, with the reserved code of all ones, which is not counted; 0 for no code.
    """
    bits = [0] * (max(size) + 1 if max(size) > LONGEST else LONGEST + 1)
    for length in size:
        bits[length] += bool(length)
    for length in range(len(bits) - 1, LONGEST, -1):
        while bits[length]:
            shorter = length - 2
            while not bits[shorter]:
                shorter -= 1
            bits[length] -= 2
            bits[length - 1] += 1
            bits[shorter + 1] += 2
            bits[shorter] -= 1
    longest = max((length for length in range(1, LONGEST + 1) if bits[length]), default=0)
    if longest:
        bits[longest] -= 1  # the reserved code
    return bits[1 : LONGEST + 1]


def _coded(bits: list[int], size: list[int]) -> ShortestCodes:
    """Return the table with given numbers of codes; symbols with shorter codes get the shorter ones.

    Args:
        bits: Number of codes of each length from 1 to 16.
        size: Length that each symbol's code had before codes were shortened; 0 for no code.
    """
    order = sorted((symbol for symbol in range(256) if size[symbol]), key=lambda symbol: (size[symbol], symbol))
    codes, lengths, code, at = np.zeros(256, np.int64), np.zeros(256, np.int64), 0, 0
    for length, count in enumerate(bits, 1):
        for symbol in order[at : at + count]:
            codes[symbol], lengths[symbol] = code, length
            code += 1
        at, code = at + count, code << 1
    return ShortestCodes((*bits, *order), codes, lengths)
