"""The face of a step: what one question of an encoding is, in public numbers. Its kinds are in `steps`."""

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


class CodedStep(ABC):
    """What every step has: a gain in SNR, the sizes of its chunks and indices, and its integers."""

    number: ClassVar[int]
    """Number of the kind in files."""
    kind: ClassVar[str]
    """Name of the kind: trajectories, checks and audits are registered under it."""
    facts: ClassVar[tuple[str, ...]]
    """What reports state of a step, beside its gain and its sizes."""
    columns: ClassVar[tuple[Column, ...]]
    """What files list of the kind, beside the columns of the code."""
    snr_gain: float
    chunk_size: int
    """Coordinates of a chunk, at most: an image of d touched ones has ⌈d/chunk_size⌉ chunks of nearly equal size."""
    index_bits: int
    """log2 n: each chunk selects among 2^index_bits candidates."""
    exponent_units: int
    """The parameter of the index's entropy code (`Code.exponent_units`); 0 for fixed-length indices."""

    @property
    def candidates(self) -> int:
        """n: what each chunk selects among."""
        return 1 << self.index_bits

    @classmethod
    def to_columns(cls, steps: Sequence[Self]) -> dict[str, list[Any]]:
        """Return the numbers of `columns`, by name."""
        return {column.name: [getattr(step, column.name) for step in steps] for column in cls.columns}

    @classmethod
    def from_columns(cls, columns: Mapping[str, Sequence[Any]]) -> tuple[Self, ...]:
        """Return the steps whose columns, those of the code included, these are."""
        rows = zip(*columns.values(), strict=True)
        return tuple(cls(**dict(zip(columns, row, strict=True))) for row in rows)

    @abstractmethod
    def arithmetic(self, channel: Channel, alpha: Fraction) -> Arithmetic:
        """Return the public integers of the step."""

    @property
    def turns(self) -> int:
        """How many rounds the chunks of the step are asked in, each after the answers of those before it."""
        return 1

    @property
    def draws(self) -> int:
        """How many blocks each place of a unit is divided into, with a draw each; raise if the step divides none."""
        raise DippError("step", f"a question divides units into blocks, got steps of {self.kind}")

    @property
    def worded(self) -> bool:
        """Whether the candidates of the step are words of the model's books."""
        return False

    def grid(self, unit: Unit, geometry: Geometry) -> tuple[Unit, Geometry]:
        """Return the unit and the geometry of the coordinates that the step asks for: by default the picture's own."""
        return unit, geometry

    def require_unit(self, unit: Unit) -> None:  # noqa: B027 - most kinds leave that to mask and deal
        """Raise if the step cannot ask for parts of this unit."""

    def to_dict(self) -> dict[str, Any]:
        """Return what reports state of the step."""
        return {name: getattr(self, name) for name in (*self.facts, "snr_gain", "chunk_size", "index_bits")}

    @classmethod
    @abstractmethod
    def words(cls, steps: Sequence[Self], groups: int) -> str:
        """Return all steps in one line; `groups` is the number of steps of a pass."""

    @classmethod
    def require_sequence(cls, steps: Sequence[Self]) -> None:
        """Raise if the steps cannot follow each other; by default any can."""
        del steps

    @classmethod
    def calls(cls, steps: Sequence[Self]) -> int:
        """Return the network calls along the chain."""
        return len(steps)

    @classmethod
    def work(cls, steps: Sequence[Self]) -> float:
        """Return the work of these calls, in calls at the resolution of the picture."""
        return float(cls.calls(steps))

    def cells(self, number: int) -> tuple[str, str, str]:
        """Return name, tilt and clip of step `number`, for a table."""
        return f"{number:>12}", "", ""

    def _check(self) -> None:
        require_float32("snr_gain", self.snr_gain)
        if not 1 <= self.chunk_size < 1 << 32:
            raise DippError("chunk_size", f"1 to 2^32 - 1 coordinates are needed, got {self.chunk_size}")
        if not 1 <= self.index_bits <= MAX_INDEX_BITS:
            raise DippError("index_bits", f"1 to {MAX_INDEX_BITS} is needed, got {self.index_bits}")
        if not 0 <= self.exponent_units <= 255:
            raise DippError("exponent_units", f"0 to 255 is needed, got {self.exponent_units}")


def require_float32(name: str, value: float) -> None:
    """Raise unless a number is a 32-bit float above 0, as the file has those that both sides compute with."""
    if not (math.isfinite(value) and value > 0 and value == float(np.float32(value))):
        raise DippError(name, f"a finite 32-bit float above 0 is needed, got {value}")
