"""The mapping between pixels and [−1, 1]: one formula, the same for arrays and tensors, and its inverse."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from helpers.statistics import bounded
from hypothesis import given
from hypothesis import strategies as st

from dipp.core.signal import HALF, SIGNAL_OF_PIXEL, to_levels, to_signal

PIXELS = np.arange(256, dtype=np.uint8)


def test_the_signal_of_every_pixel() -> None:
    """The signal is v/127.5 − 1 in float64, rising from −1 to 1. Certificates rest on exactly these numbers."""
    assert SIGNAL_OF_PIXEL.dtype == np.float64
    assert SIGNAL_OF_PIXEL.tolist() == [v / 127.5 - 1 for v in range(256)]
    assert to_signal(PIXELS).tolist() == SIGNAL_OF_PIXEL.tolist()
    assert (SIGNAL_OF_PIXEL[0], SIGNAL_OF_PIXEL[-1]) == (-1.0, 1.0)
    assert (np.diff(SIGNAL_OF_PIXEL) > 0).all()
    assert not SIGNAL_OF_PIXEL.flags.writeable


def test_tensors_have_the_same_signal_in_float32() -> None:
    """One division and one subtraction, each rounded: within two units of 2^−24 of the exact value."""
    signal = to_signal(torch.from_numpy(PIXELS.copy()))
    assert signal.dtype == torch.float32
    assert np.abs(signal.double().numpy() - SIGNAL_OF_PIXEL).max() <= 2 * 2.0**-24
    assert signal.double().abs().max() <= 1


def test_every_pixel_value_survives_the_way_there_and_back() -> None:
    assert to_levels(SIGNAL_OF_PIXEL).astype(np.uint8).tolist() == PIXELS.tolist()
    assert to_levels(SIGNAL_OF_PIXEL.astype(np.float32)).astype(np.uint8).tolist() == PIXELS.tolist()
    assert to_levels(to_signal(torch.from_numpy(PIXELS.copy()))).to(torch.uint8).tolist() == PIXELS.tolist()


@bounded
@given(st.floats(allow_nan=False))
def test_levels_are_nearest_and_clipped(x: float) -> None:
    level = float(to_levels(np.array([x]))[0])
    exact = (min(max(x, -1.0), 1.0) + 1) * HALF
    assert level == int(level)
    assert 0 <= level <= 255
    assert abs(level - exact) <= 0.5
    assert float(to_levels(torch.tensor([x], dtype=torch.float64))[0]) == level


@pytest.mark.parametrize("x", [-math.inf, -7.0, 7.0, math.inf])
def test_signals_far_outside_become_black_or_white(x: float) -> None:
    assert to_levels(np.array([x])).tolist() == [0.0 if x < 0 else 255.0]


def test_the_mapping_keeps_shapes() -> None:
    picture = np.zeros((2, 3, 4), np.uint8)
    assert to_signal(picture).shape == to_levels(to_signal(picture)).shape == picture.shape
