"""The ledger: the selections of an encoding, in the integers that were really used, and their cost to the worst unit.

A `StepDraws` stands for one step: `chunks` draws for each image, all by the same law. Every archive has two ledgers,
which must be equal. One follows from the plan, and anybody with the file can make it again (`Ledger.planned`). The
encoder writes the other while it encodes, from the table that it looks pixels up in and the chunks that it deals
(`recorder.Recorder`).

**What it costs. Proof sketch.** Let one unit change. A code says, with a proof, what a selection in which t of its
coordinates take part costs in ε and in ρ: ε₁ and ρ₁ for t = 1. The price may follow from how far a coordinate moves the
scores (`codes.exponential`, where ρ₁ = ε₁²/8, and `codes.pairs`, where it is not), or be constant for a unit that is a
chunk as a whole. It holds whatever was selected before, so the ε of the selections add up, and so do their ρ
(`conversions`). For the unit `pixel`:

| mask | coordinates of a pixel | selections charged | Σ ε | Σ ρ |
|---|---|---|---|---|
| everywhere | may share chunks (never with pairs) | one with all C | C·ε₁ | C²·ρ₁ |
| everywhere | in different chunks | C with one each | C·ε₁ | C·ρ₁ |
| turns, period P ≥ C | one in a step, or none | one, in the C steps of a cycle that touch the pixel | ε₁ | ρ₁ |

If a unit is dealt as a whole (`core.unit_deals.UnitDeal`), one selection is charged in every step that touches it, ε₁
and ρ₁. Which steps touch the worst unit, the mask says (`core.masks`), for ε and for ρ on their own. No average over
units is taken anywhere.

**Rounding.** Codes round ε₁ up by at least 2^−50 of itself, more than the few operations here can lose; fsum rounds
once. Nothing depends on the platform, so that a stored certificate is compared to the last bit.
"""

from __future__ import annotations

import dataclasses
import functools
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dipp.codes import CODES
from dipp.core import masks, units
from dipp.core.code import Code
from dipp.core.geometry import MAX_CHANNELS, Geometry
from dipp.core.plan import Plan
from dipp.core.price import LEVELS, Cost, Loss, Terms, require_whole
from dipp.core.selection import MAX_CANDIDATES
from dipp.core.unit import Unit
from dipp.core.units import Pixel
from dipp.errors import DippError

MAX_TOUCHED = 1 << 10
"""Largest number of selections of one step that a unit may take part in."""


@dataclass(frozen=True, slots=True)
class StepDraws:
    """What one step released of every image: an index for each chunk, drawn by a code."""

    step: int
    """Number of the step, from 0."""
    code: str
    """Name of the code that drew the indices."""
    terms: Terms
    """The numbers that the code computes the price of a draw from."""
    candidates: int
    """n, the number of candidates of a chunk. It does not change ε, but must not depend on an image."""
    chunks: int
    """Number of selections for the smallest image; 0 if the step does not touch it."""
    touched: int
    """Largest number of selections of the step that a unit takes part in (`chunking.Deal.touches`)."""
    apart: bool
    """Whether the parts of a unit are all in different chunks."""

    def __post_init__(self) -> None:
        require_whole("step", self.step, 0, 1 << 32)
        require_whole("candidates", self.candidates, 1, MAX_CANDIDATES)
        require_whole("chunks", self.chunks, 0, 1 << 40)
        require_whole("touched", self.touched, 1, MAX_TOUCHED)
        if self.code not in CODES:
            raise DippError("code", f"must be one of {', '.join(CODES)}, got {self.code}")
        self.rule  # noqa: B018 - raises if the terms belong to another code
        if not isinstance(self.apart, bool):
            raise DippError("apart", f"must be true or false, got {self.apart}")
        # A unit that the edge of a small picture cuts off has fewer blocks, and is charged like a whole one.
        if self.apart and 0 < self.chunks < self.touched and not self.rule.deal.alone:
            raise DippError("apart", f"cannot be true: {self.chunks} chunks cannot separate {self.touched} coordinates")

    @property
    def public(self) -> tuple[Any, ...]:
        """The values that must be equal for all images of a step, because different values would reveal something."""
        return self.candidates, self.code, *self.terms.public

    @property
    def rule(self) -> Code:
        """The code that computes the price of the draws."""
        return CODES[self.code].priced_by(self.terms)

    def charge(self, change: int = LEVELS) -> Cost:
        """Return what a unit that the step touches pays if each coordinate changes by at most `change` levels."""
        return self.rule.price(self.terms, self.touched, self.apart, change)

    def to_dict(self) -> dict[str, Any]:
        """Return the draws as a dictionary for JSON, in which the terms stand beside the other fields."""
        fields = {name: getattr(self, name) for name in FIELDS if name != "terms"}
        return fields | self.terms.to_dict()

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> StepDraws:
        """Return the draws of a step from the dictionary that `to_dict` made.

        Args:
            content: The dictionary.

        Raises:
            DippError: The code is unknown, or a number is invalid.
        """
        if content["code"] not in CODES:
            raise DippError("code", f"must be one of {', '.join(CODES)}, got {content['code']}")
        kind = CODES[content["code"]].terms_kind
        # Terms may have a field of the same name as the selection: the candidates of `core.closest`.
        named = {field.name for field in dataclasses.fields(kind)}  # type: ignore[arg-type] # terms are dataclasses
        terms = {name: value for name, value in content.items() if name in named or name not in FIELDS}
        fields = {name: value for name, value in content.items() if name in FIELDS and name != "terms"}
        return cls(**fields, terms=kind.from_dict(terms))


