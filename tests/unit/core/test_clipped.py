"""Clipped shifts: what a coordinate can move them by, how many digits they have, and what is no number counts as 0."""

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


def predictions(own: Arithmetic, seed: int) -> NDArray[np.float64]:
    """Many public predictions: everywhere, far outside, at the ends, and such as are no numbers."""
    generator = np.random.default_rng(seed)
    ends = np.array([-1.0, 0.0, 1.0, 7.0, -1e30, *NOT_NUMBERS])
    edges = (own.level_of_one - own.limit) / own.unit
    return np.concatenate([ends, [edges, -edges], generator.uniform(-1.2, 1.2, 120)])


@bounded
@given(tilts, widths, alphas, st.integers(0, 99))
@example(1.0, 4.0, Fraction(1), 0)  # a clip that no residual reaches
@example(1.0, 0.125, Fraction(1), 0)
@example(float32(2e-3), 1.0, Fraction(2), 0)
def test_no_pixel_moves_a_shift_further_than_its_sensitivity(
    tilt: float, width: float, alpha: Fraction, seed: int
) -> None:
    """D = min(2A(1), 2M), over all 256 values and many centres: reached at mid-grey, and never exceeded."""
    own = clipped(tilt, width, alpha)
    assert own.largest_shift is not None
    assert own.sensitivity == min(2 * own.level_of_one, 2 * own.largest_shift)
    spreads = []
    for x_hat in predictions(own, seed):
        shifts = own.shifts(SIGNAL_OF_PIXEL, np.full(256, x_hat)).astype(np.int64)
        assert np.abs(shifts).max() <= own.limit <= own.largest_shift
        assert (np.diff(shifts) >= 0).all()
        spreads.append(int(shifts.max() - shifts.min()))
    assert max(spreads) == own.sensitivity
    at_grey = own.shifts(SIGNAL_OF_PIXEL, np.zeros(256))
    assert int(at_grey.max()) - int(at_grey.min()) == own.sensitivity


@bounded
@given(tilts, widths, alphas)
@example(float32(512 * math.log(2) / 2**15), 1.0, Fraction(1))
@example(float32(2e-3), 1.0, Fraction(1))
@example(float32(2e-3), 1.0, Fraction(2))
@example(19.0, 0.001, Fraction(1))
def test_the_clip_has_digits_enough_and_is_never_above_its_real_number(
    tilt: float, width: float, alpha: Fraction
) -> None:
    """512 ≤ M < 1024 wherever the tables allow it, S being the smallest such; M and A(1) are real numbers, cut off."""
    own = clipped(tilt, width, alpha)
    cap = selection.MAX_FRACTION_BITS - max(0, math.ceil(math.log2(alpha)))
    with mpmath.workdps(60):
        bits = mpmath.mpf(alpha.numerator) / alpha.denominator * mpmath.mpf(tilt) / mpmath.log(2)
        largest = bits * 2**own.fraction_bits
        slope = largest / mpmath.mpf(width)
        assert own.largest_shift is not None
        assert largest - 1 < own.largest_shift <= largest
        assert slope - 1 < own.level_of_one <= slope
        assert own.largest_shift < MAX_LEVEL
        assert own.largest_shift >= MIN_CLIP or own.fraction_bits == cap
        assert own.fraction_bits == 0 or largest / 2 < MIN_CLIP
    assert 0 <= own.fraction_bits <= cap
    assert MIN_CLIP == 512
    assert MAX_LEVEL == 1024


def test_pinned_integers_of_clipped_steps() -> None:
    """S, M, A(1) and D are part of what a file promises."""
    steps = (clipped(2.0, 0.25), clipped(0.25, 0.5), clipped(0.25, 2.0), clipped(4.0, 0.0625, Fraction(2)))
    found = [(one.fraction_bits, one.largest_shift, one.level_of_one, one.sensitivity) for one in steps]
    # V/ln 2 = 2.8854, 0.36067 and (α = 2) 11.5416 bits, times 2^S: 738.66, 738.66, 738.66; A(1) is M over the width.
    assert found == [(8, 738, 2954, 1476), (11, 738, 1477, 1476), (11, 738, 369, 738), (6, 738, 11818, 1476)]


