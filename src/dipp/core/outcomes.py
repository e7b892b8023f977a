"""Outcomes: the exact law of one index, in the integers by which its code draws.

A private integer, uniform below a public or private total, decides the index. Each outcome has a *share* of these
integers, an interval: its probability is the size of the share over the total, and the index of every integer is known
exactly. So an audit can compute losses without rounding, and can hand the encoder the integers at the edges of the
shares, where the smallest mistake gives another index. Each code states its outcomes (`Code.outcomes`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Sums(Protocol):
    """A scoring backend, as far as audits need it: it sums weights."""

    def bin_sums(self, scores: Any, fraction_bits: int) -> Any:
        """Return the sums of weights in each bin, as `selection.bin_sums` defines them.

        Args:
            scores: Scores of chunks × n candidates, in the backend's own memory.
            fraction_bits: S, the number of bits after the binary point of a score.
        """


class Share(NamedTuple):
    """The private integers begin … end − 1 that all give the same outcome."""

    outcome: int
    """The index that these integers give."""
    begin: int
    """First integer of the share."""
    end: int
    """First integer beyond the share."""


class Outcomes(ABC):
    """The possible indices of one chunk of a private image, with their probabilities."""

    @property
    @abstractmethod
    def total(self) -> int:
        """The number of possible private integers: the drawn one is uniform from 0 to `total` − 1."""

    @abstractmethod
    def log_law(self) -> Floats:
        """Return ln P[K = k] for every index k, as float64. Only the logarithms are rounded, by a relative 10^−16."""

    @abstractmethod
    def share(self, integer: int) -> Share:
        """Return the range of private integers, all of one outcome, in which this integer lies."""

    def edge(self, number: int) -> int:
        """Return the first integer of some share except the lowest one; any whole number picks the share."""
        share = self.share(number % self.total)
        return share.begin or share.end

    @staticmethod
    @abstractmethod
    def private_bytes(integer: int) -> bytes:
        """Return the bytes of private randomness from which the code reads this integer."""

    def summed_by(self, on: Sums) -> bool:  # noqa: ARG002
        """Return whether a backend sums the weights of the outcomes correctly; true if the code sums no weights."""
        return True
