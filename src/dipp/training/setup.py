"""What a training run needs, prepared and checked before the first step."""

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
"""One photograph in this number is held out for validation, if no photographs for that are given."""
VALIDATION_TILES = 64
"""Tiles of each size for validation, at most."""


@dataclass(frozen=True, eq=False)
class Tiles:
    """The tiles of a run, an array for each size."""

    training: list[Pixels]
    held_out: list[Pixels]
    photographs: int
    skipped: int


def tiles(data: Path, validate_on: Path | None, cuts: Sequence[Cut]) -> Tiles:
    """Cut the tiles for training, and those for validation: of photographs that no tile for training is of."""
    every = list(public_pictures.sources(data))
    if validate_on is None:
        others, every = every[::HELD_OUT], [one for i, one in enumerate(every) if i % HELD_OUT]
    else:
        others = list(islice(public_pictures.sources(validate_on), VALIDATION_TILES))
    training, used, skipped = cut_all(every, cuts)
    held_out, _, more = cut_all(others, [Cut(cut.side, 1, cut.whole) for cut in cuts])
    for cut, mine, theirs in zip(cuts, training, held_out, strict=True):
        if not len(mine) or not len(theirs):
            raise DippError(
                "data",
                f"must hold photographs of at least {cut.side}×{cut.side} to train on and to validate on, but too few "
                f"of the {len(every) + len(others)} there are that large",
                "pass a smaller --size",
            )
    # Spread over all: a large photograph alone gives more.
    kept = [array[:: max(1, len(array) // VALIDATION_TILES)][:VALIDATION_TILES] for array in held_out]
    return Tiles(training, kept, used, skipped + more)


def origin(
    network: Mapping[str, Any] | None, start: Path | None, *, told: bool
) -> tuple[Config, dict[str, torch.Tensor] | None]:
    """Config and weights to start from: those of the denoiser `start`, or a config and None for fresh weights.

    With `told`, the network has all planes. Those that `start` lacks get zero weights.
    """
    config, tensors = _origin(network, start)
    if told:
        config = dataclasses.replace(config, planes=tuple(CHANNELS))
        tensors = None if tensors is None else widened(tensors, config.inputs)
    return config, tensors


def _origin(network: Mapping[str, Any] | None, start: Path | None) -> tuple[Config, dict[str, torch.Tensor] | None]:
    if start is not None and network is not None:
        raise DippError(
            "network, start", "must not both be given", "leave out network: a denoiser to start from brings its own"
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
    """Refuse a folder that is neither new, empty nor a run with its checkpoint, or that cannot be written to."""
    try:
        there = _nearest(output)
        names = {path.name for path in there.iterdir()} if there == output.absolute() else set()
    except OSError:
        raise DippError("output", f"must be a folder that can be made, got {output}") from None
    if not os.access(there, os.W_OK):
        raise DippError("output", f"must be a folder that can be written to, got {output}")
    others = {name for name in names if not files.is_part(name)}
    for name in names - others:  # what a process that was killed while it saved has left
        (output / name).unlink(missing_ok=True)
    if others and checkpoint not in names:
        raise DippError(
            "output", f"must be empty or hold a training run, but {output} holds other files", "name another folder"
        )


def make_folder(output: Path) -> None:
    """Make the folder, once all else was checked: a run that is refused leaves nothing behind."""
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError:
        raise DippError("output", f"must be a folder that can be made, got {output}") from None


def _nearest(output: Path) -> Path:
    """The folder, or the nearest one above it that is there; raises OSError for what can be neither."""
    whole = output.absolute()
    found = next(path for path in (whole, *whole.parents) if path.exists())
    if not found.is_dir():
        raise NotADirectoryError
    return found


def check_disk(output: Path, parameters: int) -> None:
    """Refuse a disk without space for two checkpoints (weights and average in half precision) and two exports."""
    needed = parameters * 2 * (2 * 2 + 2) + (1 << 24)
    free = shutil.disk_usage(_nearest(output)).free
    if free < needed:
        raise DippError("output", f"needs {needed >> 20} MB of disk in {output}, but {free >> 20} MB are free")
