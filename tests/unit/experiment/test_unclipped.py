"""The presets without a clip: the sizes of each budget, and when the rival's plan is taken."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from helpers.geometry import of_pixels
from helpers.refusals import refused

from dipp import models
from dipp.models import embedded
from dipp.models.denoiser import Denoiser
from dipp.planning.planner import Planner, Sizes
from dipp.planning.table import ErrorTable
from dipp.privacy.budget import Budget
from dipp.privacy.certificate import Certificate
from experiments.comparisons.unclipped import SHARP, THRIFTY, UNCLIPPED, RivalledPlanner, rivalled


@pytest.fixture(scope="module")
def denoiser() -> Denoiser:
    return models.load(embedded.FOLDER)


@pytest.fixture(scope="module")
def table() -> ErrorTable:
    """Return the embedded table, with coded chains of the rival that err more than those of `sharp`."""
    plain, snrs = ErrorTable.of_model(embedded.FOLDER), np.array([0.01, 100.0])
    return plain.with_inflation("sharp", snrs, np.ones(2)).with_inflation("thrifty", snrs, np.full(2, 1.1))


def test_every_preset_has_sizes_for_any_budget() -> None:
    """(ε, δ) has the sizes of ε, and a larger ρ never has the sizes of a smaller ε."""
    assert list(UNCLIPPED) == ["sharp", "swift", "thrifty"]
    for name, preset in UNCLIPPED.items():
        assert preset.name == name
        tiers = {0.0: preset.sizes, **preset.tiers}
        assert list(tiers) == sorted(tiers)
        for epsilon in (1e-3, 1.0, 7.9, 8.0, 16.0, 32.0, 1e6):
            pure, more = Budget.pure(epsilon), Budget.approximate(epsilon, 1e-6)
            assert preset.sizes_for(pure) == preset.sizes_for(more)
            assert preset.sizes_for(pure) == tiers[max(tier for tier in tiers if tier <= epsilon)]
        order = [list(tiers.values()).index(preset.sizes_for(Budget.zcdp(rho))) for rho in (1e-6, 0.1, 2, 20, 1e6)]
        assert order == sorted(order)
        assert preset.sizes_for(None) == preset.sizes


def test_a_rival_needs_a_table_that_has_its_chains(denoiser: Denoiser, table: ErrorTable) -> None:
    budget = Budget.pure(16.0)
    own = UNCLIPPED["sharp"].planner(denoiser, table, budget)
    assert isinstance(own, RivalledPlanner)
    assert own.rival.coding == THRIFTY
    known = {"sharp": table.inflation["sharp"]}
    alone = UNCLIPPED["sharp"].planner(denoiser, replace(table, inflation=known), budget)
    assert not isinstance(alone, RivalledPlanner)


def planners(denoiser: Denoiser, table: ErrorTable) -> tuple[Planner, Planner]:
    return (
        Planner(denoiser.schedule, table, SHARP, "sharp", sizes=Sizes(17, 7.0)),
        Planner(denoiser.schedule, table, THRIFTY, "thrifty", sizes=Sizes(17, 4.0)),
    )


@pytest.mark.slow
@pytest.mark.parametrize("budget", [Budget.pure(16.0), None], ids=str)
def test_a_rival_is_taken_where_it_has_fewer_bits(budget: Budget | None, denoiser: Denoiser, table: ErrorTable) -> None:
    own, rival = planners(denoiser, table)
    ours, theirs = ({point.final_timestep: point for point in one.frontier(budget)} for one in (own, rival))
    points = rivalled(own, rival).frontier(budget)
    both = {point.final_timestep: point for point in points}
    assert len(both) == len(points)
    assert both.keys() == ours.keys() | theirs.keys()
    assert [point.snr for point in points] == sorted(point.snr for point in points)
    for timestep, point in both.items():
        assert point == min((one[timestep] for one in (ours, theirs) if timestep in one), key=lambda one: one.bits)
        lost = 10 * math.log10(1.1) if point.plan.coding == THRIFTY else 0.0
        assert point.psnr == pytest.approx(float(table.psnr(point.snr)) - lost, abs=1e-9)
    if budget is not None:  # near the best quality, only the planner's own plans are within the budget
        assert {point.plan.coding for point in points} == {SHARP, THRIFTY}
        assert points[-1].plan.coding == SHARP
        assert all(budget.allows(Certificate.of(point.plan, of_pixels(1024))) for point in points)


def test_the_rival_plans_for_the_same_images(denoiser: Denoiser, table: ErrorTable) -> None:
    own, rival = planners(denoiser, table)
    with refused("rival"):
        rivalled(own, replace(rival, geometry=of_pixels(64)))
