"""Tilts of sensing steps: the largest that a unit can pay for, and what the steps gain by theirs (`sensing`)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dipp.core.code import Tilted
from dipp.privacy.budget import Budget

Floats = NDArray[np.float64]

TINY = 1e-8
"""Least gain of a step, and least divergence: steps that touch nothing of a small picture have none."""
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


def deviation(r: Floats) -> Floats:
    """√E[r²] of rows of residuals."""
    return np.asarray(np.sqrt(np.square(r).mean(axis=-1)), np.float64)


def gain(r: Floats, theta: Floats, share: Floats | float, q: Floats | float) -> Floats:
    """ΔSNR of a step that meets the residuals r and tilts them by θ, for rows of both; `share` is κ·φ."""
    told = share * (r * np.tanh(theta)).mean(axis=-1)
    return np.asarray(np.maximum(q * (told / np.square(r).mean(axis=-1)) ** 2, TINY), np.float64)


def divergence(theta: Floats) -> Floats:
    """(θ·tanh θ − ln cosh θ)/ln 2: bits that a coin tilted by θ says."""
    log_cosh = theta + np.log1p(np.exp(-2 * theta)) - math.log(2)
    return np.asarray((theta * np.tanh(theta) - log_cosh) / math.log(2), np.float64)
