"""The plan of an encoding: everything public, fixed before any image is read, and stored in the file.

A coding says how a step is coded: by which channel, under which code. The steps (`core.steps`) say along which
timesteps, with which signal-to-noise gains, chunks and candidates. Sender and receiver hold equal plans, and the
certificate follows from the plan alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dipp.core.arithmetic import Arithmetic
from dipp.core.channels import Channel
from dipp.core.chunking import NOTHING, Chunks, Touched
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
    """How the steps are coded: the noise of a channel, chosen by the indices of a code."""

    channel: Channel
    code: Code

    @property
    def name(self) -> str:
        """Channel and code in words."""
        return f"{self.channel.name} channel, {self.code.name} code"

    @property
    def certified(self) -> bool:
        """Whether selections have an ε: the scores must be bounded, and the code must draw privately."""
        return self.code.certified and self.channel.certified

    def require_certified(self) -> None:
        """Raise, where there is no certificate."""
        if not self.certified:
            raise NoCertificateError(self.name, "it is not differentially private, so there is no certificate")


@dataclass(frozen=True)
class Plan:
    """A coding, its steps, and the unit that it protects."""

    coding: Coding
    steps: tuple[Any, ...]
    """`CodedStep`s, all of one kind."""
    separate: bool = True
    """Whether the channels of a pixel are dealt to different chunks, in all steps that have at least C chunks."""
    unit: Unit = field(default_factory=Pixel)
    """What the certificate protects."""

    def __post_init__(self) -> None:
        if not self.steps:
            raise DippError("steps", "at least one step is needed", "the budget may be too small for any")
        if len({type(step) for step in self.steps}) > 1 or not isinstance(self.steps[0], CodedStep):
            raise DippError("steps", "steps of one kind are needed")
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
        """Kind of the steps."""
        return self._kind.kind

    @property
    def channel(self) -> Channel:
        """The noise of the steps."""
        return self.coding.channel

    @property
    def code(self) -> Code:
        """How their indices are drawn, priced and packed."""
        return self.coding.code

    @property
    def mask(self) -> Mask:
        """Which coordinates the steps touch."""
        return self.coding.channel.mask

    def arithmetic(self, step: CodedStep) -> Arithmetic:
        """The public integers of a step."""
        return step.arithmetic(self.channel, self.code.score_alpha)

    def chunk_counts(self, geometry: Geometry) -> tuple[int, ...]:
        """Return how many chunks, and so indices, each step of a picture has: public, from plan and geometry alone.

        A step that touches no coordinate of a very small picture has no chunk, and takes no bits.
        """
        return tuple(self.code.deal.counts(self.mask, self.unit, geometry, self.steps).tolist())

    def apart(self, chunks: int, channels: int) -> bool:
        """Return whether no chunk of a step with `chunks` chunks can have two parts of one unit."""
        return self.code.deal.apart(self.mask, channels, chunks, self.separate)

    def touches(self, channels: int, step: CodedStep) -> int:
        """Return how often a unit takes part in the selections of a step, at most."""
        return self.code.deal.touches(self.mask, channels, step, self.unit)

    def deal(self, seed: bytes, number: int, geometry: Geometry) -> Chunks:
        """Return the chunks of step `number`, the same for all images of a geometry.

        Their coordinates are those of the step's grid (`CodedStep.grid`).
        """
        step = self.steps[number]
        unit, geometry = step.grid(self.unit, geometry)
        touched = self.mask.touched(seed, number, geometry)
        if not len(touched):  # a picture of few pixels, in a cycle of many steps
            return NOTHING
        # The channels of a pixel are kept apart wherever there are chunks enough: that lowers ρ, and costs nothing.
        apart = self.apart(-(-len(touched) // step.chunk_size), geometry.channels)
        return self.code.deal.chunks(seed, Touched(number, step, touched, unit, geometry), apart)

    def left(self, geometry: Geometry) -> str | None:
        """Return in words what the last step can tell of a picture; None if that is every pixel."""
        _, grid = self.steps[-1].grid(self.unit, geometry)
        if grid == geometry:
            return None
        width, height = round(geometry.width / grid.width), round(geometry.height / grid.height)
        return f"left to see: colours of areas of about {width}×{height} pixels, and what the denoiser makes of them"

    def terms(self, step: CodedStep) -> Terms:
        """Return what the draws of a step are priced from."""
        return self.code.terms(step, self.channel)

    @property
    def calls(self) -> int:
        """Network calls along the chain."""
        return self._kind.calls(self.steps)

    @property
    def work(self) -> float:
        """Work of these calls, in calls at the resolution of the picture."""
        return self._kind.work(self.steps)

    def words(self, channels: int) -> str:
        """Return the steps in one line."""
        return self._kind.words(self.steps, self.mask.period // channels)
