"""The coded chain: the loop that encoder and decoder share.

    first state → for each step: x̂0 (public) → an index for each chunk → noise z → next state → …

A step whose chunks are asked in several rounds (`core.steps.Question`) goes through this loop once for each round.

Encoder and decoder differ only in the source of the indices, `Choose`: the encoder selects them by the private image
(`encoder.Selector`), and the decoder reads them from a file (`decoder.IndexReader`). Everything else is a function of
the plan, the public seed and the indices. So the decoder follows the encoder exactly, except for the rounding of the
network's floats, which moves pixels slightly and cannot desynchronise the two.

A coordinate of an image is pixel·C + channel. For latent models, the image is that of the latents (`core.latents`). The
mask and the deal of coordinates to chunks depend on seed, step and size, and are shared by all images, as is x_T. Each
image has its own candidates.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dipp import scoring
from dipp.codec import questions
from dipp.codec.pictures import Pixels
from dipp.codec.questions import RoundCandidates
from dipp.codec.trajectory import Trajectory, trajectory
from dipp.core import chunking, randomness
from dipp.core.arithmetic import Arithmetic
from dipp.core.arrays import Array, alike, library, single
from dipp.core.channels import Channel
from dipp.core.geometry import Geometry
from dipp.core.plan import Plan
from dipp.core.step import CodedStep
from dipp.errors import DippError
from dipp.models import watch

if TYPE_CHECKING:
    from dipp.models.denoiser import Denoiser

KEPT_BYTES = 1 << 28
"""Largest memory, in bytes, for keeping the chunks of all steps. If they take more, those of one step are kept."""
DEAL_BYTES = 16
"""Memory that the chunks of one step take, in bytes for each coordinate."""

Indices = NDArray[np.int64]
Choose = Callable[["StepLayout", Array], Indices]
"""A function from a layout and x̂0 of its coordinates, images × coordinates, to indices, images × chunks."""


@dataclass(frozen=True, eq=False)
class StepLayout:
    """The public facts about one round of a step, for a batch of images of one geometry."""

    number: int
    """Number of the step in the plan, from 0."""
    step: CodedStep
    """The step."""
    arithmetic: Arithmetic
    """Its integer arithmetic."""
    chunks: chunking.Chunks
    """The chunks of the round."""
    geometry: Geometry
    """Geometry of the coordinates that the step codes: of the picture, or of a coarser one (`CodedStep.grid`)."""
    sources: NDArray[np.uint32]
    """Key and nonce of each image's candidates at this step, images × 3."""
    turn: int
    """Number of the round within the step, from 0."""
    first: int
    """Number of the round's first chunk, among all chunks of the step."""
    all_chunks: chunking.Chunks
    """The chunks of all rounds of the step."""
    picture: Geometry
    """Geometry of the picture."""
    asked: RoundCandidates | None
    """The candidates of a question; None for steps of other kinds."""

    @functools.cached_property
    def streams(self) -> NDArray[np.uint32]:
        """The random stream of each chunk as a row (key0, key1, nonce, chunk), image after image."""
        count = self.chunks.count
        rows = np.repeat(self.sources, count, axis=0)
        return np.column_stack([rows, np.tile(np.arange(count, dtype=np.uint32), len(self.sources))])

    @functools.cached_property
    def offsets(self) -> NDArray[np.int64]:
        """Bounds of the chunks of all images, in coordinates that are numbered image after image."""
        size = np.tile(np.diff(self.chunks.offsets), len(self.sources))
        return np.concatenate([[0], np.cumsum(size)]).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Chain:
    """A plan with its denoiser and public seed, for images of one geometry."""

    plan: Plan
    denoiser: Denoiser
    seed: bytes
    """The public seed, 16 bytes."""
    geometry: Geometry
    """Geometry of the coded images: of the pictures, or of their latents."""
    picture: Geometry | None = None
    """Geometry of the pictures, if latents are coded."""
    base: Pixels | None = field(default=None, repr=False)
    """Public: the picture (H, W, C) whose regions were painted without reading them; None for other units."""

    @classmethod
    def of_pictures(
        cls, plan: Plan, denoiser: Denoiser, seed: bytes, picture: Geometry, base: Pixels | None = None
    ) -> Chain:
        """Return the chain for pictures of a geometry, whose pixels or latents the denoiser codes.

        Args:
            plan: The plan.
            denoiser: The denoiser.
            seed: The public seed, 16 bytes.
            picture: Geometry of the pictures.
            base: Public: the picture (H, W, C) whose regions were painted over; None for other units.
        """
        return cls(plan, denoiser, seed, denoiser.geometry_of(picture), picture, base)

    @property
    def size(self) -> Geometry:
        """Geometry of the pictures."""
        return self.picture or self.geometry

    def layout(self, number: int, images: Sequence[int], turn: int = 0) -> StepLayout:
        """Return the layout of one round of a step.

        Args:
            number: Number of the step, from 0.
            images: Numbers of the images in the archive.
            turn: Number of the round, from 0.
        """
        sources = [randomness.stream(self.seed, image, number) for image in images]
        step, rows, dealt = self.plan.steps[number], np.array(sources, np.uint32), self._chunks(number)
        _, grid = step.grid(self.plan.unit, self.geometry)
        chunks = dealt if step.turns == 1 else dealt.in_round(turn)
        first = (0, *dealt.rounds)[turn]
        asked = self.trajectory.asked(self.seed, number, turn)
        arithmetic = self.plan.arithmetic(step)
        return StepLayout(number, step, arithmetic, chunks, grid, rows, turn, first, dealt, self.geometry, asked)

    @functools.cached_property
    def _chunks(self) -> Callable[[int], chunking.Chunks]:
        kept = self.geometry.coordinates * DEAL_BYTES * len(self.plan.steps) <= KEPT_BYTES
        return functools.lru_cache(maxsize=None if kept else 1)(
            functools.partial(self.plan.deal, self.seed, geometry=self.geometry)
        )

    @functools.cached_property
    def trajectory(self) -> Trajectory:
        """The rules by which the public state moves along the plan."""
        return trajectory(self.plan, self.denoiser, self.geometry, self.base)

    def run(self, images: Sequence[int], choose: Choose, steps: int | None = None) -> tuple[Array, list[Indices]]:
        """Run the chain for a batch of images.

        Args:
            images: Numbers of the images in the archive.
            choose: Selects or reads the indices.
            steps: Number of steps, by default all of the plan.

        Returns:
            The state (N, C, H, W) that encoder and decoder reach, and the indices of each round, images × chunks.
        """
        state, chosen = self.trajectory.start(self.seed, self.geometry), []
        taken = self.plan.steps if steps is None else self.plan.steps[:steps]
        for number, turn in ((number, turn) for number, step in enumerate(taken) for turn in range(step.turns)):
            watch.step(number)
            state, indices = self._advanced(self.layout(number, images, turn), state, images, choose)
            chosen.append(indices)
        return _expanded(state, len(images)), chosen

    def _advanced(
        self, layout: StepLayout, state: Array, images: Sequence[int], choose: Choose
    ) -> tuple[Array, Indices]:
        """Return the state after one round of a step, and its indices. All other arrays of the round are freed."""
        # A prediction that is not finite counts as 0 on both sides, because no transcript may make a chain fail.
        x_hat = _finite(self.trajectory.predict(layout.number, state, layout.turn))
        flat = x_hat.reshape(len(x_hat), -1)[:, alike(_state_positions(layout), x_hat)]
        indices = choose(layout, _expanded(flat, len(images)))
        return self.trajectory.advance(layout.number, state, x_hat, self.noise(layout, indices), layout.turn), indices

    def noise(self, layout: StepLayout, indices: Indices) -> Array:
        """Return the noise z (N, C, H, W) that the chosen candidates stand for, and 0 where the step does not touch.

        Args:
            layout: The layout of the step.
            indices: Index of each chunk, int64 (N, chunks).
        """
        height, width, channels = layout.geometry.shape
        noise = self.denoiser.placed(np.zeros((len(indices), channels * height * width), np.float32))
        if layout.chunks.count:
            observed = self.plan.code.observe(indices.reshape(-1), SharedCandidates(layout, noise))
            noise[:, alike(_state_positions(layout), noise)] = alike(single(observed), noise).reshape(len(indices), -1)
        return noise.reshape(-1, channels, height, width)