FIELDS = tuple(each.name for each in dataclasses.fields(StepDraws))


@dataclass(frozen=True)
class Ledger:
    """The selections of all steps, and the period of the public mask that says which coordinates each step touches."""

    channels: int
    """C, the number of channels of a pixel."""
    period: int
    """P, the number of steps in which every coordinate is touched once; 1 if every step touches all of them."""
    selections: tuple[StepDraws, ...]
    unit: Unit = field(default_factory=Pixel)
    """The unit that is protected; ε and ρ are those of the worst unit."""

    def __post_init__(self) -> None:
        if (
            not all(type(value) is int for value in (self.channels, self.period))
            or not 1 <= self.channels <= MAX_CHANNELS
        ):
            raise DippError(
                "channels and period", f"must be whole numbers in their ranges, got {self.channels} and {self.period}"
            )
        self.mask.require(self.channels)
        if not self.selections or [selection.step for selection in self.selections] != [*range(len(self.selections))]:
            raise DippError("selections", "must be one for each step, in order from step 0")
        self.mask.require_unit(self.unit)
        for selection in self.selections:
            deal = selection.rule.deal
            deal.require_unit(self.unit)
            deal.require_touched(selection.touched, self.mask, self.channels, self.unit)

    @classmethod
    def planned(cls, plan: Plan, smallest: Geometry) -> Ledger:
        """Return the ledger of a plan.

        Args:
            plan: The plan of an encoding.
            smallest: Geometry of the smallest picture. It has the fewest chunks, and so the largest price.

        Raises:
            NoCertificateError: The coding of the plan is not differentially private.
        """
        channels = smallest.channels
        # Each is asked on its own, so that a wrong answer of one cannot make an ε.
        for part in (plan.coding, plan.channel, plan.code):
            part.require_certified()
        selections = [
            StepDraws(
                step=number,
                code=plan.code.name,
                terms=plan.terms(step),
                candidates=step.candidates,
                chunks=chunks,
                touched=plan.touches(channels, step),
                apart=plan.apart(chunks, channels),
            )
            for number, (step, chunks) in enumerate(zip(plan.steps, plan.chunk_counts(smallest), strict=True))
        ]
        if plan.mask != masks.of_period(plan.mask.period):
            raise DippError("mask", f"must be one of `core.masks`, whose worst unit is known, got {plan.mask}")
        return cls(channels, plan.mask.period, tuple(selections), plan.unit)

    @property
    def mask(self) -> masks.Mask:
        """The public mask, which says which coordinates each step touches."""
        return masks.of_period(self.period)

    @property
    def epsilon(self) -> float:
        """Pure ε of the worst unit."""
        return self._worst[0]

    @property
    def rho(self) -> float:
        """ρ (zCDP) of the worst unit."""
        return self._worst[1]

    @functools.cached_property
    def _worst(self) -> Cost:
        costs = [selection.charge() for selection in self.selections]
        return Cost(*(self.mask.worst(column, self.channels) for column in zip(*costs, strict=True)))

    def epsilon_of_change(self, change: int) -> float:
        """Return pure ε of one coordinate that changes by `change` of the 255 levels.

        If steps touch coordinates in turns, it is that of the coordinate whose steps cost most.

        If the price does not depend on the size of a change (`metric`), any change costs the whole ε of the unit.
        Otherwise, if a step touches all channels of a pixel, the ε of the pixel is the sum over its channels. If a step
        touches a unit once, the ε of the unit is that of the coordinate that changes most.

        *Proof sketch.* Let coordinate i alone move scores by sᵢ, at the price ε₁(sᵢ) = aᵢ + η. A selection with several
        coordinates costs Σ aᵢ + η ≤ Σ ε₁(sᵢ), and a pair is a selection of its own; so coordinates add up, over
        channels and over pixels. The ε of all coordinates of a pixel that move alike is that of one times their number
        (`Code.price`), by which it is divided.

        Args:
            change: Change of the coordinate in levels, from 0 to 255.

        Raises:
            DippError: The change is out of range.
        """
        if not 0 <= change <= LEVELS:
            raise DippError("change", f"must be from 0 to {LEVELS} levels, got {change}")
        if not change:
            return 0.0
        if not self.metric:
            return self.epsilon
        costs = [selection.charge(change).epsilon for selection in self.selections]
        return self.mask.worst(costs, self.channels) / self.touches

    @functools.cached_property
    def draws(self) -> Counter[Loss] | None:
        """Number of draws that a unit takes part in, for each law of their loss; None if a law is unknown.

        It is also None if a step touches only some of the units.
        """
        if self.period != 1 or not self.alone:
            return None
        draws: Counter[Loss] = Counter()
        for selection in self.selections:
            if selection.terms.loss is None or not selection.apart:
                return None
            draws[selection.terms.loss] += selection.touched
        return draws

    @property
    def alone(self) -> bool:
        """Whether every selection reads coordinates of a single unit, so that a change of k units costs kρ and not k²ρ.

        **Claim.** If every selection lies in one unit, and ρ bounds the worst unit, then a change of k units costs at
        most kρ.

        *Proof.* Given all that was selected before, a selection depends on its own coordinates and on public values,
        so it has the same law for both pictures unless it lies in one of the k units u₁, …, u_k: its divergence is 0.
        Divergences of adaptive selections add up (`conversions`). As each selection lies in one unit, the sum runs
        over the selections of u₁, then of u₂, and so on, and those of any one unit add up to at most ρ. ∎

        The claim holds where a unit is dealt as a whole (`core.unit_deals.UnitDeal`) and for pairs, which draw a bit
        for each coordinate: units divide the coordinates among them. It fails where a chunk mixes pixels: k of them
        move its scores k times as far, and ρ grows with the square of that.
        """
        return all(selection.rule.alone for selection in self.selections)

    @property
    def metric(self) -> bool:
        """Whether a small change of a unit costs less than a large one, in every selection."""
        return all(selection.rule.metric for selection in self.selections)

    @property
    def touches(self) -> int:
        """Largest number of selections of one step that a unit takes part in."""
        return max(selection.touched for selection in self.selections)

    def to_dict(self) -> dict[str, Any]:
        """Return the ledger as a dictionary for JSON."""
        head = {"unit": self.unit.to_dict(), "channels": self.channels, "period": self.period}
        return {**head, "selections": [selection.to_dict() for selection in self.selections]}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Ledger:
        """Return the ledger from the dictionary that `to_dict` made.

        Args:
            content: The dictionary.

        Raises:
            DippError: A field is missing or invalid.
        """
        try:
            rows = tuple(map(StepDraws.from_dict, content["selections"]))
            return cls(content["channels"], content["period"], rows, units.from_dict(content["unit"]))
        except (KeyError, TypeError):
            raise DippError("ledger", "must have the fields that Ledger.to_dict writes") from None
