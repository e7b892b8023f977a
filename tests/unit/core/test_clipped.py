"""Clipped shifts: their sensitivity, their scale, and predictions that are not finite and count as 0."""

from __future__ import annotations

import math
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import mpmath
import numpy as np
import pytest
import torch
from helpers.refusals import refused
from helpers.statistics import bounded
from hypothesis import assume, example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from dipp.codec.encoder import _minus
from dipp.core import selection
from dipp.core.arithmetic import MAX_LEVEL, MIN_CLIP, Arithmetic, Clip
from dipp.core.channels import Sign
from dipp.core.price import MAX_SLOPE
from dipp.core.signal import SIGNAL_OF_PIXEL
from dipp.errors import DippError

NOT_NUMBERS = (math.nan, math.inf, -math.inf)


def float32(value: float) -> float:
    return float(np.float32(value))


tilts = st.floats(math.log(2e-3), math.log(19.0)).map(lambda v: float32(math.exp(v)))
widths = st.floats(math.log(1e-3), math.log(8.0)).map(lambda v: float32(math.exp(v)))
alphas = st.sampled_from([Fraction(1), Fraction(2), Fraction(3, 2), Fraction(1, 2)])


def clipped(tilt: float, width: float, alpha: Fraction = Fraction(1)) -> Arithmetic:
    return Arithmetic(Sign(12), 0.01, alpha, Clip(tilt, width))


def predictions(step: Arithmetic, seed: int) -> NDArray[np.float64]:
    """Return many public predictions: random ones, both ends, values far outside, NaN and infinities."""
    generator = np.random.default_rng(seed)
    ends = np.array([-1.0, 0.0, 1.0, 7.0, -1e30, *NOT_NUMBERS])
    edges = (step.level_of_one - step.limit) / step.unit
    return np.concatenate([ends, [edges, -edges], generator.uniform(-1.2, 1.2, 120)])


@bounded
@given(tilts, widths, alphas, st.integers(0, 99))
@example(1.0, 4.0, Fraction(1), 0)  # a clip that no residual reaches
@example(1.0, 0.125, Fraction(1), 0)
@example(float32(2e-3), 1.0, Fraction(2), 0)
def test_no_pixel_moves_a_shift_further_than_its_sensitivity(
    tilt: float, width: float, alpha: Fraction, seed: int
) -> None:
    """Over all 256 values and many centres, shifts move by at most D = min(2A(1), 2M), and by D at mid-grey."""
    step = clipped(tilt, width, alpha)
    assert step.largest_shift is not None
    assert step.sensitivity == min(2 * step.level_of_one, 2 * step.largest_shift)
    spreads = []
    for x_hat in predictions(step, seed):
        shifts = step.shifts(SIGNAL_OF_PIXEL, np.full(256, x_hat)).astype(np.int64)
        assert np.abs(shifts).max() <= step.limit <= step.largest_shift
        assert (np.diff(shifts) >= 0).all()
        spreads.append(int(shifts.max() - shifts.min()))
    assert max(spreads) == step.sensitivity
    at_grey = step.shifts(SIGNAL_OF_PIXEL, np.zeros(256))
    assert int(at_grey.max()) - int(at_grey.min()) == step.sensitivity


@bounded
@given(tilts, widths, alphas)
@example(float32(512 * math.log(2) / 2**15), 1.0, Fraction(1))
@example(float32(2e-3), 1.0, Fraction(1))
@example(float32(2e-3), 1.0, Fraction(2))
@example(19.0, 0.001, Fraction(1))
def test_the_scale_of_a_clip_is_fine_enough_and_rounds_down(tilt: float, width: float, alpha: Fraction) -> None:
    """S is the smallest value with 512 ≤ M < 1024, if the tables allow it; M and A(1) are truncated real numbers."""
    step = clipped(tilt, width, alpha)
    cap = selection.MAX_FRACTION_BITS - max(0, math.ceil(math.log2(alpha)))
    with mpmath.workdps(60):
        bits = mpmath.mpf(alpha.numerator) / alpha.denominator * mpmath.mpf(tilt) / mpmath.log(2)
        largest = bits * 2**step.fraction_bits
        slope = largest / mpmath.mpf(width)
        assert step.largest_shift is not None
        assert largest - 1 < step.largest_shift <= largest
        assert slope - 1 < step.level_of_one <= slope
        assert step.largest_shift < MAX_LEVEL
        assert step.largest_shift >= MIN_CLIP or step.fraction_bits == cap
        assert step.fraction_bits == 0 or largest / 2 < MIN_CLIP
    assert 0 <= step.fraction_bits <= cap
    assert MIN_CLIP == 512
    assert MAX_LEVEL == 1024


