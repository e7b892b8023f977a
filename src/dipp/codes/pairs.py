"""Pairs: a code of one bit per coordinate, by randomised response against the prediction, without a search.

A chunk is one coordinate with the two antithetic candidates z = +1 and z = −1. Its integer shift m tilts the coin:

    P[+] = e^v/(e^v + e^−v) = 1/(1 + e^−2v),      v = m·ln 2/2^S nats,      |v| ≤ V

The index is the bit itself: 1 stands for +. One uniform 64-bit integer u from the operating system's generator decides,
bit = (u < T[m]), with the integer threshold T[m] = ⌊2^64·P[+]⌋ for m > 0, 2^64 − T[−m] for m < 0 and 2^63 for m = 0.

**Proof sketch of the price.** Let one coordinate move v by at most D ≤ 2V nats, so that v and v' = v − D lie in [−V,
V]. Without the rounding of T, ln P[+ | v] − ln P[+ | v'] is a difference of ln σ(2v), which is concave and rises: it is
largest at the lower end, v' = −V. By symmetry the same holds for −. So

    ε = ln[(1 + e^(2V))/(1 + e^(2(V − D)))] + η

which is 2V for the largest change of a clipped step (D = 2V), half of what the flat code pays for the same tilt.

*Rounding.* T is off by less than one unit, so each probability by less than 2^−64, relative to the smaller one at most
2^−64·(1 + e^(2V)); this enters once in P and once in P': η = 2^−63·(1 + e^(2V)). T rounds the larger probability down
and so the smaller one up: ln(1 + y) ≤ y bounds the one, and the other, which is at least ½, is off by 2^−63 at most.

*ρ.* The loss ranges over an interval of length 2D (from + to −), so ρ ≤ (2D + 2η)²/8 (`privacy.conversions`, 1). And
every ε-DP mechanism is a post-processing of randomised response with the same ε, whose Rényi divergences satisfy
(a − 1)·D_a = ln[cosh((a − ½)ε)/cosh(ε/2)]; ln cosh(ε·√w) is concave in w = (a − ½)², so its tangent at w = ¼ bounds it:
ρ ≤ ε·tanh(ε/2). The smaller of the two holds. It is *not* ε²/8, which belongs to a loss that ranges over ε.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dipp.core import randomness, selection
from dipp.core.channels import Channel, Sign
from dipp.core.code import INTEGERS, Floats, Indices, PublicCandidates, ScoredCandidates
from dipp.core.outcomes import Outcomes, Share
from dipp.core.price import Cost, Reach
from dipp.core.sensitivity import TiltedCode
from dipp.errors import DippError

MAX_TILT = 20.0
"""Largest V in nats: the unlikelier bit still has a probability of 2^−58, far above the 2^−64 of a threshold."""
DIGITS = 50
"""Number of decimal digits in the arithmetic of prices."""
UP = 1 + Decimal(2) ** -40
"""Factor by which prices are raised: far more than the operations here, and the last rounding to a float, can lose."""


@functools.lru_cache(maxsize=256)
def thresholds(largest: int, fraction_bits: int) -> NDArray[np.uint64]:
    """Return the threshold T[m] of each shift m = −largest … largest, uint64, by integer arithmetic alone.

    The threshold of m stands at position m + largest. 2^(−2m/2^S) is computed to 192 bits (`selection.power`), so that
    the quotient is rounded down exactly.

    Args:
        largest: Largest absolute value of a shift.
        fraction_bits: S: shifts are counted in multiples of 2^−S bits.
    """
    one = 1 << selection.POWER_BITS
    upper = [(one << 64) // (one + selection.power(2 * m, fraction_bits)) for m in range(1, largest + 1)]
    table = np.array([(1 << 64) - t for t in reversed(upper)] + [1 << 63] + upper, np.uint64)
    table.flags.writeable = False
    return table


@dataclass(frozen=True)
class Pairs(TiltedCode):
    """The code of one bit per coordinate, drawn by randomised response."""

    name, number = "pairs", 1
    columns = ()
    searches = False
    most_tilt = 19.0
    """Largest planned tilt in nats, a little below `MAX_TILT`: η is still below 0.004 nats."""
    drawn = (
        "one bit a coordinate, by randomised response against the public prediction, with integer thresholds",
        INTEGERS,
    )

    @property
    def alone(self) -> bool:
        """True, because a chunk is one coordinate."""
        return True

    @property
    def score_alpha(self) -> Fraction:
        """1, because the shifts alone decide the law."""
        return Fraction(1)

    def require_sizes(self, channel: Channel, chunk_size: int, index_bits: int) -> None:
        """Raise unless the channel is a sign channel and each chunk is one coordinate with an index of one bit."""
        if not isinstance(channel, Sign) or (chunk_size, index_bits) != (1, 1):
            raise DippError(
                "pairs",
                "need the sign channel, and chunks of one coordinate with an index of one bit, got "
                f"{channel.name}, {chunk_size} and {index_bits}",
            )

    def fitted(self, chunk_size: int, index_bits: int) -> tuple[int, int]:  # noqa: ARG002
        """Return chunks of one coordinate and indices of one bit."""
        return 1, 1

    def draw(self, scored: ScoredCandidates) -> Indices:
        """Draw one bit for each coordinate, each by a private 64-bit integer of its own."""
        limits = _limits(scored)
        drawn = np.frombuffer(randomness.private_bytes(8 * len(limits)), np.uint64)
        return (drawn < limits).astype(np.int64)

    def observe(self, indices: Indices, shared: PublicCandidates) -> Any:
        """Return the noise that the channel gives each bit; the index of a coordinate is its bit."""
        return shared.noise(indices)

    def eta(self, moved: Reach) -> float:
        """Return the nats that the rounding of the thresholds adds to ε, 2^−63·(1 + e^(2V)) for the largest tilt V."""
        _require_tilt(moved.largest, moved.fraction_bits)
        return _priced(moved).eta

    def charge(self, moved: Reach, touched: int = 1, apart: bool = True) -> Cost:
        """Return the price that the module's docstring proves; raise if coordinates of a pixel share a chunk."""
        if not apart and touched > 1:
            raise DippError("pairs", "have each coordinate in a chunk of its own")
        _require_tilt(moved.largest, moved.fraction_bits)
        price = _priced(moved)
        return Cost(touched * price.epsilon, touched * price.rho)

    def tilt(self, epsilon: float) -> float:
        """Return half of what is left of ε after twice the η of the thresholds, which matters for large tilts."""
        return (epsilon - 2.0**-61 * math.exp(min(epsilon, 2 * self.most_tilt))) / 2

    def pure(self, rho: float) -> float:
        """Return the ε with ε·tanh(ε/2) = ρ, rounded down."""
        low, high = 0.0, 1.0
        while high * math.tanh(high / 2) < rho:
            high *= 2
        for _ in range(80):
            middle = (low + high) / 2
            low, high = (middle, high) if middle * math.tanh(middle / 2) <= rho else (low, middle)
        return low

    def outcomes(self, scored: ScoredCandidates) -> list[Outcomes]:
        """Return the outcomes + and − of each coordinate, which the threshold divides."""
        return [Pair(threshold) for threshold in _limits(scored).tolist()]

    def log_weights(self, scored: ScoredCandidates) -> Floats:
        """Return ln P of both bits of each coordinate, up to a constant: −v and v for a shift of v nats."""
        return np.asarray(np.multiply.outer(scored.shifts(), [-1, 1]) * _nats(1, scored.fraction_bits), np.float64)


