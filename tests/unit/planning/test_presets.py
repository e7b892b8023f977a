"""Presets: what they promise, which sizes a budget has, and when a rival is taken, on the denoiser that ships."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from dipp import models
from dipp.errors import DippError, NoCertificateError
from dipp.models import embedded
from dipp.models.denoiser import Denoiser
from dipp.planning import presets
from dipp.planning.presets import PRESETS, UNCLIPPED, Preset, SteppedPreset
from dipp.planning.sensing import LEAST_GAIN, RATE_SLACK
from dipp.planning.table import ErrorTable
from dipp.privacy.budget import Budget


@pytest.fixture(scope="module")
def denoiser() -> Denoiser:
    return models.load(embedded.FOLDER)


@pytest.fixture(scope="module")
def table() -> ErrorTable:
    return ErrorTable.of_model(embedded.FOLDER)


@pytest.mark.parametrize("preset", PRESETS.values(), ids=PRESETS.keys())
def test_a_budget_is_one_of_three_and_binds_what_has_a_certificate(preset: Preset) -> None:
    given = [(1.0, None, None), (1.0, 1e-6, None), (None, None, 0.5)]
    refused = [(None, 1e-6, None), (1.0, None, 0.5)]
    if preset.certified:
        assert [preset.budget(*one) for one in given] == [
            Budget.pure(1.0),
            Budget.approximate(1.0, 1e-6),
            Budget.zcdp(0.5),
        ]
        for one in [*refused, (None, None, None)]:
            with pytest.raises(DippError, match="one of epsilon, epsilon with delta, or rho is needed"):
                preset.budget(*one)
    else:
        assert preset.budget(None, None, None) is None
        for one in [*given, *refused]:
            with pytest.raises(NoCertificateError, match="so no budget can bind it; use another"):
                preset.budget(*one)


STEPPED = [*UNCLIPPED.values(), *(one for one in PRESETS.values() if isinstance(one, SteppedPreset))]


def test_every_preset_along_timesteps_has_sizes_for_any_budget() -> None:
    """Tiers start at 0 and ascend; the sizes of (ε, δ) are those of ε, and more ρ never takes those of a smaller ε."""
    assert [one.name for one in STEPPED] == ["sharp", "swift", "thrifty", "paper", "diffc"]
    for preset in STEPPED:
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
@pytest.mark.parametrize(
    ("preset", "slack"), [(UNCLIPPED["sharp"], 0.0), (PRESETS["swift"], LEAST_GAIN)], ids=["unclipped", "swift"]
)
def test_a_looser_budget_never_costs_quality(
    preset: Preset, slack: float, epsilon: float, denoiser: Denoiser, table: ErrorTable
) -> None:
    """A frontier of sensing leaves out what is better by less than `LEAST_GAIN`."""

    def best(budget: Budget) -> float:
        return max(point.psnr for point in preset.planner(denoiser, table, budget).frontier(budget))

    assert best(Budget.approximate(epsilon, 1e-6)) >= best(Budget.pure(epsilon)) - slack


def test_a_rival_needs_a_table_that_knows_it(denoiser: Denoiser, table: ErrorTable) -> None:
    budget, same = Budget.pure(16.0), np.ones(len(table.snrs))
    table = dataclasses.replace(table, inflation={"sharp": same, "thrifty": same})
    own = UNCLIPPED["sharp"].planner(denoiser, table, budget)
    assert own.rival is not None
    assert own.rival.coding == UNCLIPPED["thrifty"].coding
    old = dataclasses.replace(table, inflation={"sharp": same})
    assert UNCLIPPED["sharp"].planner(denoiser, old, budget).rival is None


def test_the_default_rate_is_that_of_sensing_alone(denoiser: Denoiser, table: ErrorTable) -> None:
    """1 bit per pixel for sharp and swift, unless a rate or a timestep is given; diffc must be told either."""
    budget, most = Budget.pure(64.0), presets.DEFAULT_BPP * (1 + RATE_SLACK)
    for name in ("sharp", "swift"):
        plans = PRESETS[name].planner(denoiser, table, budget)
        usual, free = plans.choose(budget), plans.choose(budget, bpp=1000.0)
        assert usual.bpp <= most < free.bpp
        assert usual.bound
        assert not free.bound
    beyond = max(point.snr for point in plans.frontier(budget) if point.bpp <= most)
    timestep = max(t for t in range(1000) if denoiser.schedule.snr(t) > beyond)
    ended = plans.choose(budget, final_timestep=timestep)
    assert ended.bpp > most
    assert not ended.bound
    paper = PRESETS["paper"].planner(denoiser, table, budget).choose(budget)
    assert paper.bpp > most
    assert not paper.bound
    diffc = PRESETS["diffc"].planner(denoiser, table, None)
    assert diffc.choose(None, bpp=3.0).bpp > most
    with pytest.raises(DippError, match="without a budget exactly one"):
        diffc.choose(None)


def test_a_preset_that_is_gone_gets_one_line() -> None:
    """It says what to use instead, and its old plans stay for comparisons."""
    with pytest.raises(DippError) as error:
        presets.preset("thrifty")
    assert str(error.value) == (
        "preset: thrifty is gone; sharp takes its code wherever that is the best within the rate: use sharp, with --bpp"
    )
    assert not set(presets.GONE) & set(PRESETS)
    assert presets.GONE.keys() <= UNCLIPPED.keys()


def test_an_unknown_preset_is_refused() -> None:
    with pytest.raises(DippError, match=r"^preset: one of sharp, swift, paper, diffc is needed, got blunt$"):
        presets.preset("blunt")