@dataclass(frozen=True, eq=False)
class SharedCandidates:
    """The public candidates of a round, on the denoiser's device: an implementation of `core.code.PublicCandidates`."""

    layout: StepLayout
    states: Array
    """An array of the denoiser, whose library and device the results have."""

    @property
    def offsets(self) -> NDArray[np.int64]:
        """Bounds of the chunks of all images (`StepLayout.offsets`)."""
        return self.layout.offsets

    def draws(self, indices: Indices) -> Any:
        """Return the public random draws of the chosen candidates, before they become noise."""
        law, device = self.layout.arithmetic.law, getattr(self.states.device, "type", "cpu")
        return scoring.backend(device).winners(law, self.layout.streams, self.layout.offsets, indices)

    def noise(self, draws: Any) -> Array:
        """Return the noise of unit variance for each draw."""
        table = _samples(self.layout.arithmetic.channel, self.layout.arithmetic.law.group_size)
        if isinstance(self.states, np.ndarray):
            return table[draws]
        import torch

        return alike(table, self.states)[torch.as_tensor(draws).to(torch.int64).to(self.states.device)]

    def means(self, indices: Indices) -> Array:
        """Return the values that the chosen candidates of a question stand for, images × coordinates."""
        layout = self.layout
        if layout.asked is None:
            raise DippError("means", "are defined for questions alone", "use a code that draws from the step's channel")
        meanings = questions.observed(indices, layout.chunks, layout.first, layout.geometry, layout.asked)
        return alike(meanings, self.states)


def _state_positions(layout: StepLayout) -> NDArray[np.int64]:
    """Return where the chunks' coordinates pixel·C + channel lie in a state (C, H, W) that is flattened."""
    pixel, channel = np.divmod(layout.chunks.order, layout.geometry.channels)
    positions: NDArray[np.int64] = channel * layout.geometry.pixels + pixel
    return positions


def _finite(values: Array) -> Array:
    """Return values with each that is not finite replaced by 0: the same array if all are finite."""
    if isinstance(values, np.ndarray) and np.isfinite(values).all():  # on other devices, the check would wait for them
        return values
    return library(values).nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0)


def _expanded(values: Array, count: int) -> Array:
    """Return values of `count` images (count, …), given those of all images or of one that stands for all."""
    return values if len(values) == count else library(values).broadcast_to(values, (count, *values.shape[1:]))


@functools.lru_cache(maxsize=8)
def _samples(channel: Channel, group_size: int) -> NDArray[np.float32]:
    """Return the noise of unit variance for each possible draw, from 0 to 2^16 − 1, or 0 and 1 for groups."""
    draws = np.arange(2 if group_size > 1 else 1 << 16).astype(np.uint16)
    return channel.sample(draws).astype(np.float32)
