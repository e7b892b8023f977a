"""The codec: pictures in, a certified archive out, and back.

Everything public is fixed before an image is read: the plan when the codec is made, the seed when `encode` is called.
The private pixels are clamped by their type (eight bits), and read once a step (`chain.Selector`).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dipp import diffusion, embedded, pictures, presets, randomness
from dipp.archive import Archive
from dipp.chain import Chain, Indices, Reader, Selector
from dipp.errors import DippError, NoCertificateError
from dipp.layout import Shape, chunk_counts
from dipp.pictures import Pixels
from dipp.plan import Mechanism, Plan
from dipp.privacy.budget import Budget
from dipp.privacy.certificate import Certificate
from dipp.privacy.ledger import Recorder

if TYPE_CHECKING:
    import torch

    from dipp.calibration import ErrorTable
    from dipp.model import Denoiser
    from dipp.schedule import Planner

Progress = Callable[[int], None]
"""Told how many images are done."""

BATCH = {"cpu": 16, "cuda": 512}
"""Images that are encoded or decoded at a time, at most."""
BATCH_PIXELS = 1 << 20
"""Pixels of such a batch: it holds a larger image alone."""
LOST_GAIN = 1 / 128
"""A plan's SNR gains are the model's, rounded down by less than this share (`schedule`)."""


@dataclass(frozen=True, eq=False)
class Codec:
    """A denoiser and a plan."""

    denoiser: Denoiser
    plan: Plan
    budget: Budget | None = None
    """What the plan was made for: images so small that they would exceed it are refused."""

    def __post_init__(self) -> None:
        for step in self.plan.steps:
            real = self.denoiser.schedule.step(step.start, step.end).snr_gain
            if not real * (1 - LOST_GAIN) <= step.snr_gain <= real * (1 + 2.0**-20):  # a float's rounding
                raise DippError(
                    f"plan: step {step.start} → {step.end} claims the SNR gain {step.snr_gain:.4g}, "
                    f"where the model has {real:.4g}; do not trust the file"
                )

    @classmethod
    def from_pretrained(
        cls,
        model: str | Path = embedded.FOLDER,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        rho: float | None = None,
        preset: str = "sharp",
        bpp: float | None = None,
        final_timestep: int | None = None,
        device: str = "cpu",
        calibration: str | Path | None = None,
        pixels: int | None = None,
    ) -> Codec:
        """A codec within a budget: pure ε; (ε, δ); or ρ. Without bpp or final_timestep, the best expected quality.

        `model` is a folder or hub id in diffusers' format, or the denoiser that ships with dipp; its public cost table
        is calibration.json beside the weights, or the file that is named. `pixels` are those of the smallest picture to
        be encoded, if not of the denoiser's own size: any plan serves any size, but its own takes the fewest bits.
        """
        from dipp.model import Denoiser

        limit = budget(preset, epsilon, delta, rho)
        denoiser = Denoiser.load(model, device)
        table = load_table(model, calibration)
        point = planner(denoiser, table, preset, limit, pixels).choose(limit, final_timestep=final_timestep, bpp=bpp)
        return cls(denoiser, point.plan, limit)

    @classmethod
    def for_archive(cls, source: Archive, model: str | Path = embedded.FOLDER, *, device: str = "cpu") -> Codec:
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
        recorder = Recorder()
        rows: list[Indices] = []
        shapes: list[Shape] = []
        done = 0
        for batch in self._batches(as_pixels(image, self.denoiser.channels) for image in images):
            rows.extend(self.select(batch, range(done, done + len(batch)), seed, recorder))
            height, width, channels = batch[0].shape
            shapes.extend([(height, width, channels)] * len(batch))
            done += len(batch)
            progress(done)
        delta = self.budget.delta if self.budget else None
        identity, recorded = self.denoiser.identity, recorder.ledger(self.plan, done)
        return Archive.build(self.plan, identity, seed, shapes, rows, delta=delta, recorded=recorded)

    def select(self, images: Sequence[Pixels], numbers: Sequence[int], seed: bytes, recorder: Recorder) -> Indices:
        """The indices of equal-sized images, a row each; what was done is written down by the recorder.

        An image's number names its common randomness: no two images of a seed may have the same.
        """
        chain = self._chain(seed, images[0].shape)
        pixels = np.stack(images).reshape(len(images), -1)
        _, chosen = chain.run(numbers, Selector(self.plan, seed, pixels, self.denoiser.device.type, recorder))
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
        calls: int = diffusion.FAST_CALLS,
        ancestral: bool = False,
        steps: int | None = None,
        progress: Progress = lambda _: None,
    ) -> list[Pixels]:
        """Decode all images of an archive: denoised, or with denoise = False the noisy reconstruction.

        `calls` of the network draw a picture that looks real. One call gives the expected picture, which is smoother,
        invents nothing, and has the least squared error.
        `ancestral` denoises by DDPM sampling through every timestep, as the paper does, and not by the fast sampler.
        `steps` decodes only the first so many steps of the plan: a preview.
        """
        decoded = []
        drawn = self.pictures(source, denoise=denoise, calls=calls, ancestral=ancestral, steps=steps)
        for number, picture in enumerate(drawn):
            decoded.append(picture)
            progress(number + 1)
        return decoded

    def pictures(
        self,
        source: Archive,
        *,
        denoise: bool = True,
        calls: int = diffusion.FAST_CALLS,
        ancestral: bool = False,
        steps: int | None = None,
    ) -> Iterator[Pixels]:
        """What `decode` returns, one by one: an archive of a million images does not fit into memory."""
        first = 0
        for states, t in self.states(source, steps=steps):
            finished = self._denoised(states, t, calls, ancestral, source, first) if denoise else states
            yield from to_pixels(finished)
            first += len(states)

    def states(self, source: Archive, *, steps: int | None = None) -> Iterator[tuple[torch.Tensor, int]]:
        """The states x_t at the end of the plan (or of a prefix of it), batch by batch, and their timestep."""
        self.denoiser.require_identity(source.header.model)
        plan = source.header.plan
        if steps is not None and not 0 <= steps <= len(plan.steps):
            raise DippError(f"steps: 0 to {len(plan.steps)} is needed, got {steps}")
        end = plan.steps[-1].end if steps is None else (plan.steps[0].start, *(s.end for s in plan.steps))[steps]
        first = 0
        for shape, run in groupby(range(len(source)), key=source.shape):
            if shape[0] * shape[1] > pictures.MAX_PICTURE:
                raise DippError(f"image: {shape[0]}×{shape[1]} is larger than can be decoded")
            chain = Codec(self.denoiser, plan)._chain(source.header.seed, shape)
            remaining = len(list(run))
            while remaining:
                count = min(remaining, self.batch_size(shape))
                reader = Reader(source.batch(first, first + count), chunk_counts(plan, shape))
                state, _ = chain.run(range(first, first + count), reader, steps)
                yield state, end
                first, remaining = first + count, remaining - count

    def _denoised(
        self, x_t: torch.Tensor, t: int, calls: int, ancestral: bool, source: Archive, first: int
    ) -> torch.Tensor:
        if not ancestral:
            return diffusion.fast(lambda x, s: self.denoiser.x0(x, s, fast=True), self.denoiser.schedule, x_t, t, calls)
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
            if batch and (image.shape != batch[0].shape or len(batch) == self.batch_size(image.shape)):
                yield batch
                batch = []
            batch.append(image)
        if batch:
            yield batch

    def batch_size(self, shape: Sequence[int]) -> int:
        """Images of a size that are taken at a time."""
        return batch_size(self.denoiser.device.type, shape)

    def check_shape(self, shape: Sequence[int]) -> None:
        """Refuse an image that the model cannot take, or that is too small for the budget."""
        height, width, channels = shape
        if channels != self.denoiser.channels:
            raise DippError(f"image: {self.denoiser.channels} channels are needed for this model, got {channels}")
        if self.budget and not self.budget.allows(Certificate.of(self.plan, channels, height * width)):
            raise DippError(
                f"image: {height}×{width} is too small for this plan to keep {self.budget}; use a larger one"
            )


def batch_size(device: str, shape: Sequence[int]) -> int:
    """Images of a size that are taken at a time on a type of device."""
    return max(1, min(BATCH[device], BATCH_PIXELS // (shape[0] * shape[1])))


def budget(preset: str, epsilon: float | None, delta: float | None, rho: float | None) -> Budget | None:
    """The budget that binds: pure ε, (ε, δ) or ρ; None for a preset that has no certificate."""
    certified = presets.preset(preset).mechanism.certified
    if delta is not None and epsilon is None:
        raise DippError("budget: delta goes with epsilon")
    if (epsilon is None) == (rho is None) and (certified or epsilon is not None):
        raise DippError("budget: give epsilon, epsilon with delta, or rho")
    if not certified:
        if epsilon is not None or rho is not None:
            raise NoCertificateError(f"preset: {preset} has no certificate, so no budget can bind it; use another")
        return None
    if rho is not None:
        return Budget.zcdp(rho)
    assert epsilon is not None  # noqa: S101 - for the type checker
    return Budget.pure(epsilon) if delta is None else Budget.approximate(epsilon, delta)


def planner(
    denoiser: Denoiser, table: ErrorTable, preset: str, limit: Budget | None, pixels: int | None = None
) -> Planner:
    """The planner of a preset within a budget, for images of so many pixels, or of the denoiser's own size."""
    measured = table.provenance.get("model", denoiser.identity)
    if measured != denoiser.identity:
        raise DippError(f"calibration: made for the model {measured}, but {denoiser.identity} is loaded")
    chosen, size = presets.preset(preset), math.prod(denoiser.sample_size) if pixels is None else pixels
    rival = None
    # A table of before there was a rival knows nothing of its coded chains, and would flatter it.
    if chosen.rival and presets.preset(chosen.rival).mechanism.name in table.inflation:
        rival = planner(denoiser, table, chosen.rival, limit, pixels)
    return _planner(denoiser.schedule, table, denoiser.channels, size, chosen.mechanism, chosen.sizes(limit), rival)


