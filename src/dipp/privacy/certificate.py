"""The certificate: what a release may have told about one unit, in every form in which it can be stated.

Everything is computed from ledgers (`dipp.privacy.ledger`); no number is ever typed in. For any two images x and y that
differ in one unit (`core.units`), in any way and however all others look, and any set S of files:

- pure:         P[file of x ∈ S] ≤ e^ε·P[file of y ∈ S];
- zCDP:         every Rényi divergence of order a between the two is at most ρ·a;
- approximate:  P[file of x ∈ S] ≤ e^ε'·P[file of y ∈ S] + δ, with ε' the smallest of ε, of what ρ converts to and,
                where it is known, of what the law of the privacy loss gives.
"""

from __future__ import annotations

import functools
import json
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dipp.core.geometry import Geometry
from dipp.core.plan import Plan
from dipp.core.price import Loss
from dipp.core.unit import Size, Unit
from dipp.errors import DippError
from dipp.privacy import conversions, limits, losses, statements
from dipp.privacy.advice import Headline, objects
from dipp.privacy.ledger import Ledger
from dipp.privacy.limits import ASSUMPTIONS
from dipp.privacy.printing import upper

MAX_GROUP = 1 << 62
WINDOWS = (1, 8, 16, 32, 64, 128, 256)
"""Sides of the square windows whose price certificates state."""
WORDS = ("assumptions", "not_covered")
"""Fields in words, which a later version may put better: they are not compared."""


class StepCost(NamedTuple):
    """What one step costs a unit that it touches."""

    release: int
    step: int
    epsilon: float
    rho: float

    def approximate(self, delta: float) -> float:
        """ε of (ε, δ) of this step alone."""
        return min(self.epsilon, conversions.epsilon_of_zcdp(self.rho, delta))


