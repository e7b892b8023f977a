"""PrivUnitG in place of words: its answers tell more at a larger ε, and nothing of another picture."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.networks import tiny_denoiser

from dipp.codec.pictures import Pixels
from dipp.core.unit import Unit
from dipp.core.units import Cells, Picture
from dipp.planning.questions import candidates_of, step_of
from experiments.comparisons import chained


def pictures(count: int, seed: int) -> Pixels:
    """Return pictures of 16×16 with four colours each."""
    colours = np.random.default_rng(seed).integers(0, 256, (count, 2, 2, 3), np.uint8)
    return colours.repeat(8, axis=1).repeat(8, axis=2)


def released(unit: Unit, shape: tuple[int, ...], epsilon: float, private: Pixels) -> Pixels:
    recipe = candidates_of(4.0)
    steps = [step_of(recipe._replace(split=split, rounds=1 if i else 4), 4.0) for i, split in enumerate(shape)]
    generator = np.random.default_rng(3)
    return chained.released(steps, epsilon, unit, tiny_denoiser(size=16), pictures(200, 1), private, generator)


@pytest.mark.parametrize(("unit", "shape"), [(Cells(8), (1,)), (Cells(8), (1, 2)), (Picture(), (1, 1, 2))])
def test_a_picture_is_told_from_its_own_answers_alone(unit: Unit, shape: tuple[int, ...]) -> None:
    private = pictures(3, 2)
    before = released(unit, shape, 4.0, private)
    assert before.shape == private.shape
    private[2] = 255 - private[2]
    after = released(unit, shape, 4.0, private)
    np.testing.assert_allclose(after[:2].astype(int), before[:2], atol=1)
    assert (after[2] != before[2]).any()


@pytest.mark.parametrize("dims", [3, 48])
def test_answers_are_nearer_at_a_larger_epsilon_and_no_farther_than_the_mean(dims: int) -> None:
    generator = np.random.default_rng(5)
    public, private = generator.normal(0.2, np.linspace(0.05, 0.6, dims), (2, 3000, 4, dims))
    errors = [np.square(chained.answers(public, private, e, generator)[1] - private).mean() for e in (1.0, 8.0, 40.0)]
    assert errors[2] < errors[1] < errors[0] < 1.02 * private.var((0, 1)).mean()
    assert errors[2] < 0.5 * errors[0]


def test_the_answer_to_a_block_is_private() -> None:
    """Each answer depends on its own block; another block changes no other meaning."""
    generator = np.random.default_rng(5)
    public, private = generator.normal(0, 0.4, (2, 500, 1, 12))
    one = chained.answers(public, private, 4.0, np.random.default_rng(0))[1]
    private[7] = -private[7]
    two = chained.answers(public, private, 4.0, np.random.default_rng(0))[1]
    assert (one != two).any(axis=(1, 2)).nonzero()[0].tolist() == [7]
