"""Levels: the resolution of predictions, by SNR and size."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dipp.core.steps import MAX_LEVEL
from dipp.planning.levels import level_at

SNRS = st.floats(1e-6, 1e3)
PIXELS = st.integers(1, 1 << 26)


def test_levels_of_photographs() -> None:
    assert [level_at(snr, 512 * 768) for snr in (0.04, 0.034, 0.004, 0.0005)] == [0, 1, 2, 3]
    assert [level_at(snr, 12_000_000) for snr in (0.4, 0.3, 0.04, 0.005, 1e-9)] == [0, 1, 2, 3, MAX_LEVEL]


def test_small_pictures_have_no_level() -> None:
    """A first step of ε = 0.5 already leads to a larger SNR."""
    assert level_at(0.002, 32 * 32) == 0


@given(SNRS, SNRS, PIXELS, PIXELS)
def test_levels_rise_with_the_size_and_fall_with_the_snr(snr: float, more: float, pixels: int, larger: int) -> None:
    level = level_at(max(snr, more), min(pixels, larger))
    assert 0 <= level <= level_at(min(snr, more), max(pixels, larger)) <= MAX_LEVEL
