"""The codec: pictures in, a certified archive out, and back.

Everything public is fixed before an image is read: the plan when the codec is made, the seed when `encode` is called.
The private pixels are clamped by their type (eight bits), and read once a step (`chain.Selector`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dipp import diffusion, presets, randomness
from dipp.archive import Archive
from dipp.chain import Chain, Indices, Reader, Selector
from dipp.errors import DippError, NoCertificateError
from dipp.layout import Shape, chunk_counts
from dipp.plan import Plan
from dipp.privacy.budget import Budget, spend

if TYPE_CHECKING:
    import torch

    from dipp.calibration import ErrorTable
    from dipp.model import Denoiser
    from dipp.schedule import Planner

Pixels = NDArray[np.uint8]
Progress = Callable[[int], None]
"""Told how many images are done."""

BATCH = {"cpu": 16, "cuda": 512}
"""Images that are encoded or decoded at a time."""


@dataclass(frozen=True, eq=False)
class Codec:
    """A denoiser and a plan."""

    denoiser: Denoiser
    plan: Plan
    budget: Budget | None = None
    """What the plan was made for: images so small that they would exceed it are refused."""

    @classmethod
    def from_pretrained(
        cls,
        model: str | Path,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        rho: float | None = None,
        preset: str = "sharp",
        bpp: float | None = None,
        final_timestep: int | None = None,
        device: str = "cpu",
        calibration: str | Path | None = None,
    ) -> Codec:
        """A codec within a budget: pure ε; (ε, δ); or ρ. Without bpp or final_timestep, the best expected quality.

        `model` is a folder or hub id in diffusers' format; its public cost table is calibration.json beside the
        weights, or the file that is named.
        """
        from dipp.calibration import FILE_NAME, ErrorTable
        from dipp.model import Denoiser

        limit = budget(preset, epsilon, delta, rho)
        table = ErrorTable.load(Path(model) / FILE_NAME if calibration is None else Path(calibration))
        denoiser = Denoiser.load(model, device)
        point = planner(denoiser, table, preset).choose(limit, final_timestep=final_timestep, bpp=bpp)
        return cls(denoiser, point.plan, limit)

    @classmethod
    def for_archive(cls, source: Archive, model: str | Path, *, device: str = "cpu") -> Codec:
        """The codec that decodes an archive: the plan comes from the file, the denoiser must be the file's."""
        from dipp.model import Denoiser

        denoiser = Denoiser.load(model, device)
        denoiser.require_identity(source.header.model)
        return cls(denoiser, source.header.plan)

    def encode(
        self, images: Iterable[Any], *, seed: bytes | None = None, progress: Progress = lambda _: None
    ) -> Archive:
        """Encode PIL images, uint8 arrays (H, W, C) or uint8 tensors (C, H, W): each is released once, at ε more.

        The public seed is drawn before the first image is looked at; a fixed one is for tests.
        """
        seed = randomness.fresh_seed() if seed is None else seed
        rows: list[Indices] = []
        shapes: list[Shape] = []
        done = 0
        for batch in self._batches(as_pixels(image) for image in images):
            rows.extend(self.select(batch, range(done, done + len(batch)), seed))
            height, width, channels = batch[0].shape
            shapes.extend([(height, width, channels)] * len(batch))
            done += len(batch)
            progress(done)
        delta = self.budget.delta if self.budget else None
        return Archive.build(self.plan, self.denoiser.identity, seed, shapes, rows, separate=True, delta=delta)

    def select(self, images: Sequence[Pixels], numbers: Sequence[int], seed: bytes) -> Indices:
        """The indices of equal-sized images, a row each.

        An image's number names its common randomness: no two images of a seed may have the same.
        """
        chain = self._chain(seed, images[0].shape)
        pixels = np.stack(images).reshape(len(images), -1)
        _, chosen = chain.run(numbers, Selector(self.plan, seed, pixels, self.denoiser.device.type))
        return np.concatenate(chosen, axis=1)

    def reconstruct(
        self, rows: Indices, shape: Shape, numbers: Sequence[int], seed: bytes, *, denoise: bool = True
    ) -> Pixels:
        """The pictures (N, H, W, C) that `select` chose these rows for."""
        chain = self._chain(seed, shape)
        states, _ = chain.run(numbers, Reader(rows, chunk_counts(self.plan, shape)))
        if denoise:
            predict = functools.partial(self.denoiser.x0, fast=True)
            states = diffusion.fast(predict, self.denoiser.schedule, states, self.plan.steps[-1].end)
        return to_pixels(states)

    def decode(
        self,
        source: Archive,
        *,
        denoise: bool = True,
        ancestral: bool = False,
        steps: int | None = None,
        progress: Progress = lambda _: None,
    ) -> list[Pixels]:
        """Decode all images of an archive: denoised, or with denoise = False the noisy reconstruction.

        `ancestral` denoises by DDPM sampling through every timestep, as the paper does, and not by the fast sampler.
        `steps` decodes only the first so many steps of the plan: a preview.
        """
        pictures: list[Pixels] = []
        for states, t in self.states(source, steps=steps):
            finished = self._denoised(states, t, ancestral, source, len(pictures)) if denoise else states
            pictures.extend(to_pixels(finished))
            progress(len(pictures))
        return pictures

    def states(self, source: Archive, *, steps: int | None = None) -> Iterator[tuple[torch.Tensor, int]]:
        """The states x_t at the end of the plan (or of a prefix of it), batch by batch, and their timestep."""
        self.denoiser.require_identity(source.header.model)
        plan = source.header.plan
        if steps is not None and not 0 <= steps <= len(plan.steps):
            raise DippError(f"steps: 0 to {len(plan.steps)} is needed, got {steps}")
        end = plan.steps[-1].end if steps is None else (plan.steps[0].start, *(s.end for s in plan.steps))[steps]
        first = 0
        for shape, run in groupby(range(len(source)), key=source.shape):
            chain = Codec(self.denoiser, plan)._chain(source.header.seed, shape)
            remaining = len(list(run))
            while remaining:
                count = min(remaining, BATCH[self.denoiser.device.type])
                reader = Reader(source.batch(first, first + count), chunk_counts(plan, shape))
                state, _ = chain.run(range(first, first + count), reader, steps)
                yield state, end
                first, remaining = first + count, remaining - count

    def _denoised(self, x_t: torch.Tensor, t: int, ancestral: bool, source: Archive, first: int) -> torch.Tensor:
        if not ancestral:
            return diffusion.fast(lambda x, s: self.denoiser.x0(x, s, fast=True), self.denoiser.schedule, x_t, t)
        import torch

        def noise(s: int) -> torch.Tensor:
            seeds = (randomness.stream(source.header.seed, first + i, s, "ancestral") for i in range(len(x_t)))
            drawn = np.stack([diffusion.normals(stream, tuple(x_t.shape[1:])) for stream in seeds])
            return torch.from_numpy(drawn).to(x_t.device)

        return diffusion.ancestral(
            lambda x, s: self.denoiser.x0(x, s, fast=True), self.denoiser.schedule, x_t, t, noise
        )

    def _chain(self, seed: bytes, shape: tuple[int, ...]) -> Chain:
        height, width, channels = shape
        return Chain(self.plan, self.denoiser, seed, (height, width, channels))

    def _batches(self, images: Iterable[Pixels]) -> Iterator[list[Pixels]]:
        """Neighbours of one size, up to a batch."""
        batch: list[Pixels] = []
        for image in images:
            self.check_shape(image.shape)
            if batch and (image.shape != batch[0].shape or len(batch) == BATCH[self.denoiser.device.type]):
                yield batch
                batch = []
            batch.append(image)
        if batch:
            yield batch

    def check_shape(self, shape: Sequence[int]) -> None:
        """Refuse an image that the model cannot take, or that is too small for the budget."""
        height, width, channels = shape
        multiple = self.denoiser.multiple
        if channels != self.denoiser.channels:
            raise DippError(f"image: {self.denoiser.channels} channels are needed for this model, got {channels}")
        if height % multiple or width % multiple:
            raise DippError(f"image: sides must be multiples of {multiple} for this model, got {height}×{width}")
        if self.budget and not self.budget.allows(spend(self.plan, channels, height * width, separate=True)):
            raise DippError(
                f"image: {height}×{width} is too small for this plan to keep {self.budget}; use a larger one"
            )


