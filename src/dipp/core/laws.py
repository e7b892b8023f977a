"""Integer laws: the integer score of a coordinate, from its 16-bit draw (or one bit of it) and its integer shift m.

These are the definitions that every scoring backend must reproduce bit for bit. Each score is 1-Lipschitz in m, except
the Gaussian one, which has no certificate; the proof stands beside each law.
"""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

Int32s = NDArray[np.int32]
Draws = NDArray[np.uint16]

KNOTS = 4096
"""Largest number of intervals between the knots in the table of a potential."""
LOG2_POLYNOMIAL = (1.47270969, 0.417699707, 1.27376185)
"""Coefficients of −log2(1 − x) ≈ x·(c1 + x·(c2 + x·c3)) on [0, ½]: within 9e-4 bits, and 1 at ½ up to rounding."""


@dataclass(frozen=True, eq=False)
class IntegerLaw(ABC):
    """The score of one coordinate as a function of its draw and its shift."""

    limit: int
    """Largest absolute value of a shift m."""

    @property
    def bound(self) -> int:
        """Bound on a coordinate's |score|. It is `limit`, because a score is 0 at m = 0 and 1-Lipschitz in m."""
        return self.limit

    @property
    def group_size(self) -> int:
        """Number of coordinates that share one 16-bit draw."""
        return 1

    @abstractmethod
    def score(self, draws: Draws, shifts: Int32s) -> Int32s:
        """Return the scores of coordinates, elementwise.

        Args:
            draws: The 16-bit draw of each coordinate; for the sign law, its bit 0 or 1.
            shifts: The shift m of each coordinate, int32 within ±`limit`.

        Returns:
            Scores as int32, counted in multiples of 2^−S bits.
        """


@dataclass(frozen=True)
class SignLaw(IntegerLaw):
    """The law of the sign channel: +m for bit 1, −m for bit 0. It is 1-Lipschitz in m."""

    @property
    def group_size(self) -> int:
        """16: sixteen coordinates share a draw, one bit each."""
        return 16

    def score(self, draws: Draws, shifts: Int32s) -> Int32s:
        """Return +m for bit 1 and −m for bit 0."""
        return np.where(draws.astype(bool), shifts, -shifts).astype(np.int32)


