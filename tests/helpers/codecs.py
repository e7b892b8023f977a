"""A codec with an untrained network and a plan of three steps, and pictures. Its promises need no good network."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch

from dipp.codec.chain import Chain
from dipp.codec.codec import Codec
from dipp.codec.decoder import Decoder
from dipp.codec.decoding import ChainEnd, Decoding
from dipp.codec.encoder import encode_batch
from dipp.codec.pictures import CodecPicture
from dipp.core.geometry import Geometry
from dipp.core.plan import Coding, Plan
from dipp.core.steps import Step
from dipp.format.archive import Archive
from dipp.models.diffusion import NoiseSchedule
from dipp.privacy.recorder import Recorder
from helpers.networks import tiny_denoiser

SEED = bytes(range(16))
TIMESTEPS = (999, 700, 450, 300)


def make_plan(coding: Coding, schedule: NoiseSchedule, index_bits: int = 8) -> Plan:
    """Return a plan of three steps, with the gains of the schedule."""
    steps = []
    units = 0 if coding.code.fixed_length else 80
    for start, end in itertools.pairwise(TIMESTEPS):
        gain = float(np.nextafter(np.float32(schedule.snr(end) - schedule.snr(start)), np.float32(0)))
        steps.append(Step(start, end, gain, chunk_size=30, index_bits=index_bits, exponent_units=units))
    return Plan(coding, tuple(steps))


def make_codec(coding: Coding) -> Codec:
    """Return a codec with few candidates, which is fast."""
    denoiser = tiny_denoiser()
    return Codec(denoiser, make_plan(coding, denoiser.schedule, index_bits=6))


def states(codec: Codec, archive: Archive, steps: int | None = None) -> Iterator[tuple[torch.Tensor, int]]:
    """Yield the decoded states x_t of an archive for each batch, and their timestep."""
    for end in Decoder(codec.denoiser).ends(archive, Decoding(noisy=True, steps=steps)):
        yield end.noisy()


def selected(
    codec: Codec, images: Sequence[Any], numbers: Sequence[int], seed: bytes, recorder: Recorder
) -> tuple[Any, ChainEnd]:
    """Return the indices of pictures of one size, one row each, and their final states."""
    chain = Chain(codec.plan, codec.denoiser, seed, Geometry.of(images[0].shape))
    return encode_batch(chain, [CodecPicture(image) for image in images], numbers, recorder)


def pictures(count: int, height: int = 8, width: int = 8) -> np.ndarray[Any, Any]:
    return np.random.default_rng(3).integers(0, 256, (count, height, width, 3), np.uint8)


def pictures_of_two_sizes() -> list[np.ndarray[Any, Any]]:
    """Return two pictures of 8×8 and one of 8×16."""
    generator = np.random.default_rng(3)
    return [generator.integers(0, 256, shape, np.uint8) for shape in ((8, 8, 3), (8, 8, 3), (8, 16, 3))]
