"""Compute (ε, δ) of draws whose privacy losses have known laws, from the distribution of the sum of the losses.

A unit takes part in several draws. Each has a law of the privacy loss, for the two contents of the unit that are
easiest to tell apart (`core.price.Loss`). Let L be the sum of independent losses, one by the law of each draw. It
dominates any adaptive composition of the draws [Zhu, Dong & Wang, 2022, Theorem 10]. So all draws together are
(ε, δ)-differentially private with

    δ(ε) = E[max(0, 1 − e^(ε − L))].

Several units that share no draw pay for all of their draws together, by the same formula.

**Rounding.** δ(ε) grows with every loss and every probability, and has nonnegative terms only. Losses of several laws
may cancel, so every sum of losses is raised by 2^−48 of the largest sum. That is enough: the ε of a law lies above its
true value by less than 2^−49 of itself, which lowers what is subtracted, and at most 12 roundings by 2^−53 follow. Sums
and products of nonnegative floats have a relative error of at most 2^−52 for each operation, and fewer than 2^15
operations meet in a term: δ is raised by 2^−30 of itself, and by 2^−900 for what underflows. The result is the upper
end of a bisection, at which this raised δ(ε) is no larger than δ. So it is an upper bound on any platform; its last
digits may differ from one platform to another.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from dipp.core.price import Loss
from dipp.errors import DippError

Floats = NDArray[np.float64]

MAX_DRAWS = 1 << 13
"""Largest number of draws of one law that are summed."""
MAX_SUMS = 1 << 18
"""Largest number of different sums of losses."""
HALVINGS = 60


def epsilon_of_draws(draws: Mapping[Loss, int], delta: float) -> float:
    """Return the smallest ε such that all draws together are (ε, δ)-differentially private, rounded up.

    Args:
        draws: The laws of the privacy loss, each with its number of draws.
        delta: δ, between 0 and 1.

    Returns:
        ε; infinity if there are too many draws or laws to sum (`MAX_DRAWS`, `MAX_SUMS`).

    Raises:
        DippError: `delta` is not between 0 and 1.

    """
    if not 0 < delta < 1:
        raise DippError("delta", f"must be between 0 and 1, got {delta}")
    sums = math.prod(2 * count + 1 for count in draws.values())
    if sums > MAX_SUMS or max(draws.values(), default=0) > MAX_DRAWS:
        return math.inf
    return _smallest(tuple(sorted(draws.items())), delta)


@functools.lru_cache(maxsize=1024)
def _smallest(draws: tuple[tuple[Loss, int], ...], delta: float) -> float:
    losses, probabilities = np.zeros(1), np.ones(1)
    for law, count in draws:
        steps, masses = np.arange(-count, count + 1), _powers(law, count)
        losses = np.add.outer(losses, steps * law.epsilon).reshape(-1)
        probabilities = np.multiply.outer(probabilities, masses).reshape(-1)
    losses += losses.max() * 2.0**-48
    positive = losses > 0
    losses, probabilities = losses[positive], probabilities[positive]

    def raised(epsilon: float) -> float:
        """Return δ(ε), rounded up."""
        excess = -np.expm1(np.minimum(epsilon - losses, 0))
        return math.fsum((excess * probabilities).tolist()) * (1 + 2.0**-30) + 2.0**-900

    if raised(0.0) <= delta:
        return 0.0
    low, high = 0.0, float(losses.max())
    if raised(high) > delta:  # δ is below what underflows
        return math.inf
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if raised(middle) <= delta else (middle, high)
    return high


def _powers(law: Loss, count: int) -> Floats:
    """Return the probability of each sum −count·ε, …, count·ε of independent losses, by repeated squaring."""
    power = np.array([float(law.drops), float(1 - law.drops - law.gains), float(law.gains)])
    masses = np.ones(1)
    while count:
        if count & 1:
            masses = np.convolve(masses, power)
        power, count = np.convolve(power, power) if count > 1 else power, count >> 1
    return masses
