"""Measure the public tables of latent models, for `dipp calibrate` and `dipp words`.

The latents of public pictures are coded in the same way as private ones. The table of errors is for chains along
timesteps. The table of questions is for whole pictures. Its candidates are random signs, which need no words. It says
how often a picture is asked, how far each answer moves a prediction, and which SNR the network is told.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dipp.core.signal import to_signal
from dipp.core.steps import BLOCK
from dipp.core.units import Picture
from dipp.core.window import Window
from dipp.errors import DippError
from dipp.models.denoiser import Denoiser
from dipp.planning.questions import MOST, Row, candidates_of
from dipp.planning.table import ErrorTable, grid, measure
from dipp.training import public_pictures
from dipp.training.asking import AskedPictures
from dipp.training.public_pictures import PublicPictures
from dipp.training.recipes import WORTH, asked_once, sign_scale
from dipp.training.sensing import SEED

Latents = NDArray[np.uint8]
Progress = Callable[[str], None]

SHAPES: tuple[tuple[int, ...], ...] = ((1,), (1, 1), (2,), (1, 2), (2, 2), (4,), (2, 4), (8,), (4, 8))
"""The splits of the questions of each recipe that is tried."""
EPSILONS = (2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0)
LEAST = 1.0
"""Least ε of a draw in the recipes that are tried."""


def load(denoiser: Denoiser, data: Path, count: int, window: Window | None = None) -> PublicPictures:
    """Read public pictures of the size that a latent model was trained on, and return their latents.

    Args:
        denoiser: The latent model.
        data: Folder, or .tar, .parquet, .npy or .npz file.
        count: Largest number of pictures.
        window: Values that become black and white in pictures of more than eight bits. None skips such pictures.

    Returns:
        uint8 latents (N, h, w, c) in place of pixels, and the number of files that were skipped.

    Raises:
        DippError: The model is not a latent model of square pictures, or no picture is large enough.
    """
    height, width = denoiser.sample_size
    if denoiser.latents is None or height != width:
        raise DippError("model", f"must be a latent model of square pictures, got latents of {height}×{width}")
    loaded = public_pictures.load(data, height * denoiser.latents.factor, count, denoiser.colours, window)
    return PublicPictures(denoiser.coded(loaded.pixels), loaded.skipped)


def calibrate(denoiser: Denoiser, latents: Latents, provenance: dict[str, Any], progress: Progress) -> ErrorTable:
    """Measure the errors of a latent model on states that are public latents plus noise.

    Args:
        denoiser: The latent model.
        latents: uint8 latents (N, h, w, c).
        provenance: Facts about the measurement, which the table keeps.
        progress: Callback that receives what is being measured.

    Returns:
        The table.
    """
    import torch

    progress("exact states")
    x = torch.from_numpy(to_signal(latents)).permute(0, 3, 1, 2).float().to(denoiser.device)
    return measure(denoiser.x0, denoiser.schedule, x, SEED, provenance={"model": denoiser.identity, **provenance})


def work(denoiser: Denoiser, latents: Latents) -> int:
    """Return how many pixels the network predicts in `calibrate`, for a progress bar (`models.watch`).

    Args:
        denoiser: The latent model.
        latents: uint8 latents.
    """
    area = 1 if denoiser.latents is None else denoiser.latents.factor**2
    return len(grid(denoiser.schedule)) * int(math.prod(latents.shape[:3])) * area


def table(denoiser: Denoiser, latents: Latents, progress: Progress) -> list[dict[str, Any]]:
    """Try recipes of questions on public latents (N, h, w, c), for several budgets.

    Args:
        denoiser: The latent model.
        latents: uint8 latents.
        progress: Callback that receives what is being tried.

    Returns:
        The rows of the table, as JSON has them: recipes that no cheaper one beats.
    """
    rows: list[Row] = []
    for epsilon in EPSILONS:
        tried = [row for shape in SHAPES if (row := _tried(denoiser, latents, epsilon, shape)) is not None]
        tried.sort(key=lambda row: (row.bits, -row.psnr))
        best = itertools.accumulate((row.psnr for row in tried), max, initial=-math.inf)
        rows += [row for row, before in zip(tried, best, strict=False) if row.psnr > before + WORTH]
        progress(f"the picture at {epsilon:g}: {max((row.psnr for row in tried), default=0):.2f} dB of its latents")
    return [row.to_dict() for row in rows]


def _tried(denoiser: Denoiser, latents: Latents, epsilon: float, shape: tuple[int, ...]) -> Row | None:
    """Return the table's row for questions of the splits `shape` at a budget; None if the budget does not suit them."""
    each = epsilon / sum(split**2 for split in shape)
    if not LEAST <= each <= MOST or BLOCK * shape[-1] > min(latents.shape[1:3]):
        return None
    asked, recipes = AskedPictures(denoiser, Picture(), latents), []
    for split in shape:
        recipe = candidates_of(each, signs=True)._replace(split=split)
        recipe = recipe._replace(scale=sign_scale(asked, recipe, each))
        recipes.append(asked_once(asked, recipe, each))
    error = asked.error(asked.steps[-1])
    psnr, floor = (
        -10 * math.log10(max(square, 1e-9) / 4) for square in (error, float(np.square(to_signal(latents)).mean()))
    )
    return Row(Picture.kind, latents.shape[1], epsilon, psnr, tuple(recipes), floor)
