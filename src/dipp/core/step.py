"""The interface of a step of an encoding: its public numbers. The kinds of steps are in `core.steps`."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np

from dipp.core.arithmetic import Arithmetic
from dipp.core.channels import Channel
from dipp.core.columns import Column
from dipp.core.geometry import Geometry
from dipp.core.selection import MAX_CANDIDATES
from dipp.core.unit import Unit
from dipp.errors import DippError

MAX_INDEX_BITS = MAX_CANDIDATES.bit_length() - 1
"""Largest width of an index in bits."""


class CodedStep(ABC):
    """The public numbers of one coded step: its gain in SNR, and the sizes of its chunks and indices."""

    number: ClassVar[int]
    """Number of the kind of steps in files."""
    kind: ClassVar[str]
    """Name of the kind of steps, under which trajectories, checks and audits are registered."""
    facts: ClassVar[tuple[str, ...]]
    """Names of the attributes to show in reports, beside the gain and the sizes."""
    columns: ClassVar[tuple[Column, ...]]
    """The columns that files list for this kind of steps, beside the columns of the code."""
    snr_gain: float
    """The signal-to-noise ratio that the step adds to the state, as a 32-bit float."""
    chunk_size: int
    """Largest number of coordinates of a chunk: d coordinates have ⌈d/chunk_size⌉ chunks of nearly equal size."""
    index_bits: int
    """log2 n: the index of each chunk is one of 2^index_bits candidates."""
    exponent_units: int
    """Exponent of the entropy code of indices, as a number of 64ths; 0 for indices of fixed length."""

    @property
    def candidates(self) -> int:
        """Number of candidates of each chunk (n)."""
        return 1 << self.index_bits

    @classmethod
    def to_columns(cls, steps: Sequence[Self]) -> dict[str, list[Any]]:
        """Return a dictionary from the name of each column to its numbers, one for each step."""
        return {column.name: [getattr(step, column.name) for step in steps] for column in cls.columns}

    @classmethod
    def from_columns(cls, columns: Mapping[str, Sequence[Any]]) -> tuple[Self, ...]:
        """Return the steps whose numbers stand in these columns; the columns of the code are included."""
        rows = zip(*columns.values(), strict=True)
        return tuple(cls(**dict(zip(columns, row, strict=True))) for row in rows)

    @abstractmethod
    def arithmetic(self, channel: Channel, alpha: Fraction) -> Arithmetic:
        """Return the arithmetic of the step: how its pixel values become integers.

        Args:
            channel: The channel of the plan.
            alpha: α, by which the code multiplies scores.
        """

    @property
    def turns(self) -> int:
        """Number of rounds of the step, by default 1: a round is predicted from the answers of the rounds before."""
        return 1

    @property
    def draws(self) -> int:
        """Number of draws, one for each block, in each box of a unit; raise if the step does not divide units."""
        raise DippError("step", f"must be a question, which divides units into blocks, got steps of {self.kind}")

    @property
    def worded(self) -> bool:
        """Whether the candidates of the step are words from the books of the model."""
        return False

    def grid(self, unit: Unit, geometry: Geometry) -> tuple[Unit, Geometry]:
        """Return the unit and the geometry of the grid of coordinates that the step codes; by default the picture's.

        Args:
            unit: The unit of the plan.
            geometry: Geometry of the picture.
        """
        return unit, geometry

    def require_unit(self, unit: Unit) -> None:  # noqa: B027 - most kinds leave that to mask and deal
        """Raise if the step cannot code parts of this unit; by default accept any."""

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers of the step to show in reports, by name."""
        return {name: getattr(self, name) for name in (*self.facts, "snr_gain", "chunk_size", "index_bits")}

    @classmethod
    @abstractmethod
    def words(cls, steps: Sequence[Self], groups: int) -> str:
        """Return a summary of all steps in one line; `groups` is the number of steps in a pass.

        Args:
            steps: All steps of the plan.
            groups: Number of steps in a pass.
        """

    @classmethod
    def require_sequence(cls, steps: Sequence[Self]) -> None:
        """Raise if the steps cannot follow each other; by default accept any."""
        del steps

    @classmethod
    def calls(cls, steps: Sequence[Self]) -> int:
        """Return the number of network calls of the chain."""
        return len(steps)

    @classmethod
    def work(cls, steps: Sequence[Self]) -> float:
        """Return the work of the network calls, where a call at the full resolution of the picture counts as 1."""
        return float(cls.calls(steps))

    def cells(self, number: int) -> tuple[str, str, str]:
        """Return name, tilt and clip of the step for a table; `number` is the number of the step."""
        return f"{number:>12}", "", ""

    def _check(self) -> None:
        require_float32("snr_gain", self.snr_gain)
        if not 1 <= self.chunk_size < 1 << 32:
            raise DippError("chunk_size", f"must be 1 to 2^32 - 1 coordinates, got {self.chunk_size}")
        if not 1 <= self.index_bits <= MAX_INDEX_BITS:
            raise DippError("index_bits", f"must be from 1 to {MAX_INDEX_BITS}, got {self.index_bits}")
        if not 0 <= self.exponent_units <= 255:
            raise DippError("exponent_units", f"must be from 0 to 255, got {self.exponent_units}")


def require_float32(name: str, value: float) -> None:
    """Raise unless a number is a finite 32-bit float above 0: files store such numbers exactly.

    Args:
        name: Name of the number, for the error.
        value: The number.
    """
    if not (math.isfinite(value) and value > 0 and value == float(np.float32(value))):
        raise DippError(name, f"must be a finite 32-bit float above 0, got {value}")
