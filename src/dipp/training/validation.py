"""How good a denoiser is: the bits that the path to an SNR costs, and pictures sampled from noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from dipp import files
from dipp.codec.pictures import Pixels, to_pixels
from dipp.core import randomness
from dipp.core.signal import to_signal
from dipp.models import diffusion
from dipp.models.denoiser import Denoiser
from dipp.planning.table import ErrorTable, measure

SNRS = (0.0075, 0.027, 0.097, 0.35, 1.24, 2.0, 4.5, 15.8)
"""SNRs at which the bits of the path are reported."""
SEED = bytes(16)
"""Public seed of the noise, the same for every denoiser."""
GRID_SIDE = 8
"""Pictures along each side of a sheet of samples."""


def errors(denoiser: Denoiser, pixels: Pixels) -> ErrorTable:
    """The errors of a denoiser on exact states of pictures (N, H, W, C)."""
    x = torch.from_numpy(to_signal(pixels)).permute(0, 3, 1, 2).float().to(denoiser.device)
    return measure(denoiser.x0, denoiser.schedule, x, SEED)


def path_bits(table: ErrorTable, denoiser: Denoiser, snrs: Sequence[float] = SNRS) -> dict[float, float]:
    """Bits per pixel of the Gaussian path to each SNR, through every timestep.

    A step t → t − 1 costs mse_x0(t)·ΔSNR/2 nats a coordinate; the last one is counted in part, up to the given SNR.
    """
    schedule = denoiser.schedule
    levels = np.array([schedule.snr(t) for t in range(len(schedule) - 1, -1, -1)])
    costs = table.mse(levels[:-1]) * np.diff(levels) * denoiser.channels / (2 * math.log(2))
    total = np.concatenate([[0.0], np.cumsum(costs)])
    return {snr: float(np.interp(snr, levels, total)) for snr in snrs}


def sample_grid(denoiser: Denoiser, path: Path) -> None:
    """Write a sheet of pictures that the fast sampler makes from public noise, as a PNG."""
    last, shape = len(denoiser.schedule) - 1, (denoiser.channels, *denoiser.sample_size)
    streams = (randomness.stream(SEED, image, purpose="start") for image in range(GRID_SIDE**2))
    noise = np.stack([diffusion.normals(stream, shape) for stream in streams])
    x_t = torch.from_numpy(noise).to(denoiser.device)
    drawn = to_pixels(diffusion.fast(denoiser.x0, denoiser.schedule, x_t, last))
    _, height, width, channels = drawn.shape
    rows = drawn.reshape(GRID_SIDE, GRID_SIDE, height, width, channels).transpose(0, 2, 1, 3, 4)
    with files.atomic(path) as part:
        Image.fromarray(rows.reshape(GRID_SIDE * height, GRID_SIDE * width, channels)).save(part, format="PNG")
