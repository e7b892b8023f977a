"""What the codes that draw by the exponential mechanism share: one secure draw, and its price.

**Proof sketch of the price.** Let one pixel change, t of whose coordinates take part in a selection, each moving every
score by s units at most. The selection is (t·a + η)-DP and has a bounded range of that size (`selection`), whatever was
selected before; for t = 1 this is a + η = ε₁ = `loss`. Its ρ is an eighth of the square (`privacy.conversions`).

- *Apart*: t selections with one coordinate each cost t·ε₁, and t·ε₁²/8.
- *Together*: any deal of the t coordinates to k ≤ t selections costs t·a + k·η ≤ t·ε₁, and the squares add up to no
more
  than if all were in one: (t·ε₁)²/8.
"""

from __future__ import annotations

from fractions import Fraction

from dipp.core import selection
from dipp.core.code import Charge, Code, Indices, Scored


class Exponential(Code):
    """A code whose index is drawn by the exponential mechanism on integer scores. Subclasses have a rational α."""

    alpha: Fraction

    @classmethod
    def at(cls, alpha: Fraction) -> Exponential:
        """The code with that α."""
        return cls(alpha)  # type: ignore[call-arg] # subclasses are dataclasses of an α

    @property
    def score_alpha(self) -> Fraction:
        """α: it multiplies the scores, and so the ε."""
        return self.alpha

    def draw(self, scored: Scored) -> Indices:
        """One secure draw a chunk."""
        return scored.select()

    def loss(self, units: int, fraction_bits: int) -> float:
        """2·units·ln 2/2^S + η, rounded up; α is in the units already."""
        return selection.epsilon(units, fraction_bits)

    def charge(self, loss: float, touched: int, apart: bool) -> Charge:
        """See the module's text. Division by 8 is exact, so that sums of ρ round as sums of squares do."""
        pure = touched * loss
        return Charge(pure, (touched * loss**2 if apart else pure**2) / 8)
