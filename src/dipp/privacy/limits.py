"""What a certificate rests on, and what it says nothing about, in words that are true for its unit.

Everything here depends on the unit alone, never on a picture.
"""

from __future__ import annotations

from dipp.core.units import Cells, Picture, Pixel, Unit

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
FACE = (60, 80)
"""Width and height of a face, as an example of an object that is larger than most cells."""


def not_covered(unit: Unit) -> tuple[str, ...]:
    """Return what a certificate of a unit does not cover, a text each, without a full stop."""
    return AGAIN, *_of(unit), *PUBLIC


def _of(unit: Unit) -> tuple[str, ...]:
    """Return what the unit leaves open."""
    if isinstance(unit, Pixel):
        return (
            "what the neighbours of a pixel tell about it: ε bounds what the file adds for somebody who knows them all",
            "what many pixels show together: k of them cost k times ε, so faces, plates, text and places stay "
            "recognisable",
            "what was mixed before encoding: after a resize or a blur, a pixel of the original is in many pixels",
        )
    if isinstance(unit, Picture):
        return (
            "what other pictures of the same person, place or object show: each pays for itself, and their ε add up",
            "what somebody knows about the picture beforehand: ε bounds what the file adds to it",
        )
    pays = f"an object of several {unit.plural}: it pays for all that it meets"
    if isinstance(unit, Cells):
        pays += f"; {'×'.join(map(str, FACE))} pixels, as a face may have, meet up to {unit.met(*FACE)} and pay that "
        pays += "many times ε"
    return (
        f"what the rest of the picture tells about a {unit.short}: ε bounds what the file adds for somebody who knows "
        "it all",
        pays,
        "what was mixed before encoding: a resize, a blur or lossy compression (4:2:0 JPEG, WebP, AVIF) spreads an "
        "object of the scene over the pixels around it; ε speaks of the decoded array",
    )
