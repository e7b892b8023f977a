"""Steps of sensing that are predicted at a lower resolution."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from helpers.refusals import refused
from helpers.sensing import sensing_plan

from dipp.codec import trajectory
from dipp.codec.grids import averaged, squares
from dipp.codec.trajectory import Sensing
from dipp.codes import Pairs
from dipp.core.plan import Plan
from dipp.core.steps import MAX_LEVEL, SensingStep
from dipp.models.denoiser import Denoiser, Numbers
from dipp.models.evidence import Evidence


class EchoDenoiser(Denoiser):
    """A denoiser that returns the state that it is given, and records SNRs and sizes."""

    def __init__(self) -> None:
        self.asked: list[tuple[float, tuple[int, ...]]] = []

    def predict(self, evidence: Evidence, numbers: Numbers = Numbers.SENSING) -> Any:  # noqa: ARG002
        self.asked.append((evidence.level, tuple(evidence.state.shape)))
        return evidence.state


def steps_of(level: int) -> tuple[SensingStep, ...]:
    first, second = sensing_plan(Pairs()).steps[:2]
    return first, dataclasses.replace(second, level=level)


@pytest.mark.parametrize("level", range(MAX_LEVEL + 1))
def test_the_network_is_asked_for_means_at_their_snr(level: int) -> None:
    """A smooth state comes back nearly unchanged from averaging and interpolation, at any size."""
    denoiser, steps, side = EchoDenoiser(), steps_of(level), 2**level
    rows, columns = torch.linspace(-0.5, 0.5, 97), torch.linspace(0, 0.4, 103)
    state = (rows[:, None] + columns).expand(1, 3, -1, -1)
    answer = Sensing(steps, denoiser).predict(1, state)
    coarse = (1, 3, -(-97 // side), -(-103 // side))
    assert denoiser.asked == [(steps[0].snr_gain * side**2, coarse)]
    assert answer.shape == state.shape
    inside = (..., slice(2 * side, -3 * side), slice(2 * side, -3 * side))
    assert (answer - state)[inside].abs().max() < 1e-6


@pytest.mark.parametrize("planes", [("state",), ("state", "answer")])
def test_bands_of_rows_advance_as_the_whole(planes: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    chain, random = Sensing(steps_of(0), EchoDenoiser()), np.random.default_rng(0)
    monkeypatch.setattr(chain.denoiser, "planes", planes)
    groups = 3 if "answer" in planes else 1
    state, x_hat = (random.standard_normal((2, channels, 19, 7), np.float32) for channels in (3 * groups, 3))
    noise = np.sign(x_hat) * (x_hat > 1)
    whole = chain.advance(1, state.copy(), x_hat, noise)
    monkeypatch.setattr(trajectory, "BAND", 5 * 7)
    assert np.array_equal(chain.advance(1, state.copy(), x_hat, noise), whole)


def test_squares_at_the_edges_are_cut_off() -> None:
    values = torch.arange(15.0).reshape(1, 1, 3, 5)
    assert averaged(values, 2)[0, 0].tolist() == [[3, 5, 6.5], [10.5, 12.5, 14]]
    assert squares(5, 2).tolist() == [0, 2, 4, 5]
    assert np.array_equal(squares(4, 2), [0, 2, 4])


@pytest.mark.parametrize("level", [-1, MAX_LEVEL + 1, 1.0])
def test_levels_out_of_range_are_refused(level: int) -> None:
    with refused("level", "4"):
        steps_of(level)


def test_the_first_step_has_no_level() -> None:
    plan = sensing_plan(Pairs())
    with refused("level", "step"):
        Plan(plan.coding, tuple(dataclasses.replace(step, level=1) for step in plan.steps))
