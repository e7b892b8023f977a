"""The coded chain: the one loop that encoder and decoder share.

    first state → for each step: x̂0 (public) → an index a chunk → noise z → next state → …

A step whose chunks are asked in several rounds (`core.steps.Question`) goes round this loop once for each of them.

The two differ only in where the indices come from: `Choose` selects them by the private image (`encoder.Selector`), or
reads them from a file (`decoder.IndexReader`). All else is a function of the plan, the public seed and the indices, so
the decoder follows the encoder exactly (but for the rounding of the network's floats, which moves pixels slightly and
can desynchronise nothing).

A coordinate of an image is pixel·C + channel, of the picture or of its latents (`core.latents`): to a chain, latents
are a picture as any other. The mask and the deal of coordinates to chunks
depend on seed, step and size, and are shared by all images, as is x_T; the candidates are an image's own.
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
"""Memory of the deals of all steps, at most; if they take more, one is kept at a time."""
DEAL_BYTES = 16
"""Bytes that a deal takes for each coordinate."""

Indices = NDArray[np.int64]
Choose = Callable[["StepLayout", Array], Indices]
"""(layout, x̂0 of the touched coordinates in chunk order, images × coordinates) → indices, images × chunks."""


@dataclass(frozen=True, eq=False)
class StepLayout:
    """What is public about one step of a batch of equal-sized images."""

    number: int
    step: CodedStep
    arithmetic: Arithmetic
    chunks: chunking.Chunks
    geometry: Geometry
    """Geometry of the coordinates that the step asks for: of the picture, or of a coarser one (`CodedStep.grid`)."""
    sources: NDArray[np.uint32]
    """Key and nonce of each image's candidates at this step."""
    turn: int
    """Number of the round, from 0."""
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
        """Rows (key0, key1, nonce, chunk), image after image."""
        count = self.chunks.count
        rows = np.repeat(self.sources, count, axis=0)
        return np.column_stack([rows, np.tile(np.arange(count, dtype=np.uint32), len(self.sources))])

    @functools.cached_property
    def offsets(self) -> NDArray[np.int64]:
        """Bounds of all chunks of all images, one after the other."""
        size = np.tile(np.diff(self.chunks.offsets), len(self.sources))
        return np.concatenate([[0], np.cumsum(size)]).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Chain:
    """A plan on a denoiser, with a public seed, for images of one geometry."""

    plan: Plan
    denoiser: Denoiser
    seed: bytes
    geometry: Geometry
    """Geometry of what is coded: of the pictures, or of their latents."""
    picture: Geometry | None = None
    """Geometry of the pictures, if latents are coded."""
    base: Pixels | None = field(default=None, repr=False)
    """Public: the picture (H, W, C) whose regions were painted without reading them; None for other units."""

    @classmethod
    def of_pictures(
        cls, plan: Plan, denoiser: Denoiser, seed: bytes, picture: Geometry, base: Pixels | None = None
    ) -> Chain:
        """Return the chain of pictures of a geometry, whatever the denoiser codes of them."""
        return cls(plan, denoiser, seed, denoiser.geometry_of(picture), picture, base)

    @property
    def size(self) -> Geometry:
        """Geometry of the pictures."""
        return self.picture or self.geometry

    def layout(self, number: int, images: Sequence[int], turn: int = 0) -> StepLayout:
        """Return a round of step `number` of the given images (their numbers in the archive)."""
        sources = [randomness.stream(self.seed, image, number) for image in images]
        step, rows, dealt = self.plan.steps[number], np.array(sources, np.uint32), self._chunks(number)
        _, grid = step.grid(self.plan.unit, self.geometry)
        chunks = dealt if step.turns == 1 else dealt.in_round(turn)
        first = (0, *dealt.rounds)[turn]
        asked = self.trajectory.asked(self.seed, number, turn)
        own = self.plan.arithmetic(step)
        return StepLayout(number, step, own, chunks, grid, rows, turn, first, dealt, self.geometry, asked)

    @functools.cached_property
    def _chunks(self) -> Callable[[int], chunking.Chunks]:
        kept = self.geometry.coordinates * DEAL_BYTES * len(self.plan.steps) <= KEPT_BYTES
        return functools.lru_cache(maxsize=None if kept else 1)(
            functools.partial(self.plan.deal, self.seed, geometry=self.geometry)
        )

    @functools.cached_property
    def trajectory(self) -> Trajectory:
        """How the state moves."""
        return trajectory(self.plan, self.denoiser, self.geometry, self.base)

    def run(self, images: Sequence[int], choose: Choose, steps: int | None = None) -> tuple[Array, list[Indices]]:
        """Walk the first `steps` steps, by default all: return the state that both sides reach, and the indices."""
        state, chosen = self.trajectory.start(self.seed, self.geometry), []
        walked = self.plan.steps if steps is None else self.plan.steps[:steps]
        for number, turn in ((number, turn) for number, step in enumerate(walked) for turn in range(step.turns)):
            watch.step(number)
            state, indices = self._advanced(self.layout(number, images, turn), state, images, choose)
            chosen.append(indices)
        return _expanded(state, len(images)), chosen

    def _advanced(
        self, layout: StepLayout, state: Array, images: Sequence[int], choose: Choose
    ) -> tuple[Array, Indices]:
        """Return the state after one round of a step, and its indices. All else is dropped at its end."""
        # A prediction that is not finite counts as 0, on both sides: nothing about a transcript may fail.
        x_hat = _finite(self.trajectory.predict(layout.number, state, layout.turn))
        flat = x_hat.reshape(len(x_hat), -1)[:, alike(_planes_of(layout), x_hat)]
        indices = choose(layout, _expanded(flat, len(images)))
        return self.trajectory.advance(layout.number, state, x_hat, self.noise(layout, indices), layout.turn), indices

    def noise(self, layout: StepLayout, indices: Indices) -> Array:
        """Return what is observed of the chosen candidates, (N, C, H, W), and 0 where the step does not touch."""
        height, width, channels = layout.geometry.shape
        noise = self.denoiser.placed(np.zeros((len(indices), channels * height * width), np.float32))
        if layout.chunks.count:
            observed = self.plan.code.observe(indices.reshape(-1), SharedCandidates(layout, noise))
            noise[:, alike(_planes_of(layout), noise)] = alike(single(observed), noise).reshape(len(indices), -1)
        return noise.reshape(-1, channels, height, width)


