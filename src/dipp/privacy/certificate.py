"""The certificate: a bound on what a release tells about one unit, as pure ε, ρ and (ε, δ).

Every number is computed from ledgers (`dipp.privacy.ledger`). For any two images x and y that
differ in one unit (`core.units`) in any way, whatever their other units are, and any set S of files:

- pure:         P[file of x ∈ S] ≤ e^ε·P[file of y ∈ S];
- zCDP:         every Rényi divergence of order a between the two is at most ρ·a;
- approximate:  P[file of x ∈ S] ≤ e^ε'·P[file of y ∈ S] + δ, with ε' the smallest of ε, the conversion of ρ and,
                if it is known, the bound by the law of the privacy loss.
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
OBJECT_SIDES = (1, 8, 16, 32, 64, 128, 256)
"""Sides in pixels of the square objects whose prices certificates state."""
SENTENCES = ("assumptions", "not_covered")
"""Fields that are not compared, because they are sentences that a later version may word differently."""


class StepCost(NamedTuple):
    """What one step costs a unit that it touches."""

    release: int
    step: int
    epsilon: float
    rho: float

    def approximate(self, delta: float) -> float:
        """Return the ε of (ε, δ) of this step alone.

        Args:
            delta: δ, between 0 and 1.
        """
        return min(self.epsilon, conversions.epsilon_of_zcdp(self.rho, delta))


@dataclass(frozen=True, repr=False)
class Certificate:
    """A bound on what one or several releases of an image tell about any `units` of its units, by default one.

    Example::

        certificate = dipp.open("photo.dipp").certificate
        print(certificate.epsilon, certificate.for_object(60, 80).epsilon)
        print(certificate.table())
    """

    releases: tuple[Ledger, ...]
    delta: float | None = None
    """δ of the budget, at which (ε, δ) is stated; None if the budget had no δ."""
    units: int = 1
    """Number of units that may change at once."""
    hidden: Size | None = None
    """Width and height in pixels of the objects that the release was planned to hide; None if planned for one unit."""

    def __post_init__(self) -> None:
        if not self.releases:
            raise DippError("releases", "must have at least one ledger")
        if self.delta is not None and not 0 < self.delta < 1:
            raise DippError("delta", f"must be between 0 and 1, got {self.delta}")
        if type(self.units) is not int or not 1 <= self.units <= MAX_GROUP:
            raise DippError("units", f"must be a whole number from 1 to {MAX_GROUP}, got {self.units!s:.40}")
        if self.hidden is not None:
            self.unit.met(*self.hidden)  # raises if it is not a size
        if any(ledger.unit != self.unit for ledger in self.releases):
            raise DippError("releases", "must be ledgers of the same unit")

    @classmethod
    def of(cls, plan: Plan, smallest: Geometry, delta: float | None = None, hidden: Size | None = None) -> Certificate:
        """Return what a plan promises to pictures that are at least as large as the smallest one.

        Args:
            plan: The plan of the encoding.
            smallest: Geometry of the smallest picture. It has the fewest chunks, and so the largest price.
            delta: δ of the budget, at which (ε, δ) is stated. By default the budget has no δ.
            hidden: Width and height in pixels of the objects that the plan was made to hide. By default one unit.

        Raises:
            NoCertificateError: The coding of the plan is not differentially private.

        """
        return cls((Ledger.planned(plan, smallest),), delta, hidden=hidden)

    @property
    def unit(self) -> Unit:
        """The unit that the certificate protects."""
        return self.releases[0].unit

    @property
    def protected(self) -> str:
        """The units that may change at once, in words."""
        return self.unit.words if self.units == 1 else self.unit.several(self.units)

    @functools.cached_property
    def epsilon(self) -> float:
        """Pure ε of any change of `units` units, over all releases."""
        return self._of_group(_sum([ledger.epsilon for ledger in self.releases]))

    @functools.cached_property
    def rho(self) -> float:
        """ρ (zCDP) of any change of `units` units, over all releases."""
        return _sum([self._rho_of_group(ledger.rho, ledger) for ledger in self.releases])

    def _of_group(self, loss: float) -> float:
        """Return the loss of all `units` units from the loss of one, if losses add up."""
        return loss if self.units == 1 else conversions.group_epsilon(loss, self.units)

    def _rho_of_group(self, rho: float, ledger: Ledger) -> float:
        """Return ρ of all k = `units` units from that of one: kρ if `Ledger.alone` proves it, otherwise k²ρ."""
        if self.units == 1 or ledger.alone:
            return self._of_group(rho)
        return conversions.group_zcdp(rho, self.units)

    def approximate(self, delta: float) -> float:
        """Return the ε of (ε, δ): the smallest of the bounds that are known.

        One bound is pure ε. The other follows from the sum of the privacy losses (`losses`) if the law of every draw's
        loss is known, because no conversion of ρ can be smaller; otherwise it is converted from ρ.

        Args:
            delta: δ, between 0 and 1.
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
        """The ε of (ε, δ) at the δ of the budget; None if the budget had no δ."""
        return None if self.delta is None else self.approximate(self.delta)

    @property
    def steps(self) -> Iterator[StepCost]:
        """The cost of each step to a unit that it touches.

        They add up to more than the certificate if a mask lets each step touch only some of the units.
        """
        for release, ledger in enumerate(self.releases):
            for selection in ledger.selections:
                pure, rho = selection.charge()
                yield StepCost(release, selection.step, self._of_group(pure), self._rho_of_group(rho, ledger))

    def for_units(self, count: int) -> Certificate:
        """Return the certificate for any change of k = `count` units: kε, and kρ if no two share a draw, else k²ρ."""
        return replace(self, units=count, hidden=None)

    def for_object(self, width: int, height: int) -> Certificate:
        """Return the certificate for any change of an object of this size in pixels, wherever it lies.

        Args:
            width: Width of the object in pixels.
            height: Height of the object in pixels.

        Raises:
            DippError: The size is not two positive whole numbers.
        """
        return self.for_units(self.unit.met(width, height))

    def for_picture(self, geometry: Geometry) -> Certificate:
        """Return the certificate for any change of a whole picture of this geometry."""
        return self.for_units(self.unit.count(geometry))

    @property
    def headline(self) -> Headline:
        """The first number to show: the ε of the objects that the release was planned to hide, or of one unit."""
        first = self.for_units(1) if self.hidden is None else self.for_object(*self.hidden)
        return Headline(first.epsilon, self.unit, self.hidden)

    @property
    def by_size(self) -> tuple[tuple[int, Certificate], ...]:
        """The certificates of square objects, each with its side in pixels (`OBJECT_SIDES`)."""
        return tuple((side, self.for_object(side, side)) for side in OBJECT_SIDES)

    def compose(self, *others: Certificate) -> Certificate:
        """Return the certificate of this and other releases of the same image, whose ε and ρ add up.

        It does not matter who made the releases, or in which order. They must be about the same units: a resized image
        has other units.

        Args:
            others: Certificates of the other releases.

        Raises:
            DippError: An argument is not a certificate, or is about another number of units or channels.

        Example::

            both = first.certificate.compose(second.certificate)
        """
        for other in others:
            if not isinstance(other, Certificate):
                raise DippError("compose", f"takes certificates, got {type(other).__name__}")
        if any((other.units, other.channels) != (self.units, self.channels) for other in others):
            raise DippError("compose", "takes certificates for the same numbers of units and of channels")
        releases = (ledger for certificate in (self, *others) for ledger in certificate.releases)
        same = all(other.delta == self.delta for other in others)
        hidden = self.hidden if all(other.hidden == self.hidden for other in others) else None
        return replace(self, releases=tuple(releases), delta=self.delta if same else None, hidden=hidden)

    @property
    def channels(self) -> int:
        """Number of channels of a pixel."""
        return self.releases[0].channels

    @property
    def ledger(self) -> Ledger:
        """The ledger, if the certificate is about a single release; otherwise raise."""
        if len(self.releases) > 1:
            raise DippError(
                "ledger",
                f"is ambiguous, because {len(self.releases)} releases were composed",
                "use releases, which has a ledger of each",
            )
        return self.releases[0]

    @property
    def assumptions(self) -> tuple[str, ...]:
        """The assumptions under which the certificate holds, in words."""
        return ASSUMPTIONS

    @property
    def not_covered(self) -> tuple[str, ...]:
        """What the certificate does not cover, in words."""
        return limits.not_covered(self.unit)

    def between(self, first: NDArray[np.uint8], second: NDArray[np.uint8]) -> float:
        """Return pure ε of telling two given images apart, where each unit costs only as much as it really differs.

        Without a clip and by the exponential mechanism, ε grows in proportion to the sum of all changes or, if steps
        touch one channel of a pixel at a time, to the sum of the largest change of each pixel; because integers are
        rounded, a change of a level or two costs a little more. With a clip, a step costs a unit at most the step's ε.

        Args:
            first: An image, uint8 of shape (H, W, C).
            second: Another image of the same shape.

        Returns:
            ε; infinity if the images differ outside all units.

        Raises:
            DippError: The images are not uint8 arrays of one shape, with the channels of the certificate.
        """
        for image in (first, second):
            if not isinstance(image, np.ndarray):
                kind = type(image).__name__
                raise DippError(
                    "first and second", f"must be uint8 arrays (H, W, C), got {kind}", "pass np.asarray of a picture"
                )
        if first.dtype != np.uint8 or first.dtype != second.dtype or first.shape != second.shape:
            raise DippError("first and second", "must be uint8 images of the same shape")
        if first.ndim != 3 or first.shape[-1] != self.channels:
            raise DippError("first and second", f"must have the shape (H, W, {self.channels}), got {first.shape}")
        changes, geometry = np.abs(first.astype(np.int16) - second).reshape(-1), Geometry.of(first.shape)
        largest, ids = np.zeros(self.unit.count(geometry), np.int16), self.unit.ids(geometry)
        if changes[ids < 0].any():  # pixels in no unit are released unchanged
            return math.inf
        np.maximum.at(largest, ids.clip(0), changes)
        if not all(ledger.metric for ledger in self.releases):
            return self.for_units(int(np.count_nonzero(largest))).epsilon if largest.any() else 0.0
        epsilon = _sum([_between(ledger, changes, largest) for ledger in self.releases])
        # The certificate for this number of units bounds the same ε, and rounds up in fewer places.
        changed = np.count_nonzero(largest)
        return min(epsilon, self.for_units(int(changed)).epsilon) if changed else epsilon

    def to_dict(self) -> dict[str, Any]:
        """Return the certificate as a dictionary for JSON, with the ledgers that its numbers follow from."""
        numbers: dict[str, Any] = {"epsilon": self.epsilon, "rho": self.rho, "delta": self.delta}
        if self.delta is not None:
            numbers["epsilon_at_delta"] = self.epsilon_at_delta
        if self.hidden is not None:
            whole, (width, height) = self.for_object(*self.hidden), self.hidden
            numbers["hidden"] = {"width": width, "height": height, "epsilon": whole.epsilon, "rho": whole.rho}
        return numbers | {
            "unit": self.unit.to_dict(),
            "units": self.units,
            "by_size": [
                {"window": side, "epsilon": priced.epsilon, "rho": priced.rho} for side, priced in self.by_size
            ],
            "steps": [step._asdict() for step in self.steps],
            "assumptions": list(self.assumptions),
            "not_covered": list(self.not_covered),
            "releases": [ledger.to_dict() for ledger in self.releases],
        }

    def to_json(self) -> str:
        """Return the certificate as a JSON text, which `from_json` reads."""
        return json.dumps(self.to_dict(), ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Certificate:
        """Read a certificate, compute its numbers again from its ledgers, and raise if it states other numbers.

        Args:
            text: The JSON that `to_json` wrote.

        Raises:
            DippError: The text is something else, or states other numbers than follow from its ledgers.
        """
        try:
            content = json.loads(text)
            ledgers = tuple(map(Ledger.from_dict, content["releases"]))
            hidden = content.get("hidden")
            size = None if hidden is None else (hidden["width"], hidden["height"])
            certificate = cls(ledgers, content["delta"], content["units"], size)
            stated = {key: content[key] for key in content if key not in SENTENCES}
            at_delta = stated.pop("epsilon_at_delta", None)
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            if isinstance(error, DippError):
                raise
            raise DippError("certificate", "must be the JSON that Certificate.to_json writes") from None
        expected = {key: value for key, value in json.loads(certificate.to_json()).items() if key not in SENTENCES}
        # The conversions to (ε, δ) go through logarithms, whose last bit depends on the platform.
        computed = expected.pop("epsilon_at_delta", None)
        near = isinstance(at_delta, float) and computed is not None and math.isclose(at_delta, computed, rel_tol=1e-9)
        if stated != expected or not (near or at_delta is computed is None):
            raise DippError("certificate", "states numbers that do not follow from its ledgers", "do not trust it")
        return certificate

    def short(self) -> str:
        """Return the ε of hidden objects, if any, and of one unit in a few words, with (ε, δ) if the budget had a δ."""
        at = "" if self.delta is None else f"{upper(self.approximate(self.delta))} at δ = {upper(self.delta)}, "
        protected = self.unit.short if self.units == 1 else f"{self.units} {self.unit.plural}"
        of_units = f"ε = {at}{upper(self.epsilon)} pure per {protected}"
        return (
            of_units
            if self.hidden is None
            else f"ε = {upper(self.headline.epsilon)} pure for {objects(self.hidden)}; {of_units}"
        )

    def __str__(self) -> str:
        return self.statement()

    def __repr__(self) -> str:
        return f"<dipp.Certificate: {self.short()}>"

    def _repr_html_(self) -> str:
        """Return HTML for a notebook: the promise, its assumptions, and what it does not cover."""
        return statements.as_html(self)

    def statement(self) -> str:
        """Return the certificate in one line of words."""
        pure = statements.promise(self.epsilon, self.rho, self.protected)
        at = "" if self.delta is None else f"ε = {upper(self.approximate(self.delta))} at δ = {upper(self.delta)}; "
        return f"{self._first}{at}{pure}"

    @property
    def _first(self) -> str:
        """The ε of hidden objects in words, before the words of the unit; empty without hidden objects."""
        if self.hidden is None:
            return ""
        whole = self.for_object(*self.hidden)
        at = "" if self.delta is None else f"{upper(whole.approximate(self.delta))} at δ = {upper(self.delta)}, "
        return f"ε = {at}{upper(whole.epsilon)} pure for {objects(self.hidden)}, wherever it lies; "

    @property
    def sizes(self) -> str:
        """The prices of square objects in words."""
        return (
            statements.prices((side, priced.epsilon) for side, priced in self.for_units(1).by_size) + self.unit.beyond
        )

    def table(self) -> str:
        """Return the certificate as a text: a line for each run of equal steps, their total, and what it means.

        The price of a step is that of a unit that it touches.
        """
        return statements.table(self)


def _sum(parts: list[float]) -> float:
    """Return a single loss unchanged, and several losses added up and rounded up."""
    return parts[0] if len(parts) == 1 else conversions.total(parts)


def _between(ledger: Ledger, changes: NDArray[np.int16], largest: NDArray[np.int16]) -> float:
    """Return pure ε of telling apart two images from their differences.

    Args:
        ledger: The ledger of the encoding.
        changes: The change of every coordinate, in levels.
        largest: The largest change in every unit, in levels.
    """
    # Where a step touches a unit once, the coordinate that changes most bounds all of the unit.
    counted = largest if ledger.touches == 1 else changes
    levels, counts = np.unique(counted, return_counts=True)
    return conversions.total(
        count * ledger.epsilon_of_change(level) for level, count in zip(levels.tolist(), counts.tolist(), strict=True)
    )
