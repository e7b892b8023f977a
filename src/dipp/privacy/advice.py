"""What an ε per pixel is worth and what it does not hide: the one scale of commands, papers, documents and the page.

Everything here depends on the claim and on public numbers alone, never on a pixel.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dipp.privacy.printing import lower, upper

DEFAULT_EPSILON = 1.0
"""The ε per pixel to begin with, on every page: the largest that is strong. Commands need a budget, and assume none."""


@dataclass(frozen=True)
class Grade:
    """One row of the scale: what a pure ε per pixel is worth."""

    largest: float
    """The largest ε of this grade."""
    name: str
    meaning: str
    """What the bound says about one pixel, to somebody who knows every other pixel of the picture."""


SCALE = (
    Grade(1.0, "strong", "the file leaves them unsure of the last pixel"),
    Grade(4.0, "weak", "the file may make them nearly sure of the last pixel"),
    Grade(math.inf, "hardly any", "the file may tell them the last pixel"),
)
READERS = {0.5: 86, 1.0: 92, 2.0: 95, 4.0: 96, 8.0: 96, 16.0: 97}
"""By ε, how often the decoded photograph alone was right about a pixel, in percent (`benchmarks/readers.py`)."""
RECOGNISABLE = (
    "yes, because an ε per pixel is about single pixels, and faces, plates, places and text (burnt-in names too) are "
    "made of many: treat the people in the pictures as identifiable in the release"
)


def grade(epsilon: float) -> Grade:
    """Return the row of the scale that a pure ε per pixel falls into."""
    return next(row for row in SCALE if epsilon <= row.largest)


def bound(epsilon: float) -> str:
    """Return what a pure ε per pixel promises in words, with the reader whom the promise is about."""
    return (
        f"a fifty-fifty guess about one pixel becomes at most {largest_belief(epsilon)} % for somebody who knows every "
        "other pixel of the picture"
    )


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


def warnings(epsilon: float, delta: float | None = None, pixels: int = 1) -> tuple[str, ...]:
    """Return the warnings that go with a release.

    Args:
        epsilon: The pure ε per pixel, also where the budget was (ε, δ): only this one holds for every file.
        delta: The δ of the budget, if it has one.
        pixels: The number of pixels of all pictures of the release.

    Returns:
        One sentence each, without a full stop; none for a strong ε and a small δ.

    """
    found = []
    row = grade(epsilon)
    if row is not SCALE[0]:
        strong = f"choose {SCALE[0].largest:g} or less if single pixels matter"
        found.append(f"a pure ε of {upper(epsilon, 3)} per pixel is {row.name} as a bound: {row.meaning}; {strong}")
    if delta is not None and too_large(delta, pixels):
        found.append(
            f"a δ of {upper(delta)} times {pixels:,} pixels is 1 or more: (ε, δ) then allows a pixel to be published "
            f"as it is; rely on the pure ε, or choose a δ far below {lower(1 / pixels, 1)}"
        )
    return tuple(found)


def too_large(delta: float, pixels: int) -> bool:
    """Return whether a δ per pixel promises nothing for this many pixels.

    Publishing one of N pixels, drawn at random, as it is satisfies (0, 1/N) per pixel: from δ = 1/N on, (ε, δ) allows
    that.
    """
    return delta * pixels >= 1
