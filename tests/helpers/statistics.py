"""Shared statistics: an independent Philox, a scripted private source, exact weights, a chi-square test."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np
from hypothesis import settings
from numpy.typing import NDArray
from scipy import special  # type: ignore[import-untyped,unused-ignore]

from dipp.core import randomness, selection

FALSE_ALARM = 1e-7
"""Largest false-alarm rate of each statistical test; all of them together stay below 1e-6."""

bounded = settings(deadline=None, derandomize=True, max_examples=60)
"""Settings of property tests: repeatable, without a time limit per example."""

LIMB = (1 << 64) - 1


def philox_block(counter: Sequence[int], key: Sequence[int]) -> tuple[int, int, int, int]:
    """Return Philox 4x32-10 of one block with Python integers, written from the paper's definition."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        high0, low0 = divmod(0xD2511F53 * c0, 1 << 32)
        high1, low1 = divmod(0xCD9E8D57 * c2, 1 << 32)
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = (k0 + 0x9E3779B9) % (1 << 32), (k1 + 0xBB67AE85) % (1 << 32)
    return c0, c1, c2, c3


def plain_draw(source: randomness.Stream, chunk: int, group: int, candidate: int) -> int:
    """Return one 16-bit draw, by the layout that the file format promises."""
    words = philox_block((group, candidate // 8, chunk, source.nonce), (source.key0, source.key1))
    half = candidate % 8
    return (words[half // 2] >> (16 * (half % 2))) & 0xFFFF


class ScriptedSource:
    """A replacement of the private source that returns given 128-bit integers, high limb first."""

    def __init__(self, values: Sequence[int]) -> None:
        self.values = list(values)
        self.used = 0

    def __call__(self, count: int) -> bytes:
        assert count % 16 == 0
        wanted = self.values[self.used : self.used + count // 16]
        assert len(wanted) == count // 16, "more private randomness was asked for than the script holds"
        self.used += len(wanted)
        return np.array([(v >> 64, v & LIMB) for v in wanted], np.uint64).tobytes()


@contextmanager
def scripted(values: Sequence[int]) -> Iterator[ScriptedSource]:
    """Replace the private source in this context, and check that the script is used up."""
    source = ScriptedSource(values)
    with mock.patch.object(randomness, "private_bytes", source):
        yield source
    assert source.used == len(source.values)


def integer_weights(scores: NDArray[np.int32], fraction_bits: int) -> NDArray[Any]:
    """Return the weights F[f]·2^(R − j) of the selection as exact Python integers, in the shape of the scores."""
    whole, fraction = selection.exponents(scores, fraction_bits)
    table = selection.fraction_weights(fraction_bits).astype(object)
    return np.asarray(table[fraction] * 2 ** (selection.RANGE_BITS - whole).astype(object), object)


def chi_square_tail(counts: NDArray[np.int64], probabilities: Sequence[float]) -> float:
    """Return the P-value of counts under probabilities; every expected count must be at least 10."""
    expected = np.asarray(probabilities, np.float64) * counts.sum()
    assert (expected >= 10).all()
    statistic = float(np.sum((counts - expected) ** 2 / expected))
    return float(special.chdtrc(len(counts) - 1, statistic))
