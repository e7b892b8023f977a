"""Prepare and check what a training run needs, before its first step."""

from __future__ import annotations

import dataclasses
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from dipp import files, models
from dipp.codec.pictures import Pixels
from dipp.errors import DippError
from dipp.models.config import CHANNELS, Config
from dipp.models.network import widened
from dipp.models.photonet import PhotoDenoiser
from dipp.training import public_pictures
from dipp.training.bank import Cut, cut_all

HELD_OUT = 50
"""By default, every photograph with a number divisible by this one is held out for validation."""
VALIDATION_TILES = 64
"""Largest number of tiles of each size for validation."""


@dataclass(frozen=True, eq=False)
class Tiles:
    """The tiles of a run: for each size a uint8 array (N, side, side, 3)."""

    training: list[Pixels]
    held_out: list[Pixels]
    """Tiles for validation, from other photographs than those for training."""
    photographs: int
    """Number of photographs for training."""
    skipped: int
    """Number of photographs that could not be read or were too small."""


def tiles(data: Path, validate_on: Path | None, cuts: Sequence[Cut]) -> Tiles:
    """Cut tiles for training and for validation from different photographs.

    Args:
        data: Photographs for training: a folder, or a .tar, .parquet, .npy or .npz file.
        validate_on: Photographs for validation. None holds out one in `HELD_OUT` of those in `data`.
        cuts: The sizes of the tiles.

    Returns:
        The tiles.

    Raises:
        DippError: Too few photographs are as large as a tile.
    """
    every = list(public_pictures.sources(data))
    if validate_on is None:
        others, every = every[::HELD_OUT], [source for i, source in enumerate(every) if i % HELD_OUT]
    else:
        others = list(islice(public_pictures.sources(validate_on), VALIDATION_TILES))
    training, used, skipped = cut_all(every, cuts)
    held_out, _, more = cut_all(others, [Cut(cut.side, 1, cut.whole) for cut in cuts])
    for cut, mine, theirs in zip(cuts, training, held_out, strict=True):
        if not len(mine) or not len(theirs):
            raise DippError(
                "data",
                f"must hold photographs of at least {cut.side}×{cut.side} to train on and others to validate on, but "
                f"has too few of them among {len(every) + len(others)}",
                "add photographs, or pass a smaller --size",
            )
    # Tiles from all photographs: a large photograph alone gives more than enough.
    kept = [array[:: max(1, len(array) // VALIDATION_TILES)][:VALIDATION_TILES] for array in held_out]
    return Tiles(training, kept, used, skipped + more)


def origin(
    network: Mapping[str, Any] | None, start: Path | None, *, told: bool
) -> tuple[Config, dict[str, torch.Tensor] | None]:
    """Return the config and the weights from which a run starts.

    Args:
        network: Config of a fresh network. None takes the default, or that of `start`.
        start: Folder of a denoiser for photographs to start from. None starts from fresh weights.
        told: Whether the network shall have input planes for all kinds of evidence. Planes that `start` lacks get
            zero weights.

    Returns:
        The config, and the weights by name or None for fresh ones.

    Raises:
        DippError: Both are given, the config is wrong, or `start` holds another kind of denoiser.
    """
    config, tensors = _origin(network, start)
    if told:
        config = dataclasses.replace(config, planes=tuple(CHANNELS))
        tensors = None if tensors is None else widened(tensors, config.inputs)
    return config, tensors


def _origin(network: Mapping[str, Any] | None, start: Path | None) -> tuple[Config, dict[str, torch.Tensor] | None]:
    if start is not None and network is not None:
        raise DippError(
            "network and start", "must not both be given", "leave out network: a denoiser to start from brings its own"
        )
    if start is not None:
        denoiser = models.load(start)
        if not isinstance(denoiser, PhotoDenoiser):
            raise DippError("start", f"must be a denoiser for photographs, but {start} holds another")
        return denoiser.config, denoiser.network.state_dict()
    try:
        return Config.from_dict(network or {}), None
    except (TypeError, ValueError) as error:
        raise DippError("network", f"has a config that makes no network: {error}") from None


def check_folder(output: Path, checkpoint: str) -> None:
    """Raise if a folder cannot be written to, or holds anything but a run with its checkpoint.

    What a killed process left of a file is deleted.

    Args:
        output: The folder.
        checkpoint: Name of the checkpoint in it.
    """
    try:
        nearest = _nearest(output)
        names = {path.name for path in nearest.iterdir()} if nearest == output.absolute() else set()
    except OSError:
        raise DippError("output", f"must be a folder that can be made, got {output}") from None
    if not os.access(nearest, os.W_OK):
        raise DippError("output", f"must be a folder that can be written to, got {output}")
    others = {name for name in names if not files.is_part(name)}
    for name in names - others:  # parts of files, from a process that was killed while it saved
        (output / name).unlink(missing_ok=True)
    if others and checkpoint not in names:
        raise DippError(
            "output", f"must be empty or hold a training run, but {output} holds other files", "name another folder"
        )


def make_folder(output: Path) -> None:
    """Make the folder of a run. Call it after all checks, so that a refused run leaves nothing behind.

    Raises:
        DippError: The folder cannot be made.
    """
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError:
        raise DippError("output", f"must be a folder that can be made, got {output}") from None


def _nearest(output: Path) -> Path:
    """Return the folder, or the nearest existing folder above it; raise OSError if that is a file."""
    whole = output.absolute()
    nearest = next(path for path in (whole, *whole.parents) if path.exists())
    if not nearest.is_dir():
        raise NotADirectoryError
    return nearest


def check_disk(output: Path, parameters: int) -> None:
    """Raise if the disk lacks space for two checkpoints and two exports of a network with that many parameters.

    Args:
        output: The folder of the run.
        parameters: Number of weights of the network.
    """
    needed = parameters * 2 * (2 * 2 + 2) + (1 << 24)
    free = shutil.disk_usage(_nearest(output)).free
    if free < needed:
        raise DippError("output", f"needs {needed >> 20} MB of disk in {output}, but {free >> 20} MB are free")
