"""`dipp.encode`: pictures in, an archive out, in one call. The command `dipp encode` parses, calls this and prints.

A codec has one plan for all pictures. Here the plan is made for the pictures that are given: for the smallest of them,
which has the worst certificate. Sizes are public, so a plan may depend on them. The public seed is drawn first of all:
one that is drawn after something of a picture was seen could have been chosen by it.
"""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, Unpack

from dipp.codec import batches, pictures
from dipp.codec.archive import Archive
from dipp.codec.codec import Codec
from dipp.core import randomness
from dipp.core.beacon import Beacon
from dipp.core.window import Window
from dipp.errors import DippError
from dipp.models import embedded
from dipp.models.bars import shown
from dipp.odometer import Meter
from dipp.privacy import advice
from dipp.privacy.budget import why_unused

if TYPE_CHECKING:
    import torch

LOGGER = logging.getLogger("dipp")


class PlanArguments(TypedDict, total=False):
    """What a plan is made from, as `Codec.from_pretrained` takes it."""

    epsilon: float | None
    delta: float | None
    rho: float | None
    preset: str
    bpp: float | None
    final_timestep: int | None
    calibration: str | Path | None
    device: str | torch.device


class Encoded(NamedTuple):
    """What an encoding has made."""

    archive: Archive
    warnings: tuple[str, ...]
    """Warnings about its certificate, as `dipp info` prints them."""
    unused: tuple[str, ...]
    """Why the plan uses far less than the budget, if it does."""


def encode(
    images: Any,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    rho: float | None = None,
    preset: str = "sharp",
    bpp: float | None = None,
    final_timestep: int | None = None,
    model: str | Path = embedded.FOLDER,
    calibration: str | Path | None = None,
    device: str | torch.device = "auto",
    seed: bytes | None = None,
    beacon: Beacon | None = None,
    window: Window | str | tuple[int, int] | None = None,
    odometer: bool | Meter = True,
    progress: bool = True,
) -> Archive:
    """Encode pictures into one archive that carries its certificate, as the command `dipp encode` does.

    Warnings about the certificate, and of pictures that were released before, go to the logger "dipp".

    Args:
        images: One picture or an iterable of them: paths, PIL images, uint8 arrays (H, W, C) or (H, W), uint8 tensors
            (C, H, W). Each is released once.
        epsilon: Budget per pixel: pure ε, or with `delta` ε of (ε, δ). Required, except with `rho` or preset "diffc".
        delta: δ of an (ε, δ) budget.
        rho: Budget per pixel as ρ (zCDP), in place of `epsilon`.
        preset: "sharp", "swift", "paper" or "diffc", which has no certificate.
        bpp: Most payload bits per pixel, as expected from public pictures. By default 1 for "sharp" and "swift".
        final_timestep: Timestep at which the coded steps end.
        model: Folder or hub id of a denoiser. By default the one that ships with dipp.
        calibration: Public cost table, if it is not calibration.json beside the weights.
        device: "auto", "cuda", "mps" or "cpu".
        seed: 16 public bytes, for tests; by default drawn before a picture is read. With a beacon, your part of it.
        beacon: Round of a public random beacon, which is mixed into the seed.
        window: Values that become black and white in pictures of more than eight bits: (low, high), "LOW:HIGH" or
            "full".
        odometer: True charges this user's odometer, a `Meter` one with a limit for instance, False none.
        progress: Whether a terminal shows a progress bar.

    Returns:
        The archive. `save` writes it, `certificate` is what it promises.

    Raises:
        DippError: An argument or a picture cannot be used; nothing was released.
        LimitError: A picture would exceed the limit of the odometer; nothing was released.
    """
    made = encoded(
        images,
        epsilon=epsilon,
        delta=delta,
        rho=rho,
        preset=preset,
        bpp=bpp,
        final_timestep=final_timestep,
        model=model,
        calibration=calibration,
        device=device,
        seed=seed,
        beacon=beacon,
        window=window,
        odometer=odometer,
        progress=progress,
    )
    for text in (*made.warnings, *made.unused):
        LOGGER.warning(text)
    return made.archive


def encoded(
    images: Any,
    *,
    model: str | Path = embedded.FOLDER,
    seed: bytes | None = None,
    beacon: Beacon | None = None,
    window: Window | str | tuple[int, int] | None = None,
    odometer: bool | Meter = True,
    progress: bool = True,
    **plan: Unpack[PlanArguments],
) -> Encoded:
    """Encode as `encode` does, but return the warnings instead of logging them."""
    public = randomness.fresh_seed() if seed is None else seed  # before anything of a picture is seen
    given = batches.listed(batches.once(pictures.each(images)))
    require_files(given)
    sizes = [size for image in given if (size := pictures.size_of(image)) is not None]
    codec = Codec.from_pretrained(model, **plan, size=min(sizes, key=math.prod, default=None))
    with shown("encoding", [math.prod(size) for size in sizes], wanted=progress):
        archive = codec.encode(
            given, seed=public, given=seed is not None, beacon=beacon, window=window, odometer=odometer
        )
    certified = archive.release.plan.coding.certified
    claim = archive.certificate.to_dict() if certified else None
    warnings = advice.warnings(claim["epsilon"], claim["delta"], archive.pixels) if claim else ()
    unused = why_unused(codec.budget, claim, codec.bound, plan.get("final_timestep"))
    return Encoded(archive, warnings, unused)


def require_files(images: Sequence[Any]) -> None:
    """Raise for a path that is a pipe, which can be read only once, or a folder."""
    for path in (Path(image) for image in images if isinstance(image, str | os.PathLike)):
        if str(path) == "-" or path.is_fifo():
            raise DippError(f"images: {path} is not a file, and pictures are read more than once; save it first")
        if path.is_dir():
            raise DippError(f"images: {path} is a folder; `dipp privatize {path} DST` releases all that is in it")
