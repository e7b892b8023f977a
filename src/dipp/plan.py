"""The plan of an encoding: everything public, fixed before any image is read, and stored in the file.

A mechanism says how a step is coded; the steps say along which timesteps, with which signal-to-noise gains, chunks and
candidates. Sender and receiver hold equal plans, and the certificate follows from the plan alone.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from dipp.arithmetic import Arithmetic
from dipp.channels import Channel, Gaussian, Laplace, Sign
from dipp.errors import DippError
from dipp.selection import MAX_CANDIDATES

MAX_INDEX_BITS = MAX_CANDIDATES.bit_length() - 1


@dataclass(frozen=True)
class Mechanism:
    """How the steps are coded: channel, α and order.

    ordered = True is step-limited PPR with the Poisson order and a zeta code; False is the flat code with
    fixed-length indices. alpha = None is α = ∞ (the best score wins, no private randomness, no certificate).
    """

    name: str = field(compare=False)
    channel: Channel
    alpha: Fraction | None
    ordered: bool

    @property
    def certified(self) -> bool:
        """Whether selections by this mechanism have an ε."""
        return self.alpha is not None and self.channel.certified


PAPER = Mechanism("paper", Laplace(), Fraction(2), ordered=True)
DIFFC = Mechanism("diffc", Gaussian(), None, ordered=True)
SHARP = Mechanism("sharp", Sign(period=3), Fraction(1), ordered=False)
THRIFTY = Mechanism("thrifty", Sign(period=3), Fraction(2), ordered=True)
"""The channel of `SHARP` under the paper's code: twice the ε, and fewer bits."""


@dataclass(frozen=True)
class Step:
    """One coded step t → s of the diffusion."""

    start: int
    """Timestep t."""
    end: int
    """Timestep s < t."""
    snr_gain: float
    """SNR(s) − SNR(t), rounded down to a 32-bit float: this number, and not the model's, scales the private shifts."""
    chunk_size: int
    """Coordinates of a chunk, at most: an image of d touched ones has ⌈d/chunk_size⌉ chunks of nearly equal size."""
    index_bits: int
    """log2 n: each chunk selects among 2^index_bits candidates."""
    exponent_units: int = 0
    """The zeta exponent in units of 1/64; 0 for fixed-length indices."""

    @property
    def candidates(self) -> int:
        """n: what each chunk selects among."""
        return 1 << self.index_bits

    def __post_init__(self) -> None:
        if not 0 <= self.end < self.start < 1 << 16:
            raise DippError(f"step: timesteps 0 ≤ end < start < 65536 are needed, got {self.start} → {self.end}")
        if not (
            math.isfinite(self.snr_gain) and self.snr_gain > 0 and self.snr_gain == float(np.float32(self.snr_gain))
        ):
            raise DippError(f"snr_gain: a finite 32-bit float above 0 is needed, got {self.snr_gain}")
        if not 1 <= self.chunk_size < 1 << 32:
            raise DippError(f"chunk_size: 1 to 2^32 - 1 coordinates are needed, got {self.chunk_size}")
        if not 1 <= self.index_bits <= MAX_INDEX_BITS:
            raise DippError(f"index_bits: 1 to {MAX_INDEX_BITS} is needed, got {self.index_bits}")
        if not 0 <= self.exponent_units <= 255:
            raise DippError(f"exponent_units: 0 to 255 is needed, got {self.exponent_units}")


@dataclass(frozen=True)
class Plan:
    """A mechanism and its steps, along descending timesteps."""

    mechanism: Mechanism
    steps: tuple[Step, ...]
    separate: bool = True
    """Whether the channels of a pixel are dealt to different chunks, in all steps that have at least C chunks."""

    def __post_init__(self) -> None:
        if not self.steps:
            raise DippError("steps: at least one step is needed; the budget may be too small for any")
        for before, after in zip(self.steps, self.steps[1:], strict=False):
            if before.end != after.start:
                raise DippError(f"steps: each must start where the last ended, got {before.end} and {after.start}")

    def arithmetic(self, step: Step) -> Arithmetic:
        """The public integers of a step."""
        return _arithmetic(self.mechanism.channel, step.snr_gain, self.mechanism.alpha or Fraction(1))


# Cached, because laws with tables are costly to make and compare by identity.
_arithmetic = functools.lru_cache(maxsize=4096)(Arithmetic)
