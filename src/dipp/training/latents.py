"""Public tables of latent models: what `dipp calibrate` and `dipp words` measure on public pictures.

Latents of public pictures are coded as private ones will be. The table of errors is for chains along timesteps, that of
questions for whole pictures. Questions to latents have random signs as their candidates, which need no words: what the
table holds is how often a picture is asked, by how much each answer moves a prediction, and what the network is told.
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
from dipp.training.asking import Asking
from dipp.training.public_pictures import PublicPictures
from dipp.training.recipes import WORTH, asked_once, sign_scale
from dipp.training.sensing import SEED

Latents = NDArray[np.uint8]
Progress = Callable[[str], None]

SHAPES: tuple[tuple[int, ...], ...] = ((1,), (1, 1), (2,), (1, 2), (2, 2), (4,), (2, 4), (8,), (4, 8))
"""Divisions of a picture's latents by the questions of a recipe."""
EPSILONS = (2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0)
LEAST = 1.0
"""Least ε of a draw of recipes that are tried."""


def load(denoiser: Denoiser, data: Path, count: int, window: Window | None = None) -> PublicPictures:
    """Read public pictures of the size that a latent model was trained on, and return their latents."""
    height, width = denoiser.sample_size
    if denoiser.latents is None or height != width:
        raise DippError("model", f"must be a latent model of square pictures, got latents of {height}×{width}")
    found = public_pictures.load(data, height * denoiser.latents.factor, count, denoiser.colours, window)
    return PublicPictures(denoiser.coded(found.pixels), found.skipped)


def calibrate(denoiser: Denoiser, latents: Latents, provenance: dict[str, Any], progress: Progress) -> ErrorTable:
    """Measure the errors of a latent model on exact states of public latents (N, h, w, c)."""
    import torch

    progress("exact states")
    x = torch.from_numpy(to_signal(latents)).permute(0, 3, 1, 2).float().to(denoiser.device)
    return measure(denoiser.x0, denoiser.schedule, x, SEED, provenance={"model": denoiser.identity, **provenance})


def work(denoiser: Denoiser, latents: Latents) -> int:
    """Pixels that the network will predict for `calibrate`, which a progress bar needs (`models.watch`)."""
    area = 1 if denoiser.latents is None else denoiser.latents.factor**2
    return len(grid(denoiser.schedule)) * int(math.prod(latents.shape[:3])) * area


def table(denoiser: Denoiser, latents: Latents, progress: Progress) -> list[dict[str, Any]]:
    """Try recipes of questions on public latents (N, h, w, c), for several budgets.

    Returns:
        The rows of the table, as JSON has them: recipes that no cheaper one beats.
    """
    rows: list[Row] = []
    for epsilon in EPSILONS:
        found = [row for shape in SHAPES if (row := _tried(denoiser, latents, epsilon, shape)) is not None]
        found.sort(key=lambda row: (row.bits, -row.psnr))
        best = itertools.accumulate((row.psnr for row in found), max, initial=-math.inf)
        rows += [row for row, before in zip(found, best, strict=False) if row.psnr > before + WORTH]
        progress(f"the picture at {epsilon:g}: {max((row.psnr for row in found), default=0):.2f} dB of its latents")
    return [row.to_dict() for row in rows]


def _tried(denoiser: Denoiser, latents: Latents, epsilon: float, shape: tuple[int, ...]) -> Row | None:
    """Return what questions of some divisions give within a budget; None if it does not suit them."""
    each = epsilon / sum(split**2 for split in shape)
    if not LEAST <= each <= MOST or BLOCK * shape[-1] > min(latents.shape[1:3]):
        return None
    asked, recipes = Asking(denoiser, Picture(), latents), []
    for split in shape:
        recipe = candidates_of(each, signs=True)._replace(split=split)
        recipe = recipe._replace(scale=sign_scale(asked, recipe, each))
        recipes.append(asked_once(asked, recipe, each))
    error = asked.error(asked.steps[-1])
    psnr, floor = (-10 * math.log10(max(one, 1e-9) / 4) for one in (error, float(np.square(to_signal(latents)).mean())))
    return Row(Picture.kind, latents.shape[1], epsilon, psnr, tuple(recipes), floor)
