"""Latents: the values that are coded instead of pixels if a model has a VAE, and the only unit that they can certify.

A VAE turns a picture into a smaller array of latents, by a network that looks at many pixels at once. A change of one
pixel may change every latent. So nothing smaller than the whole picture can be certified through it. The unit `picture`
holds through any encoder: any two pictures are neighbours, and the latents of a picture depend on it alone.

Latents are coded in eight bits, as pixels are. A latent z is clipped to [−R, R], R = `REACH`, and becomes the
signal u = z/R. So the integers, the draws and their proofs are those of pixels. Whatever a VAE returns, a coded value
is one of 256, and nothing fails. Rounding moves a latent by at most R/255, which is 0.03 of its deviation.
"""

from __future__ import annotations

from dataclasses import dataclass

from dipp.core.geometry import MAX_CHANNELS, Geometry
from dipp.core.unit import Unit
from dipp.errors import DippError

REACH = 8.0
"""R: the largest latent, in units of the deviation that the diffusion was trained for, which is about 1."""
MAX_FACTOR, MAX_PATCH = 64, 64
"""Largest `factor` and `patch` of latents."""
MAX_PROMPT = 4096
"""Largest length of a prompt in bytes of UTF-8."""


@dataclass(frozen=True)
class Latents:
    """The public shape of the latents of a picture.

    Attributes:
        factor: Number of pixels along each side of a latent.
        channels: Number of channels of the latents.
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
                raise DippError("latents", f"must have a {name} from 1 to {most}, got {value!r}")

    def geometry(self, picture: Geometry) -> Geometry:
        """Return the geometry of the latents of a picture, whose sides are padded to whole patches."""
        across = self.factor * self.patch
        height, width = (-(-side // across) * self.patch for side in (picture.height, picture.width))
        return Geometry(height, width, self.channels)

    def padded(self, picture: Geometry) -> tuple[int, int]:
        """Return height and width of a picture, in pixels, after it is padded to whole patches."""
        latents = self.geometry(picture)
        return latents.height * self.factor, latents.width * self.factor

    @staticmethod
    def require_unit(unit: Unit) -> None:
        """Raise for any unit except the whole picture."""
        if not unit.whole:
            raise DippError(
                "unit",
                f"must be picture for a latent model, whose VAE mixes all pixels, got {unit.short}",
                "pass --unit picture",
            )


def require_prompt(prompt: object) -> None:
    """Raise if a prompt is not a text of at most `MAX_PROMPT` bytes in UTF-8, which a file can record."""
    if not isinstance(prompt, str):
        raise DippError("prompt", f"must be a text, got {type(prompt).__name__}")
    try:
        length = len(prompt.encode())
    except UnicodeEncodeError:
        raise DippError("prompt", "has characters that UTF-8 does not know", "write another text") from None
    if length > MAX_PROMPT:
        raise DippError("prompt", f"must have at most {MAX_PROMPT} bytes, got {length}")