def test_without_a_clip_nothing_has_changed() -> None:
    own = Arithmetic(Sign(3), 0.03)
    assert (own.largest_shift, own.clip) == (None, None)
    assert own.limit == own.sensitivity == 2 * own.level_of_one
    shifts = np.array([-5000, 3, 5000], np.int32)
    assert own.clipped(shifts).tolist() == shifts.tolist()


@bounded
@given(tilts, widths, st.lists(st.floats(-1, 1), min_size=1, max_size=30), st.lists(st.floats(-2, 2), min_size=1))
def test_shifts_are_clipped_differences(tilt: float, width: float, x: list[float], public: list[float]) -> None:
    own = clipped(tilt, width)
    values, x_hat = np.array(x), np.resize(np.array(public), len(x))
    exact = own.levels(values).astype(int) - own.centres(x_hat)
    most = own.largest_shift or 0
    assert own.shifts(values, x_hat).tolist() == [max(-most, min(most, one)) for one in exact.tolist()]
    assert own.shifts(values, x_hat).dtype == np.int32
    tensor = own.clipped(torch.tensor(exact.astype(np.int32)))
    assert tensor.dtype == torch.int32
    assert tensor.tolist() == own.shifts(values, x_hat).tolist()


@bounded
@given(
    tilts,
    widths,
    st.lists(st.one_of(st.floats(-1.5, 1.5, width=32), st.floats(width=32)), min_size=1, max_size=40),
)
def test_both_paths_have_the_same_centres_and_what_is_no_number_is_zero(
    tilt: float, width: float, public: list[float]
) -> None:
    """NumPy's on the host and torch's where the prediction lies; halves are rounded alike."""
    own = clipped(tilt, width)
    halves = (np.arange(-4, 4) + 0.5) / own.unit
    x_hat = np.array([*public, *halves, *NOT_NUMBERS], np.float32)
    private = np.arange(len(x_hat)).astype(np.int32)
    layout: Any = SimpleNamespace(arithmetic=own)
    host, other = own.centres(x_hat), private - _minus(private, layout, torch.from_numpy(x_hat)).numpy()
    assert other.tolist() == host.tolist()
    assert host[~np.isfinite(x_hat)].tolist() == [0] * int((~np.isfinite(x_hat)).sum())
    assert np.abs(host).max() <= own.level_of_one
    inside = np.abs(own.unit * x_hat.astype(np.float64)) <= own.level_of_one
    assert (np.abs(host - own.unit * x_hat.astype(np.float64))[inside] <= 0.5).all()


@pytest.mark.parametrize(
    ("tilt", "width", "word"),
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
def test_clips_that_cannot_be(tilt: float, width: float, word: str) -> None:
    with refused(word):
        clipped(tilt, width)


@bounded
@given(tilts, st.floats(math.log(1e-8), math.log(1e-3)).map(lambda v: float32(math.exp(v))))
def test_slopes_stay_within_32_bits(tilt: float, width: float) -> None:
    """Differences of levels do not overflow, however narrow a clip is."""
    try:
        own = clipped(tilt, width)
    except DippError as error:
        assume(str(error).startswith("clip"))
        return
    assert own.level_of_one < MAX_SLOPE
    for x_hat in (-1.0, 1.0):
        exact = own.levels(SIGNAL_OF_PIXEL).astype(np.int64) - int(own.centres(np.array([x_hat]))[0])
        most = own.largest_shift or 0
        assert own.shifts(SIGNAL_OF_PIXEL, np.full(256, x_hat)).tolist() == np.clip(exact, -most, most).tolist()
