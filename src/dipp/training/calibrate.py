"""Calibration of a denoiser on public images: its errors on exact states, and on the states that coded chains reach.

Each selection falls a little short of its target, and the shortfall accumulates: the errors on a coded chain are larger
than those on exact states, and a plan made from the latter would give its chunks too few candidates. So public images
are really coded, along the plans of several ε, and the factor by which errors are larger goes into the table.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dipp.codec.chain import Chain, StepLayout
from dipp.codec.encoder import Selector
from dipp.core.arrays import Array, colours_last, host
from dipp.core.geometry import Geometry
from dipp.core.plan import Plan
from dipp.core.signal import to_signal
from dipp.models.denoiser import Denoiser
from dipp.planning.presets import PRESETS, SteppedPreset
from dipp.planning.table import ErrorTable, grid, measure
from dipp.privacy.budget import Budget
from dipp.training.sensing import GROUPS, SEED, TILTS, sensing_residuals

EPSILONS = (1.0, 4.0, 16.0, 64.0, 256.0)
"""Budgets (pure ε) of the plans along which images are coded."""
ROUNDS = 2
"""Rounds of coding: along plans made from exact states, then along plans that know the factors of the first round."""
NEIGHBOURS = 5
"""Points over which factors are averaged, because those of single plans are noisy."""

LOGGER = logging.getLogger(__name__)
CODED_STEPS = 10
"""Steps of a coded chain along timesteps, about."""

Pixels = NDArray[np.uint8]
Progress = Callable[[str], None]


def calibrate(
    denoiser: Denoiser,
    pixels: Pixels,
    provenance: dict[str, Any],
    progress: Progress = LOGGER.info,
    others: Sequence[Pixels] = (),
) -> ErrorTable:
    """Measure a denoiser on public images (N, H, W, C): its error table, with what presets of either kind need.

    Residuals of sensing are also measured on `others`, images of further sizes; every size counts as much.
    """
    x = denoiser.placed(np.moveaxis(to_signal(pixels).astype(np.float32), -1, 1))
    progress("exact states")
    facts = {"model": denoiser.identity, **provenance}
    table = measure(denoiser.x0, denoiser.schedule, x, SEED, provenance=facts)
    table = replace(table, residuals=sensing_residuals(denoiser, [pixels, *others], progress))
    for preset in _stepped():
        for number in range(ROUNDS):
            progress(f"coded chains of preset {preset.name}, {number + 1} of {ROUNDS}")
            table = _inflated(table, denoiser, preset, pixels)
    return table


def work(denoiser: Denoiser, pixels: Pixels, others: Sequence[Pixels] = ()) -> int:
    """Pixels that the network will predict for `calibrate`, about, for a progress bar (`models.watch`)."""
    first, *more = (int(math.prod(one.shape[:3])) for one in (pixels, *others))
    coded = len(_stepped()) * ROUNDS * len(EPSILONS) * CODED_STEPS
    sensed = GROUPS * sum(TILTS.values())
    return (len(grid(denoiser.schedule)) + coded + sensed) * first + sensed * sum(more)


def _stepped() -> list[SteppedPreset]:
    """The presets along timesteps that have a certificate."""
    return [preset for preset in PRESETS.values() if isinstance(preset, SteppedPreset) and preset.certified]


def coded_errors(plan: Plan, denoiser: Denoiser, pixels: Pixels) -> list[float]:
    """Mean squared errors of x̂0 at the end of each step of a chain that is really coded."""
    flat, met = pixels.reshape(len(pixels), -1), []
    select = Selector(plan, SEED, flat, denoiser.device.type)

    def choose(layout: StepLayout, x_hat: Array) -> Any:
        met.append(float(np.square(host(x_hat) - to_signal(flat[:, layout.chunks.order])).mean()))
        return select(layout, x_hat)

    chain = Chain(plan, denoiser, SEED, Geometry.of(pixels.shape[1:]))
    state, _ = chain.run(range(len(pixels)), choose)
    last = colours_last(chain.trajectory.expected(len(plan.steps), state))
    return [*met[1:], float(np.square(last - to_signal(pixels)).mean())]


def _inflated(table: ErrorTable, denoiser: Denoiser, preset: SteppedPreset, pixels: Pixels) -> ErrorTable:
    """The table with the factors by which errors on coded chains of a preset exceed those on exact states."""
    factors: dict[float, list[float]] = {}
    for budget in map(Budget.pure, EPSILONS):
        plans = preset.planner(denoiser, table, budget, Geometry.of(pixels.shape[1:]))
        if points := plans.frontier(budget):
            plan = points[-1].plan
            for step, error in zip(plan.steps, coded_errors(plan, denoiser, pixels), strict=True):
                snr = denoiser.schedule.snr(step.end)
                factors.setdefault(snr, []).append(error / float(table.mse(snr)))
    snrs = np.array(sorted(factors))
    logs = np.log([np.mean(factors[snr]) for snr in snrs])
    smooth = np.convolve(np.pad(logs, NEIGHBOURS // 2, mode="edge"), np.ones(NEIGHBOURS) / NEIGHBOURS, mode="valid")
    return table.with_inflation(preset.chains, snrs, np.exp(smooth))
