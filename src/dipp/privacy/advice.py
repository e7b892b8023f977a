"""Say in words what an ε is worth and what it does not hide: one scale for commands, papers, documents and the page.

The first number of a certificate is its *headline*. It is the ε of the objects that the release was planned to hide,
or otherwise of one unit. Every sentence here names what the ε protects, and for which reader it holds. Everything
depends on the certificate and on public numbers alone, never on a pixel.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from dipp.core import units
from dipp.core.unit import Size, Unit
from dipp.core.units import Pixel
from dipp.privacy.printing import lower, upper

DEFAULT_EPSILON = 1.0
"""The ε per pixel that every page recommends: the largest that is strong. No command uses it by default."""
PIXEL = Pixel()


@dataclass(frozen=True)
class Grade:
    """One row of the scale: what a pure ε is worth."""

    largest: float
    """The largest ε of this grade."""
    name: str
    verb: str
    """Words such as "may tell them", between "the file" and the thing that a reader may learn about."""

    def meaning(self, what: str = "the last pixel") -> str:
        """Return in words what a reader who knows the rest of the picture may learn about a part of it.

        Args:
            what: The part, in words.
        """
        return f"the file {self.verb} {what}"


SCALE = (
    Grade(1.0, "strong", "leaves them unsure of"),
    Grade(4.0, "weak", "may make them nearly sure of"),
    Grade(math.inf, "hardly any", "may tell them"),
)
READERS = {0.5: 86, 1.0: 92, 2.0: 95, 4.0: 96, 8.0: 96, 16.0: 97}
"""How often a reader of the decoded photograph alone was right about a pixel, in percent, by ε per pixel.

Measured by `benchmarks/readers.py`, for pixels only."""
RECOGNISABLE = PIXEL.recognisable("any size", strong=False)
"""Words about whether people can be recognised if ε is per pixel or missing, which depend on no ε."""


class Headline(NamedTuple):
    """The first number of a certificate, and what it protects."""

    epsilon: float
    """Pure ε, even if the budget was (ε, δ), because only pure ε holds for every file."""
    unit: Unit = PIXEL
    """The unit of the certificate."""
    hidden: Size | None = None
    """Width and height in pixels of the objects that the ε protects; None if it protects one unit."""

    @classmethod
    def of(cls, claim: Mapping[str, Any]) -> Headline:
        """Return the headline of the certificate in a dictionary that `Certificate.to_dict` made."""
        unit, hidden = units.from_dict(claim["unit"]), claim.get("hidden")
        if hidden is None:
            return cls(claim["epsilon"], unit)
        return cls(hidden["epsilon"], unit, (hidden["width"], hidden["height"]))

    @property
    def what(self) -> str:
        """What the ε protects, in words that follow "about"."""
        return f"one {self.unit.short}" if self.hidden is None else objects(self.hidden)

    @property
    def reader(self) -> str:
        """The reader for whom the bound holds, in words that follow "for"."""
        return self.unit.reader if self.hidden is None else "somebody who knows everything else in the picture"

    @property
    def grade(self) -> Grade:
        """The grade of the ε."""
        return grade(self.epsilon)

    @property
    def bound(self) -> str:
        """The promise of the ε in words, with the reader for whom it holds."""
        return (
            f"a fifty-fifty guess about {self.what} becomes at most {largest_belief(self.epsilon)} % for {self.reader}"
        )

    @property
    def measured(self) -> str | None:
        """How often readers of decoded photographs were right, in words; None if that was not measured."""
        return measured(self.epsilon) if self.unit == PIXEL and self.hidden is None else None

    @property
    def recognisable(self) -> str:
        """Whether people and things can be recognised in the release, and why, in words."""
        if self.hidden is not None and not self.unit.whole:
            return (
                f"perhaps: the ε of {upper(self.epsilon, 3)} is that of {objects(self.hidden)}, and whatever is larger "
                "pays more; treat the people in the pictures as identifiable if they are larger"
            )
        return self.unit.recognisable(upper(self.epsilon, 3), strong=self.grade is SCALE[0])

    @property
    def covers_all(self) -> bool:
        """Whether a strong ε covers the whole picture at once, so that nothing in it can be recognised for sure."""
        return self.unit.whole and self.grade is SCALE[0]

    def warnings(self, delta: float | None = None, count: int = 1) -> tuple[str, ...]:
        """Return the warnings that go with a release.

        Args:
            delta: The δ of the budget, if it has one.
            count: The number of units of all pictures of the release.

        Returns:
            One sentence each, without a full stop; none for a strong ε and a small δ.

        """
        warnings = []
        if self.grade is not SCALE[0]:
            pixel = self.unit == PIXEL and self.hidden is None
            last = "the last pixel" if pixel else f"that {'object' if self.hidden else self.unit.kind}"
            matter = "single pixels matter" if pixel else f"{last} must stay hidden"
            warnings.append(
                f"a pure ε of {upper(self.epsilon, 3)} {self._whose} is {self.grade.name} as a bound: "
                f"{self.grade.meaning(last)}; choose {SCALE[0].largest:g} or less if {matter}"
            )
        if delta is not None and too_large(delta, count):
            warnings.append(
                f"a δ of {upper(delta)} times {count:,} {self.unit.plural} is 1 or more: (ε, δ) then allows a "
                f"{self.unit.short} to be published as it is; rely on the pure ε, or choose a δ far below "
                f"{lower(1 / count, 1)}"
            )
        return tuple(warnings)

    @property
    def _whose(self) -> str:
        return f"per {self.unit.short}" if self.hidden is None else f"for {objects(self.hidden)}"


def objects(size: Size) -> str:
    """Return words for any object of at most this width and height in pixels."""
    return f"any object of at most {'×'.join(map(str, size))} pixels"


def release_warnings(claim: Mapping[str, Any] | None, pixels: int, images: int) -> tuple[str, ...]:
    """Return the warnings that go with a release.

    Args:
        claim: Its certificate as a dictionary that `Certificate.to_dict` made; None without a certificate.
        pixels: The number of pixels of all its pictures.
        images: The number of its pictures.

    Returns:
        One sentence each, without a full stop; none without a certificate.
    """
    if claim is None:
        return ()
    headline = Headline.of(claim)
    return headline.warnings(claim["delta"], headline.unit.total(pixels, images))


def grade(epsilon: float) -> Grade:
    """Return the grade of a pure ε, which is a row of `SCALE`."""
    return next(row for row in SCALE if epsilon <= row.largest)


def largest_belief(epsilon: float) -> str:
    """Return e^ε/(1 + e^ε) in percent, rounded up to three digits."""
    return upper(100 / (1 + math.exp(-epsilon)), 3)


def measured(epsilon: float) -> str:
    """Return in words how often readers of decoded photographs were right about a pixel.

    The words name the ε of the measurement: the smallest measured one that is at least `epsilon`, or the largest.
    """
    at = min((value for value in READERS if value >= epsilon), default=max(READERS))
    return (
        "the decoded photograph alone tells a pixel's colour from another colour of the picture in "
        f"{READERS[at]} % of cases (measured at ε = {upper(at)}), because its neighbours tell"
    )


def too_large(delta: float, count: int) -> bool:
    """Return whether a δ per unit promises nothing for this many units.

    Publishing one of N units, drawn at random, as it is satisfies (0, 1/N) per unit: from δ = 1/N on, (ε, δ) allows
    that.

    Args:
        delta: δ of a unit.
        count: Number of units.
    """
    return delta * count >= 1
