"""The exponential mechanism: the draw of the codes `flat` and `ppr`, and its price.

**Proof sketch of the price.** Let one pixel change. Let t of its coordinates take part in a selection, each moving
every score by at most s. With ε₁ = a + η, the price of one such coordinate (`selection.epsilon`), the selection is
(t·a + η)-DP and has a bounded range of that size, whatever was selected before; its ρ is an eighth of the square
(`privacy.conversions`).

- *Apart*: t selections with one coordinate each cost t·ε₁, and t·ε₁²/8.
- *Together*: any deal of the t coordinates to k ≤ t selections costs t·a + k·η ≤ t·ε₁, and the squares add up to no
  more than if all were in one: (t·ε₁)²/8.
"""

from __future__ import annotations

import bisect
import functools
import itertools
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Self

import numpy as np

from dipp.core import selection
from dipp.core.code import Floats, Indices, ScoredCandidates
from dipp.core.outcomes import Outcomes, Share, Sums
from dipp.core.price import Cost, Reach
from dipp.core.sensitivity import TiltedCode


class Exponential(TiltedCode):
    """A code whose index is drawn by the exponential mechanism on integer scores."""

    alpha: Fraction
    """α, by which scores are multiplied."""
    parameters = ("alpha",)

    most_tilt = 8.0
    """Largest planned tilt in nats: a larger tilt would convey nothing more, because 1 − tanh 8 is 2^−22."""

    @classmethod
    def at(cls, alpha: Fraction) -> Self:
        """Return the code of this kind with this α."""
        return cls(alpha)  # type: ignore[call-arg] # subclasses are dataclasses of an α

    @property
    def score_alpha(self) -> Fraction:
        """The factor by which scores, and so ε, are multiplied (α)."""
        return self.alpha

    def draw(self, scored: ScoredCandidates) -> Indices:
        """Draw one index for each chunk by the exponential mechanism."""
        return scored.select()

    def eta(self, moved: Reach) -> float:  # noqa: ARG002
        """Return η of a selection, the nats that rounding adds to its ε; it does not depend on the scores."""
        return selection.ETA

    def charge(self, moved: Reach, touched: int = 1, apart: bool = True) -> Cost:
        """Return the price that the module's docstring proves; `moved.units` includes the factor α.

        A reader compares certificates to the last bit. So squares are products, which round alike on every platform,
        and not powers, whose last bit differs between C libraries. Division by 8 is exact, so sums of ρ round as sums
        of squares do.
        """
        loss = selection.epsilon(moved.units, moved.fraction_bits)
        pure = touched * loss
        return Cost(pure, (touched * (loss * loss) if apart else pure * pure) / 8)

    def tilt(self, epsilon: float) -> float:
        """Return ε/4α: with the tilt V, scores move by at most 2αV nats, and so does the logarithm of their sum."""
        return epsilon / (4 * float(self.alpha))

    def pure(self, rho: float) -> float:
        """Return the pure ε √(8ρ), because the ρ of a selection is ε²/8."""
        return math.sqrt(8 * rho)

    def outcomes(self, scored: ScoredCandidates) -> list[Outcomes]:
        """Return the exact law of the index of each selection."""
        return [SearchOutcomes(scores, scored.fraction_bits) for scores in scored.scores()]

    def log_weights(self, scored: ScoredCandidates) -> Floats:
        """Return the scores in nats."""
        return np.asarray(scored.scores() * (math.log(2) * 2.0**-scored.fraction_bits), np.float64)


@dataclass(frozen=True, eq=False)
class SearchOutcomes(Outcomes):
    """The outcomes of a selection among scored candidates."""

    scores: selection.Scores
    """The scores of the candidates of one chunk."""
    fraction_bits: int
    """S: scores are counted in multiples of 2^−S bits."""

    @functools.cached_property
    def _sums(self) -> selection.Sums:
        return selection.bin_sums(self.scores[None], self.fraction_bits)

    @functools.cached_property
    def total(self) -> int:
        """The sum of all weights."""
        return sum(weight << (selection.RANGE_BITS - j) for j, weight in enumerate(self._sums[0].tolist()))

    def log_law(self) -> Floats:
        """Return the logarithm of each integer weight divided by the sum of all."""
        whole, fraction = selection.exponents(self.scores, self.fraction_bits)
        logs = np.log(selection.fraction_weights(self.fraction_bits)[fraction].astype(np.float64))
        return np.asarray(logs + (selection.RANGE_BITS - whole) * math.log(2) - math.log(self.total), np.float64)

    @functools.cached_property
    def _shares(self) -> tuple[list[int], list[int]]:
        """The candidates in the order of their shares, bin after bin, and the first integer of each share."""
        whole, fraction = selection.exponents(self.scores, self.fraction_bits)
        order = np.argsort(whole, kind="stable")
        table = selection.fraction_weights(self.fraction_bits)[fraction[order]].tolist()
        weights = (weight << (selection.RANGE_BITS - j) for weight, j in zip(table, whole[order].tolist(), strict=True))
        return order.tolist(), [0, *itertools.accumulate(weights)]

    def share(self, integer: int) -> Share:
        """Return the share of the candidate at which the running sum of the weights exceeds the integer."""
        order, begins = self._shares
        following = bisect.bisect_right(begins, integer)
        return Share(order[following - 1], begins[following - 1], begins[following])

    @staticmethod
    def private_bytes(integer: int) -> bytes:
        """Return the integer as two 64-bit integers, the high one first."""
        return np.array([integer >> 64, integer & ((1 << 64) - 1)], np.uint64).tobytes()

    def summed_by(self, on: Sums) -> bool:
        """Return whether a backend returns the exact bin sums of the scores."""
        return np.array_equal(on.bin_sums(self.scores[None], self.fraction_bits), self._sums)
