"""The coded chain: the one loop that encoder and decoder share.

    x_T common randomness → for each step: x̂0 (public) → an index a chunk → noise z → x_s = μ_p + σ(s, t)·z → …

The two differ only in where the indices come from: `Choose` selects them by the private image, or reads them from a
file. All else is a function of the plan, the public seed and the indices, so the decoder follows the encoder exactly
(but for the rounding of the network's floats, which moves pixels slightly and can desynchronise nothing).

A coordinate of an image is pixel·C + channel. The deal of coordinates to chunks and the mask of the sign channel
depend on seed, step and size, and are shared by all images, as is x_T; the candidates are an image's own.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dipp import chunking, diffusion, randomness, scoring
from dipp.arithmetic import Arithmetic
from dipp.channels import Channel, Sign
from dipp.codes import poisson_order
from dipp.errors import DippError
from dipp.layout import Shape
from dipp.plan import Plan, Step
from dipp.privacy.ledger import Recorder

if TYPE_CHECKING:
    import torch

    from dipp.model import Denoiser

LARGE_PICTURE = 1 << 16
"""Pixels."""

Indices = NDArray[np.int64]
Choose = Callable[["StepLayout", "torch.Tensor"], Indices]
"""(layout, x̂0 of the touched coordinates in chunk order, images × coordinates) → indices, images × chunks."""


@dataclass(frozen=True, eq=False)
class StepLayout:
    """What is public about one step of a batch of equal-sized images."""

    number: int
    step: Step
    arithmetic: Arithmetic
    chunks: chunking.Chunks
    channels: int
    """C: coordinate i belongs to pixel i // C."""
    sources: NDArray[np.uint32]
    """Key and nonce of each image's candidates at this step."""

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
    """A plan on a denoiser, with a public seed, for images of one size."""

    plan: Plan
    denoiser: Denoiser
    seed: bytes
    shape: Shape

    def layout(self, number: int, images: Sequence[int]) -> StepLayout:
        """Step `number` of the given images (their numbers in the archive)."""
        sources = [randomness.stream(self.seed, image, number) for image in images]
        step, channels = self.plan.steps[number], self.shape[2]
        arithmetic, rows = self.plan.arithmetic(step), np.array(sources, np.uint32)
        return StepLayout(number, step, arithmetic, self._chunks(number), channels, rows)

    @functools.cached_property
    def _chunks(self) -> Callable[[int], chunking.Chunks]:
        # Of a large picture, one deal at a time: it takes 16 bytes a coordinate, and there is one for every step.
        large = self.shape[0] * self.shape[1] > LARGE_PICTURE
        return functools.lru_cache(maxsize=1 if large else None)(self._deal)

    def _deal(self, number: int) -> chunking.Chunks:
        height, width, channels = self.shape
        channel, step = self.plan.mechanism.channel, self.plan.steps[number]
        touched = None
        if isinstance(channel, Sign) and channel.period > 1:
            touched = channel.touched(self.seed, number, height * width, channels)
            if not len(touched):  # a picture of few pixels, in a cycle of many steps
                return chunking.NOTHING
        dims = height * width * channels
        count = -(-(dims if touched is None else len(touched)) // step.chunk_size)
        # The channels of a pixel are kept apart wherever there are chunks enough: that lowers ρ, and costs nothing.
        apart = channels if touched is not None or (self.plan.separate and count >= channels) else 1
        return chunking.chunks(self.seed, number, dims, count, channels=apart, coordinates=touched)

    def start(self) -> torch.Tensor:
        """x_T, from the common randomness alone: one state, from which all images of the size start."""
        import torch

        height, width, channels = self.shape
        state = diffusion.start(self.seed, (channels, height, width))
        return torch.from_numpy(state)[None].to(self.denoiser.device)

    def run(
        self, images: Sequence[int], choose: Choose, steps: int | None = None
    ) -> tuple[torch.Tensor, list[Indices]]:
        """Walk the first `steps` steps (all, unless told): the state that both sides reach, and the indices."""
        x_t, chosen = self.start(), []
        for number in range(len(self.plan.steps) if steps is None else steps):
            layout = self.layout(number, images)
            x_hat = self.denoiser.x0(x_t, layout.step.start)
            flat = x_hat.permute(0, 2, 3, 1).reshape(len(x_hat), -1)[:, _order_of(layout, x_t.device)]
            chosen.append(choose(layout, flat.expand(len(images), -1)))
            noise = self._noise(layout, chosen[-1])
            transition = self.denoiser.schedule.step(layout.step.start, layout.step.end)
            x_t = transition.next_state(x_t, x_hat, noise)
        return x_t.expand(len(images), -1, -1, -1), chosen

    def _noise(self, layout: StepLayout, indices: Indices) -> torch.Tensor:
        """The unit-variance noise of the chosen candidates, and 0 where the step does not touch."""
        import torch

        (height, width, channels), device = self.shape, self.denoiser.device
        if not layout.chunks.count:
            return torch.zeros((1, channels, height, width), device=device)
        law, on = layout.arithmetic.law, scoring.backend(device.type)
        drawn = torch.as_tensor(on.winners(law, layout.streams, layout.offsets, indices.reshape(-1))).to(torch.int64)
        values = _samples(layout.arithmetic.channel, law.group_size, device)[drawn].reshape(len(indices), -1)
        noise = torch.zeros((len(indices), height * width * channels), device=device)
        noise[:, _order_of(layout, device)] = values
        return noise.reshape(-1, height, width, channels).permute(0, 3, 1, 2).contiguous()


def _order_of(layout: StepLayout, device: torch.device) -> torch.Tensor:
    import torch

    return torch.tensor(layout.chunks.order, device=device)


@functools.lru_cache(maxsize=8)
def _samples(channel: Channel, group_size: int, device: torch.device) -> torch.Tensor:
    """The unit-variance noise of every draw: of a bit, where a draw is shared by a group, or of 16."""
    import torch

    draws = np.arange(2 if group_size > 1 else 1 << 16).astype(np.uint16)
    return torch.from_numpy(channel.sample(draws).astype(np.float32)).to(device)


@dataclass(frozen=True, eq=False)
class Selector:
    """The encoder's `Choose`: the one place where the private pixels are read, once a step."""

    plan: Plan
    seed: bytes
    pixels: NDArray[np.uint8] = field(repr=False)
    """Private: images × coordinates."""
    device: str
    recorder: Recorder = field(default_factory=Recorder)

    def __call__(self, layout: StepLayout, x_hat: torch.Tensor) -> Indices:
        """Scores from the private pixels, an index a chunk from the scores."""
        if not layout.chunks.count:  # a step that touches nothing of so small an image
            self._record(layout, self._levels(layout), layout.arithmetic.fraction_bits, layout.step.candidates)
            return np.empty((len(self.pixels), 0), np.int64)
        task, on = self.task(layout, x_hat), scoring.backend(self.device)
        found = scoring.best(task, on) if self.plan.mechanism.alpha is None else scoring.select(task, on)
        return found.reshape(len(self.pixels), -1)

    def task(self, layout: StepLayout, x_hat: torch.Tensor) -> scoring.ScoringTask:
        """What is scored, and a record of it: the shifts are private, from one look at the pixels; all else is not."""
        arithmetic, candidates, levels = layout.arithmetic, layout.step.candidates, self._levels(layout)
        private: NDArray[np.int32] = levels[self.pixels[:, layout.chunks.order]]
        shifts: Any = (
            private - arithmetic.centres(x_hat.numpy()) if self.device == "cpu" else _minus(private, layout, x_hat)
        )
        mechanism, order = self.plan.mechanism, None
        if mechanism.ordered:
            order = _order(self.seed, candidates, mechanism.alpha or Fraction(1), arithmetic.fraction_bits)
        task = scoring.ScoringTask(
            arithmetic.law,
            arithmetic.fraction_bits,
            candidates,
            layout.streams,
            layout.offsets,
            shifts.reshape(-1),
            order,
        )
        self._record(layout, levels, task.fraction_bits, task.candidates)
        return task

    def _levels(self, layout: StepLayout) -> NDArray[np.int32]:
        """The table A that pixels are looked up in."""
        return layout.arithmetic.levels(np.arange(256) / 127.5 - 1)

    def _record(self, layout: StepLayout, levels: NDArray[np.int32], fraction_bits: int, candidates: int) -> None:
        """Write down what the ε of the step depends on, as it was used."""
        images, coordinates = self.pixels.shape
        shape = images, coordinates // layout.channels, layout.channels
        self.recorder.observe(layout.number, self.plan, shape, layout.chunks, levels, fraction_bits, candidates)


def _minus(private: NDArray[np.int32], layout: StepLayout, x_hat: torch.Tensor) -> torch.Tensor:
    """`private` less `Arithmetic.centres`, where the prediction lies, so that the host need not fetch it."""
    import torch

    if not bool(x_hat.isfinite().all()):
        raise DippError("x_hat: finite predictions are needed; the denoiser returned NaN or infinity")
    largest = layout.arithmetic.level_of_one
    centres = (layout.arithmetic.unit * x_hat.double()).round().clamp(-largest, largest).to(torch.int32)
    return torch.from_numpy(private).to(x_hat.device) - centres


_order = functools.lru_cache(maxsize=8)(poisson_order)


@dataclass(frozen=True, eq=False)
class Reader:
    """The decoder's `Choose`: the indices of the file, step by step."""

    indices: Indices
    """Images × chunks of all steps, in order."""
    counts: tuple[int, ...]
    """Chunks of each step."""

    def __call__(self, layout: StepLayout, x_hat: torch.Tensor) -> Indices:  # noqa: ARG002
        """The columns of this step."""
        first = sum(self.counts[: layout.number])
        return self.indices[:, first : first + self.counts[layout.number]]
