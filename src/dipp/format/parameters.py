"""The public parameters of an encoding as one object, and the one check of an encoder's ledger against them.

All of them are fixed before a picture is read. Each archive, shard and unfinished run holds one such object. The
certificate follows from it and from the size of the smallest picture, which is public too.
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
"""Largest number of different entropy codes of a plan. Each has a table that takes milliseconds to make."""


@dataclass(frozen=True)
class PublicParameters:
    """The public parameters of one encoding, which sender, receiver and everybody else may know."""

    plan: Plan
    model: str
    """Identity of the denoiser: hex SHA-256 over its weights, network config and scheduler config."""
    seed: bytes
    """Public seed of the common randomness."""
    channels: int
    """Number C of channels of every image."""
    delta: float | None = None
    """δ of the budget; None if the budget has no δ."""
    table: str | None = None
    """Hex SHA-256 of the public table that the gains of a sensing plan follow from; None for steps along timesteps."""
    seed_given: bool = False
    """Whether the caller gave the seed (with a beacon: the sender's part of it). False: the encoder drew it before it
    read a picture."""
    beacon: Beacon | None = None
    """The public beacon that the seed follows from, with the sender's own part; None without one."""
    window: Window | None = None
    """Which values of pictures of more than eight bits became black and white; None: such pictures are refused."""
    hidden: Size | None = None
    """Width and height of the objects that the plan hides, wherever they lie; None if the budget is a unit's."""
    latents: Latents | None = None
    """The shape of the latents that are coded in place of pixels; None if pixels are coded."""
    prompt: str = ""
    """The public text that a latent model is told; empty for other models."""
    surroundings: bytes | None = field(default=None, repr=False)
    """A PNG of the picture around regions, with the regions painted without being read. None for other units, and where
    that picture is a file of its own."""

    def __post_init__(self) -> None:
        code, steps = self.plan.code, self.plan.steps
        if not isinstance(self.model, str) or not re.fullmatch(f"[0-9a-f]{{{2 * MODEL_BYTES}}}", self.model):
            raise DippError("model", f"must be a SHA-256 in {2 * MODEL_BYTES} lower-case hex digits, got {self.model}")
        if not isinstance(self.seed, bytes) or len(self.seed) != SEED_BYTES:
            raise DippError("seed", f"must have {SEED_BYTES} bytes, got {self.seed!r:.40}")
        if self.beacon is not None and self.beacon.seed != self.seed:
            raise DippError("seed", "does not follow from its beacon", "do not trust the file")
        if self.table is not None and not re.fullmatch(f"[0-9a-f]{{{2 * MODEL_BYTES}}}", self.table):
            raise DippError("table", f"must be a SHA-256 in {2 * MODEL_BYTES} lower-case hex digits, got {self.table}")
        if self.delta is not None and not 0 < self.delta < 1:
            raise DippError("delta", f"must be between 0 and 1, got {self.delta}")
        if self.hidden is not None:
            self.plan.unit.met(*self.hidden)  # raises if it is not a size
        if self.surroundings is not None and not self.plan.unit.surrounded:
            raise DippError("surroundings", "belong to regions alone", "leave them out for other units")
        checked("channels", self.channels, 1, MAX_CHANNELS)
        if self.latents is not None and self.plan.coding.certified:
            self.latents.require_unit(self.plan.unit)
        if self.latents is None and self.prompt:
            raise DippError("prompt", "belongs to latent models alone", "leave it out, or choose a latent model")
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
        """Return the geometry of an image of this size.

        Args:
            height: Height in pixels.
            width: Width in pixels.

        Raises:
            DippError: The size is invalid, or the unit does not fit into it.
        """
        geometry = Geometry(height, width, self.channels)
        self.plan.unit.require_within(geometry)
        return geometry

    def coded(self, geometry: Geometry) -> Geometry:
        """Return the geometry of what is coded of an image: that of its pixels, or that of its latents."""
        return geometry if self.latents is None else self.latents.geometry(geometry)

    def layout(self, geometry: Geometry) -> Layout:
        """Return how the indices of an image of this geometry are packed."""
        return layout_of(self.plan, self.coded(geometry))

    def certificate(self, smallest: Geometry | None) -> Certificate | None:
        """Return the certificate, which is that of the smallest image: no other image has a larger price.

        Args:
            smallest: Geometry of the smallest image. None stands for an image of the worst size.

        Returns:
            The certificate; None if the coding is not differentially private.
        """
        if not self.plan.coding.certified:
            return None
        any_size = Geometry(1, MAX_PIXELS if self.latents is None else 1, self.channels)
        worst = self.coded(
            smallest or any_size
        )  # latents are certified for the whole picture alone, at one price for all sizes
        return promised(self.plan, worst, self.delta, self.hidden)

    def claim(self, smallest: Geometry | None) -> tuple[float, float] | None:
        """Return ε and ρ of the certificate, as files state them; None without a certificate.

        Args:
            smallest: Geometry of the picture with the fewest units; None without pictures.
        """
        certificate = self.certificate(smallest)
        return None if certificate is None else (certificate.epsilon, certificate.rho)

    def require_recorded(self, smallest: Geometry | None, recorded: Ledger | None) -> None:
        """Raise if the encoder's own ledger differs from that of the plan, because nothing may be released then.

        Every reader computes the certificate from the ledger of the plan. The encoder writes a ledger of its own while
        it encodes, from the integers that it uses.

        Args:
            smallest: Geometry of the smallest image; None if there is no image.
            recorded: The encoder's ledger; None if nothing was encoded, or nothing is certified.

        Raises:
            DippError: The two ledgers differ.
        """
        certificate = self.certificate(smallest)
        if recorded is not None and (certificate is None or certificate.releases != (recorded,)):
            raise DippError(
                "ledger", "of the encoder differs from that of its plan", "nothing was written; report this"
            )


@functools.lru_cache(maxsize=64)
def promised(plan: Plan, smallest: Geometry, delta: float | None, hidden: Size | None = None) -> Certificate:
    """Return `Certificate.of` from a cache: checking a picture's size, archiving it and reading it ask for the same.

    Args:
        plan: The plan.
        smallest: Geometry of the picture with the fewest units.
        delta: δ of the budget; None if it has no δ.
        hidden: Width and height of the objects that the plan hides; None if the budget is a unit's.
    """
    return Certificate.of(plan, smallest, delta, hidden)