# Cached, because the edges of a planner take most of the time, and are the same for many budgets.
@functools.lru_cache(maxsize=4)
def _planner(
    schedule: diffusion.NoiseSchedule,
    table: ErrorTable,
    channels: int,
    pixels: int,
    mechanism: Mechanism,
    sizes: presets.Sizes,
    rival: Planner | None,
) -> Planner:
    from dipp.schedule import Planner

    return Planner(
        schedule,
        table,
        mechanism,
        channels=channels,
        pixels=pixels,
        index_bits=sizes.index_bits,
        pad=sizes.pad,
        saturation=sizes.saturation,
        rival=rival,
    )


def load_table(model: str | Path, calibration: str | Path | None) -> ErrorTable:
    """The cost table of a denoiser: calibration.json beside the weights, or the file that is named."""
    from dipp.calibration import FILE_NAME, ErrorTable
    from dipp.model import fetch

    return ErrorTable.load(fetch(str(model), (FILE_NAME,)) / FILE_NAME if calibration is None else Path(calibration))


def as_pixels(image: Any, channels: int) -> Pixels:
    """An image as eight-bit pixels (H, W, C): which is also the clamp to [−1, 1] before the first private use.

    PIL images are converted as `pictures` says; a denoiser of one channel takes their luminance. An array (H, W) or
    (H, W, 1) is grey: its value is repeated in all the channels of the denoiser.
    """
    from PIL import Image

    if isinstance(image, Image.Image):
        return pictures.from_pil(image, channels)
    if hasattr(image, "detach"):
        image = image.detach().cpu().numpy()
        image = np.moveaxis(image, 0, -1) if image.ndim == 3 else image
    array = np.asarray(image)
    array = array[..., None] if array.ndim == 2 else array
    if array.dtype != np.uint8 or array.ndim != 3 or not array.size:
        raise DippError(f"image: uint8 of shape (H, W, C) is needed, got {array.dtype} of shape {array.shape}")
    return np.ascontiguousarray(np.repeat(array, channels, axis=2) if array.shape[2] == 1 else array)


def to_pixels(x: torch.Tensor) -> Pixels:
    """States (N, C, H, W) around [−1, 1] to eight-bit pixels (N, H, W, C)."""
    scaled = ((x.float().clamp(-1, 1) + 1) * 127.5).round()
    pixels: Pixels = scaled.permute(0, 2, 3, 1).cpu().numpy().astype(np.uint8)
    return pixels
