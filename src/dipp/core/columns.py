"""Columns: the public numbers of the steps of a plan, as files list them. A column has one number for each step.

A kind of step and a code each name the columns that they need (`CodedStep.columns`, `Code.columns`). The file format
writes and reads those, and knows neither kinds nor codes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

MAX_FLOAT_BITS = int(np.finfo(np.float32).max.view(np.uint32))
"""The largest finite 32-bit float, read as an integer. Positive floats are the integers from 1 to this."""


@dataclass(frozen=True)
class Column:
    """The column of one number of every step."""

    name: str
    """Name of the attribute of the step that has the number."""
    low: int = 1
    """Least value; for floats, the least value of their bits as an integer."""
    high: int = MAX_FLOAT_BITS
    """Largest value; for floats, the largest value of their bits as an integer."""
    floats: bool = False
    """Whether the numbers are finite 32-bit floats above 0, which files list by their bits."""
    more: int = 0
    """Number of entries of the column beyond one for each step."""


def floats(name: str) -> Column:
    """Return a column of 32-bit floats above 0 for this attribute."""
    return Column(name, floats=True)


CHUNK_SIZE = Column("chunk_size", 1, (1 << 32) - 1)
INDEX_BITS = Column("index_bits", 1, 255)
EXPONENT_UNITS = Column("exponent_units", 1, 255)
