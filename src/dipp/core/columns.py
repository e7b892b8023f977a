"""Columns: the public numbers of a plan's steps as files list them, one number of every step after the other.

A kind of step and a code each name the columns that they need (`CodedStep.columns`, `Code.columns`). The file format
writes and reads those, and knows neither kinds nor codes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

MAX_FLOAT_BITS = int(np.finfo(np.float32).max.view(np.uint32))
"""The bits of the largest finite 32-bit float. Those of the positive floats are the whole numbers from 1 to it."""


@dataclass(frozen=True)
class Column:
    """One number of every step."""

    name: str
    """Attribute of the step that has the number."""
    low: int = 1
    """Least value; of floats, the least bits."""
    high: int = MAX_FLOAT_BITS
    """Largest value; of floats, the largest bits."""
    floats: bool = False
    """Whether the numbers are finite 32-bit floats above 0, listed by their bits."""
    more: int = 0
    """How many numbers the column has beyond one for each step."""


def floats(name: str) -> Column:
    """Return a column of 32-bit floats above 0."""
    return Column(name, floats=True)


CHUNK_SIZE = Column("chunk_size", 1, (1 << 32) - 1)
INDEX_BITS = Column("index_bits", 1, 255)
EXPONENT_UNITS = Column("exponent_units", 1, 255)
