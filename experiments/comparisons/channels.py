"""Logistic and Huber noise: two more certified channels. They cost more ε than the sign channel at equal quality.

Each is a `LocationChannel` and runs on every backend as it is. A file can name one
once its number is in `CHANNELS` of `dipp.core.channels`.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from dipp.core.channels import Floats, LocationChannel
from dipp.errors import DippError


@dataclass(frozen=True)
class Logistic(LocationChannel):
    """Logistic noise of unit variance: scale s = √3/π, L = 1/s = 1.814."""

    name, number = "logistic", 14

    @property
    def slope(self) -> float:
        """Return π/√3."""
        return math.pi / math.sqrt(3)

    def quantile(self, probability: Floats) -> Floats:
        """Return s·logit(p)."""
        return np.asarray(special.logit(probability), np.float64) / self.slope

    def potential(self, z: Floats) -> Floats:
        """Return 2·ln cosh(z/2s)."""
        half = np.abs(z) * self.slope / 2
        return 2 * (half + np.log1p(np.exp(-2 * half)) - math.log(2))

    def kl(self, shift: Floats) -> Floats:
        """Return δ·coth(δ/2) − 2 nats with δ = μ/s."""
        half = np.abs(np.asarray(shift, np.float64)) * self.slope / 2
        small = half < 1e-3
        safe = np.where(small, 1.0, half)
        return 2 * np.where(small, half**2 / 3, safe / np.tanh(safe) - 1) / math.log(2)


@dataclass(frozen=True)
class Huber(LocationChannel):
    """Density ∝ exp(−ρ_k(z/τ)): Gaussian up to k, exponential beyond, scaled to unit variance; L = k/τ."""

    k: float = 1.0
    name, number, parameter = "huber", 15, "k"

    def __post_init__(self) -> None:
        if not 1e-3 <= self.k <= 30:
            raise DippError(
                "k",
                f"must be from 0.001 to 30, got {self.k}",
                "take Laplace for a smaller k, and Gaussian for a larger one",
            )

    @property
    def _tau(self) -> float:
        """Return 1 over the standard deviation of the law with density ∝ exp(−ρ_k)."""
        k, (centre, tails) = self.k, _masses(self.k)
        edge = math.exp(-k * k / 2)
        second = centre - 2 * k * edge + 2 * edge * (k + 2 / k + 2 / k**3)
        return math.sqrt((centre + tails) / second)

    @property
    def slope(self) -> float:
        """Return k/τ."""
        return self.k / self._tau

    def quantile(self, probability: Floats) -> Floats:
        """Return a normal quantile in the centre, and exponential ones in the tails."""
        centre, tails = _masses(self.k)
        total = centre + tails
        side = np.sign(probability - 0.5)
        upper = np.minimum(probability, 1 - probability) * total
        outside = self.k - np.log(np.maximum(upper, 1e-300) / (tails / 2)) / self.k
        inside = -special.ndtri(
            np.clip((upper - tails / 2) / math.sqrt(2 * math.pi) + special.ndtr(-self.k), 1e-300, 0.5)
        )
        return np.asarray(side * np.where(upper < tails / 2, outside, inside) * self._tau, np.float64)

    def potential(self, z: Floats) -> Floats:
        """Return ρ_k(z/τ)."""
        return np.asarray(special.huber(self.k, z / self._tau), np.float64)

    def kl(self, shift: Floats) -> Floats:
        """Return E[ρ(Z + μ)] − E[ρ(Z)] nats, both in closed form (`_mean_potential`)."""
        return np.vectorize(self._kl_of_one)(np.asarray(shift, np.float64))  # type: ignore[no-any-return]

    def _kl_of_one(self, shift: float) -> float:
        return max(0.0, _mean_potential(self.k, abs(shift) / self._tau) - _mean_potential(self.k, 0.0)) / math.log(2)


# Integrals of the Huber law exp(−ρ_k), ρ_k(t) = t²/2 up to k and k·|t| − k²/2 beyond, in closed form.


def _masses(k: float) -> tuple[float, float]:
    """Return ∫ exp(−ρ_k) over the centre |t| ≤ k, and over both tails together."""
    centre = math.sqrt(2 * math.pi) * math.erf(k / math.sqrt(2))
    return centre, 2 * math.exp(-(k**2) / 2) / k


def _mean_potential(k: float, d: float) -> float:
    """Return E ρ_k(T + d) for T of density ∝ exp(−ρ_k) and d ≥ 0, as a sum over the intervals between kinks of ρ_k."""
    centre, tails = _masses(k)
    points = sorted({-math.inf, -k, k, -k - d, k - d, math.inf})
    total = 0.0
    for low, high in itertools.pairwise(points):
        middle = high - 1 if math.isinf(low) else low + 1 if math.isinf(high) else (low + high) / 2
        at = middle + d
        # ρ(t + d) = a + b·t + c·t² on this interval.
        if abs(at) <= k:
            a, b, c = d * d / 2, d, 0.5
        else:
            sign = math.copysign(1.0, at)
            a, b, c = sign * k * d - k * k / 2, sign * k, 0.0
        total += _moments(low, high, middle, k, a, b, c)
    return total / (centre + tails)


def _moments(low: float, high: float, middle: float, k: float, a: float, b: float, c: float) -> float:
    """Return ∫ (a + b·t + c·t²)·exp(−ρ_k(t)) dt over an interval inside one piece of ρ_k."""
    if abs(middle) <= k:
        mass = math.sqrt(math.pi / 2) * (math.erf(high / math.sqrt(2)) - math.erf(low / math.sqrt(2)))
        edge_low, edge_high = math.exp(-low * low / 2), math.exp(-high * high / 2)
        return a * mass + b * (edge_low - edge_high) + c * (mass + low * edge_low - high * edge_high)
    if middle < 0:
        low, high, b = -high, -low, -b

    def antiderivative(t: float) -> float:
        if math.isinf(t):
            return 0.0
        polynomial = a + b * t + c * t * t + (b + 2 * c * t) / k + 2 * c / k**2
        return -math.exp(k * k / 2 - k * t) * polynomial / k

    return antiderivative(high) - antiderivative(low)
