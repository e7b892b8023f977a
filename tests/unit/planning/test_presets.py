"""Test that presets keep their promises on the denoiser that ships."""

from __future__ import annotations

import pytest
from helpers.refusals import refused

from dipp import models
from dipp.errors import NoCertificateError
from dipp.models import embedded
from dipp.models.denoiser import Denoiser
from dipp.planning import presets
from dipp.planning.presets import PRESETS, Preset
from dipp.planning.sensing import LEAST_GAIN, RATE_SLACK
from dipp.planning.table import ErrorTable
from dipp.privacy.budget import Budget
from experiments.comparisons.unclipped import UNCLIPPED


@pytest.fixture(scope="module")
def denoiser() -> Denoiser:
    return models.load(embedded.FOLDER)


@pytest.fixture(scope="module")
def table() -> ErrorTable:
    return ErrorTable.of_model(embedded.FOLDER)


@pytest.mark.parametrize("preset", PRESETS.values(), ids=PRESETS.keys())
def test_presets_with_a_certificate_take_one_of_three_budgets(preset: Preset) -> None:
    given = [(1.0, None, None), (1.0, 1e-6, None), (None, None, 0.5)]
    invalid = [(None, 1e-6, None), (1.0, None, 0.5)]
    if preset.certified:
        assert [preset.budget(*numbers) for numbers in given] == [
            Budget.pure(1.0),
            Budget.approximate(1.0, 1e-6),
            Budget.zcdp(0.5),
        ]
        for numbers in [*invalid, (None, None, None)]:
            with refused("budget", "epsilon"):
                preset.budget(*numbers)
    else:
        assert preset.budget(None, None, None) is None
        for numbers in [*given, *invalid]:
            with refused("preset", "budget", kind=NoCertificateError):
                preset.budget(*numbers)


@pytest.mark.parametrize("epsilon", [1.0, 16.0, 64.0])
@pytest.mark.parametrize(
    ("preset", "slack"), [(UNCLIPPED["sharp"], 0.0), (PRESETS["swift"], LEAST_GAIN)], ids=["unclipped", "swift"]
)
def test_a_looser_budget_never_costs_quality(
    preset: Preset, slack: float, epsilon: float, denoiser: Denoiser, table: ErrorTable
) -> None:
    """A frontier of sensing leaves out points that are better by less than `LEAST_GAIN`."""

    def best(budget: Budget) -> float:
        return max(point.psnr for point in preset.planner(denoiser, table, budget).frontier(budget))

    assert best(Budget.approximate(epsilon, 1e-6)) >= best(Budget.pure(epsilon)) - slack


@pytest.mark.slow
def test_only_sensing_has_a_default_rate(denoiser: Denoiser, table: ErrorTable) -> None:
    """It is 1 bit per pixel for sharp and swift; diffc needs a rate or a timestep."""
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
    with refused("bpp", remedy="--bpp"):
        diffc.choose(None)


def test_an_unknown_preset_is_refused() -> None:
    with refused("preset", "blunt"):
        presets.preset("blunt")
