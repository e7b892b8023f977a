"""Outcomes: the exact law of one index, in the integers that its code draws with.

A private integer, uniform below a public or private total, decides the index. Each outcome has a share of these
integers, all in a row: its probability is the size of the share over the total, and which integer gives which index is
known exactly. So an audit can compute losses without rounding, and hand the encoder the very integers at the edges of
the shares, where the smallest mistake gives another index. Each code states its outcomes (`Code.outcomes`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Sums(Protocol):
    """A backend that sums weights."""

    def bin_sums(self, scores: Any, fraction_bits: int) -> Any:
        """Return the sums of `selection.bin_sums`."""


class Share(NamedTuple):
    """The private integers begin … end − 1, which all give the same outcome."""

    outcome: int
    """The index."""
    begin: int
    end: int


class Outcomes(ABC):
    """The possible indices of one chunk of a private image, with their probabilities."""

    @property
    @abstractmethod
    def total(self) -> int:
        """The private integer is uniform below this."""

    @abstractmethod
    def log_law(self) -> Floats:
        """Return ln P[K = k] of every k. Only the logarithms are rounded, by some 10^−16 of what is rounded."""

    @abstractmethod
    def share(self, integer: int) -> Share:
        """Return the share that a private integer falls into."""

    def edge(self, number: int) -> int:
        """Return the first integer of some share except the lowest; `number`, any whole number, picks the share."""
        share = self.share(number % self.total)
        return share.begin or share.end

    @staticmethod
    @abstractmethod
    def private_bytes(integer: int) -> bytes:
        """Return the private bytes that this integer is read from."""

    def summed_by(self, on: Sums) -> bool:  # noqa: ARG002
        """Return whether a backend sums the weights of the outcomes right, if it has any to sum."""
        return True
