"""What a training run needs, prepared and checked before the first step."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dipp import files, models
from dipp.codec.pictures import Pixels
from dipp.errors import DippError
from dipp.training import folder, public_pictures

VALIDATION_PICTURES = 256
"""Pictures for validation, at most."""
HELD_OUT = 50
"""One picture in so many is held out for validation, unless pictures for that are given."""


def origin(
    network: Mapping[str, Any], start: Path | None
) -> tuple[Mapping[str, Any], Mapping[str, Any], dict[str, torch.Tensor] | None]:
    """Network config, scheduler config and weights to start from: those of the denoiser `start`.

    If `start` is None: the config `network`, the default scheduler, and None for fresh weights.
    """
    if start is None:
        return network, folder.SCHEDULER, None
    denoiser: Any = models.load(start)
    scheduler = json.loads((start / "scheduler" / "scheduler_config.json").read_text(encoding="utf-8"))
    if denoiser.schedule.prediction != "v_prediction":
        raise DippError(f"start: a denoiser that predicts v is needed, {start} predicts {denoiser.schedule.prediction}")
    return dict(denoiser.network.config), scheduler, denoiser.network.state_dict()


def pictures(data: Path, validate_on: Path | None, size: Any) -> tuple[Pixels, Pixels, int]:
    """Training pictures, held-out pictures, and the number of skipped ones; all pictures have the side `size`."""
    if not isinstance(size, int):
        raise DippError(f"network: a whole number as sample_size is needed, got {size}")
    found = public_pictures.load(data, size)
    if validate_on is not None:
        other = public_pictures.load(validate_on, size, VALIDATION_PICTURES)
        return found.pixels, other.pixels, found.skipped + other.skipped
    if len(found.pixels) < 2:
        raise DippError(f"data: two pictures at the least are needed, {data} has {len(found.pixels)}")
    count = min(VALIDATION_PICTURES, -(-len(found.pixels) // HELD_OUT))
    shuffled = np.random.default_rng(0).permutation(len(found.pixels))
    return found.pixels[shuffled[count:]], found.pixels[shuffled[:count]], found.skipped


def check_folder(output: Path, checkpoint: str) -> None:
    """Make the folder; refuse one that is neither empty nor a run with its checkpoint, or that cannot be written to."""
    try:
        output.mkdir(parents=True, exist_ok=True)
        names = {path.name for path in output.iterdir()}
    except OSError:
        raise DippError(f"output: {output} is not a folder that can be made") from None
    if not os.access(output, os.W_OK):
        raise DippError(f"output: {output} cannot be written to")
    others = {name for name in names if not files.is_part(name) and name != f".{checkpoint}.partial"}
    for name in names - others:  # what a process that was killed while it saved has left
        (output / name).unlink(missing_ok=True)
    if others and checkpoint not in names:
        raise DippError(f"output: {output} is neither empty nor a training run; use another folder")


def check_disk(output: Path, parameters: int) -> None:
    """Refuse a disk without space for two checkpoints (weights, average and two moments in fp32) and two exports."""
    needed = parameters * 4 * (2 * 4 + 2) + (1 << 24)
    free = shutil.disk_usage(output).free
    if free < needed:
        raise DippError(f"output: {needed >> 20} MB of disk are needed in {output}, {free >> 20} MB are free")
