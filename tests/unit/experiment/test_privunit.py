"""PrivUnitG, a rival: its answers are unbiased, and its odds are as claimed."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ndtr

from experiments.comparisons import privunit


@pytest.mark.parametrize("epsilon", [0.5, 4.0, 16.0])
def test_the_odds_of_two_vectors_are_those_of_epsilon(epsilon: float) -> None:
    own = privunit.law(epsilon)
    below = ndtr(own.threshold)
    odds = own.above / (1 - below) * below / (1 - own.above)
    assert math.log(odds) == pytest.approx(epsilon)


def test_answers_are_unbiased_and_as_noisy_as_stated() -> None:
    vectors = np.tile(np.linspace(-0.2, 0.3, 24), (20_000, 1))
    answers = privunit.released(vectors, 2.0, 4.0, np.random.default_rng(0))
    noise = privunit.variance(2.0, 4.0)
    assert np.abs(answers.mean(0) - vectors[0]).max() < 6 * math.sqrt(noise / len(vectors))
    assert answers.var(0) == pytest.approx(np.full(24, noise), rel=0.1)


def test_long_vectors_are_shortened() -> None:
    answers = privunit.released(np.full((20_000, 4), 3.0), 1.0, 8.0, np.random.default_rng(0))
    assert answers.mean(0) == pytest.approx(np.full(4, 0.5), abs=0.03)