def test_integers_of_clipped_steps_are_pinned() -> None:
    """The certificate of a file follows from S, M, A(1) and D."""
    steps = (clipped(2.0, 0.25), clipped(0.25, 0.5), clipped(0.25, 2.0), clipped(4.0, 0.0625, Fraction(2)))
    integers = [(step.fraction_bits, step.largest_shift, step.level_of_one, step.sensitivity) for step in steps]
    # V/ln 2 = 2.8854, 0.36067 and (α = 2) 11.5416 bits, times 2^S: 738.66, 738.66, 738.66; A(1) is M over the width.
    assert integers == [(8, 738, 2954, 1476), (11, 738, 1477, 1476), (11, 738, 369, 738), (6, 738, 11818, 1476)]


def test_a_step_without_a_clip_leaves_shifts_as_they_are() -> None:
    step = Arithmetic(Sign(3), 0.03)
    assert (step.largest_shift, step.clip) == (None, None)
    assert step.limit == step.sensitivity == 2 * step.level_of_one
    shifts = np.array([-5000, 3, 5000], np.int32)
    assert step.clipped(shifts).tolist() == shifts.tolist()


@bounded
@given(tilts, widths, st.lists(st.floats(-1, 1), min_size=1, max_size=30), st.lists(st.floats(-2, 2), min_size=1))
def test_shifts_are_clipped_differences(tilt: float, width: float, x: list[float], public: list[float]) -> None:
    step = clipped(tilt, width)
    values, x_hat = np.array(x), np.resize(np.array(public), len(x))
    exact = step.levels(values).astype(int) - step.centres(x_hat)
    most = step.largest_shift or 0
    assert step.shifts(values, x_hat).tolist() == [max(-most, min(most, shift)) for shift in exact.tolist()]
    assert step.shifts(values, x_hat).dtype == np.int32
    tensor = step.clipped(torch.tensor(exact.astype(np.int32)))
    assert tensor.dtype == torch.int32
    assert tensor.tolist() == step.shifts(values, x_hat).tolist()


@bounded
@given(
    tilts,
    widths,
    st.lists(st.one_of(st.floats(-1.5, 1.5, width=32), st.floats(width=32)), min_size=1, max_size=40),
)
def test_numpy_and_torch_have_the_same_centres(tilt: float, width: float, public: list[float]) -> None:
    """NumPy on the host and torch on the device of the prediction round halves alike."""
    step = clipped(tilt, width)
    halves = (np.arange(-4, 4) + 0.5) / step.unit
    x_hat = np.array([*public, *halves, *NOT_NUMBERS], np.float32)
    private = np.arange(len(x_hat)).astype(np.int32)
    layout: Any = SimpleNamespace(arithmetic=step)
    host, other = step.centres(x_hat), private - _minus(private, layout, torch.from_numpy(x_hat)).numpy()
    assert other.tolist() == host.tolist()
    assert host[~np.isfinite(x_hat)].tolist() == [0] * int((~np.isfinite(x_hat)).sum())
    assert np.abs(host).max() <= step.level_of_one
    inside = np.abs(step.unit * x_hat.astype(np.float64)) <= step.level_of_one
    assert (np.abs(host - step.unit * x_hat.astype(np.float64))[inside] <= 0.5).all()


@pytest.mark.parametrize(
    ("tilt", "width", "argument"),
    [
        (0.0, 1.0, "clip"),
        (-1.0, 1.0, "clip"),
        (1.0, 0.0, "clip"),
        (math.nan, 1.0, "clip"),
        (math.inf, 1.0, "clip"),
        (1.0, math.nan, "clip"),
        (1.0, math.inf, "clip"),
        (1e-9, 1.0, "tilt"),
        (1e4, 1.0, "tilt"),
        (1.0, 1e-9, "clip"),
        (1.0, 1e9, "tilt"),
    ],
)
def test_impossible_clips_are_refused(tilt: float, width: float, argument: str) -> None:
    with refused(argument):
        clipped(tilt, width)


@bounded
@given(tilts, st.floats(math.log(1e-8), math.log(1e-3)).map(lambda v: float32(math.exp(v))))
def test_slopes_stay_within_32_bits(tilt: float, width: float) -> None:
    """Differences of levels do not overflow for the narrowest clips."""
    try:
        step = clipped(tilt, width)
    except DippError as error:
        assume(error.argument.startswith("clip"))
        return
    assert step.level_of_one < MAX_SLOPE
    for x_hat in (-1.0, 1.0):
        exact = step.levels(SIGNAL_OF_PIXEL).astype(np.int64) - int(step.centres(np.array([x_hat]))[0])
        most = step.largest_shift or 0
        assert step.shifts(SIGNAL_OF_PIXEL, np.full(256, x_hat)).tolist() == np.clip(exact, -most, most).tolist()
