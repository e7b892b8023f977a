"""Say in words under which assumptions a certificate holds, and what it does not cover.

The words depend on the unit alone, never on a picture.
"""

from __future__ import annotations

from dipp.core.unit import Unit

ASSUMPTIONS = (
    "the encoder ran this code: a file can show that it is consistent, never that its encoder was honest",
    "the private randomness came from the operating system's generator, and nobody saw it or could predict it",
    "model, unit, schedule, code tables and options were fixed without looking at the private images, and not fitted "
    "to them",
    "the public seed was drawn before the images were read",
)
AGAIN = "another encoding of the same image: the costs add up, see Certificate.compose"
PUBLIC = (
    "width, height, number and order of the images, and that they were encoded at all",
    "one person in many images, and labels or names that come with them",
    "how long encoding took, logs, and copies of the images elsewhere",
)


def not_covered(unit: Unit) -> tuple[str, ...]:
    """Return what a certificate of a unit does not cover: one phrase each, without a full stop."""
    return AGAIN, *unit.uncovered, *PUBLIC
