"""The planes of answers that a network takes beside the state: last comparisons, and their outcomes."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from helpers.networks import SMALL, random_network
from helpers.sensing import sensing_plan

from dipp import models
from dipp.codec.chain import Chain, StepLayout
from dipp.codec.encoder import Selector
from dipp.codec.trajectory import Sensing
from dipp.core.geometry import Geometry
from dipp.models import photonet
from dipp.models.config import CHANNELS
from dipp.models.denoiser import Denoiser, Numbers
from dipp.models.evidence import Evidence, answered

SEED, SIZE = bytes(16), (12, 20)


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Denoiser:
    """Return a network with all planes."""
    folder = tmp_path_factory.mktemp("wide")
    config = dataclasses.replace(SMALL, planes=tuple(CHANNELS))
    photonet.write(folder, config, dict(random_network(config).named_parameters()))
    return models.load(folder)


def test_a_network_takes_the_last_comparison_of_each_coordinate(
    wide: Denoiser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planes equal a second account, which is kept coordinate by coordinate over two passes."""
    plan, geometry = sensing_plan(groups=2, steps=12), Geometry(*SIZE, 3)
    met, seen = list[Evidence](), list[tuple[np.ndarray, np.ndarray]]()
    own = type(wide).predict

    def predict(self: Denoiser, evidence: Evidence, numbers: Numbers = Numbers.SENSING) -> Any:
        met.append(copy.deepcopy(evidence))  # the chain goes on in the same memory
        return own(self, evidence, numbers)

    monkeypatch.setattr(type(wide), "predict", predict)
    pixels = np.random.default_rng(0).integers(0, 256, (2, geometry.coordinates), dtype=np.uint8)
    select = Selector(plan, SEED, pixels, "cpu")

    def choose(layout: StepLayout, x_hat: np.ndarray) -> np.ndarray:
        chosen = select(layout, x_hat)
        seen.append((np.array(layout.chunks.order), chain.noise(layout, chosen)))
        return chosen

    chain = Chain(plan, wide, SEED, geometry)
    state, _ = chain.run(range(2), choose)
    assert state.shape == (2, 9, *SIZE)
    chain.trajectory.expected(len(plan.steps), state)
    predictions = [np.zeros((2, 3, *SIZE)), *(own(wide, one) for one in met[:-1])]
    for steps in range(1, len(plan.steps) + 1):
        evidence = met[steps - 1]
        assert evidence.compared is not None
        assert evidence.answers is not None
        compared, answers = np.zeros((2, 2, 3, *SIZE))
        for number in range(steps):
            noise = seen[number][1]
            told = answered(noise, plan.steps[number].snr_gain, chain.trajectory.snr(number))  # type: ignore[attr-defined]
            asked = noise != 0
            compared = np.where(asked | (answers == 0), predictions[number], compared)
            answers = np.where(asked, told, answers)
        np.testing.assert_allclose(evidence.compared, compared, rtol=0, atol=1e-5)
        np.testing.assert_allclose(evidence.answers, answers, rtol=0, atol=1e-6)
        assert (answers != 0).mean() == pytest.approx(min(1, steps / 6), abs=0.1)


def test_the_state_is_that_of_networks_without_answers(wide: Denoiser) -> None:
    """The first planes of the state are the same in each step, and without answers there are no others."""
    steps = sensing_plan(groups=2, steps=6).steps
    told = Sensing(steps, wide)
    state = told.start(SEED, Geometry(*SIZE, 3))
    plain, noises = state[:, :3].copy(), np.random.default_rng(0).standard_normal((6, 1, 3, *SIZE), np.float32)
    for number, step in enumerate(steps):
        x_hat, noise = told.predict(number, state), noises[number] * (noises[number] > 0.5)
        before, gain = told.snr(number), step.snr_gain
        state = told.advance(number, state, x_hat, noise)
        plain = (before * plain + gain * x_hat + gain**0.5 * noise) / (before + gain)
        np.testing.assert_allclose(state[:, :3], plain, rtol=0, atol=1e-5)
        assert told.noisy(number + 1, state)[0].shape == (1, 3, *SIZE)


def test_answers_follow_residuals_as_closely_as_they_say() -> None:
    """The gain of a step with the share q is q·(E[s·r]/E[r²])², so √(g/q)·E[r²]^½ is the correlation of s and r."""
    generator = torch.Generator().manual_seed(0)
    snr = 2.0
    deviation = (0.2 / (1 + 20 * snr) ** 0.7) ** 0.5
    residual = deviation * torch.randn(1, 3, 200, 200, generator=generator)
    touched = torch.rand(residual.shape, generator=generator) < 0.1
    sign = torch.where(torch.rand(residual.shape, generator=generator) < torch.sigmoid(3 * residual / deviation), 1, -1)
    share = touched.float().mean()
    agreement = (sign * residual)[touched].mean()
    gain = share * (agreement / residual.square().mean()) ** 2
    answers = answered(sign * touched / share.sqrt(), gain, snr)
    correlation = agreement / residual.square().mean().sqrt()
    assert answers[touched].abs().mean().item() == pytest.approx(correlation.item(), rel=0.02)
    assert torch.equal(answers != 0, touched)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_predictions_that_are_not_finite_count_as_zero(
    wide: Denoiser, monkeypatch: pytest.MonkeyPatch, value: float
) -> None:
    """The states are those of a network that predicts 0, so nothing about a transcript can make an encoding fail."""
    plan, geometry = sensing_plan(groups=2, steps=6), Geometry(*SIZE, 3)
    indices = [np.zeros((1, count), np.int64) for count in plan.chunk_counts(geometry)]
    states = []
    for predicted in (value, 0.0):
        answer = np.full((1, 3, *SIZE), predicted, np.float32)
        monkeypatch.setattr(type(wide), "predict", lambda *_, answer=answer: answer.copy())
        states.append(Chain(plan, wide, SEED, geometry).run([0], lambda layout, _: indices[layout.number])[0])
    assert np.isfinite(states[0]).all()
    np.testing.assert_array_equal(*states)
