"""The steps of a plan in the header, in columns: one number of every step, then the next number of every step."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np

from dipp.core.code import Code
from dipp.core.plan import Plan, SensingStep, Step
from dipp.format.bytes import ByteReader, column, damaged, varint
from dipp.format.release import MAX_STEPS


def tilts_to_bytes(plan: Plan) -> bytes:
    """Number of steps, and all digits of their tilts, from which the certificate is computed: mostly all the same."""
    tilts = [step.tilt for step in plan.steps if isinstance(step, SensingStep)]
    return varint(len(tilts)) + float_column(tilts, short=False)[0]


def timesteps_to_bytes(plan: Plan) -> bytes:
    """Number of steps, the first timestep, and the timesteps that each step takes."""
    along = [step for step in plan.steps if isinstance(step, Step)]
    steps = (varint(step.start - step.end) for step in along)
    return varint(len(along)) + varint(along[0].start) + b"".join(steps)


def read_timesteps(reader: ByteReader) -> list[int]:
    """The first timestep, and those at which steps end."""
    count = reader.varint("steps", 1, MAX_STEPS)
    times = [reader.varint("start", 1, (1 << 16) - 1)]
    for _ in range(count):
        times.append(times[-1] - reader.varint("timesteps", 1, times[-1]))
    return times


def float_column(values: Sequence[float], short: bool | None = None) -> tuple[bytes, bool]:
    """32-bit floats as a column of their bits, or of the upper half of these, if the lower half of all is zero."""
    bits = np.array([int.from_bytes(struct.pack("<f", value), "little") for value in values], np.int64)
    short = not (bits & 0xFFFF).any() if short is None else short
    return column(bits >> 16 * short), short


def read_floats(reader: ByteReader, names: Sequence[str], count: int, short: bool | None) -> list[tuple[float, ...]]:
    """Columns of floats that are short if all are (None: never)."""
    columns = [reader.column(name, count, 1, (1 << (16 if short else 32)) - 1) for name in names]
    if short is False and not any((values & 0xFFFF).any() for values in columns):
        raise damaged(f"{names[-1]} has too many bytes")
    patterns = ((values << 16 * bool(short)).astype(np.uint32).astype("<u4").tobytes() for values in columns)
    return [struct.unpack(f"<{count}f", pattern) for pattern in patterns]


def sizes_to_bytes(plan: Plan) -> list[bytes]:
    """Chunk sizes, index bits and, where indices are entropy coded, the parameters of their codes."""
    names = ["chunk_size", "index_bits"] + ["exponent_units"] * (not plan.code.fixed_length)
    return [column(np.array([getattr(step, name) for step in plan.steps])) for name in names]


def read_sizes(reader: ByteReader, code: Code, count: int) -> tuple[list[int], list[int], list[int]]:
    """What `sizes_to_bytes` wrote, by step; a code of fixed length has no parameters."""
    sizes = reader.column("chunk_size", count, 1, (1 << 32) - 1).tolist()
    bits = reader.column("index_bits", count, 1, 255).tolist()
    exponents = [0] * count if code.fixed_length else reader.column("exponent_units", count, 1, 255).tolist()
    return sizes, bits, exponents
