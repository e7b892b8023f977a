"""Compute the largest tilt that a budget allows a sensing step, and the gain of a step by its tilt (`sensing`)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dipp.core.sensitivity import TiltedCode
from dipp.privacy.budget import Budget

Floats = NDArray[np.float64]

TINY = 1e-8
"""Least gain and least divergence of a step, for steps that touch nothing of a small picture."""
SAFE = 1 - 1e-9
"""Factor that lowers tilts, so that rounding cannot exceed the budget."""


def largest_tilt(code: TiltedCode, touches: int, budget: Budget) -> float:
    """Return the largest tilt, in nats and before it is multiplied by α, that the budget of a pixel allows.

    Args:
        code: The code of the steps.
        touches: Number of steps that touch the worst pixel.
        budget: The budget of a pixel.
    """
    affordable = []  # pure ε of one touch
    if budget.epsilon is not None:
        affordable.append(budget.epsilon / touches)
    if limit := budget.zcdp_limit:
        affordable.append(code.pure(limit / touches))
    largest = max(map(code.tilt, affordable))
    return float(np.nextafter(np.float32(min(code.most_tilt, largest * SAFE)), np.float32(0)))


def deviation(r: Floats) -> Floats:
    """Return √E[r²] of each row of residuals."""
    return np.asarray(np.sqrt(np.square(r).mean(axis=-1)), np.float64)


def gain(r: Floats, theta: Floats, share: Floats | float, q: Floats | float) -> Floats:
    """Return the SNR gain of a step that meets residuals r and tilts them by θ.

    Args:
        r: A row of residuals for each step.
        theta: The tilt of each residual, in nats.
        share: Fraction of its tilt that the code realises, times the factor of touched coordinates, for each step.
        q: Fraction of the coordinates that a step touches.
    """
    conveyed = share * (r * np.tanh(theta)).mean(axis=-1)
    return np.asarray(np.maximum(q * (conveyed / np.square(r).mean(axis=-1)) ** 2, TINY), np.float64)


def divergence(theta: Floats) -> Floats:
    """Return (θ·tanh θ − ln cosh θ)/ln 2, the divergence in bits of a coin tilted by θ from a fair one."""
    log_cosh = theta + np.log1p(np.exp(-2 * theta)) - math.log(2)
    return np.asarray((theta * np.tanh(theta) - log_cosh) / math.log(2), np.float64)
