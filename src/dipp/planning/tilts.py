"""How far a budget lets a sensing step tilt: the largest V that a unit can pay for, by the price of each code."""

from __future__ import annotations

import numpy as np

from dipp.core.code import Tilted
from dipp.privacy.budget import Budget

SAFE = 1 - 1e-9
"""Tilts are a little below what the budget allows, so that rounding cannot exceed it."""


def largest_tilt(code: Tilted, touches: int, budget: Budget) -> float:
    """Return V: the largest tilt, in nats and before α is folded in, that a unit can pay for `touches` times."""
    affordable = []  # pure ε of a touch
    if budget.epsilon is not None:
        affordable.append(budget.epsilon / touches)
    if limit := budget.zcdp_limit:
        affordable.append(code.pure(limit / touches))
    largest = max(map(code.tilt, affordable))
    return float(np.nextafter(np.float32(min(code.most_tilt, largest * SAFE)), np.float32(0)))
