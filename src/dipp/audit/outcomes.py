"""Outcomes: the exact law of one index, in the integers that its code draws with.

A private integer, uniform below a public or private total, decides the index. Each outcome has a share of these
integers, all in a row: its probability is the size of the share over the total, and which integer gives which index is
known exactly. So an audit can compute losses without rounding, and hand the encoder the very integers at the edges of
the shares, where the smallest mistake gives another index.

| codes | outcomes | the integer | shares |
|---|---|---|---|
| those that search: flat, PPR | `Searched` | 128 bits, drawn again until it is below the total | `core.selection` |
| pairs | `Pair` | 64 bits | + below the threshold T, − from it on: `codes.pairs` |
"""

from __future__ import annotations

import bisect
import functools
import itertools
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dipp import scoring
from dipp.codes import Pairs, pairs
from dipp.core import selection
from dipp.core.code import Code

Floats = NDArray[np.float64]


class Share(NamedTuple):
    """The private integers begin … end − 1, all of which give the same outcome."""

    outcome: int
    """The index."""
    begin: int
    end: int


class Outcomes(ABC):
    """What can become of one chunk of a private image, and with which probabilities."""

    @property
    @abstractmethod
    def total(self) -> int:
        """The private integer is uniform below this."""

    @abstractmethod
    def log_law(self) -> Floats:
        """ln P[K = k]; only the logarithms are rounded, by some 10^−16 of what is rounded."""

    @abstractmethod
    def share(self, integer: int) -> Share:
        """The share that a private integer falls into."""

    def edge(self, number: int) -> int:
        """The first integer of some share but the lowest: which one, a number decides that may be any."""
        share = self.share(number % self.total)
        return share.begin or share.end

    @staticmethod
    @abstractmethod
    def private_bytes(integer: int) -> bytes:
        """The private bytes that this integer is read from."""

    def summed_by(self, on: scoring.Backend) -> bool:  # noqa: ARG002
        """Whether a backend sums the weights as it should, where there are any."""
        return True


@dataclass(frozen=True, eq=False)
class Searched(Outcomes):
    """The outcomes of a selection among scored candidates."""

    scores: selection.Scores
    fraction_bits: int

    @functools.cached_property
    def _sums(self) -> selection.Sums:
        return selection.bin_sums(self.scores[None], self.fraction_bits)

    @functools.cached_property
    def total(self) -> int:
        """The sum of all weights."""
        return sum(weight << (selection.RANGE_BITS - j) for j, weight in enumerate(self._sums[0].tolist()))

    def log_law(self) -> Floats:
        """From the integer weights."""
        whole, fraction = selection.exponents(self.scores, self.fraction_bits)
        logs = np.log(selection.fraction_weights(self.fraction_bits)[fraction].astype(np.float64))
        return np.asarray(logs + (selection.RANGE_BITS - whole) * math.log(2) - math.log(self.total), np.float64)

    @functools.cached_property
    def _shares(self) -> tuple[list[int], list[int]]:
        """Candidates in the order of their shares, bin after bin, and where the shares begin, and the last one ends."""
        whole, fraction = selection.exponents(self.scores, self.fraction_bits)
        order = np.argsort(whole, kind="stable")
        table = selection.fraction_weights(self.fraction_bits)[fraction[order]].tolist()
        weights = (weight << (selection.RANGE_BITS - j) for weight, j in zip(table, whole[order].tolist(), strict=True))
        return order.tolist(), [0, *itertools.accumulate(weights)]

    def share(self, integer: int) -> Share:
        """The candidate at which the running sum of the weights exceeds the integer."""
        order, begins = self._shares
        place = bisect.bisect_right(begins, integer)
        return Share(order[place - 1], begins[place - 1], begins[place])

    @staticmethod
    def private_bytes(integer: int) -> bytes:
        """Two limbs of 64 bits, the high one first."""
        return np.array([integer >> 64, integer & ((1 << 64) - 1)], np.uint64).tobytes()

    def summed_by(self, on: scoring.Backend) -> bool:
        """Whether its bin sums are those of the scores."""
        return np.array_equal(on.bin_sums(self.scores[None], self.fraction_bits), self._sums)


@dataclass(frozen=True)
class Pair(Outcomes):
    """The outcomes of a pair: + (1) with probability T/2^64, else − (0)."""

    threshold: int
    total = 1 << 64

    def log_law(self) -> Floats:
        """From the threshold: 64 bits are divided before the logarithm, so that nothing cancels."""
        shares = [(self.total - self.threshold) / self.total, self.threshold / self.total]
        return np.asarray(np.log(shares), np.float64)

    def share(self, integer: int) -> Share:
        """Which side of the threshold it is on."""
        if integer < self.threshold:
            return Share(1, 0, self.threshold)
        return Share(0, self.threshold, self.total)

    @staticmethod
    def private_bytes(integer: int) -> bytes:
        """One limb of 64 bits."""
        return np.array([integer], np.uint64).tobytes()


def kind(code: Code) -> type[Outcomes]:
    """The kind of outcomes that a code has."""
    return Pair if isinstance(code, Pairs) else Searched


def outcomes(code: Code, task: scoring.ScoringTask, on: scoring.Backend) -> list[Outcomes]:
    """The outcomes of each chunk of a task."""
    if isinstance(code, Pairs):
        table = pairs.thresholds(task.law.limit, task.fraction_bits)
        return [Pair(threshold) for threshold in table[task.shifts + task.law.limit].tolist()]
    return [Searched(scores, task.fraction_bits) for scores in np.asarray(on.scores(task))]
