"""The certificate: what a release may have told about one pixel, in every form in which it can be stated.

Everything is computed from ledgers (`dipp.privacy.ledger`); no number is ever typed in. For any two images x and y that
differ in one pixel, in any way and however all other pixels look, and any set S of files:

- pure:         P[file of x ∈ S] ≤ e^ε·P[file of y ∈ S];
- zCDP:         every Rényi divergence of order a between the two is at most ρ·a;
- approximate:  P[file of x ∈ S] ≤ e^ε'·P[file of y ∈ S] + δ, with ε' the smaller of ε and what ρ converts to.
"""

from __future__ import annotations

import functools
import html
import itertools
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dipp.core.geometry import Geometry
from dipp.core.plan import Plan
from dipp.errors import DippError
from dipp.privacy import advice, conversions
from dipp.privacy.ledger import Ledger
from dipp.privacy.printing import upper

MAX_GROUP = 1 << 62
UNIT = "one pixel (all its channels) of the array that was encoded"

ASSUMPTIONS = (
    "the encoder ran this code: a file can show that it is consistent, never that its encoder was honest",
    "the private randomness came from the operating system's generator, and nobody saw it or could predict it",
    "model, schedule, code tables and options were fixed without looking at the private images, and not fitted to them",
    "the public seed was drawn before the images were read",
)
NOT_COVERED = (
    "another encoding of the same image: the costs add up, see Certificate.compose",
    "what the neighbours of a pixel tell about it: ε bounds what the file adds for somebody who knows them all",
    "what many pixels show together: k of them cost k times ε, so faces, plates, text and places stay recognisable",
    "what was mixed before encoding: after a resize or a blur, a pixel of the original is in many pixels",
    "width, height, number and order of the images, and that they were encoded at all",
    "one person in many images, and labels or names that come with them",
    "how long encoding took, logs, and copies of the images elsewhere",
)


WORDS = ("assumptions", "not_covered")
"""Fields in words, which a later version may put better: they are not compared."""
DELTAS = (1e-5, 1e-7, 1e-9)
"""δ that tables state, whatever the budget was."""


class StepCost(NamedTuple):
    """What one step costs a pixel that it touches."""

    release: int
    step: int
    epsilon: float
    rho: float

    def approximate(self, delta: float) -> float:
        """ε of (ε, δ) of this step alone."""
        return min(self.epsilon, conversions.epsilon_of_zcdp(self.rho, delta))


