"""The ledger: what was released, in the integers that were really used, and what it costs the worst unit.

A record stands for one step: `chunks` selections an image, all by the same law. Two ledgers are made of every archive
and must be equal. One follows from the plan, and anybody with the file can make it again (`Ledger.planned`). The
encoder writes the other as it goes, from the table it looks the pixels up in and the chunks it dealt (`Recorder`).

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

If a unit is dealt as a whole (`core.chunking.ByUnit`), one selection is charged in every step that touches it, ε₁ and
ρ₁. Which steps touch the worst unit, the mask says (`core.masks`), for ε and for ρ on their own. No average over units
is taken anywhere.

**Rounding.** Codes round ε₁ up by at least 2^−50 of itself, more than the few operations here can lose; fsum rounds
once. Nothing depends on the platform, so that a stored certificate is compared to the last bit.
"""

from __future__ import annotations

import dataclasses
import functools
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dipp.codes import CODES
from dipp.core import masks, selection, units
from dipp.core.chunking import Chunks
from dipp.core.code import Code
from dipp.core.geometry import MAX_CHANNELS, Geometry
from dipp.core.plan import Plan
from dipp.core.price import LEVELS, Cost, Loss, StepRecord, Terms, require_whole
from dipp.core.unit import Unit
from dipp.core.units import Pixel
from dipp.errors import DippError

MAX_TOUCHED = 1 << 10
"""How often a unit may take part in the selections of a step."""


@dataclass(frozen=True, slots=True)
class Selection:
    """What one step released of every image: an index for each chunk, drawn by the rule of a code."""

    step: int
    """Number of the step, from 0."""
    code: str
    """Name of the code that drew the indices."""
    terms: Terms
    """What the code prices the draws from."""
    candidates: int
    """n. It plays no part in ε, but had it depended on an image, it would tell about it."""
    chunks: int
    """Selections of the smallest image; 0 if the step touches nothing of it."""
    touched: int
    """How often a unit takes part in the selections of the step, at most (`chunking.Deal.touches`)."""
    apart: bool
    """Whether no two of those parts are in one chunk."""

    def __post_init__(self) -> None:
        require_whole("step", self.step, 0, 1 << 32)
        require_whole("candidates", self.candidates, 1, selection.MAX_CANDIDATES)
        require_whole("chunks", self.chunks, 0, 1 << 40)
        require_whole("touched", self.touched, 1, MAX_TOUCHED)
        if self.code not in CODES:
            raise DippError("code", f"one of {', '.join(CODES)} is needed, got {self.code}")
        self.rule  # noqa: B018 - raises if the terms are not those of the code
        if not isinstance(self.apart, bool):
            raise DippError("apart", f"true or false is needed, got {self.apart}")
        # A unit that the edge of a small picture cuts off has fewer blocks, and is charged like a whole one.
        if self.apart and 0 < self.chunks < self.touched and not self.rule.deal.alone:
            raise DippError("apart", f"{self.chunks} chunks cannot keep {self.touched} coordinates of a pixel apart")

    @property
    def public(self) -> tuple[Any, ...]:
        """What must be the same for all images of a step, because it would tell about them if it were not."""
        return self.candidates, self.code, *self.terms.public

    @property
    def rule(self) -> Code:
        """The code that prices the selections."""
        return CODES[self.code].priced_by(self.terms)

    def charge(self, change: int = LEVELS) -> Cost:
        """Return what a touched unit pays if each of its coordinates changes by at most `change` of the 255 levels."""
        return self.rule.price(self.terms, self.touched, self.apart, change)

    def to_dict(self) -> dict[str, Any]:
        """Return the record for JSON, with the terms among its other numbers."""
        own = {name: getattr(self, name) for name in FIELDS if name != "terms"}
        return own | self.terms.to_dict()

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Selection:
        """Return the record that `to_dict` wrote."""
        if content["code"] not in CODES:
            raise DippError("code", f"one of {', '.join(CODES)} is needed, got {content['code']}")
        kind = CODES[content["code"]].terms_kind
        # Terms may have a number that the record has as well: the candidates of `core.closest`.
        named = {one.name for one in dataclasses.fields(kind)}  # type: ignore[arg-type] # terms are dataclasses
        terms = {name: value for name, value in content.items() if name in named or name not in FIELDS}
        own = {name: value for name, value in content.items() if name in FIELDS and name != "terms"}
        return cls(**own, terms=kind.from_dict(terms))


FIELDS = tuple(one.name for one in dataclasses.fields(Selection))


