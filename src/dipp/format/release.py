"""A release: the public parameters of an encoding as one object, and the one check of a ledger against them.

Everything here is fixed before a picture is read. Archives, shards and unfinished runs hold a release each;
certificates follow from it and from the size of the smallest picture, which is public too.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, field

from dipp.core.beacon import Beacon
from dipp.core.geometry import MAX_CHANNELS, MAX_PIXELS, Geometry
from dipp.core.latents import Latents, require_prompt
from dipp.core.plan import Plan
from dipp.core.randomness import SEED_BYTES
from dipp.core.unit import Size
from dipp.core.window import Window
from dipp.errors import DippError
from dipp.format.bytes import checked
from dipp.format.packing import Layout, layout_of
from dipp.privacy.certificate import Certificate
from dipp.privacy.ledger import Ledger

MODEL_BYTES = 32
MAX_STEPS = 4096
MAX_ENTROPY_CODES = 256
"""Different entropy codes of a plan: each has a table that takes milliseconds to make."""


@dataclass(frozen=True)
class Release:
    """What sender and receiver, and everybody else, know about an encoding."""

    plan: Plan
    model: str
    """Hex SHA-256 over weights, network config and scheduler config of the denoiser."""
    seed: bytes
    """Public seed of the common randomness."""
    channels: int
    """Channels C of every image."""
    delta: float | None = None
    """δ of the budget, where an (ε, δ) was asked for."""
    table: str | None = None
    """Hex SHA-256 of the public table that the gains of a sensing plan follow from; None along timesteps."""
    seed_given: bool = False
    """Whether the caller gave the seed (with a beacon: its own part of it), and it was not drawn by the encoder before
    it read a picture."""
    beacon: Beacon | None = None
    """The public beacon that the seed follows from, with the sender's own part; None without one."""
    window: Window | None = None
    """Which values of pictures of more than eight bits became black and white; None: no such picture was taken."""
    hidden: Size | None = None
    """Width and height of the objects that the plan is to hide, wherever they lie; None if it was made for one unit."""
    latents: Latents | None = None
    """The shape of the latents that were coded in the place of pixels; None if pixels were."""
    prompt: str = ""
    """The public text that a latent model was told."""
    surroundings: bytes | None = field(default=None, repr=False)
    """A PNG of what lies around regions, with what is painted in them without reading them; None for other units, and
    where the picture is a file of its own."""

    def __post_init__(self) -> None:
        code, steps = self.plan.code, self.plan.steps
        if not isinstance(self.model, str) or not re.fullmatch(f"[0-9a-f]{{{2 * MODEL_BYTES}}}", self.model):
            raise DippError(
                "model", f"a SHA-256 in {2 * MODEL_BYTES} lower-case hex digits is needed, got {self.model}"
            )
        if not isinstance(self.seed, bytes) or len(self.seed) != SEED_BYTES:
            raise DippError("seed", f"{SEED_BYTES} bytes are needed, got {self.seed!r:.40}")
        if self.beacon is not None and self.beacon.seed != self.seed:
            raise DippError("seed", "it does not follow from its beacon", "do not trust the file")
        if self.table is not None and not re.fullmatch(f"[0-9a-f]{{{2 * MODEL_BYTES}}}", self.table):
            raise DippError(
                "table", f"a SHA-256 in {2 * MODEL_BYTES} lower-case hex digits is needed, got {self.table}"
            )
        if self.delta is not None and not 0 < self.delta < 1:
            raise DippError("delta", f"a number between 0 and 1 is needed, got {self.delta}")
        if self.hidden is not None:
            self.plan.unit.met(*self.hidden)  # raises if it is not a size
        if self.surroundings is not None and not self.plan.unit.surrounded:
            raise DippError("surroundings", "only regions have any")
        checked("channels", self.channels, 1, MAX_CHANNELS)
        if self.latents is not None and self.plan.coding.certified:
            self.latents.require_unit(self.plan.unit)
        if self.latents is None and self.prompt:
            raise DippError("prompt", "only latent models take one, and nothing of latents is said here")
        require_prompt(self.prompt)
        self.plan.mask.require(self.channels)
        checked("steps", len(steps), 1, MAX_STEPS)
        if not code.fixed_length:
            parameters = {(step.index_bits, step.exponent_units) for step in steps}
            checked("zeta codes", len(parameters), 1, MAX_ENTROPY_CODES)
        for step in steps:
            self.plan.arithmetic(step)  # raises if its integers do not fit, also where no certificate asks for them
            checked("exponent_units", step.exponent_units, *((0, 0) if code.fixed_length else (1, 255)))

    def geometry(self, height: int, width: int) -> Geometry:
        """Return the geometry of an image of this size: all have the channels of the release."""
        found = Geometry(height, width, self.channels)
        self.plan.unit.require_within(found)
        return found

    def coded(self, geometry: Geometry) -> Geometry:
        """Return the geometry of what is coded of an image: its own, or that of its latents."""
        return geometry if self.latents is None else self.latents.geometry(geometry)

    def layout(self, geometry: Geometry) -> Layout:
        """Return how the indices of an image are packed."""
        return layout_of(self.plan, self.coded(geometry))

    def certificate(self, smallest: Geometry | None) -> Certificate | None:
        """Return what is promised to the images; the smallest one is the worst.

        Args:
            smallest: Geometry of the smallest image; None if there is no image.

        Returns:
            The certificate; None if the coding is not differentially private.
        """
        if not self.plan.coding.certified:
            return None
        any_size = Geometry(1, MAX_PIXELS if self.latents is None else 1, self.channels)
        worst = self.coded(smallest or any_size)  # of latents, whole pictures alone are certified, of any size alike
        return promised(self.plan, worst, self.delta, self.hidden)

    def claim(self, smallest: Geometry | None) -> tuple[float, float] | None:
        """Return ε and ρ of that certificate, as files state them."""
        found = self.certificate(smallest)
        return None if found is None else (found.epsilon, found.rho)

    def require_recorded(self, smallest: Geometry | None, recorded: Ledger | None) -> None:
        """Raise if the encoder's own ledger is not what follows from the plan: nothing may be released then.

        Every reader computes the certificate from the ledger of the plan; the encoder wrote its own while it encoded,
        from the integers that it used. `recorded` is None if nothing was encoded, or nothing is certified.
        """
        found = self.certificate(smallest)
        if recorded is not None and (found is None or found.releases != (recorded,)):
            raise DippError(
                "ledger", "what the encoder did is not what its plan says", "nothing is written, report this"
            )


@functools.lru_cache(maxsize=64)
def promised(plan: Plan, smallest: Geometry, delta: float | None, hidden: Size | None = None) -> Certificate:
    """Return `Certificate.of`, cached: checking a picture's size, archiving it and reading it back ask for the same."""
    return Certificate.of(plan, smallest, delta, hidden)
