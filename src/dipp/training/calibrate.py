"""Calibrate a denoiser: measure its errors on public images, on exact states and on states of coded chains.

Each selection falls a little short of its target, and the shortfalls accumulate. So errors on a coded chain are larger
than on exact states, and a plan that expects the latter gives its chunks too few candidates. Therefore, public images
are really coded, by plans of several ε, and the factor by which errors are larger goes into the table.
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
"""Rounds of coding. The plans of the first round expect exact states, those of the second know the first factors."""
NEIGHBOURS = 5
"""Number of neighbouring factors that are averaged, because single plans give noisy factors."""

LOGGER = logging.getLogger(__name__)
CODED_STEPS = 10
"""Estimated number of steps of a coded chain along timesteps."""

Pixels = NDArray[np.uint8]
Progress = Callable[[str], None]


def calibrate(
    denoiser: Denoiser,
    pixels: Pixels,
    provenance: dict[str, Any],
    progress: Progress = LOGGER.info,
    others: Sequence[Pixels] = (),
) -> ErrorTable:
    """Measure the error table of a denoiser, for presets along timesteps and presets of sensing.

    Args:
        denoiser: The denoiser.
        pixels: Public uint8 images (N, H, W, C).
        provenance: Facts that the table records, such as the name of the images.
        progress: Callback that receives what is being measured.
        others: Public images of further sizes, for residuals of sensing. All sizes have the same weight.

    Returns:
        The table: errors of presets along timesteps, and residuals of presets of sensing.
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
    """Return about how many pixels the network predicts in `calibrate`, for a progress bar (`models.watch`).

    Args:
        denoiser: The denoiser.
        pixels: uint8 pictures (N, H, W, C) of the denoiser's own size.
        others: Pictures of other sizes, an array for each.
    """
    first, *more = (int(math.prod(batch.shape[:3])) for batch in (pixels, *others))
    coded = len(_stepped()) * ROUNDS * len(EPSILONS) * CODED_STEPS
    sensed = GROUPS * sum(TILTS.values())
    return (len(grid(denoiser.schedule)) + coded + sensed) * first + sensed * sum(more)


def _stepped() -> list[SteppedPreset]:
    """Return the presets along timesteps that have a certificate."""
    return [preset for preset in PRESETS.values() if isinstance(preset, SteppedPreset) and preset.certified]


def coded_errors(plan: Plan, denoiser: Denoiser, pixels: Pixels) -> list[float]:
    """Code images (N, H, W, C) by a plan, and return the mean squared error of the prediction after each step."""
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
    """Return the table with new factors: errors on coded chains of a preset, divided by those of the table."""
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
