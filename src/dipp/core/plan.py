"""The plan of an encoding: its public parameters, which are fixed before any image is read and stored in the file.

The coding of a plan is a channel and a code. The steps (`core.steps`) have timesteps or tilts, signal-to-noise gains,
and sizes of chunks and indices. Sender and receiver hold equal plans, and the certificate follows from the plan alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dipp.core.arithmetic import Arithmetic
from dipp.core.channels import Channel
from dipp.core.chunking import NOTHING, Chunks, StepCoordinates
from dipp.core.code import Code
from dipp.core.geometry import Geometry
from dipp.core.masks import Mask
from dipp.core.price import Terms
from dipp.core.step import CodedStep
from dipp.core.unit import Unit
from dipp.core.units import Pixel
from dipp.errors import DippError, NoCertificateError


@dataclass(frozen=True)
class Coding:
    """The channel and the code of a plan: the law of the noise, and the way in which indices choose it."""

    channel: Channel
    code: Code

    @property
    def name(self) -> str:
        """The names of channel and code, as a text."""
        return f"{self.channel.name} channel, {self.code.name} code"

    @property
    def certified(self) -> bool:
        """Whether selections have a finite ε: the score is bounded, and the code draws privately."""
        return self.code.certified and self.channel.certified

    def require_certified(self) -> None:
        """Raise `NoCertificateError` if the coding has no certificate."""
        if not self.certified:
            raise NoCertificateError(self.name, "is not differentially private, so there is no certificate")


@dataclass(frozen=True)
class Plan:
    """The public parameters of an encoding: a coding, its steps, and the unit that the certificate protects.

    Raises:
        DippError: There is no step, steps are of different kinds, or coding, steps and unit do not fit together.

    """

    coding: Coding
    steps: tuple[Any, ...]
    """The steps (`CodedStep`), all of one kind."""
    separate: bool = True
    """Whether steps with at least C chunks deal the C channels of a pixel to different chunks."""
    unit: Unit = field(default_factory=Pixel)
    """The unit that the certificate protects."""

    def __post_init__(self) -> None:
        if not self.steps:
            raise DippError("steps", "must be at least one", "the budget may be too small for any")
        if len({type(step) for step in self.steps}) > 1 or not isinstance(self.steps[0], CodedStep):
            raise DippError("steps", "must be of one kind")
        self.mask.require_unit(self.unit)
        self.code.deal.require_unit(self.unit)
        self.code.deal.require_separate(self.separate)
        self.code.require_kind(self.kind)
        for step in self.steps:
            step.require_unit(self.unit)
            self.code.require_sizes(self.channel, step.chunk_size, step.index_bits)
        self._kind.require_sequence(self.steps)

    @property
    def _kind(self) -> type[CodedStep]:
        return type(self.steps[0])

    @property
    def kind(self) -> str:
        """Name of the kind of the steps."""
        return self._kind.kind

    @property
    def channel(self) -> Channel:
        """The channel, which is the law of the noise."""
        return self.coding.channel

    @property
    def code(self) -> Code:
        """The code, by which indices are drawn, priced and packed."""
        return self.coding.code

    @property
    def mask(self) -> Mask:
        """The mask, which says which coordinates each step touches."""
        return self.coding.channel.mask

    def arithmetic(self, step: CodedStep) -> Arithmetic:
        """Return the public integers of a step."""
        return step.arithmetic(self.channel, self.code.score_alpha)

    def chunk_counts(self, geometry: Geometry) -> tuple[int, ...]:
        """Return the number of chunks, and so of indices, of each step for a picture of this geometry.

        A step that touches no coordinate of a very small picture has no chunk, and takes no bits.
        """
        return tuple(self.code.deal.counts(self.mask, self.unit, geometry, self.steps).tolist())

    def apart(self, chunks: int, channels: int) -> bool:
        """Return whether a step with this number of chunks certainly has no two parts of a unit in one chunk.

        Args:
            chunks: Number of chunks of the step.
            channels: Number of channels of a picture.
        """
        return self.code.deal.apart(self.mask, channels, chunks, self.separate)

    def touches(self, channels: int, step: CodedStep) -> int:
        """Return the largest number of selections of a step in which a unit takes part.

        Args:
            channels: Number of channels of a picture.
            step: The step.
        """
        return self.code.deal.touches(self.mask, channels, step, self.unit)

    def deal(self, seed: bytes, number: int, geometry: Geometry) -> Chunks:
        """Return the chunks of a step, which are the same for all images of a geometry.

        Args:
            seed: The public seed, 16 bytes.
            number: Number of the step, from 0.
            geometry: The geometry of the picture.

        Returns:
            Chunks of the coordinates of the step's grid (`CodedStep.grid`).
        """
        step = self.steps[number]
        unit, geometry = step.grid(self.unit, geometry)
        touched = self.mask.touched(seed, number, geometry)
        if not len(touched):  # a picture of few pixels, in a cycle of many steps
            return NOTHING
        # The channels of a pixel are kept apart if there are enough chunks: that lowers ρ and costs nothing.
        apart = self.apart(-(-len(touched) // step.chunk_size), geometry.channels)
        return self.code.deal.chunks(seed, StepCoordinates(number, step, touched, unit, geometry), apart)

    def left(self, geometry: Geometry) -> str | None:
        """Return a sentence on the detail that the last step can convey; None if it can convey every pixel."""
        _, grid = self.steps[-1].grid(self.unit, geometry)
        if grid == geometry:
            return None
        width, height = round(geometry.width / grid.width), round(geometry.height / grid.height)
        return f"left to see: colours of areas of about {width}×{height} pixels, and what the denoiser makes of them"

    def terms(self, step: CodedStep) -> Terms:
        """Return the terms from which the draws of a step are priced."""
        return self.code.terms(step, self.channel)

    @property
    def calls(self) -> int:
        """Number of network calls of the chain."""
        return self._kind.calls(self.steps)

    @property
    def work(self) -> float:
        """Work of the network calls, where a call at the full resolution of the picture counts as 1."""
        return self._kind.work(self.steps)

    def words(self, channels: int) -> str:
        """Return a summary of the steps in one line, for pictures of this number of channels."""
        return self._kind.words(self.steps, self.mask.period // channels)