@dataclass(frozen=True, repr=False)
class Certificate:
    """Privacy of one or several releases of an image, for any one pixel of it, or any `pixels` of them."""

    releases: tuple[Ledger, ...]
    delta: float | None = None
    """δ at which (ε, δ) is to be stated, if the release was budgeted that way."""
    pixels: int = 1
    """How many pixels may change at once."""

    def __post_init__(self) -> None:
        if not self.releases:
            raise DippError("releases: one or more ledgers are needed")
        if self.delta is not None and not 0 < self.delta < 1:
            raise DippError(f"delta: a number between 0 and 1 is needed, got {self.delta}")
        if isinstance(self.pixels, bool) or not isinstance(self.pixels, int) or not 1 <= self.pixels <= MAX_GROUP:
            raise DippError(f"pixels: a whole number from 1 to {MAX_GROUP} is needed, got {self.pixels!s:.40}")

    @classmethod
    def of(cls, plan: Plan, smallest: Geometry, delta: float | None = None) -> Certificate:
        """Return what a plan promises to pictures, the smallest of which has this geometry.

        Args:
            plan: The plan of the encoding.
            smallest: Geometry of the smallest picture. It has the fewest chunks, and so the largest price.
            delta: δ at which (ε, δ) is to be stated, if the release was budgeted that way.

        Raises:
            NoCertificateError: The coding of the plan is not differentially private.

        """
        return cls((Ledger.planned(plan, smallest),), delta)

    @property
    def unit(self) -> str:
        """What is protected."""
        if self.pixels == 1:
            return UNIT
        return f"any {self.pixels} pixels (all their channels) of the array that was encoded"

    @functools.cached_property
    def epsilon(self) -> float:
        """Pure ε."""
        return self._of_group(_sum([ledger.epsilon for ledger in self.releases]))

    @functools.cached_property
    def rho(self) -> float:
        """ρ of zero-concentrated differential privacy."""
        return self._of_group(_sum([ledger.rho for ledger in self.releases]), squared=True)

    def _of_group(self, loss: float, *, squared: bool = False) -> float:
        """ε or, squared, ρ of all `pixels`, from that of one."""
        if self.pixels == 1:
            return loss
        return conversions.group_zcdp(loss, self.pixels) if squared else conversions.group_epsilon(loss, self.pixels)

    def approximate(self, delta: float) -> float:
        """ε of (ε, δ): the smaller of pure ε and the conversion of ρ; both hold, so either may be stated."""
        return min(self.epsilon, conversions.epsilon_of_zcdp(self.rho, delta))

    @property
    def epsilon_at_delta(self) -> float | None:
        """ε of (ε, δ) at the δ of the budget, if there is one."""
        return None if self.delta is None else self.approximate(self.delta)

    @property
    def steps(self) -> Iterator[StepCost]:
        """What each step costs the pixels, if it touches them: where a period leaves steps out, more than they add."""
        for release, ledger in enumerate(self.releases):
            for one in ledger.selections:
                pure, rho = one.charge()
                yield StepCost(release, one.step, self._of_group(pure), self._of_group(rho, squared=True))

    def for_pixels(self, count: int) -> Certificate:
        """The same for any change of so many pixels: kε, k²ρ."""
        return replace(self, pixels=count)

    def compose(self, *others: Certificate) -> Certificate:
        """Several releases of one image, whoever made them and whatever was seen before: ε and ρ add up.

        The pixels must be the same ones: a certificate of another size or of a resized image is about others.
        """
        for other in others:
            if not isinstance(other, Certificate):
                raise DippError(f"compose: other certificates are needed, got {type(other).__name__}")
        if any((other.pixels, other.channels) != (self.pixels, self.channels) for other in others):
            raise DippError("compose: certificates for equally many pixels, and channels of a pixel, are needed")
        releases = (ledger for one in (self, *others) for ledger in one.releases)
        same = all(other.delta == self.delta for other in others)
        return replace(self, releases=tuple(releases), delta=self.delta if same else None)

    @property
    def channels(self) -> int:
        """Channels of a pixel."""
        return self.releases[0].channels

    @property
    def ledger(self) -> Ledger:
        """The ledger of the one release that this is about."""
        if len(self.releases) > 1:
            raise DippError(f"ledger: {len(self.releases)} releases were composed, each has its own; use releases")
        return self.releases[0]

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What it rests on, in words."""
        return ASSUMPTIONS

    @property
    def not_covered(self) -> tuple[str, ...]:
        """What it says nothing about, in words."""
        return NOT_COVERED

    def between(self, first: NDArray[np.uint8], second: NDArray[np.uint8]) -> float:
        """Pure ε of telling two given images apart, the metric form: pixels pay for how far they really differ.

        Without a clip, and by the exponential mechanism, nearly 2α·L·Σ√ΔSNR·‖x − y‖, where ‖·‖ adds up all channels, or
        with one channel at a time the largest change of each pixel; in the integers, a change of a level or two costs a
        little more. With a clip, no touch costs more than its step's ε.
        """
        for given in (first, second):
            if not isinstance(given, np.ndarray):
                kind = type(given).__name__
                raise DippError(
                    f"first, second: uint8 arrays (H, W, C) are needed, got {kind}; np.asarray of a picture"
                )
        if first.dtype != np.uint8 or first.dtype != second.dtype or first.shape != second.shape:
            raise DippError("first, second: uint8 images of one shape are needed")
        if not first.ndim or first.shape[-1] != self.channels:
            raise DippError(f"first, second: {self.channels} channels in the last axis are needed, got {first.shape}")
        changes = np.abs(first.astype(np.int16) - second).reshape(-1, self.channels)
        found = _sum([_between(ledger, changes) for ledger in self.releases])
        # The certificate of as many pixels bounds the same thing, and rounds up at fewer places.
        changed = np.count_nonzero(changes.any(axis=1))
        return min(found, self.for_pixels(int(changed)).epsilon) if changed else found

    def to_dict(self) -> dict[str, Any]:
        """The certificate for JSON, with the ledgers that it follows from."""
        found: dict[str, Any] = {"epsilon": self.epsilon, "rho": self.rho, "delta": self.delta}
        if self.delta is not None:
            found["epsilon_at_delta"] = self.epsilon_at_delta
        return found | {
            "unit": self.unit,
            "pixels": self.pixels,
            "steps": [step._asdict() for step in self.steps],
            "assumptions": list(self.assumptions),
            "not_covered": list(self.not_covered),
            "releases": [ledger.to_dict() for ledger in self.releases],
        }

    def to_json(self) -> str:
        """The certificate as JSON."""
        return json.dumps(self.to_dict(), ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Certificate:
        """Read a certificate: its numbers are computed again from its ledgers, and must be those that it states."""
        try:
            content = json.loads(text)
            ledgers = tuple(map(Ledger.from_dict, content["releases"]))
            found = cls(ledgers, content["delta"], content["pixels"])
            stated = {key: content[key] for key in content if key not in WORDS}
            at_delta = stated.pop("epsilon_at_delta", None)
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            if isinstance(error, DippError):
                raise
            raise DippError("certificate: the JSON that Certificate.to_json writes is needed") from None
        expected = {key: value for key, value in json.loads(found.to_json()).items() if key not in WORDS}
        # The conversion of ρ goes through logarithms, whose last bit is the platform's.
        computed = expected.pop("epsilon_at_delta", None)
        near = isinstance(at_delta, float) and computed is not None and math.isclose(at_delta, computed, rel_tol=1e-9)
        if stated != expected or not (near or at_delta is computed is None):
            raise DippError("certificate: its numbers do not follow from its ledgers; do not trust it")
        return found

    def short(self) -> str:
        """Pure ε, with (ε, δ) if that was asked for, in a few words."""
        at = "" if self.delta is None else f"{upper(self.approximate(self.delta))} at δ = {upper(self.delta)}, "
        return f"ε = {at}{upper(self.epsilon)} pure per {'pixel' if self.pixels == 1 else f'{self.pixels} pixels'}"

    def __str__(self) -> str:
        return self.statement()

    def __repr__(self) -> str:
        return f"<dipp.Certificate: {self.short()}>"

    def _repr_html_(self) -> str:
        """The certificate for a notebook: what is promised, what that rests on, and what it does not cover."""
        told = "".join(
            f"<p>{head}</p><ul>{''.join(f'<li>{html.escape(text)}</li>' for text in texts)}</ul>"
            for head, texts in (("This holds if", self.assumptions), ("It does not cover", self.not_covered))
        )
        head = f"<p><b>{html.escape(self.statement())}</b></p>"
        one = self.for_pixels(1).epsilon
        said = (
            f"As a bound, {advice.grade(one).name}: {advice.bound(one)}.",
            f"Without that knowledge, {advice.measured()}.",
            f"Recognisable: {advice.RECOGNISABLE}.",
        )
        words = "".join(f"<p>{html.escape(text)}</p>" for text in said)
        return f"<div>{head}{words}<details><summary>the small print</summary>{told}</details></div>"

    def statement(self) -> str:
        """The certificate in one line."""
        pure = promise(self.epsilon, self.rho, self.unit)
        if self.delta is None:
            return pure
        return f"ε = {upper(self.approximate(self.delta))} at δ = {upper(self.delta)}; {pure}"

    def table(self) -> str:
        """Return the certificate as a table: a line for each run of equal steps, the worst pixel, and what it means.

        A step is priced for a pixel that it touches.
        """
        worst = self.for_pixels(1)
        records = [one for ledger in self.releases for one in ledger.selections]
        rows = []
        for cost, one in zip(worst.steps, records, strict=True):
            numbers = (
                f"{one.alpha!s:>5} {one.sensitivity:>9} {one.fraction_bits:>3} {one.candidates:>8} {one.chunks:>8}"
            )
            rows.append((cost, f"{numbers} {upper(cost.epsilon):>12} {upper(cost.rho):>12}"))
        columns = f"{'α':>5} {'s, units':>9} {'S':>3} {'n':>8} {'chunks':>8} {'ε':>12} {'ρ':>12}"
        lines = [f"{'steps':>12} {'count':>5} {columns}"]
        for (release, numbers), equal in itertools.groupby(rows, key=lambda row: (row[0].release, row[1])):
            steps = [cost.step for cost, _ in equal]
            name = str(steps[0]) if len(steps) == 1 else f"{steps[0]} to {steps[-1]}"
            name = name if len(self.releases) == 1 else f"{release}/{name}"
            lines.append(f"{name:>12} {len(steps):>5} {numbers}")
        lines.append(f"{'worst pixel':<56} {upper(worst.epsilon):>12} {upper(worst.rho):>12}")
        lines.append(f"total: {self.statement()}")
        lines.append(
            f"(ε, δ), per {self.unit}: "
            + ", ".join(f"ε = {upper(self.approximate(delta))} at {upper(delta)}" for delta in DELTAS)
        )
        lines += [f"  if {text}" for text in ASSUMPTIONS]
        lines += [f"  not covered: {text}" for text in NOT_COVERED]
        return "\n".join(lines)


def promise(epsilon: float, rho: float, unit: str = UNIT) -> str:
    """Pure ε and ρ in words, rounded up."""
    return f"ε = {upper(epsilon)} pure, ρ = {upper(rho)} zCDP, per {unit}"


def _sum(losses: list[float]) -> float:
    """One loss as it is, several added up and rounded up."""
    return losses[0] if len(losses) == 1 else conversions.total(losses)


def _between(ledger: Ledger, changes: NDArray[np.int16]) -> float:
    """ε of changes (pixels × channels, in levels)."""
    # Where a step touches one channel of a pixel, the one that changes most bounds them all.
    counted = changes.max(axis=1) if ledger.mask.touches(ledger.channels) == 1 else changes
    levels, counts = np.unique(counted, return_counts=True)
    return conversions.total(
        count * ledger.epsilon_of_change(level) for level, count in zip(levels.tolist(), counts.tolist(), strict=True)
    )