def _limits(scored: ScoredCandidates) -> NDArray[np.uint64]:
    """Return the threshold of each coordinate, below which the private integer gives the bit 1."""
    shifts, limit = scored.shifts(), scored.limit
    if len(scored.offsets) != len(shifts) + 1:
        raise DippError("offsets", "must give chunks of a single coordinate each for pairs")
    _require_tilt(limit, scored.fraction_bits)
    return thresholds(limit, scored.fraction_bits)[shifts + limit]


@dataclass(frozen=True)
class Pair(Outcomes):
    """The outcomes of one coordinate: + (index 1) with probability threshold/2^64, otherwise − (index 0)."""

    threshold: int
    """The private 64-bit integers below this give +; from 1 to 2^64 − 1."""
    total = 1 << 64

    def log_law(self) -> Floats:
        """Return the logarithms of both probabilities; each is a quotient before its logarithm, so no digits cancel."""
        shares = [(self.total - self.threshold) / self.total, self.threshold / self.total]
        return np.asarray(np.log(shares), np.float64)

    def share(self, integer: int) -> Share:
        """Return the integers on the same side of the threshold."""
        if integer < self.threshold:
            return Share(1, 0, self.threshold)
        return Share(0, self.threshold, self.total)

    @staticmethod
    def private_bytes(integer: int) -> bytes:
        """Return the integer as one 64-bit integer."""
        return np.array([integer], np.uint64).tobytes()


def _require_tilt(largest: int, fraction_bits: int) -> None:
    if not _nats(largest, fraction_bits) <= MAX_TILT:
        raise DippError("tilt", f"must be at most {MAX_TILT:g} nats for pairs")


def _nats(units: int, fraction_bits: int) -> float:
    return units * math.log(2) * 2.0**-fraction_bits


class CoordinatePrice(NamedTuple):
    """The price of one coordinate: ε, ρ, and the η that ε includes."""

    epsilon: float
    rho: float
    eta: float


@functools.lru_cache(maxsize=4096)
def _priced(moved: Reach) -> CoordinatePrice:
    """Return ε, ρ and η as the module's docstring defines them, rounded up.

    The arithmetic is decimal, with correctly rounded logarithms and exponentials. Those of C libraries differ in their
    last bit, and a reader compares certificates to the last bit.
    """
    with localcontext(prec=DIGITS):
        bit = Decimal(2).ln() / (1 << moved.fraction_bits)  # nats of a unit
        v, d = moved.largest * bit, moved.units * bit
        one = Decimal(1)
        eta = Decimal(2) ** -63 * (one + (2 * v).exp()) * UP
        pure = ((one + (2 * v).exp()).ln() - (one + (2 * (v - d)).exp()).ln()) * UP + eta
        grown = pure.exp()
        rho = min((2 * d + 2 * eta) ** 2 / 8, pure * (grown - 1) / (grown + 1)) * UP
        return CoordinatePrice(float(pure), float(rho), float(eta))
