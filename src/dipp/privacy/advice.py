"""What an ε is worth and what it does not hide: the one scale of commands, papers, documents and the page.

The first number of a certificate is its *headline*: that of the objects which the release was planned to hide, or of
one unit. Every sentence here names what the number speaks of, and for which reader it holds. Everything depends on the
claim and on public numbers alone, never on a pixel.
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
"""The ε per pixel to begin with, on every page: the largest that is strong. Commands need a budget, and assume none."""
PIXEL = Pixel()


@dataclass(frozen=True)
class Grade:
    """One row of the scale: what a pure ε is worth."""

    largest: float
    """The largest ε of this grade."""
    name: str
    verb: str
    """What the file does at most, to somebody who knows everything else."""

    def meaning(self, what: str = "the last pixel") -> str:
        """Return what the bound says about something, to somebody who knows everything else in the picture."""
        return f"the file {self.verb} {what}"


SCALE = (
    Grade(1.0, "strong", "leaves them unsure of"),
    Grade(4.0, "weak", "may make them nearly sure of"),
    Grade(math.inf, "hardly any", "may tell them"),
)
READERS = {0.5: 86, 1.0: 92, 2.0: 95, 4.0: 96, 8.0: 96, 16.0: 97}
"""By ε per pixel, how often the decoded photograph alone was right about a pixel, in percent (`benchmarks/readers.py`).
Nothing was measured of other units."""
RECOGNISABLE = PIXEL.recognisable("any size", strong=False)
"""Whether people can be recognised where ε is per pixel, or where there is none: it depends on no ε."""


class Headline(NamedTuple):
    """The first number of a certificate, and what it speaks of."""

    epsilon: float
    """Pure ε, also where the budget was (ε, δ): only this one holds for every file."""
    unit: Unit = PIXEL
    """The unit of the certificate."""
    hidden: Size | None = None
    """Width and height of the objects whose ε this is; None if it is that of one unit."""

    @classmethod
    def of(cls, claim: Mapping[str, Any]) -> Headline:
        """Return the headline of a certificate, as `Certificate.to_dict` gives it."""
        unit, hidden = units.from_dict(claim["unit"]), claim.get("hidden")
        if hidden is None:
            return cls(claim["epsilon"], unit)
        return cls(hidden["epsilon"], unit, (hidden["width"], hidden["height"]))

    @property
    def what(self) -> str:
        """What the number speaks of, in words that follow "about"."""
        return f"one {self.unit.short}" if self.hidden is None else objects(self.hidden)

    @property
    def reader(self) -> str:
        """For whom the bound holds, in words that follow "for"."""
        return self.unit.reader if self.hidden is None else "somebody who knows everything else in the picture"

    @property
    def grade(self) -> Grade:
        """The row of the scale."""
        return grade(self.epsilon)

    @property
    def bound(self) -> str:
        """What it promises in words, with the reader whom the promise is about."""
        return (
            f"a fifty-fifty guess about {self.what} becomes at most {largest_belief(self.epsilon)} % for {self.reader}"
        )

    @property
    def measured(self) -> str | None:
        """What readers of decoded photographs were measured to tell, in words; None where nothing was measured."""
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
        """Whether a strong ε covers everything in a picture at once: nothing in it can then be recognised for sure."""
        return self.unit.whole and self.grade is SCALE[0]

    def warnings(self, delta: float | None = None, count: int = 1) -> tuple[str, ...]:
        """Return the warnings that go with a release.

        Args:
            delta: The δ of the budget, if it has one.
            count: The number of units of all pictures of the release.

        Returns:
            One sentence each, without a full stop; none for a strong ε and a small δ.

        """
        found = []
        if self.grade is not SCALE[0]:
            pixel = self.unit == PIXEL and self.hidden is None
            last = "the last pixel" if pixel else f"that {'object' if self.hidden else self.unit.kind}"
            matter = "single pixels matter" if pixel else f"{last} must stay hidden"
            found.append(
                f"a pure ε of {upper(self.epsilon, 3)} {self._whose} is {self.grade.name} as a bound: "
                f"{self.grade.meaning(last)}; choose {SCALE[0].largest:g} or less if {matter}"
            )
        if delta is not None and too_large(delta, count):
            found.append(
                f"a δ of {upper(delta)} times {count:,} {self.unit.plural} is 1 or more: (ε, δ) then allows a "
                f"{self.unit.short} to be published as it is; rely on the pure ε, or choose a δ far below "
                f"{lower(1 / count, 1)}"
            )
        return tuple(found)

    @property
    def _whose(self) -> str:
        return f"per {self.unit.short}" if self.hidden is None else f"for {objects(self.hidden)}"


def objects(size: Size) -> str:
    """Return any object of a size, in words."""
    return f"any object of at most {'×'.join(map(str, size))} pixels"


def release_warnings(claim: Mapping[str, Any] | None, pixels: int, images: int) -> tuple[str, ...]:
    """Return the warnings that go with a release.

    Args:
        claim: Its certificate, as `Certificate.to_dict` gives it; None without one.
        pixels: The number of pixels of all its pictures.
        images: The number of its pictures.

    """
    if claim is None:
        return ()
    found = Headline.of(claim)
    return found.warnings(claim["delta"], found.unit.total(pixels, images))


def grade(epsilon: float) -> Grade:
    """Return the row of the scale that a pure ε falls into."""
    return next(row for row in SCALE if epsilon <= row.largest)


def largest_belief(epsilon: float) -> str:
    """Return e^ε/(1 + e^ε) in percent, rounded up to three digits."""
    return upper(100 / (1 + math.exp(-epsilon)), 3)


def measured(epsilon: float) -> str:
    """Return what readers of decoded photographs were measured to tell about a pixel, in words.

    The figure is that of the smallest measured budget that is not below `epsilon`, or of the largest one; it is named.
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
    """
    return delta * count >= 1
