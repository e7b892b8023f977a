"""What the codes that draw by the exponential mechanism share: one secure draw, and its price.

**Proof sketch of the price.** Let one pixel change, t of whose coordinates take part in a selection, each moving every
score by s units at most. The selection is (t·a + η)-DP and has a bounded range of that size, where a + η = ε₁ belongs
to t = 1 (`selection.epsilon`), whatever was selected before; its ρ is an eighth of the square (`privacy.conversions`).

- *Apart*: t selections with one coordinate each cost t·ε₁, and t·ε₁²/8.
- *Together*: any deal of the t coordinates to k ≤ t selections costs t·a + k·η ≤ t·ε₁, and the squares add up to no
  more than if all were in one: (t·ε₁)²/8.
"""

from __future__ import annotations

from fractions import Fraction

from dipp.core import selection
from dipp.core.code import Charge, Code, Indices, Moved, Scored


class Exponential(Code):
    """A code whose index is drawn by the exponential mechanism on integer scores. Subclasses have a rational α."""

    alpha: Fraction
    parameters = ("alpha",)

    @classmethod
    def at(cls, alpha: Fraction) -> Exponential:
        """With that α."""
        return cls(alpha)  # type: ignore[call-arg] # subclasses are dataclasses of an α

    @property
    def score_alpha(self) -> Fraction:
        """α: it multiplies the scores, and so the ε."""
        return self.alpha

    def draw(self, scored: Scored) -> Indices:
        """One secure draw a chunk."""
        return scored.select()

    def eta(self, moved: Moved) -> float:  # noqa: ARG002
        """That of the selection, whatever the scores."""
        return selection.ETA

    def charge(self, moved: Moved, touched: int = 1, apart: bool = True) -> Charge:
        """See the module's text; α is in the units. Division by 8 is exact: sums of ρ round as sums of squares do.

        Squares are products, which round in one way everywhere. Powers of C libraries differ in their last bit, and a
        reader compares certificates to the last bit.
        """
        loss = selection.epsilon(moved.units, moved.fraction_bits)
        pure = touched * loss
        return Charge(pure, (touched * (loss * loss) if apart else pure * pure) / 8)
