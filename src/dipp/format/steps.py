"""Write and read the steps of a plan: their kind, their number, and the columns that the kind and the code name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dipp.core.code import Code
from dipp.core.columns import Column
from dipp.core.plan import Plan
from dipp.core.step import CodedStep
from dipp.core.steps import STEPS
from dipp.errors import DippError
from dipp.format.bytes import ByteReader, Integers, column, damaged, newer, varint
from dipp.format.codings import MAX_NUMBER
from dipp.format.parameters import MAX_STEPS

FLOAT_BITS = 32


def to_bytes(plan: Plan) -> bytes:
    """Return the bytes of the steps: their kind and number, the columns of the kind, and those of the code.

    Raises:
        DippError: The kind of the steps has no number in the file format.
    """
    kind = type(plan.steps[0])
    if STEPS.get(kind.number) is not kind:
        raise DippError(
            "steps", f"must have a number in the file format, got {kind.__name__}", "register the class in STEPS"
        )
    listed = kind.to_columns(plan.steps)
    listed |= {each.name: [getattr(step, each.name) for step in plan.steps] for each in plan.code.columns}
    columns = (_column_to_bytes(each, listed[each.name]) for each in (*kind.columns, *plan.code.columns))
    return varint(kind.number) + varint(len(plan.steps)) + b"".join(columns)


def read(reader: ByteReader, code: Code) -> tuple[CodedStep, ...]:
    """Read the steps that `to_bytes` wrote for this code.

    Args:
        reader: The reader of the file.
        code: The code of the plan.

    Returns:
        The steps.

    Raises:
        DippError: The steps are damaged, or of a kind that this version of dipp does not know.
    """
    number = reader.varint("kind of steps", 0, MAX_NUMBER)
    if number not in STEPS:
        raise newer(f"kind {number} of steps")
    kind, count = STEPS[number], reader.varint("steps", 1, MAX_STEPS)
    listed = {each.name: _read_column(reader, each, count) for each in (*kind.columns, *code.columns)}
    ones = [1] * count
    return kind.from_columns({"chunk_size": ones, "index_bits": ones} | listed)


def _column_to_bytes(kind: Column, values: Sequence[Any]) -> bytes:
    return float_column(values) if kind.floats else column(np.array(values, np.int64))


def _read_column(reader: ByteReader, kind: Column, count: int) -> list[Any]:
    read_values = _read_floats if kind.floats else _read_whole
    return read_values(reader, kind, count + kind.more)


def _read_whole(reader: ByteReader, kind: Column, count: int) -> list[int]:
    values: list[int] = reader.column(kind.name, count, kind.low, kind.high).tolist()
    return values


def float_column(values: Sequence[float]) -> bytes:
    """Return 32-bit floats as the number of zero bits that all of them end in, and the column of their other bits.

    Numbers that were rounded to a few bits then take few bits, and each column has one spelling.
    """
    bits = np.array(values, np.float32).view(np.uint32).astype(np.int64)
    zeros = _trailing_zeros(bits)
    return bytes([zeros]) + column(bits >> zeros)


def _read_floats(reader: ByteReader, kind: Column, count: int) -> list[float]:
    zeros = reader.byte(kind.name, 0, FLOAT_BITS - 2)
    bits = reader.column(kind.name, count, 1, kind.high >> zeros)
    if _trailing_zeros(bits):
        raise damaged(f"{kind.name} has too many bits")
    values: list[float] = (bits << zeros).astype(np.uint32).view(np.float32).tolist()
    return values


def _trailing_zeros(bits: Integers) -> int:
    """Return the number of zero bits that all of these numbers end in."""
    every = int(np.bitwise_or.reduce(bits))
    return (every & -every).bit_length() - 1
