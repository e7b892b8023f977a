"""Presets: which sizes a budget has, and when a rival is taken, on the denoiser that ships."""

from __future__ import annotations

import dataclasses

import pytest

from dipp import models
from dipp.errors import DippError
from dipp.models import embedded
from dipp.models.denoiser import Denoiser
from dipp.planning import presets
from dipp.planning.presets import PRESETS
from dipp.planning.table import ErrorTable
from dipp.privacy.budget import Budget


@pytest.fixture(scope="module")
def denoiser() -> Denoiser:
    return models.load(embedded.FOLDER)


@pytest.fixture(scope="module")
def table() -> ErrorTable:
    return ErrorTable.of_model(embedded.FOLDER)


def test_every_preset_has_sizes_for_any_budget() -> None:
    """Tiers start at 0 and ascend; the sizes of (ε, δ) are those of ε, and more ρ never takes those of a smaller ε."""
    for preset in PRESETS.values():
        tiers = list(preset.tiers)
        assert tiers[0] == 0
        assert tiers == sorted(tiers)
        for epsilon in (1e-3, 1.0, 7.9, 8.0, 16.0, 32.0, 1e6):
            pure, more = Budget.pure(epsilon), Budget.approximate(epsilon, 1e-6)
            assert preset.sizes(pure) == preset.sizes(more)
            assert preset.sizes(pure) == preset.tiers[max(tier for tier in tiers if tier <= epsilon)]
        order = [list(preset.tiers.values()).index(preset.sizes(Budget.zcdp(rho))) for rho in (1e-6, 0.1, 2, 20, 1e6)]
        assert order == sorted(order)
        assert preset.sizes(None) == preset.tiers[0.0]


@pytest.mark.parametrize("epsilon", [1.0, 16.0, 64.0])
def test_a_looser_budget_never_costs_quality(epsilon: float, denoiser: Denoiser, table: ErrorTable) -> None:
    def best(budget: Budget) -> float:
        return max(point.psnr for point in PRESETS["sharp"].planner(denoiser, table, budget).frontier(budget))

    assert best(Budget.approximate(epsilon, 1e-6)) >= best(Budget.pure(epsilon))


def test_a_rival_needs_a_table_that_knows_it(denoiser: Denoiser, table: ErrorTable) -> None:
    budget = Budget.pure(16.0)
    own = PRESETS["sharp"].planner(denoiser, table, budget)
    assert own.rival is not None
    assert own.rival.coding == PRESETS["thrifty"].coding
    old = dataclasses.replace(table, inflation={"sharp": table.inflation["sharp"]})
    assert PRESETS["sharp"].planner(denoiser, old, budget).rival is None


def test_an_unknown_preset_is_refused() -> None:
    with pytest.raises(DippError, match="preset: one of sharp"):
        presets.preset("blunt")
