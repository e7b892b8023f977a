"""The code `closest`: one draw for each block of a unit, at a price that no score can change.

A block has n public candidates. T is the set of the m candidates that are nearest to its private content, by any
measure. The index is drawn with the heavy weight for each candidate in T, and with the light weight for each other
candidate. The law, its proof and its price are in `core.closest`.

*What a unit pays.* A unit of split × split blocks takes part in split² draws of a step, for each of its places if it
has several (`core.regions`). Each depends on that unit alone and costs ε = ln(a/b), whatever was drawn before. So the ε
add up, and so do the ρ. The draws of other units do not depend on it at all: k units pay k times as much.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from dipp.core.channels import Channel, Sign
from dipp.core.closest import Weights
from dipp.core.code import Code, Floats, Indices, PublicCandidates
from dipp.core.columns import INDEX_BITS
from dipp.core.outcomes import Outcomes, Share
from dipp.core.price import LEVELS, Cost, Terms
from dipp.core.steps import Question
from dipp.core.unit_deals import BY_BLOCK
from dipp.errors import DippError

NEARER = 2.0**-40
"""Fraction by which audits reduce the difference of two log probabilities, so that rounding never exceeds ε."""


@dataclass(frozen=True)
class Closest(Code):
    """The code of questions: it draws a candidate for each block, and the nearest have the heavy weight."""

    name, number = "closest", 4
    columns, terms_kind, deal = (INDEX_BITS,), Weights, BY_BLOCK
    metric = False
    drawn = (
        "an index a block of a unit, drawn among public candidates; those few that are closest to the private block "
        "have a larger public weight than all others",
        "the ranking of candidates may be rounded, and ε does not depend on it; the draw is exact, in integers",
    )

    @property
    def score_alpha(self) -> Fraction:
        """1, because the scores only rank candidates."""
        return Fraction(1)

    def require_kind(self, kind: str) -> None:
        """Raise for steps that are not questions."""
        if kind != Question.kind:
            raise DippError("code", f"closest answers questions, and not steps of {kind}")

    def require_sizes(self, channel: Channel, chunk_size: int, index_bits: int) -> None:  # noqa: ARG002
        """Raise for any channel except the sign channel of period 1, whose steps touch every coordinate."""
        if channel != Sign(period=1):
            raise DippError("code", f"closest needs the sign channel of period 1, got {channel.name}")

    def fitted(self, chunk_size: int, index_bits: int) -> tuple[int, int]:  # noqa: ARG002
        """Return the chunk size 1, which stands for one block, and `index_bits` unchanged."""
        return 1, index_bits

    def draw(self, scored: Any) -> Indices:
        """Draw an index for each block, each by a private integer of its own.

        Args:
            scored: The private content of the blocks (`scoring.blocks.Blocks`).

        Returns:
            The index of each block, int64.
        """
        terms: Weights = scored.terms
        best = scored.nearest(terms.best)
        law = Weights(len(scored.candidates), best.shape[1], terms.heavy, terms.light)
        return law.draw(best, scored.tally)

    def observe(self, indices: Indices, shared: PublicCandidates) -> Any:
        """Return the value of the drawn candidates for each coordinate of the blocks."""
        return shared.means(indices)

    def terms(self, step: Any, channel: Channel) -> Weights:  # noqa: ARG002
        """Return the weights of a question."""
        weights: Weights = step.weights
        return weights

    @classmethod
    def priced_by(cls, terms: Terms) -> Closest:
        """Return the code, which has no parameters; raise unless the terms are weights."""
        if not isinstance(terms, Weights):
            raise DippError("closest", f"needs weights, got {type(terms).__name__}")
        return cls()

    def price(self, terms: Terms, touched: int = 1, apart: bool = True, change: int = LEVELS) -> Cost:  # noqa: ARG002
        """Return the cost of the draws of a unit, which is the same for every change of its content.

        The products are exact, or their rounding is less than the share 2^−50 by which the price of a draw is raised.
        """
        if not isinstance(terms, Weights) or not apart:
            raise DippError("closest", "needs weights, and a draw for each block")
        return Cost(touched * terms.epsilon, touched * terms.rho)

    def outcomes(self, scored: Any) -> list[Outcomes]:
        """Return the law of the index of each block."""
        terms: Weights = scored.terms
        return [DrawOutcomes(tuple(best), terms) for best in scored.nearest(terms.best).tolist()]


@dataclass(frozen=True)
class DrawOutcomes(Outcomes):
    """The outcomes of one draw by the code `closest`."""

    best: tuple[int, ...]
    """T, the indices with the heavy weight, ascending."""
    weights: Weights
    """The law of the draw."""

    @property
    def total(self) -> int:
        """The sum of the weights of all candidates (W)."""
        return self.weights.total

    def log_law(self) -> Floats:
        """Return ln(a/W) for each index in T, and ln(b/W) for each other index.

        Their difference is reduced by the share `NEARER`, which is more than the logarithms round, so that it never
        exceeds ε.
        """
        heavy, light = (math.log(weight / self.total) for weight in (self.weights.heavy, self.weights.light))
        law = np.full(self.weights.candidates, light)
        law[list(self.best)] = light + (heavy - light) * (1 - NEARER)
        return law

    def share(self, integer: int) -> Share:
        """Return the share of the candidate that `Weights.index_at` gives for the integer."""
        law, heavy = self.weights, self.weights.best * self.weights.heavy
        size, base = (law.heavy, 0) if integer < heavy else (law.light, heavy)
        begin = base + (integer - base) // size * size
        index = law.index_at(np.array([integer], np.uint64), np.array([self.best], np.int64))
        return Share(int(index[0]), begin, begin + size)

    @staticmethod
    def private_bytes(integer: int) -> bytes:
        """Return the integer as one 64-bit integer."""
        return np.array([integer], np.uint64).tobytes()
