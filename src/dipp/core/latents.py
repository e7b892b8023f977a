"""Latents: what is coded in the place of pixels if a model has a VAE, and the only unit that can then be certified.

A VAE turns a picture into a smaller array of latents, by a network that looks at many pixels at once. A change of one
pixel may change every latent. So nothing smaller than the whole picture can be certified through it. The unit `picture`
holds through any encoder: two pictures are neighbours whatever they show, and what is coded of each is its own.

Latents are coded in eight bits, as pixels are. A latent z in [−R, R] is the signal u = z/R, R = `REACH`, and what lies
outside is clipped. So the integers, the draws and their proofs are those of pixels. Whatever a VAE gives, a value is
one of 256, and nothing fails. Rounding moves a latent by at most R/255, which is 0.03 of its deviation.
"""

from __future__ import annotations

from dataclasses import dataclass

from dipp.core.geometry import MAX_CHANNELS, Geometry
from dipp.core.unit import Unit
from dipp.errors import DippError

REACH = 8.0
"""R: the largest latent, in units of the deviation that the diffusion was trained for, which is about 1."""
MAX_FACTOR, MAX_PATCH = 64, 64
MAX_PROMPT = 4096
"""Most bytes of a prompt in UTF-8."""


@dataclass(frozen=True)
class Latents:
    """The public shape of the latents of a picture.

    Attributes:
        factor: Pixels along a side of a latent.
        channels: Channels of the latents.
        patch: Both sides of the latents are multiples of this number.

    Raises:
        DippError: A number is out of its range.

    """

    factor: int
    channels: int
    patch: int = 1

    def __post_init__(self) -> None:
        for name, value, most in (
            ("factor", self.factor, MAX_FACTOR),
            ("channels", self.channels, MAX_CHANNELS),
            ("patch", self.patch, MAX_PATCH),
        ):
            if type(value) is not int or not 1 <= value <= most:
                raise DippError("latents", f"{name} must be a whole number from 1 to {most}, got {value!r}")

    def geometry(self, picture: Geometry) -> Geometry:
        """Return the geometry of the latents of a picture, whose sides are padded to whole patches."""
        across = self.factor * self.patch
        height, width = (-(-side // across) * self.patch for side in (picture.height, picture.width))
        return Geometry(height, width, self.channels)

    def padded(self, picture: Geometry) -> tuple[int, int]:
        """Return height and width of a picture after padding: public, from its size alone."""
        own = self.geometry(picture)
        return own.height * self.factor, own.width * self.factor

    @staticmethod
    def require_unit(unit: Unit) -> None:
        """Raise for any unit but the whole picture."""
        if not unit.whole:
            raise DippError(
                "unit",
                f"a latent model mixes all pixels in its VAE, so it can certify whole pictures alone, got {unit.short}",
                "pass --unit picture",
            )


def require_prompt(prompt: object) -> None:
    """Raise if this is not a text that a file can record."""
    if not isinstance(prompt, str):
        raise DippError("prompt", f"a text is needed, got {type(prompt).__name__}")
    try:
        length = len(prompt.encode())
    except UnicodeEncodeError:
        raise DippError("prompt", "it has characters that UTF-8 does not know", "write another text") from None
    if length > MAX_PROMPT:
        raise DippError("prompt", f"a text of at most {MAX_PROMPT} bytes is needed, got {length}")
