"""Test that numbers survive their bytes, and that each has one spelling."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.refusals import refused
from helpers.statistics import bounded
from hypothesis import given
from hypothesis import strategies as st

from dipp.format.bytes import ByteReader, column, varint


@bounded
@given(st.integers(0, (1 << 70) - 1))
def test_varints_survive_their_bytes(value: int) -> None:
    """Each byte has seven bits, and there are at most ten bytes."""
    packed = varint(value)
    reader = ByteReader(memoryview(packed))
    assert len(packed) == max(1, -(-value.bit_length() // 7))
    assert reader.varint("number", 0, 1 << 70) == value
    assert not reader.left


def test_reading_stops_at_the_end_and_refuses_numbers_out_of_range() -> None:
    reader = ByteReader(memoryview(b"abc"))
    with refused("file", "early"):
        reader.take(4)
    assert reader.take(3) == b"abc"
    with refused("file", "outside"):
        ByteReader(memoryview(b"\x05")).varint("number", 6, 7)
    assert not ByteReader(memoryview(b"")).column("column", 0, 0, 9).size


@bounded
@given(st.lists(st.integers(0, (1 << 32) - 1) | st.integers(0, (1 << 62) - 1), max_size=40))
def test_columns_survive_their_bytes(values: list[int]) -> None:
    packed = column(np.array(values, np.int64))
    reader = ByteReader(memoryview(packed))
    assert reader.column("column", len(values), 0, 1 << 62).tolist() == values
    assert not reader.left


@pytest.mark.parametrize("data", [b"\x80\x00", b"\xff" * 10 + b"\x01", b"\x80" * 9 + b"\x80\x01", b"\x85"])
def test_numbers_have_one_spelling(data: bytes) -> None:
    with refused("file", "damaged"):
        ByteReader(memoryview(data)).varint("number", 0, 1 << 80)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\x05\x01\xe0", id="smallest too small"),
        pytest.param(b"\x05\x02\x10", id="too wide"),
        pytest.param(b"\x05\x01\x50", id="not filled up with zeros"),
        pytest.param(b"\x05\x02\x1c\x00"[:2], id="cut"),
        pytest.param(b"\x05\x3f" + bytes(24), id="wider than allowed"),
        pytest.param(b"\x0b\x02\x1c", id="too large"),
        pytest.param(b"\x01\x02\x1c", id="too small"),
    ],
)
def test_columns_have_one_spelling(data: bytes) -> None:
    assert ByteReader(memoryview(b"\x05\x02\x1c")).column("column", 3, 2, 12).tolist() == [5, 6, 8]
    with refused("file", "damaged"):
        ByteReader(memoryview(data)).column("column", 3, 2, 12)