@dataclass(frozen=True)
class Ledger:
    """The selections of all steps, and the public mask design that says which pixels they touch. Read-only."""

    channels: int
    """C: coordinates of a pixel."""
    period: int
    """P: steps after which every coordinate was touched once; 1 if every step touches all."""
    selections: tuple[Selection, ...]
    unit: Unit = field(default_factory=Pixel)
    """What is protected: ε and ρ are those of the worst unit."""

    def __post_init__(self) -> None:
        if (
            not all(type(value) is int for value in (self.channels, self.period))
            or not 1 <= self.channels <= MAX_CHANNELS
        ):
            raise DippError("channels, period", f"whole numbers are needed, got {self.channels} and {self.period}")
        self.mask.require(self.channels)
        if not self.selections or [one.step for one in self.selections] != [*range(len(self.selections))]:
            raise DippError("selections", "one for each step, in order and from 0 on, is needed")
        self.mask.require_unit(self.unit)
        for one in self.selections:
            deal = one.rule.deal
            deal.require_unit(self.unit)
            deal.require_touched(one.touched, self.mask, self.channels, self.unit)

    @classmethod
    def planned(cls, plan: Plan, smallest: Geometry) -> Ledger:
        """Return what a plan releases of pictures; the smallest one has the fewest chunks."""
        channels = smallest.channels
        # Each on its own, whatever the others say: a wrong word of one must not make an ε.
        for part in (plan.coding, plan.channel, plan.code):
            part.require_certified()
        selections = [
            Selection(
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
            raise DippError("mask", f"{plan.mask} is not one that a ledger can name, so its worst unit is not known")
        return cls(channels, plan.mask.period, tuple(selections), plan.unit)

    @property
    def mask(self) -> masks.Mask:
        """Which coordinates the steps touch."""
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
        charges = [one.charge() for one in self.selections]
        return Cost(*(self.mask.worst(column, self.channels) for column in zip(*charges, strict=True)))

    def epsilon_of_change(self, change: int) -> float:
        """Return pure ε of one coordinate that changes by `change` of the 255 levels; of the dearest slots, in turns.

        Where the price has no metric form (`metric`), any change costs the whole ε of the unit. Otherwise, if a step
        touches all C, the ε of a pixel is the sum over its channels. If a step touches a unit once, the ε of the unit
        is that of the coordinate that changes most.

        *Proof sketch.* A selection whose coordinates move scores by s₁, s₂, … costs Σ aᵢ + η ≤ Σ ε₁(sᵢ), and a pair is
        a selection of its own; so coordinates add up, over channels and over pixels. The ε of all coordinates of a
        pixel that move alike is that of one times their number (`Code.charge`), by which it is divided.
        """
        if not 0 <= change <= LEVELS:
            raise DippError("change", f"0 to {LEVELS} levels are needed, got {change}")
        if not change:
            return 0.0
        if not self.metric:
            return self.epsilon
        charges = [one.charge(change).epsilon for one in self.selections]
        return self.mask.worst(charges, self.channels) / self.touches

    @functools.cached_property
    def draws(self) -> Counter[Loss] | None:
        """How many draws of each loss a unit pays for; None if a law is not known, or not every step touches it."""
        if self.period != 1 or not self.alone:
            return None
        draws: Counter[Loss] = Counter()
        for one in self.selections:
            if one.terms.loss is None or not one.apart:
                return None
            draws[one.terms.loss] += one.touched
        return draws

    @property
    def alone(self) -> bool:
        """Whether every selection reads coordinates of one unit alone: a change of k units then costs kρ, not k²ρ.

        **Claim.** If every selection lies in one unit, and ρ bounds the worst unit, then a change of k units costs at
        most kρ.

        *Proof.* Given all that was selected before, a selection depends on its own coordinates and on public values,
        so it has the same law for both pictures unless it lies in one of the k units u₁, …, u_k: its divergence is 0.
        Divergences of adaptive selections add up (`conversions`). As each selection lies in one unit, the sum runs
        over the selections of u₁, then of u₂, and so on, and those of any one unit add up to at most ρ. ∎

        The claim holds where a unit is dealt as a whole (`core.chunking.ByUnit`) and for pairs, which draw a bit for
        each coordinate: units divide the coordinates among them. It fails where a chunk mixes pixels: k of them move
        its scores k times as far, and ρ grows with the square of that.
        """
        return all(one.rule.alone for one in self.selections)

    @property
    def metric(self) -> bool:
        """Whether a small change of a unit costs less than a large one, in every selection."""
        return all(one.rule.metric for one in self.selections)

    @property
    def touches(self) -> int:
        """How often a unit takes part in the selections of a step, at most."""
        return max(one.touched for one in self.selections)

    def to_dict(self) -> dict[str, Any]:
        """Return the ledger for JSON."""
        head = {"unit": self.unit.to_dict(), "channels": self.channels, "period": self.period}
        return {**head, "selections": [one.to_dict() for one in self.selections]}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Ledger:
        """Return the ledger that `to_dict` wrote, checked as every ledger is."""
        try:
            rows = tuple(map(Selection.from_dict, content["selections"]))
            return cls(content["channels"], content["period"], rows, units.from_dict(content["unit"]))
        except (KeyError, TypeError):
            raise DippError("ledger", "the fields that Ledger.to_dict writes are needed") from None


class Recorder:
    """Writes down what the encoder does, while it does it; of several batches, the worst that a unit met.

    A seed's masks and deals are the same for all images of a geometry, so each is looked at once; images are counted.
    What the steps that really touched a unit cost it is added up unit by unit: no more than the mask design says.
    """

    def __init__(self) -> None:
        self._designs: set[tuple[int, int, Unit]] = set()
        self._met: dict[int, Selection] = {}
        self._images: dict[int, int] = defaultdict(int)
        self._seen: set[tuple[int, Geometry]] = set()
        self._spent: dict[Geometry, NDArray[np.float64]] = {}
        self._missing: dict[int, int] = defaultdict(int)
        self._smallest: dict[int, tuple[Geometry, int]] = {}

    def observe(self, step: int, plan: Plan, geometry: Geometry, images: int, chunks: Chunks, used: StepRecord) -> None:
        """Record a step of some images of one geometry: what was really used, and the chunks.

        A coding without a certificate leaves no record. Nothing here depends on the content of an image.
        """
        if not plan.coding.certified:
            return
        self._images[step] += images
        if used.draws is not None:
            self._missing[step] += abs(images * chunks.count - used.draws)  # batches do not make up for each other
        self._designs.add((geometry.channels, plan.mask.period, plan.unit))
        own = plan.steps[step]
        parts, apart = plan.code.deal.dealt(chunks, *own.grid(plan.unit, geometry))
        # A unit that the edge of a small picture cuts off has fewer parts, and is charged like a whole one.
        touched = max(int(parts.max(initial=1)), plan.touches(geometry.channels, own))
        met = Selection(
            step=step,
            code=plan.code.name,
            terms=plan.code.recorded(used),
            candidates=used.candidates,
            chunks=chunks.count,
            touched=touched,
            # A deal that was not asked to keep parts of a unit apart promises nothing, even if it did.
            apart=apart and (touched == 1 or plan.separate),
        )
        if (step, geometry) not in self._seen:
            self._seen.add((step, geometry))
            spent = self._spent.setdefault(geometry, np.zeros(plan.unit.count(geometry)))
            spent += parts * dataclasses.replace(met, touched=1, apart=True).charge().epsilon  # each part on its own
        smallest, _ = self._smallest.setdefault(step, (geometry, chunks.count))
        if plan.unit.smallest((geometry, smallest)) == geometry:
            self._smallest[step] = geometry, chunks.count
        before = self._met.setdefault(step, met)
        if met.public != before.public:
            raise DippError(
                f"step {step}", "two images were coded differently, which would tell about them", "report this"
            )
        self._met[step] = dataclasses.replace(
            met,
            terms=met.terms.worse(before.terms),
            chunks=self._smallest[step][1],
            touched=max(met.touched, before.touched),
            apart=met.apart and before.apart,
        )

    def ledger(self, plan: Plan, images: int) -> Ledger | None:
        """Return the ledger of `images` images; None for 0 images, or if the mechanism has no certificate.

        Raise if steps were left out, or not recorded for every image, or if a unit was touched by dearer steps than
        the mask design allows.
        """
        if not plan.coding.certified or not images:
            return None
        if [self._images.get(step, 0) for step in range(len(plan.steps))] != [images] * len(plan.steps):
            raise DippError("ledger", "the encoder has not written down every step of every image", "report this")
        if any(self._missing.values()):
            raise DippError("ledger", "the encoder has not drawn one private integer for each block", "report this")
        ((channels, period, unit),) = self._designs
        found = Ledger(channels, period, tuple(self._met[step] for step in sorted(self._met)), unit)
        if max(float(spent.max()) for spent in self._spent.values()) > found.epsilon * (1 + 1e-12):
            raise DippError("ledger", "a unit was touched more often than the mask design says", "report this")
        return found
