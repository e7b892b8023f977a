"""Coded chains reach what the planner of sensing expects, on other pictures than the table was measured on.

All pictures are drawn from one Gaussian field (`helpers.sensing.waves`), and the denoiser is its Wiener filter, so that
there are as many public pictures as the statistics need. The gain that a step realises is q·(E[s·r]/E[r²])², with the
bits s that were really drawn for the touched share q, and the residuals r. The pictures are fixed; the bits are drawn
anew in every run.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
import torch
from helpers.sensing import WienerDenoiser, waves

from dipp.codec.chain import Chain, Indices, StepLayout
from dipp.codec.encoder import Selector
from dipp.core.geometry import Geometry
from dipp.core.signal import to_signal
from dipp.planning.planner import Point
from dipp.planning.residuals import Residuals
from dipp.planning.sensing import SensingPlanner
from dipp.privacy.budget import Budget
from dipp.training import sensing

SIDE = 16
SEED = bytes(16)

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_thread")]


@pytest.fixture(scope="module")
def residuals() -> Residuals:
    """Return residuals that `dipp calibrate` measures along one pass of each of two tilts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sensing, "TILTS", {0.5: 1, 2.0: 1})
        return sensing.sensing_residuals(WienerDenoiser(SIDE), [waves(512, SIDE, seed=1)], lambda _: None)


class ChainFigures(NamedTuple):
    """The measured gains of a coded chain, and the error of its expected picture."""

    gains: list[float]
    mse: float


def coded(point: Point, count: int) -> ChainFigures:
    """Code `count` further pictures along a plan, and return the measurements."""
    denoiser, pixels, gains = WienerDenoiser(SIDE), waves(count, SIDE, seed=2).reshape(count, -1), list[float]()
    x = to_signal(pixels)
    chain, select = (
        Chain(point.plan, denoiser, SEED, Geometry(SIDE, SIDE, 3)),
        Selector(point.plan, SEED, pixels, "cpu"),
    )
    state = chain.trajectory.start(SEED, chain.geometry)
    for number in range(len(point.plan.steps)):
        x_hat, layout = chain.trajectory.predict(number, state), chain.layout(number, range(count))
        rows = x_hat.permute(0, 2, 3, 1).reshape(len(x_hat), -1).expand(count, -1)
        indices = chosen(select, layout, rows)
        noise = chain.noise(layout, indices)
        order = layout.chunks.order
        signs = np.sign(noise.permute(0, 2, 3, 1).reshape(count, -1).numpy()[:, order])
        r = x - rows.numpy()
        told = float((signs * r[:, order]).mean())
        gains.append(len(order) / r.shape[1] * (told / float(np.square(r).mean())) ** 2)
        state = chain.trajectory.advance(number, state, x_hat, noise)
    last = chain.trajectory.expected(len(point.plan.steps), state).permute(0, 2, 3, 1).reshape(count, -1)
    return ChainFigures(gains, float(np.square(last.numpy() - x).mean()))


def chosen(select: Selector, layout: StepLayout, rows: torch.Tensor) -> Indices:
    return select(layout, rows[:, torch.tensor(layout.chunks.order)])


@pytest.mark.parametrize(("epsilon", "calls", "count"), [(1.0, 7, 4096), (4.0, 15, 1024)])
def test_planned_gains_are_realised(residuals: Residuals, epsilon: float, calls: int, count: int) -> None:
    """The sum of the gains and the error of the expected picture agree with the plan within 5 %.

    The sums came out at 0.975 and 0.983 of the plan, and the errors at 1.013 and 1.004; repeated with other bits they
    vary by a few thousandths.
    """
    schedule = WienerDenoiser(SIDE).schedule
    point = SensingPlanner(residuals, schedule, Geometry(SIDE, SIDE, 3), calls, 1.0).choose(Budget.pure(epsilon))
    assert point.plan.code.name == "pairs"
    found = coded(point, count)
    planned = 4 / 10 ** (point.psnr / 10)
    assert abs(found.mse / planned - 1) < 0.05
    assert abs(sum(found.gains) / point.snr - 1) < 0.05
