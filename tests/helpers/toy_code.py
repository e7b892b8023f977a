"""A code that dipp does not have: the nearest of a few words, at a price that no score can change.

A unit is a chunk. Its word is the one nearest to the mean of its private shifts; it is drawn with the weight a, every
other word with the weight b. Two contents of a unit differ by a factor of at most a/b, since the sum of the weights is
the same for both: ε = ln(a/b). A receiver observes the word as a vector over the coordinates of the unit: a ramp.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from dipp.core import randomness
from dipp.core.channels import Channel
from dipp.core.closest import Weights
from dipp.core.code import Code, Floats, Indices, PublicCandidates, ScoredCandidates
from dipp.core.columns import INDEX_BITS
from dipp.core.outcomes import Outcomes, Share
from dipp.core.price import LEVELS, Cost, Loss, Terms
from dipp.core.step import CodedStep
from dipp.core.unit_deals import BY_UNIT
from dipp.errors import DippError

UP = 1 + 2.0**-40


@dataclass(frozen=True)
class Odds(Terms):
    """The weights of a draw among some words."""

    heavy: int
    light: int
    words: int

    @property
    def public(self) -> tuple[Any, ...]:
        return self.heavy, self.light, self.words

    @property
    def loss(self) -> Loss:
        return Weights(self.words, 1, self.heavy, self.light).loss


@dataclass(frozen=True)
class Word(Outcomes):
    """The law of the word of one unit."""

    nearest: int
    odds: Odds

    @property
    def total(self) -> int:
        return self.odds.heavy + (self.odds.words - 1) * self.odds.light

    def log_law(self) -> Floats:
        weights = np.full(self.odds.words, float(self.odds.light))
        weights[self.nearest] = self.odds.heavy
        return np.asarray(np.log(weights / self.total), np.float64)

    def share(self, integer: int) -> Share:
        if integer < self.odds.heavy:
            return Share(self.nearest, 0, self.odds.heavy)
        place = (integer - self.odds.heavy) // self.odds.light
        begin = self.odds.heavy + place * self.odds.light
        return Share(place + (place >= self.nearest), begin, begin + self.odds.light)

    @staticmethod
    def private_bytes(integer: int) -> bytes:
        return integer.to_bytes(8, "little")


@dataclass(frozen=True)
class Nearest(Code):
    """The code: the nearest word of each unit, at odds of `odds` to one."""

    odds: Fraction = Fraction(3)
    name, number = "nearest", 200
    parameters: ClassVar[tuple[str, ...]] = ("odds",)
    columns, terms_kind, deal = (INDEX_BITS,), Odds, BY_UNIT

    @property
    def score_alpha(self) -> Fraction:
        return Fraction(1)

    def terms(self, step: CodedStep, channel: Channel) -> Odds:  # noqa: ARG002
        return Odds(self.odds.numerator, self.odds.denominator, step.candidates)

    @classmethod
    def priced_by(cls, terms: Terms) -> Nearest:
        if not isinstance(terms, Odds) or not terms.heavy >= terms.light >= 1:
            raise DippError("nearest", f"odds are needed, got {terms}")
        return cls(Fraction(terms.heavy, terms.light))

    def price(self, terms: Terms, touched: int = 1, apart: bool = True, change: int = LEVELS) -> Cost:  # noqa: ARG002
        assert isinstance(terms, Odds)
        assert (touched, apart) == (1, True)
        epsilon = math.log(terms.heavy / terms.light) * UP
        return Cost(epsilon, epsilon * math.tanh(epsilon / 2) * UP)

    def outcomes(self, scored: ScoredCandidates) -> list[Outcomes]:
        odds = scored.terms
        assert isinstance(odds, Odds)
        means = np.add.reduceat(scored.shifts(), scored.offsets[:-1]) / np.diff(scored.offsets)
        nearest = np.clip((means / scored.limit + 1) / 2 * odds.words, 0, odds.words - 1).astype(int)
        return [Word(word, odds) for word in nearest.tolist()]

    def draw(self, scored: ScoredCandidates) -> Indices:
        return np.array([self._drawn(word) for word in self.outcomes(scored)], np.int64)

    def _drawn(self, word: Outcomes) -> int:
        while (
            True
        ):  # one private integer for each unit, drawn again if it is among the last ones, which would not be as likely
            integer = int.from_bytes(randomness.private_bytes(8), "little")
            if integer < (1 << 64) // word.total * word.total:
                return word.share(integer % word.total).outcome

    def observe(self, indices: Indices, shared: PublicCandidates) -> Any:
        sizes = np.diff(shared.offsets)
        words = [(index - 1.5) / 2 + np.linspace(-0.1, 0.1, size) for index, size in zip(indices, sizes, strict=True)]
        return np.concatenate(words).astype(np.float32)
