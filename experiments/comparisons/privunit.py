"""PrivUnitG [Asi, Feldman & Talwar, 2022]: a private Gaussian answer about a vector, with the least noise of its kind.

A unit vector u in d dimensions is released as (α·u + V)/E[α]. V is Gaussian of variance 1/d, orthogonal to u. α is a
Gaussian number of variance 1/d that is drawn above a threshold γ with probability p, and below it otherwise. Let q be
the probability that such a number lies below γ.

**Claim.** If p = e^ε·(1 − q)/(q + e^ε·(1 − q)), the release is ε-differentially private, and its mean is u.

*Proof.* Before it is scaled, the density at v is the Gaussian's times p/(1 − q) if ⟨v, u⟩ ≥ γ, and times (1 − p)/q
otherwise. So those of two vectors differ by at most p·q/((1 − p)·(1 − q)) = e^ε. V has mean 0. ∎

A vector of norm up to R is a part of a unit vector: x/R, and one coordinate more that makes the norm 1.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

Floats = NDArray[np.float64]

TRIED = np.linspace(-2, 12, 1401)
"""Thresholds γ to try, in units of 1/√d."""


class Law(NamedTuple):
    """The law of α in units of 1/√d."""

    threshold: float
    """γ·√d."""
    above: float
    """p: the probability that α is at least γ."""
    mean: float
    """E[α]·√d."""


def law(epsilon: float) -> Law:
    """Return the law with the largest mean, and so the least noise, at ε."""
    upper, lower = ndtr(-TRIED), ndtr(TRIED)
    above = 1 / (1 + lower / upper * math.exp(-epsilon))
    density = np.exp(-(TRIED**2) / 2) / math.sqrt(2 * math.pi)
    means = density * (above / upper - (1 - above) / lower)
    best = int(np.argmax(means))
    return Law(float(TRIED[best]), float(above[best]), float(means[best]))


def released(vectors: NDArray[Any], radius: float, epsilon: float, generator: np.random.Generator) -> Floats:
    """Return an unbiased private answer about each vector.

    Args:
        vectors: N × d; those of a norm above the radius are shortened to it.
        radius: R, public.
        epsilon: ε of each vector.
        generator: Draws the answers.

    Returns:
        N × d, whose coordinates have noise of about `variance`.
    """
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    inside = vectors / np.maximum(norms, radius)
    missing = np.sqrt(np.maximum(1 - np.square(inside).sum(1, keepdims=True), 0))
    unit = np.concatenate([inside, missing], axis=1)
    own, count = law(epsilon), len(unit)
    lower, share = ndtr(own.threshold), generator.random(count)
    is_above = generator.random(count) < own.above
    alpha = np.where(is_above, -ndtri(ndtr(-own.threshold) * share), ndtri(lower * share))
    noise = generator.normal(size=unit.shape)
    noise -= (noise * unit).sum(1, keepdims=True) * unit
    return np.asarray(radius * (alpha[:, None] * unit + noise)[:, :-1] / own.mean)


def variance(radius: float, epsilon: float) -> float:
    """Return about the variance of the noise of each coordinate: V has 1/d in each, which the scale multiplies."""
    return (radius / law(epsilon).mean) ** 2
