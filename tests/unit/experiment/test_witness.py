"""Likelihoods of real files for two candidates, in batches, compared with the exact law of every outcome and code."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from helpers.geometry import of_pixels

from dipp import scoring
from dipp.audit.setting import AuditSubject, chain_of, plan_within
from dipp.codec.encoder import Selector
from dipp.core.geometry import Geometry
from dipp.core.steps import SensingStep
from dipp.planning.presets import SENSED
from dipp.privacy.certificate import Certificate
from experiments.cifar10.witness import Witness, _only, log_likelihoods

EPSILON, STEPS, SHAPE, IMAGES = 3.0, 5, (8, 8, 3), 3


def setting(number: int) -> tuple[Any, Any]:
    """Return a chain of sensing under one of the codes, and pictures of noise."""
    plan = plan_within(AuditSubject(SENSED[number], SensingStep.kind), EPSILON, STEPS, 16, 6)
    pixels = np.random.default_rng(0).integers(0, 256, (IMAGES, 8 * 8 * 3), np.uint8)
    return chain_of(plan, Geometry(*SHAPE), 7), pixels


@pytest.mark.parametrize("number", range(len(SENSED)), ids=[coding.code.name for coding in SENSED])
def test_likelihoods_are_those_of_the_exact_law(number: int) -> None:
    chain, pixels = setting(number)
    selector, on, met = Selector(chain.plan, chain.seed, pixels, "cpu"), scoring.backend("cpu"), 0

    def choose(layout: Any, x_hat: torch.Tensor) -> Any:
        nonlocal met
        indices = selector(layout, x_hat)
        if layout.chunks.count:
            task, code = selector.task(layout, x_hat), chain.plan.code
            found = log_likelihoods(code, task, indices.reshape(-1), on)
            laws = [outcome.log_law() for outcome in code.outcomes(scoring.Candidates(task, lambda: on))]
            exact = [law[index] for law, index in zip(laws, indices.reshape(-1), strict=True)]
            assert found == pytest.approx(exact, abs=1e-9)
            met += len(exact)
        return indices

    chain.run(range(IMAGES), choose)
    assert met >= IMAGES * STEPS


@pytest.mark.parametrize("number", range(len(SENSED)), ids=[coding.code.name for coding in SENSED])
def test_the_witness_adds_up_what_each_picture_tells(number: int) -> None:
    """Equal candidates tell nothing, the sign names the first candidate, and no pixel tells more than its ε."""
    chain, pixels = setting(number)
    others = pixels.copy()
    others[1:, :3] = 255 - others[1:, :3]  # one pixel of every picture except the first
    encoder, first, second = (Selector(chain.plan, chain.seed, one, "cpu") for one in (pixels, pixels, others))
    witness, reverse = Witness(encoder, first, second), Witness(encoder, second, first)

    def choose(layout: Any, x_hat: torch.Tensor) -> Any:
        """Return indices, after both witnesses have heard them."""
        indices = encoder(layout, x_hat)
        for one in (witness, reverse):
            one.hear(layout, x_hat, indices)
        return indices

    chain.run(range(IMAGES), choose)
    assert witness.ratios[0] == 0
    assert (witness.ratios[1:] != 0).all()
    assert np.array_equal(witness.ratios, -reverse.ratios)
    assert (np.abs(witness.ratios) <= Certificate.of(chain.plan, of_pixels(64)).epsilon).all()


def test_some_chunks_of_a_task_stay_in_the_memory_of_its_device() -> None:
    """A GPU backend moves its own tensors to the host, and nothing else."""
    chain, pixels = setting(0)
    selector, met = Selector(chain.plan, chain.seed, pixels, "cpu"), 0

    def choose(layout: Any, x_hat: torch.Tensor) -> Any:
        nonlocal met
        if layout.chunks.count > 1:
            task = selector.task(layout, x_hat)
            placed = dataclasses.replace(task, shifts=torch.from_numpy(task.shifts))
            last = np.array([task.chunks - 1])
            found = _only(placed, last).shifts
            assert isinstance(found, torch.Tensor)
            assert np.array_equal(found.numpy(), task.shifts[task.offsets[-2] :])
            met += 1
        return selector(layout, x_hat)

    chain.run(range(IMAGES), choose)
    assert met