@dataclass(frozen=True)
class LaplaceLaw(IntegerLaw):
    """The law |z| − |z − m| with an integer Laplace variable z: 1-Lipschitz in m by the triangle inequality, for any z.

    The top bit of a draw is z's sign (set: positive); a negative z mirrors the other 15 bits, so z grows with the draw.
    The magnitude is the exponential quantile −log2(y/2^16) bits, y = 2^16 − (2t + 1) for the 15-bit t, in 16-bit
    integer arithmetic: y is doubled until its top bit is set (each doubling is one bit), and the rest is a cubic in
    1 − y/2^16. Until the end, the magnitude has `extra_bits` binary digits more than z. Beyond `limit` the exact value
    of z does not matter to any score, so sums saturate at 2^16 − 1 and `octaves` doublings are enough.
    """

    unit: int
    """The integer by which one bit of magnitude is counted: α·2^S·2^extra_bits, rounded."""
    extra_bits: int
    """Number of binary digits that magnitudes have beyond those of z until they are complete."""

    @classmethod
    def at(cls, alpha: Fraction, fraction_bits: int, limit: int) -> LaplaceLaw:
        """Return the law of a step, by which one bit of magnitude is a score of α·2^S.

        Args:
            alpha: α, by which the code multiplies scores.
            fraction_bits: S, the number of bits after the binary point of a score.
            limit: Largest absolute value of a shift.
        """
        exact = alpha * (1 << fraction_bits)
        spare = max(0, 15 - (math.ceil(exact) - 1).bit_length())
        extra = min(spare, 16 - (limit + 1).bit_length())
        return cls(limit=limit, unit=max(1, round(exact * (1 << extra))), extra_bits=extra)

    @property
    def octaves(self) -> int:
        """Number of doublings after which every magnitude exceeds the limit."""
        return min(15, -(-((self.limit + 1) << self.extra_bits) // self.unit))

    @property
    def coefficients(self) -> tuple[int, int, int]:
        """The coefficients of the cubic times `unit`, each below 2^16."""
        c1, c2, c3 = (round(c * self.unit) for c in LOG2_POLYNOMIAL)
        return c1, c2, c3

    @functools.cached_property
    def values(self) -> Int32s:
        """The variable z of each of the 2^16 draws, int32; inexact beyond the limit, where it changes no score."""
        draws = np.arange(1 << 16, dtype=np.uint32)
        positive = draws >= 1 << 15
        t = np.where(positive, draws, ~draws) & 0x7FFF
        y = 0xFFFF - 2 * t
        whole = np.zeros_like(y)
        for _ in range(self.octaves):
            small = y < 1 << 15
            whole = np.minimum(whole + np.where(small, self.unit, 0), 0xFFFF)
            y = np.where(small, 2 * y, y)
        g = 0xFFFF - y
        c1, c2, c3 = self.coefficients
        inner = np.minimum(((g * c3) >> 16) + c2, 0xFFFF)
        outer = np.minimum(((g * inner) >> 16) + c1, 0xFFFF)
        magnitude = np.minimum(whole + ((g * outer) >> 16), 0xFFFF) >> self.extra_bits
        z = magnitude.astype(np.int32)
        signed: Int32s = np.where(positive, z, -z)
        return signed

    def score(self, draws: Draws, shifts: Int32s) -> Int32s:
        """Return |z| − |z − m|."""
        z = self.values[draws]
        score: Int32s = np.abs(z) - np.abs(z - shifts)
        return score


@dataclass(frozen=True, eq=False)
class PotentialLaw(IntegerLaw):
    """The law Φ(z) − Φ(z − m) for an even integer potential Φ, linear between knots that lie 2^knot_bits apart.

    With h = knot_bits, the values of Φ at neighbouring knots of a certified channel differ by some d with |d| ≤ 2^h
    (`tabulate` sees to it). At a distance r beyond a knot, Φ is its value at the knot plus ⌊d·r/2^h⌋. So Φ moves by at
    most one between neighbouring integers, and |Φ(z − m) − Φ(z − m')| ≤ |m − m'|. Every |z − m| that can occur lies
    inside the table.
    """

    values: Int32s
    """z of each of the 2^16 draws, int32."""
    knots: Int32s
    """Φ at 0, 2^knot_bits, 2·2^knot_bits, …"""
    knot_bits: int
    """Knots lie 2^knot_bits apart."""

    @classmethod
    def tabulate(
        cls,
        noise: NDArray[np.float64],
        potential: Callable[[NDArray[np.float64]], NDArray[np.float64]],
        units_per_nat: float,
        unit_slope: float,
        limit: int,
        certified: bool,
    ) -> PotentialLaw:
        """Return the law of a potential φ and of noise values z, both as integers.

        Φ is ⌊units_per_nat·φ⌋ at the knots, and z is multiplied by units_per_nat·unit_slope.

        For a certified channel, a rise or fall from a knot to the next is cut at 2^knot_bits: rounding alone could
        exceed that.

        Args:
            noise: The noise values of the 2^16 draws, float64.
            potential: φ, in nats, as a function of noise values.
            units_per_nat: The score of one nat.
            unit_slope: The scale of integer shifts (`Channel.unit_slope`).
            limit: Largest absolute value of an integer shift.
            certified: Whether the channel has a certificate.
        """
        z_scale = units_per_nat * unit_slope
        values = np.rint(z_scale * noise).astype(np.int32)
        reach = int(np.abs(values).max()) + limit + 1
        knot_bits = max(0, math.ceil(math.log2(reach / KNOTS)))
        positions = np.arange((reach >> knot_bits) + 2, dtype=np.float64) * 2.0**knot_bits
        knots = np.floor(units_per_nat * potential(positions / z_scale) + 1e-9).astype(np.int32)
        if certified:
            moves = np.clip(np.diff(knots), -(1 << knot_bits), 1 << knot_bits)
            knots = np.concatenate([knots[:1], knots[0] + np.cumsum(moves)]).astype(np.int32)
        return cls(limit=limit, values=values, knots=knots, knot_bits=knot_bits)

    @property
    def bound(self) -> int:
        """Bound on the |score| of a coordinate: the steepest slope of Φ times the limit, rounded up."""
        steepest = int(np.abs(np.diff(self.knots.astype(np.int64))).max())
        return max(self.limit, -(-(steepest * self.limit) // (1 << self.knot_bits)))

    def phi(self, z: Int32s) -> Int32s:
        """Return Φ(z), elementwise."""
        size = np.abs(z)
        cell = size >> self.knot_bits
        low, high = self.knots[cell], self.knots[cell + 1]
        within = (size & ((1 << self.knot_bits) - 1)).astype(np.int64)
        phi: Int32s = (low + (((high - low) * within) >> self.knot_bits)).astype(np.int32)
        return phi

    def score(self, draws: Draws, shifts: Int32s) -> Int32s:
        """Return Φ(z) − Φ(z − m)."""
        z = self.values[draws]
        return self.phi(z) - self.phi(z - shifts)
