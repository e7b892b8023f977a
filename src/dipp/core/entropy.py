"""Entropy coding: exact conversion of indices to bytes and back, the same on every platform.

A *model* says how likely each index is, in integers (`ZetaCode`). The *coder* turns a sequence of (model, index) into
the shortest byte string from which it can be decoded (`encode`, `decode`). No integer depends on a float. Equally
likely indices need no coder (`fixed_length`).

Every parameter must be public and fixed before the image is read. An exponent fitted to the divergence of an image
would leak information about the image, and the decoder would not know it.
"""

from __future__ import annotations

import functools
import math
import operator
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

from dipp.errors import DippError

EXPONENT_BITS = 6
EXPONENT_UNITS = 1 << EXPONENT_BITS
"""Exponents are multiples of 1/64 that fit into a byte. Rounding to one costs < 0.001 bit per index at n ≤ 2^22."""
MAX_ZETA_CANDIDATES = 1 << 40
"""Largest n of a zeta code. It is far above that of a selection, because exact codes have larger indices."""
WEIGHT_BITS = 58
"""The first index weighs 2^58, so the last of 2^40 still has a weight of 16 bits at an exponent near 1."""
RANGES_PER_OCTAVE = 8
"""Largest number of ranges of equally likely indices in an octave (`ZetaCode`)."""
STATE_BITS = 128
"""Precision of the coder's interval in bits."""
STATE_BYTES = STATE_BITS // 8


class Model(Protocol):
    """A law of an index in integers: each index owns one or more of the integers 0 … total − 1, and total < 2^107."""

    @property
    def total(self) -> int:
        """Sum of all weights."""

    def interval(self, index: int) -> tuple[int, int]:
        """Return the first integer that the index owns, and the number of integers that it owns."""

    def find(self, target: int) -> int:
        """Return the index that owns the integer `target`, 0 ≤ target < total."""


@dataclass(frozen=True)
class ZetaCode:
    """The zeta law P(k) ∝ k^−s of n candidates k = 1 … n, with index k − 1 and exponent s, in integer weights.

    An octave 2^j ≤ k < 2^(j+1) is cut into min(2^j, 8) equal ranges (the last one is cut off at n); inside a range all
    k weigh the same: 2^58·x^−s at the range's midpoint x, rounded to the nearest integer, and at least 1. Each k < 16
    is a range of its own, and other ranges are no wider than x/8, so that ln P is off by at most about s/16, and right
    on average: indices that follow the exact law cost less than 0.001 bit above its entropy.
    """

    candidates: int
    """n, from 1 to `MAX_ZETA_CANDIDATES`."""
    exponent: Fraction
    """s, a multiple of 1/64 from 1/64 to 255/64."""

    def __post_init__(self) -> None:
        if not 1 <= self.candidates <= MAX_ZETA_CANDIDATES:
            raise DippError("candidates", f"must be from 1 to {MAX_ZETA_CANDIDATES}, got {self.candidates}")
        if self.exponent * EXPONENT_UNITS not in range(1, 256):
            raise DippError("exponent", f"must be a multiple of 1/64 from 1/64 to 255/64, got {self.exponent}")

    @functools.cached_property
    def _table(self) -> tuple[list[int], list[int], list[int], int]:
        return _zeta_table(self.candidates, int(self.exponent * EXPONENT_UNITS))

    @functools.cached_property
    def total(self) -> int:
        """Sum of all weights."""
        return self._table[-1]

    def interval(self, index: int) -> tuple[int, int]:
        """Return the first integer that the index owns, and the number of integers that it owns (its weight).

        Raises:
            DippError: The index is out of range.
        """
        if not 0 <= index < self.candidates:
            raise DippError("index", f"must be from 0 to {self.candidates - 1}, got {index}")
        firsts, starts, weights, _ = self._table
        cell = bisect_right(firsts, index + 1) - 1
        weight = weights[cell]
        return starts[cell] + (index + 1 - firsts[cell]) * weight, weight

    def find(self, target: int) -> int:
        """Return the index that owns the integer `target`, 0 ≤ target < total."""
        firsts, starts, weights, _ = self._table
        cell = bisect_right(starts, target) - 1
        return firsts[cell] - 1 + (target - starts[cell]) // weights[cell]


