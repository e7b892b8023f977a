"""Integrals of the Huber law exp(−ρ_k), ρ_k(t) = t²/2 up to k and k·|t| − k²/2 beyond, in closed form."""

from __future__ import annotations

import itertools
import math


def masses(k: float) -> tuple[float, float]:
    """∫ exp(−ρ_k) over the centre |t| ≤ k, and over both tails together."""
    centre = math.sqrt(2 * math.pi) * math.erf(k / math.sqrt(2))
    return centre, 2 * math.exp(-(k**2) / 2) / k


def mean_potential(k: float, d: float) -> float:
    """E ρ_k(T + d) for T of density ∝ exp(−ρ_k) and d ≥ 0: a sum over the intervals between the kinks of both ρ_k."""
    centre, tails = masses(k)
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
    """∫ (a + b·t + c·t²)·exp(−ρ_k(t)) dt over an interval inside one piece of ρ_k."""
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