@dataclass(frozen=True, repr=False)
class Certificate:
    """Privacy of one or several releases of an image, for any one unit of it, or any `units` of them."""

    releases: tuple[Ledger, ...]
    delta: float | None = None
    """δ at which (ε, δ) is to be stated, if the release was budgeted that way."""
    units: int = 1
    """How many units may change at once."""
    hidden: Size | None = None
    """Width and height of the objects that the release was planned to hide; None if it was planned for one unit."""

    def __post_init__(self) -> None:
        if not self.releases:
            raise DippError("releases", "one or more ledgers are needed")
        if self.delta is not None and not 0 < self.delta < 1:
            raise DippError("delta", f"a number between 0 and 1 is needed, got {self.delta}")
        if type(self.units) is not int or not 1 <= self.units <= MAX_GROUP:
            raise DippError("units", f"a whole number from 1 to {MAX_GROUP} is needed, got {self.units!s:.40}")
        if self.hidden is not None:
            self.unit.met(*self.hidden)  # raises if it is not a size
        if any(ledger.unit != self.unit for ledger in self.releases):
            raise DippError("releases", "ledgers of one unit are needed")

    @classmethod
    def of(cls, plan: Plan, smallest: Geometry, delta: float | None = None, hidden: Size | None = None) -> Certificate:
        """Return what a plan promises to pictures that are at least as large as the smallest one.

        Args:
            plan: The plan of the encoding.
            smallest: Geometry of the smallest picture. It has the fewest chunks, and so the largest price.
            delta: δ at which (ε, δ) is to be stated, if the release was budgeted that way.
            hidden: Width and height of the objects that the plan is to hide, if it was made for such.

        Raises:
            NoCertificateError: The coding of the plan is not differentially private.

        """
        return cls((Ledger.planned(plan, smallest),), delta, hidden=hidden)

    @property
    def unit(self) -> Unit:
        """What is protected, each on its own."""
        return self.releases[0].unit

    @property
    def protected(self) -> str:
        """What may change, in words."""
        return self.unit.words if self.units == 1 else self.unit.several(self.units)

    @functools.cached_property
    def epsilon(self) -> float:
        """Pure ε."""
        return self._of_group(_sum([ledger.epsilon for ledger in self.releases]))

    @functools.cached_property
    def rho(self) -> float:
        """ρ of zero-concentrated differential privacy."""
        return _sum([self._rho_of_group(ledger.rho, ledger) for ledger in self.releases])

    def _of_group(self, loss: float) -> float:
        """Return what all `units` lose, from the loss of one, where losses add up."""
        return loss if self.units == 1 else conversions.group_epsilon(loss, self.units)

    def _rho_of_group(self, rho: float, ledger: Ledger) -> float:
        """Return ρ of all `units`, from that of one: k times as much if `Ledger.alone` proves it, k² times if not."""
        if self.units == 1 or ledger.alone:
            return self._of_group(rho)
        return conversions.group_zcdp(rho, self.units)

    def approximate(self, delta: float) -> float:
        """Return ε of (ε, δ): the smallest of the valid bounds that are known.

        They are pure ε and, if the law of every draw's privacy loss is known, what follows from their sum (`losses`):
        no conversion of ρ can be smaller. Otherwise it is the conversion of ρ.
        """
        ledgers = [ledger.draws for ledger in self.releases]
        if None not in ledgers:
            draws: Counter[Loss] = Counter()
            for of_unit in ledgers:
                draws.update({loss: count * self.units for loss, count in (of_unit or {}).items()})
            exact = losses.epsilon_of_draws(draws, delta)
            if math.isfinite(exact):
                return min(self.epsilon, exact)
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
                yield StepCost(release, one.step, self._of_group(pure), self._rho_of_group(rho, ledger))

    def for_units(self, count: int) -> Certificate:
        """Return the certificate for any change of `count` units: kε, and k²ρ, or kρ if no two share a selection."""
        return replace(self, units=count, hidden=None)

    def for_window(self, width: int, height: int) -> Certificate:
        """Return the certificate for any change inside a window of this size, wherever it lies in the picture."""
        return self.for_units(self.unit.met(width, height))

    def for_picture(self, geometry: Geometry) -> Certificate:
        """Return the certificate for any change of a whole picture of this geometry."""
        return self.for_units(self.unit.count(geometry))

    @property
    def headline(self) -> Headline:
        """The first number to show: that of the objects that are to be hidden, or of one unit."""
        one = self.for_units(1) if self.hidden is None else self.for_window(*self.hidden)
        return Headline(one.epsilon, self.unit, self.hidden)

    @property
    def by_size(self) -> tuple[tuple[int, Certificate], ...]:
        """The certificates of square windows, each with its side in pixels (`WINDOWS`)."""
        return tuple((side, self.for_window(side, side)) for side in WINDOWS)

    def compose(self, *others: Certificate) -> Certificate:
        """Return the certificate of several releases of one image, by anybody and in any order: ε and ρ add up.

        The units must be the same ones: a certificate of another size or of a resized image is about others.
        """
        for other in others:
            if not isinstance(other, Certificate):
                raise DippError("compose", f"other certificates are needed, got {type(other).__name__}")
        if any((other.units, other.channels) != (self.units, self.channels) for other in others):
            raise DippError("compose", "certificates for equally many units, and channels of a pixel, are needed")
        releases = (ledger for one in (self, *others) for ledger in one.releases)
        same = all(other.delta == self.delta for other in others)
        hidden = self.hidden if all(other.hidden == self.hidden for other in others) else None
        return replace(self, releases=tuple(releases), delta=self.delta if same else None, hidden=hidden)

    @property
    def channels(self) -> int:
        """Channels of a pixel."""
        return self.releases[0].channels

    @property
    def ledger(self) -> Ledger:
        """The ledger of the one release that this is about."""
        if len(self.releases) > 1:
            raise DippError("ledger", f"{len(self.releases)} releases were composed, each has its own", "use releases")
        return self.releases[0]

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What it rests on, in words."""
        return ASSUMPTIONS

    @property
    def not_covered(self) -> tuple[str, ...]:
        """What it says nothing about, in words."""
        return limits.not_covered(self.unit)

    def between(self, first: NDArray[np.uint8], second: NDArray[np.uint8]) -> float:
        """Return pure ε of telling two given images apart, the metric form: units pay for how far they really differ.

        Without a clip, and by the exponential mechanism, nearly 2α·L·Σ√ΔSNR·‖x − y‖, where ‖·‖ adds up all channels, or
        with one channel at a time the largest change of each pixel; in the integers, a change of a level or two costs a
        little more. With a clip, no touch costs more than its step's ε.
        """
        for given in (first, second):
            if not isinstance(given, np.ndarray):
                kind = type(given).__name__
                raise DippError(
                    "first, second", f"uint8 arrays (H, W, C) are needed, got {kind}", "np.asarray of a picture"
                )
        if first.dtype != np.uint8 or first.dtype != second.dtype or first.shape != second.shape:
            raise DippError("first, second", "uint8 images of one shape are needed")
        if first.ndim != 3 or first.shape[-1] != self.channels:
            raise DippError("first, second", f"shapes (H, W, {self.channels}) are needed, got {first.shape}")
        changes, geometry = np.abs(first.astype(np.int16) - second).reshape(-1), Geometry.of(first.shape)
        largest, ids = np.zeros(self.unit.count(geometry), np.int16), self.unit.ids(geometry)
        if changes[ids < 0].any():  # what lies in no unit is released as it is
            return math.inf
        np.maximum.at(largest, ids.clip(0), changes)
        if not all(ledger.metric for ledger in self.releases):
            return self.for_units(int(np.count_nonzero(largest))).epsilon if largest.any() else 0.0
        found = _sum([_between(ledger, changes, largest) for ledger in self.releases])
        # The certificate of as many units bounds the same thing, and rounds up at fewer places.
        changed = np.count_nonzero(largest)
        return min(found, self.for_units(int(changed)).epsilon) if changed else found

    def to_dict(self) -> dict[str, Any]:
        """The certificate for JSON, with the ledgers that it follows from."""
        found: dict[str, Any] = {"epsilon": self.epsilon, "rho": self.rho, "delta": self.delta}
        if self.delta is not None:
            found["epsilon_at_delta"] = self.epsilon_at_delta
        if self.hidden is not None:
            one, (width, height) = self.for_window(*self.hidden), self.hidden
            found["hidden"] = {"width": width, "height": height, "epsilon": one.epsilon, "rho": one.rho}
        return found | {
            "unit": self.unit.to_dict(),
            "units": self.units,
            "by_size": [
                {"window": side, "epsilon": window.epsilon, "rho": window.rho} for side, window in self.by_size
            ],
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
            hidden = content.get("hidden")
            size = None if hidden is None else (hidden["width"], hidden["height"])
            found = cls(ledgers, content["delta"], content["units"], size)
            stated = {key: content[key] for key in content if key not in WORDS}
            at_delta = stated.pop("epsilon_at_delta", None)
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            if isinstance(error, DippError):
                raise
            raise DippError("certificate", "the JSON that Certificate.to_json writes is needed") from None
        expected = {key: value for key, value in json.loads(found.to_json()).items() if key not in WORDS}
        # The conversions to (ε, δ) go through logarithms, whose last bit is the platform's.
        computed = expected.pop("epsilon_at_delta", None)
        near = isinstance(at_delta, float) and computed is not None and math.isclose(at_delta, computed, rel_tol=1e-9)
        if stated != expected or not (near or at_delta is computed is None):
            raise DippError("certificate", "its numbers do not follow from its ledgers", "do not trust it")
        return found

    def short(self) -> str:
        """Pure ε, with (ε, δ) if that was asked for, in a few words; of the objects that are to be hidden first."""
        at = "" if self.delta is None else f"{upper(self.approximate(self.delta))} at δ = {upper(self.delta)}, "
        protected = self.unit.short if self.units == 1 else f"{self.units} {self.unit.plural}"
        own = f"ε = {at}{upper(self.epsilon)} pure per {protected}"
        return (
            own if self.hidden is None else f"ε = {upper(self.headline.epsilon)} pure for {objects(self.hidden)}; {own}"
        )

    def __str__(self) -> str:
        return self.statement()

    def __repr__(self) -> str:
        return f"<dipp.Certificate: {self.short()}>"

    def _repr_html_(self) -> str:
        """The certificate for a notebook: what is promised, what that rests on, and what it does not cover."""
        return statements.as_html(self)

    def statement(self) -> str:
        """The certificate in one line."""
        pure = statements.promise(self.epsilon, self.rho, self.protected)
        at = "" if self.delta is None else f"ε = {upper(self.approximate(self.delta))} at δ = {upper(self.delta)}; "
        return f"{self._first}{at}{pure}"

    @property
    def _first(self) -> str:
        """The number of the objects that are to be hidden, in words that the unit's follow; nothing without any."""
        if self.hidden is None:
            return ""
        one = self.for_window(*self.hidden)
        at = "" if self.delta is None else f"{upper(one.approximate(self.delta))} at δ = {upper(self.delta)}, "
        return f"ε = {at}{upper(one.epsilon)} pure for {objects(self.hidden)}, wherever it lies; "

    @property
    def sizes(self) -> str:
        """The prices of square windows in words."""
        return statements.prices((side, one.epsilon) for side, one in self.for_units(1).by_size) + self.unit.beyond

    def table(self) -> str:
        """Return the certificate as a table: a line for each run of equal steps, the worst unit, and what it means.

        A step is priced for a unit that it touches.
        """
        return statements.table(self)


def _sum(parts: list[float]) -> float:
    """One loss as it is, several added up and rounded up."""
    return parts[0] if len(parts) == 1 else conversions.total(parts)


def _between(ledger: Ledger, changes: NDArray[np.int16], largest: NDArray[np.int16]) -> float:
    """Return ε of changes in levels: of every coordinate, and the largest of every unit."""
    # Where a step touches a unit once, the coordinate that changes most bounds all of the unit.
    counted = largest if ledger.touches == 1 else changes
    levels, counts = np.unique(counted, return_counts=True)
    return conversions.total(
        count * ledger.epsilon_of_change(level) for level, count in zip(levels.tolist(), counts.tolist(), strict=True)
    )
