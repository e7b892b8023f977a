"""The plan of an encoding: everything public, fixed before any image is read, and stored in the file.

A coding says how a step is coded: by which channel, under which code. The steps say along which timesteps, with which
signal-to-noise gains, chunks and candidates. Sender and receiver hold equal plans, and the certificate follows from the
plan alone.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np

from dipp.core.arithmetic import Arithmetic
from dipp.core.channels import Channel
from dipp.core.code import Code
from dipp.core.masks import Mask
from dipp.core.selection import MAX_CANDIDATES
from dipp.errors import DippError, NoCertificateError

MAX_INDEX_BITS = MAX_CANDIDATES.bit_length() - 1
MAX_PIXELS = (1 << 31) - 1
"""Pixels of an image, at most."""


@dataclass(frozen=True)
class Coding:
    """How the steps are coded: the noise of a channel, chosen by the indices of a code."""

    channel: Channel
    code: Code

    @property
    def name(self) -> str:
        """Channel and code in words."""
        return f"{self.channel.name} channel, {self.code.name} code"

    @property
    def certified(self) -> bool:
        """Whether selections have an ε: the scores must be bounded, and the code must draw privately."""
        return self.code.certified and self.channel.certified

    def require_certified(self) -> None:
        """Raise, where there is no certificate."""
        if not self.certified:
            raise NoCertificateError(f"{self.name}: it is not differentially private, so there is no certificate")


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
    """The parameter of the index's entropy code (`Code.exponent_units`); 0 for fixed-length indices."""

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
    """A coding and its steps, along descending timesteps."""

    coding: Coding
    steps: tuple[Step, ...]
    separate: bool = True
    """Whether the channels of a pixel are dealt to different chunks, in all steps that have at least C chunks."""

    def __post_init__(self) -> None:
        if not self.steps:
            raise DippError("steps: at least one step is needed; the budget may be too small for any")
        for before, after in zip(self.steps, self.steps[1:], strict=False):
            if before.end != after.start:
                raise DippError(f"steps: each must start where the last ended, got {before.end} and {after.start}")

    @property
    def channel(self) -> Channel:
        """The noise of the steps."""
        return self.coding.channel

    @property
    def code(self) -> Code:
        """How their indices are drawn, priced and packed."""
        return self.coding.code

    @property
    def mask(self) -> Mask:
        """Which coordinates the steps touch."""
        return self.coding.channel.mask

    def arithmetic(self, step: Step) -> Arithmetic:
        """The public integers of a step."""
        return _arithmetic(self.channel, step.snr_gain, self.code.score_alpha)

    def chunk_counts(self, pixels: int, channels: int) -> tuple[int, ...]:
        """How many chunks, and so indices, each step of an image has: public, from the plan and the size alone.

        A step that touches no coordinate of an image of very few pixels has no chunk, and takes no bits.
        """
        if not 1 <= pixels <= MAX_PIXELS:
            raise DippError(f"pixels: 1 to {MAX_PIXELS} is needed, got {pixels}")
        sizes = np.array([step.chunk_size for step in self.steps])
        return tuple((-(-self.mask.counts(len(self.steps), pixels, channels) // sizes)).tolist())

    def apart(self, chunks: int, channels: int) -> bool:
        """Whether a step of so many chunks has no two coordinates of a pixel in one chunk, for certain."""
        return self.mask.touches(channels) == 1 or (self.separate and chunks >= channels)


# Cached, because laws with tables are costly to make and compare by identity.
_arithmetic = functools.lru_cache(maxsize=4096)(Arithmetic)
