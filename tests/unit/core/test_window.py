"""Windows: the formula of levels, and what callers may write."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from helpers.refusals import refused
from hypothesis import given
from hypothesis import strategies as st

from dipp.core.window import FULL, LEAST, MOST, Window

ENDS = st.tuples(st.integers(LEAST, MOST), st.integers(LEAST, MOST)).filter(lambda ends: ends[0] < ends[1])


@given(ENDS, st.lists(st.integers(-(1 << 32), 1 << 32), min_size=1, max_size=20))
def test_levels_follow_the_formula(ends: tuple[int, int], values: list[int]) -> None:
    """The levels agree with exact rational arithmetic, and each level depends on its own value alone."""
    window = Window(*ends)
    share = [Fraction(255 * (min(max(value, ends[0]), ends[1]) - ends[0]), ends[1] - ends[0]) for value in values]
    levels = window.levels(np.array(values))
    assert levels.tolist() == [(2 * part + 1) // 2 for part in share]
    assert levels.dtype == np.uint8
    assert [int(window.levels(np.array([value]))[0]) for value in values] == levels.tolist()


@given(ENDS)
def test_the_ends_of_a_window_are_black_and_white(ends: tuple[int, int]) -> None:
    assert Window(*ends).levels(np.array(ends)).tolist() == [0, 255]


def test_levels_of_the_largest_64_bit_values() -> None:
    ends = np.array([0, (1 << 64) - 1], np.uint64)
    assert Window(-5, 9).levels(ends).tolist() == [91, 255]
    assert Window(-5, 9).levels(ends.view(np.int64)).tolist() == [91, 73]


def test_the_full_window_covers_sixteen_bits() -> None:
    values = np.arange(1 << 16)
    np.testing.assert_array_equal(FULL.levels(values), (values + 128) // 257)


@pytest.mark.parametrize(
    ("wanted", "window"),
    [
        (None, None),
        ("full", FULL),
        ("0:4095", Window(0, 4095)),
        ("-1024:3071", Window(-1024, 3071)),
        ((3, 4), Window(3, 4)),
        (np.array([3, 4]), Window(3, 4)),
        (FULL, FULL),
    ],
)
def test_a_window_is_read_from_each_form(wanted: Any, window: Window | None) -> None:
    assert Window.of(wanted) == window


@pytest.mark.parametrize("window", [FULL, Window(0, 4095), Window(-1024, 3071)])
def test_a_window_is_read_back_from_its_text(window: Window) -> None:
    assert Window.of(str(window)) == window


@pytest.mark.parametrize(
    "wanted",
    [
        "",
        "4095",
        "5:5",
        "9:1",
        "0:1e3",
        "auto",
        "0:٤",
        (1, 2, 3),
        4095,
        (0.5, 1),
        (1, 1),
        (0, 1 << 31),
        "0:99999999999",
    ],
)
def test_other_windows_are_refused_in_one_line(wanted: Any) -> None:
    with refused("window", "LOW:HIGH"):
        Window.of(wanted)