def budget(preset: str, epsilon: float | None, delta: float | None, rho: float | None) -> Budget | None:
    """The budget that binds: pure ε, (ε, δ) or ρ; None for a preset that has no certificate."""
    certified = presets.preset(preset).mechanism.certified
    if (epsilon is None) == (rho is None) and (certified or epsilon is not None):
        raise DippError("budget: give epsilon, epsilon with delta, or rho")
    if not certified:
        if epsilon is not None or rho is not None:
            raise NoCertificateError(f"preset: {preset} has no certificate, so no budget can bind it; use another")
        return None
    if rho is not None:
        if delta is not None:
            raise DippError("budget: delta goes with epsilon, not with rho")
        return Budget.zcdp(rho)
    assert epsilon is not None  # noqa: S101 - for the type checker
    return Budget.pure(epsilon) if delta is None else Budget.approximate(epsilon, delta)


def planner(denoiser: Denoiser, table: ErrorTable, preset: str) -> Planner:
    """The planner of a preset for images of the size that the denoiser was trained on; it serves other sizes too."""
    from dipp.schedule import Planner

    chosen, (height, width) = presets.preset(preset), denoiser.sample_size
    return Planner(
        denoiser.schedule,
        table,
        chosen.mechanism,
        channels=denoiser.channels,
        pixels=height * width,
        index_bits=chosen.index_bits,
        pad=chosen.pad,
        separate=True,
    )


def as_pixels(image: Any) -> Pixels:
    """An image as eight-bit pixels (H, W, C): which is also the clamp to [−1, 1] before the first private use."""
    from PIL import Image

    if isinstance(image, Image.Image):
        return np.asarray(image.convert("RGB"), np.uint8)
    if hasattr(image, "detach"):
        image = image.detach().cpu().numpy()
        image = np.moveaxis(image, 0, -1) if image.ndim == 3 else image
    array = np.asarray(image)
    if array.dtype != np.uint8 or array.ndim != 3 or not array.size:
        raise DippError(f"image: uint8 of shape (H, W, C) is needed, got {array.dtype} of shape {array.shape}")
    return np.ascontiguousarray(array)


def to_pixels(x: torch.Tensor) -> Pixels:
    """States (N, C, H, W) around [−1, 1] to eight-bit pixels (N, H, W, C)."""
    scaled = ((x.float().clamp(-1, 1) + 1) * 127.5).round()
    pixels: Pixels = scaled.permute(0, 2, 3, 1).cpu().numpy().astype(np.uint8)
    return pixels
