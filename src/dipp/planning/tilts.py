"""How far a budget lets a sensing step tilt: the largest V that a pixel can pay for, by the price of each code."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from dipp.codes import Pairs
from dipp.core.code import Code
from dipp.privacy.budget import Budget

SAFE = 1 - 1e-9
"""Tilts are a little below what the budget allows, so that rounding cannot exceed it."""
MAX_PAIR_TILT = 19.0
"""V in nats of a pair, at most: a little below the `MAX_TILT` of pairs, and η is still below 0.004 nats."""
MAX_SEARCHED_TILT = 8.0
"""V in nats of a code that searches, at most: a larger one would tell nothing more, since 1 − tanh 8 is 2^−22."""


def largest_tilt(code: Code, touches: int, budget: Budget) -> float:
    """V: the largest tilt that a pixel can pay for so many times, in nats and before α is folded in."""
    pairs, affordable = isinstance(code, Pairs), []  # pure ε of a touch
    if budget.epsilon is not None:
        affordable.append(budget.epsilon / touches)
    if limit := budget.zcdp_limit:
        rho = limit / touches
        affordable.append(_inverse(lambda e: e * math.tanh(e / 2), rho) if pairs else math.sqrt(8 * rho))
    alpha, most = float(code.score_alpha), MAX_PAIR_TILT if pairs else MAX_SEARCHED_TILT
    largest = max(_pair_tilt(e) if pairs else _searched_tilt(e, alpha) for e in affordable)
    return float(np.nextafter(np.float32(min(most, largest * SAFE)), np.float32(0)))


def _pair_tilt(epsilon: float) -> float:
    """V of a pair that costs ε: half of it, less η."""
    # Twice the η of the thresholds, which is 2^−63·(1 + e^ε): large tilts have no room for it otherwise.
    return (epsilon - 2.0**-61 * math.exp(min(epsilon, 2 * MAX_PAIR_TILT))) / 2


def _searched_tilt(epsilon: float, alpha: float) -> float:
    """V of a selection by the exponential mechanism that costs ε: scores move by 2αV, and the sum of weights, too."""
    return epsilon / (4 * alpha)


def _inverse(function: Callable[[float], float], value: float) -> float:
    """The argument at which a rising function has a value, from below."""
    low, high = 0.0, 1.0
    while function(high) < value:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) <= value else (low, middle)
    return low