@functools.lru_cache(maxsize=256)
def _zeta_table(candidates: int, units: int) -> tuple[list[int], list[int], list[int], int]:
    """Return the integer weights of the zeta law, in ranges of k that have one weight, and their total.

    Args:
        candidates: The largest k.
        units: The exponent s of the law, in 64ths.

    Returns:
        For each range its first k, the sum of all weights before it, and the weight of each k in it; then the total.
    """
    firsts, starts, weights, first, total = [], [], [], 1, 0
    while first <= candidates:
        octave = 1 << (first.bit_length() - 1)
        size = min(max(octave // RANGES_PER_OCTAVE, 1), candidates + 1 - first)
        weight = _power_weight(2 * first + size - 1, units)
        firsts.append(first)
        starts.append(total)
        weights.append(weight)
        first, total = first + size, total + size * weight
    return firsts, starts, weights, total


def _power_weight(doubled: int, units: int) -> int:
    """Return max(1, round(2^58·x^−s)) for x = doubled/2 and s = units/64, exactly.

    ⌊2^59·x^−s⌋ is the 64th root of ⌊2^(59·64)·2^units/doubled^units⌋, rounded down; that is six square roots, each
    rounded down, because ⌊√⌊y⌋⌋ = ⌊√y⌋. Half of it, rounded up, is the nearest integer.
    """
    power: int = (1 << ((WEIGHT_BITS + 1) * EXPONENT_UNITS + units)) // doubled**units
    for _ in range(EXPONENT_BITS):
        power = math.isqrt(power)
    return max(1, (power + 1) // 2)


def encode(symbols: Iterable[tuple[Model, int]]) -> bytes:
    """Return the shortest byte string from which `decode` can compute the indices again.

    The symbols divide [0, 1) into intervals, as arithmetic coding does; the bytes b₁b₂… are the shortest whose value
    0.b₁b₂… in base 256 lies in the interval of these symbols.

    Args:
        symbols: Pairs of a model and an index.

    The current interval is [low, low + span) in units of 2^−128 of the last written byte. As 2^120 < span ≤ 2^128,
    rounding span/total down loses less than 2^−55 bit per symbol if total ≤ 2^64, and 2^−12 at worst. An interval of
    width 256^−b holds a multiple of 256^−b, so symbols of 8·b bits take at most b bytes. Zero bytes at the end are left
    off, so a decoder must know the number of bytes and the number of symbols from elsewhere.
    """
    low, span, out = 0, 1 << STATE_BITS, bytearray()
    for model, index in symbols:
        start, weight = model.interval(operator.index(index))
        unit = span // model.total
        low, span = low + unit * start, unit * weight
        ready = STATE_BYTES - ((span - 1).bit_length() + 7) // 8
        if ready:
            low = _emit(out, low, ready)
            span <<= 8 * ready
    return _finish(out, low, span)


def _emit(out: bytearray, low: int, count: int) -> int:
    """Append the top `count` bytes of low, add its carry to the bytes before them, and return the rest, shifted up."""
    carry, low = divmod(low, 1 << STATE_BITS)
    if carry:
        # The value stays below 1, so some earlier byte is not 255.
        position = len(out) - 1
        while out[position] == 255:
            out[position] = 0
            position -= 1
        out[position] += 1
    top, rest = divmod(low, 1 << (STATE_BITS - 8 * count))
    out += top.to_bytes(count, "big")
    return rest << 8 * count


def _finish(out: bytearray, low: int, span: int) -> bytes:
    """Append the shortest byte string whose value lies in [low, low + span), the smallest if several do; return all."""
    for count in range(STATE_BYTES + 1):
        shift = STATE_BITS - 8 * count
        value = -(-low >> shift) << shift
        if value < low + span:
            _emit(out, value, count)
            break
    return bytes(out).rstrip(b"\0")


def decode(data: bytes, models: Sequence[Model]) -> list[int]:
    """Return the indices of a payload, one for each model: the inverse of `encode`.

    A damaged payload may be the valid payload of other indices, which are in range too.

    Args:
        data: The bytes that `encode` returned.
        models: The model of each index.

    Raises:
        DippError: `encode` cannot have returned these bytes.

    """
    window = int.from_bytes(data[:STATE_BYTES].ljust(STATE_BYTES, b"\0"), "big")
    position, span, indices = STATE_BYTES, 1 << STATE_BITS, []
    for model in models:
        unit = span // model.total
        target = window // unit
        if target >= model.total:
            raise DippError("payload", "is damaged: it lies outside every index", "get the file again")
        index = model.find(target)
        start, weight = model.interval(index)
        window, span = window - unit * start, unit * weight
        ready = STATE_BYTES - ((span - 1).bit_length() + 7) // 8
        if ready:
            more = data[position : position + ready].ljust(ready, b"\0")
            window, span = window << 8 * ready | int.from_bytes(more, "big"), span << 8 * ready
            position += ready
        indices.append(index)
    if encode(zip(models, indices, strict=True)) != data:
        raise DippError("payload", "is damaged, cut short or too long", "get the file again")
    return indices