@dataclass(frozen=True, eq=False)
class SharedCandidates:
    """The public candidates of a step (`core.code.Shared`), on the device of the denoiser."""

    layout: StepLayout
    states: Array
    """States of the denoiser: what is observed is of their library, and on their device."""

    @property
    def offsets(self) -> NDArray[np.int64]:
        """Bounds of all chunks of all images."""
        return self.layout.offsets

    def draws(self, indices: Indices) -> Any:
        """Return what the candidates have drawn; the backend is loaded here, since not every code needs it."""
        law, device = self.layout.arithmetic.law, getattr(self.states.device, "type", "cpu")
        return scoring.backend(device).winners(law, self.layout.streams, self.layout.offsets, indices)

    def noise(self, draws: Any) -> Array:
        """Return the unit-variance noise of each draw."""
        table = _samples(self.layout.arithmetic.channel, self.layout.arithmetic.law.group_size)
        if isinstance(self.states, np.ndarray):
            return table[draws]
        import torch

        return alike(table, self.states)[torch.as_tensor(draws).to(torch.int64).to(self.states.device)]

    def means(self, indices: Indices) -> Array:
        """Return what the candidates of a question mean for each coordinate, image after image."""
        own = self.layout
        if own.asked is None:
            raise DippError("means", "a question is needed, which has candidates of its own")
        return alike(questions.observed(indices, own.chunks, own.first, own.geometry, own.asked), self.states)


def _planes_of(layout: StepLayout) -> NDArray[np.int64]:
    """Return where the coordinates of the chunks, pixel·C + channel, lie in a state of planes (C, H, W)."""
    pixel, channel = np.divmod(layout.chunks.order, layout.geometry.channels)
    found: NDArray[np.int64] = channel * layout.geometry.pixels + pixel
    return found


def _finite(values: Array) -> Array:
    """Return values with 0 in the place of those that are not finite: the same array if all are."""
    if isinstance(values, np.ndarray) and np.isfinite(values).all():  # a device would have to wait for the answer
        return values
    return library(values).nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0)


def _expanded(values: Array, count: int) -> Array:
    """Return values (N, …), of one image or of all, as those of all."""
    return values if len(values) == count else library(values).broadcast_to(values, (count, *values.shape[1:]))


@functools.lru_cache(maxsize=8)
def _samples(channel: Channel, group_size: int) -> NDArray[np.float32]:
    """The unit-variance noise of every draw: of a bit, where a draw is shared by a group, or of 16."""
    draws = np.arange(2 if group_size > 1 else 1 << 16).astype(np.uint16)
    return channel.sample(draws).astype(np.float32)
