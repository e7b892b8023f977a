"""Test the resolution of predictions, by SNR and size of the picture."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dipp import models
from dipp.core.geometry import Geometry
from dipp.core.steps import MAX_LEVEL
from dipp.models import embedded
from dipp.planning.levels import WORK, level_at, work
from dipp.planning.presets import default_bpp
from dipp.planning.sensing import GIVEN_UP, LARGE, RATE_SLACK, SensingPlanner
from dipp.planning.table import ErrorTable
from dipp.privacy.budget import Budget

SNRS = st.floats(1e-6, 1e3)
PIXELS = st.integers(1, 1 << 26)


def test_levels_of_photographs_have_the_documented_bounds() -> None:
    assert [level_at(snr, 512 * 768) for snr in (0.012, 0.011, 0.0014, 0.00017)] == [0, 1, 2, 3]
    assert [level_at(snr, 12_000_000) for snr in (0.4, 0.3, 0.04, 0.005, 1e-9)] == [0, 1, 2, 3, MAX_LEVEL]


def test_small_pictures_have_no_level() -> None:
    """A first step of ε = 0.5 already leads to a larger SNR."""
    assert level_at(0.002, 32 * 32) == 0


@given(SNRS, SNRS, PIXELS, PIXELS)
def test_levels_rise_with_the_size_and_fall_with_the_snr(snr: float, more: float, pixels: int, larger: int) -> None:
    level = level_at(max(snr, more), min(pixels, larger))
    assert 0 <= level <= level_at(min(snr, more), max(pixels, larger)) <= MAX_LEVEL


def test_work_is_a_quarter_at_each_level() -> None:
    pixels = 12_000_000
    assert work(np.array([[1.0, 0.3], [0.04, 0.005]]), pixels).tolist() == [[1, 1 / 4], [1 / 16, 1 / 64]]


def test_large_pictures_take_less_work_and_fewer_bits() -> None:
    """The largest tilts leave states of high SNR, which are predicted at the full resolution."""
    costs, schedule = ErrorTable.of_model(embedded.FOLDER), models.schedule(embedded.FOLDER)
    assert costs.residuals is not None
    plans = {}
    for height, width in ((512, 768), (3000, 4000)):
        geometry = Geometry(height, width, 3)
        planner = SensingPlanner(costs.residuals, schedule, geometry, 19, default_bpp(geometry.pixels), coarse=True)
        plans[height] = planner.choose(Budget.pure(4.0))
    small, large = plans[512], plans[3000]
    assert small.plan.work > 8
    assert large.plan.work * 12_000_000 <= WORK
    assert large.plan.work < large.plan.calls
    assert large.bpp <= 0.55 < 0.99 < small.bpp


def test_only_large_pictures_give_a_little_up_for_fewer_calls() -> None:
    costs, schedule = ErrorTable.of_model(embedded.FOLDER), models.schedule(embedded.FOLDER)
    assert costs.residuals is not None
    calls = []
    for side in (LARGE**0.5 - 1, LARGE**0.5):
        planner = SensingPlanner(costs.residuals, schedule, Geometry(int(side), int(side), 3), 19, 1.0, coarse=True)
        found = planner.choose(Budget.pure(4.0))
        best = max(point.psnr for point in planner.frontier(Budget.pure(4.0)) if point.bpp <= 1 + RATE_SLACK)
        assert best - GIVEN_UP <= found.psnr <= best
        calls.append(found.plan.calls)
    assert calls[0] == 19
    assert calls[1] <= 12


def test_the_default_rate_follows_from_the_size() -> None:
    assert default_bpp(1) == default_bpp(1 << 20) == 1
    assert default_bpp(1 << 24) == 0.5
