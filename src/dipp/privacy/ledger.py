"""The ledger: what was released, in the integers that were really used, and what it costs the worst pixel.

A record stands for one step: `chunks` selections an image, all by the same law. Two ledgers are made of every archive
and must be equal: one from the plan, which whoever holds the file can make again (`Ledger.planned`), and one that the
encoder writes as it goes, from the table it looks the pixels up in and from the chunks it dealt (`Recorder`).

**What it costs. Proof sketch.** Let one pixel change. A selection in which t of its coordinates take part moves by t·s
units at most, and the code says, with a proof, what that costs in ε and in ρ: ε₁ and ρ₁ for t = 1
(`codes.exponential`, where ρ₁ = ε₁²/8, and `codes.pairs`, where it is not). This holds whatever was selected before, so
the ε of the selections add up, and so do their ρ (`conversions`).

| mask | coordinates of a pixel | selections charged | Σ ε | Σ ρ |
|---|---|---|---|---|
| everywhere | may share chunks (never with pairs) | one with all C | C·ε₁ | C²·ρ₁ |
| everywhere | in different chunks | C with one each | C·ε₁ | C·ρ₁ |
| turns, period P ≥ C | one in a step, or none | one, in the C steps of a cycle that touch the pixel | ε₁ | ρ₁ |

Which steps touch the worst pixel, the mask says (`core.masks`), for ε and for ρ on their own. No average over pixels is
taken anywhere.

**Rounding.** Codes round ε₁ up by at least 2^−50 of itself, more than the few operations here can lose; fsum rounds
once. Nothing depends on the platform, so that a stored certificate is compared to the last bit.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dipp.codes import CODES, Flat, StepLimited
from dipp.core import masks, selection, units
from dipp.core.arithmetic import MAX_SLOPE
from dipp.core.chunking import Chunks
from dipp.core.code import Charge, Code, Moved
from dipp.core.geometry import MAX_CHANNELS, Geometry
from dipp.core.plan import Plan
from dipp.core.units import Pixel, Unit
from dipp.errors import DippError

LEVELS = 255
"""Largest change of an eight-bit channel."""


@dataclass(frozen=True, slots=True)
class Selection:
    """What one step released of every image: an index a chunk, drawn from integer scores by the rule of a code."""

    step: int
    """Number of the step, from 0."""
    alpha: Fraction
    """α, which is folded into the sensitivity already."""
    sensitivity: int
    """D: units by which one coordinate can move any score. That is the range of the table that pixels are looked up in,
    or of the clip, if that is smaller."""
    fraction_bits: int
    """S: a unit is 2^−S bits."""
    eta: float
    """η: nats that the rounding of the code's tables can add."""
    candidates: int
    """n. It plays no part in ε, but had it depended on an image, it would tell about it."""
    chunks: int
    """Selections of an image; of the smallest one, if sizes differ. None, where it has too few pixels for the step."""
    touched: int
    """Coordinates of a pixel that the step touches, at most."""
    apart: bool
    """Whether no two of them are in one chunk."""
    clip: int | None = None
    """M: shifts are clipped to ±M units; None, where they are not."""
    slope: int | None = None
    """A(1), where shifts are clipped: a small change moves a shift by its share of 2A(1), and not of D, which would be
    too little. None, where they are not: A(1) is then D/2."""
    code: str | None = None
    """Name of the code that drew the indices. None stands for the exponential mechanism, in ledgers of format 1."""

    def __post_init__(self) -> None:
        for name, least, most in (
            ("step", 0, 1 << 32),
            ("sensitivity", 1, selection.MAX_ABS_SCORE),
            ("fraction_bits", 0, selection.MAX_FRACTION_BITS),
            ("candidates", 1, selection.MAX_CANDIDATES),
            ("chunks", 0, 1 << 40),
            ("touched", 1, 1 << 10),
        ):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
                raise DippError(f"{name}: a whole number from {least} to {most} is needed, got {value}")
        if not isinstance(self.alpha, Fraction) or self.alpha <= 0:
            raise DippError(f"alpha: a rational above 0 is needed, got {self.alpha}")
        if self.code is not None and self.code not in CODES:
            raise DippError(f"code: one of {', '.join(CODES)} is needed, got {self.code}")
        if (self.clip is None) != (self.slope is None):
            raise DippError("clip, slope: both of them, or neither, are needed")
        if self.clip is not None and self.slope is not None:
            whole = all(type(value) is int and 1 <= value < MAX_SLOPE for value in (self.clip, self.slope))
            if not whole or self.sensitivity != 2 * min(self.clip, self.slope):
                raise DippError(
                    f"clip, slope: whole numbers are needed, twice the smaller of which is the sensitivity "
                    f"{self.sensitivity}, got {self.clip} and {self.slope}"
                )
        if self.eta != self.rule.eta(self._moved(self.sensitivity)):
            raise DippError(f"eta: that of the code is needed, got {self.eta}")
        if not isinstance(self.apart, bool):
            raise DippError(f"apart: true or false is needed, got {self.apart}")
        if self.apart and 0 < self.chunks < self.touched:
            raise DippError(f"apart: {self.chunks} chunks cannot keep {self.touched} coordinates of a pixel apart")

    @property
    def public(self) -> tuple[int | None, ...]:
        """What must be the same for all images of a step, because it would tell about them if it were not."""
        return self.fraction_bits, self.candidates, self.clip, self.slope

    @property
    def rule(self) -> Code:
        """The code that prices the selections."""
        return Flat(self.alpha) if self.code is None else CODES[self.code].at(self.alpha)

    def charge(self, change: int = LEVELS) -> Charge:
        """What a touched pixel pays, if each of its coordinates changes by at most so many of the 255 levels."""
        return self.rule.charge(self._moved(self.moved(change)), self.touched, self.apart)

    def _moved(self, units: int) -> Moved:
        largest = self.sensitivity
        if self.clip is not None and self.slope is not None:
            largest = min(self.clip, 2 * self.slope)
        return Moved(units, largest, self.fraction_bits)

    def moved(self, change: int) -> int:
        """Units by which a coordinate moves a score, if it changes by so many of the 255 levels.

        A(v) truncates unit·v/127.5 toward zero, with unit < A(1) + 1. Truncation toward zero moves by no more than the
        real difference, rounded up: on either side of zero it is a floor of sizes, across zero it only loses. The
        product is a float, and off by less than 2^−20 of a unit: the 1 that is added covers that where the real bound
        is a whole number, and changes nothing elsewhere. A clip moves by no more than what it clips.
        """
        slope = self.sensitivity // 2 if self.slope is None else self.slope
        return min(self.sensitivity, -(-((2 * slope + 2) * change + 1) // LEVELS))


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
            raise DippError(f"channels, period: whole numbers are needed, got {self.channels} and {self.period}")
        self.mask.require(self.channels)
        if not self.selections or [one.step for one in self.selections] != [*range(len(self.selections))]:
            raise DippError("selections: one for each step, in order and from 0 on, is needed")
        touched = self.mask.touches(self.channels)
        if any(one.touched != touched for one in self.selections):
            raise DippError(f"touched: {touched} in every step is needed with period {self.period}")

    @classmethod
    def planned(cls, plan: Plan, smallest: Geometry) -> Ledger:
        """Return what a plan releases of pictures, the smallest of which has the fewest chunks."""
        channels = smallest.channels
        # Each on its own, whatever the others say: a wrong word of one must not make an ε.
        for part in (plan.coding, plan.channel, plan.code):
            part.require_certified()
        selections = []
        for number, (step, chunks) in enumerate(zip(plan.steps, plan.chunk_counts(smallest), strict=True)):
            own = plan.arithmetic(step)
            selections.append(
                Selection(
                    step=number,
                    alpha=plan.code.score_alpha,
                    sensitivity=own.sensitivity,
                    fraction_bits=own.fraction_bits,
                    eta=plan.code.eta(own.moved),
                    candidates=step.candidates,
                    chunks=chunks,
                    touched=plan.mask.touches(channels),
                    apart=plan.apart(chunks, channels),
                    clip=own.largest_shift,
                    slope=None if own.clip is None else own.level_of_one,
                    code=_code_name(plan),
                )
            )
        if plan.mask != masks.of_period(plan.mask.period):
            raise DippError(f"mask: {plan.mask} is not one that a ledger can name, so its worst pixel is not known")
        return cls(channels, plan.mask.period, tuple(selections), plan.unit)

    @property
    def mask(self) -> masks.Mask:
        """Which coordinates the steps touch."""
        return masks.of_period(self.period)

    @property
    def epsilon(self) -> float:
        """Pure ε of the worst pixel."""
        return self._worst[0]

    @property
    def rho(self) -> float:
        """ρ (zCDP) of the worst pixel."""
        return self._worst[1]

    @functools.cached_property
    def _worst(self) -> Charge:
        charges = [one.charge() for one in self.selections]
        return Charge(*(self.mask.worst(column, self.channels) for column in zip(*charges, strict=True)))

    def epsilon_of_change(self, change: int) -> float:
        """Pure ε of one coordinate, where it changes by so many of the 255 levels; of the dearest slots, in turns.

        Where a step touches all C, the ε of a pixel is the sum over its channels; else, it is that of the channel that
        changes most.

        *Proof sketch.* A selection whose coordinates move scores by s₁, s₂, … costs Σ aᵢ + η ≤ Σ ε₁(sᵢ), and a pair is
        a selection of its own; so coordinates add up, over channels and over pixels. The ε of all coordinates of a
        pixel that move alike is that of one times their number (`Code.charge`), by which it is divided.
        """
        if not 0 <= change <= LEVELS:
            raise DippError(f"change: 0 to {LEVELS} levels are needed, got {change}")
        if not change:
            return 0.0
        charges = [one.charge(change).epsilon for one in self.selections]
        return self.mask.worst(charges, self.channels) / self.mask.touches(self.channels)

    def to_dict(self) -> dict[str, Any]:
        """The ledger for JSON."""
        # What is None was not there in ledgers of format 1, and is left out.
        rows = [
            {name: value for name, value in dataclasses.asdict(one).items() if value is not None}
            | {"alpha": str(one.alpha)}
            for one in self.selections
        ]
        head = {"unit": self.unit.to_dict(), "channels": self.channels, "period": self.period}
        return {**head, "selections": rows}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Ledger:
        """The ledger that `to_dict` wrote, checked as every ledger is."""
        try:
            rows = [Selection(**{**row, "alpha": _fraction(row["alpha"])}) for row in content["selections"]]
            unit = units.from_dict(content["unit"])
            return cls(content["channels"], content["period"], tuple(rows), unit)
        except (KeyError, TypeError):
            raise DippError("ledger: the fields that Ledger.to_dict writes are needed") from None


class Observed(NamedTuple):
    """The integers of a step as the encoder used them."""

    table: NDArray[np.int32]
    """A of each of the 256 pixel values: what the private pixels were looked up in."""
    clip: int | None
    """What the shifts were clipped to, if they were."""
    fraction_bits: int
    candidates: int


class Recorder:
    """Writes down what the encoder does, while it does it; of several batches, the worst that a pixel met.

    A seed's masks and deals are the same for all images of a size, so each is looked at once; images are counted. What
    the steps that really touched a pixel cost it is added up pixel by pixel: no more than the mask design says.
    """

    def __init__(self) -> None:
        self._designs: set[tuple[int, int, Unit]] = set()
        self._met: dict[int, Selection] = {}
        self._images: dict[int, int] = defaultdict(int)
        self._seen: set[tuple[int, Geometry]] = set()
        self._spent: dict[Geometry, NDArray[np.float64]] = {}

    def observe(self, step: int, plan: Plan, geometry: Geometry, images: int, chunks: Chunks, task: Observed) -> None:
        """Record a step of some images of one geometry: the integers that were really used, and the chunks.

        A coding without a certificate leaves no record. Nothing here depends on the content of an image.
        """
        if not plan.coding.certified:
            return
        channels = geometry.channels
        self._images[step] += images
        self._designs.add((channels, plan.mask.period, plan.unit))
        pixel, chunk = chunks.order // channels, np.repeat(np.arange(chunks.count), np.diff(chunks.offsets))
        touched = int(np.bincount(pixel).max(initial=1))
        # Coordinates ascend within a chunk, so that those of a pixel are neighbours.
        apart = not ((pixel[1:] == pixel[:-1]) & (chunk[1:] == chunk[:-1])).any()
        spread, largest = int(task.table.max()) - int(task.table.min()), int(task.table.max())
        sensitivity = spread if task.clip is None else min(spread, 2 * task.clip)
        limit = spread if task.clip is None else min(task.clip, spread)
        met = Selection(
            step=step,
            alpha=plan.code.score_alpha,
            sensitivity=sensitivity,
            fraction_bits=task.fraction_bits,
            eta=plan.code.eta(Moved(sensitivity, limit, task.fraction_bits)),
            candidates=task.candidates,
            chunks=chunks.count,
            touched=touched,
            # A deal that was not asked to keep them apart promises nothing, even if it did.
            apart=apart and (touched == 1 or plan.separate),
            clip=task.clip,
            slope=None if task.clip is None else largest,
            code=_code_name(plan),
        )
        if (step, geometry) not in self._seen:
            self._seen.add((step, geometry))
            spent = self._spent.setdefault(geometry, np.zeros(geometry.pixels))
            one = dataclasses.replace(met, touched=1, apart=True)  # of a pixel, each coordinate that was touched
            spent += np.bincount(pixel, minlength=geometry.pixels) * one.charge().epsilon
        before = self._met.setdefault(step, met)
        if met.public != before.public:
            raise DippError(f"step {step}: two images were coded differently, which would tell about them; report this")
        self._met[step] = dataclasses.replace(
            met,
            sensitivity=max(met.sensitivity, before.sensitivity),
            chunks=min(met.chunks, before.chunks),
            touched=max(met.touched, before.touched),
            apart=met.apart and before.apart,
        )

    def ledger(self, plan: Plan, images: int) -> Ledger | None:
        """The ledger of so many images; None if there are none, or if the mechanism has no certificate.

        Steps that were left out, or not recorded for every image, are refused; and so is a pixel that was touched by
        dearer steps than the mask design allows.
        """
        if not plan.coding.certified or not images:
            return None
        if [self._images.get(step, 0) for step in range(len(plan.steps))] != [images] * len(plan.steps):
            raise DippError("ledger: the encoder has not written down every step of every image; report this")
        ((channels, period, unit),) = self._designs
        found = Ledger(channels, period, tuple(self._met[step] for step in sorted(self._met)), unit)
        if max(float(spent.max()) for spent in self._spent.values()) > found.epsilon * (1 + 1e-12):
            raise DippError("ledger: a pixel was touched more often than the mask design says; report this")
        return found


def _code_name(plan: Plan) -> str | None:
    """What a record calls the code of a plan: those of format 1 did not name it."""
    return None if not plan.sensing and type(plan.code) in (Flat, StepLimited) else plan.code.name


def _fraction(text: str) -> Fraction:
    """A rational of a few digits: others could take endless work to read."""
    if not re.fullmatch(r"[1-9]\d{0,5}(/[1-9]\d{0,5})?", text):
        raise DippError(f"alpha: a rational of up to six digits is needed, got {text:.40}")
    return Fraction(text)
