"""`dipp calibrate`: measure the public cost table of a denoiser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from dipp import __version__, files
from dipp.cli.options import AUTO, Device, Overwrite, SourceWindow
from dipp.core.window import Window
from dipp.errors import DippError


def calibrate(
    model: Annotated[str, typer.Argument(help="Folder or hub id of a denoiser.")],
    data: Annotated[Path, typer.Argument(help="PUBLIC pictures: a folder, Parquet, .npz or .npy.")],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="File of the cost table.", show_default="calibration.json beside the model"
        ),
    ] = None,
    count: Annotated[
        int, typer.Option(help="Number of pictures; a network of one size gets tiles of larger pictures.")
    ] = 256,
    device: Device = AUTO,
    window: SourceWindow = None,
    overwrite: Overwrite = False,
) -> None:
    """Measure the errors of a denoiser on public pictures: the cost table that plans are made from.

    Plans for cells, regions and whole pictures also need the words that `dipp words` makes. Encoded files name the
    cost table of their plan. After the table is replaced, `dipp info --verify --model` refuses older files.
    """
    from dipp import models
    from dipp.models.bars import counting
    from dipp.planning.table import FILE_NAME
    from dipp.training import calibrate as calibration
    from dipp.training import latents, public_pictures

    if count < 1:
        raise DippError("count", f"must be at least 1, got {count}")
    target = output or Path(model) / FILE_NAME
    files.require_writable(target)
    files.require_new(target, overwrite=overwrite)
    denoiser, public = models.load(model, device), Window.of(window)
    others: list[Any] = []
    latent = denoiser.latents is not None
    if latent:
        loaded = latents.load(denoiser, data, count, public)
        pixels, skipped = loaded.pixels, loaded.skipped
    elif denoiser.any_size:
        (pixels, *others), skipped = public_pictures.scenes(data, public_pictures.fitting(data, public), count, public)
    else:
        height, width = denoiser.sample_size
        if height != width:
            raise DippError("model", f"must be a denoiser of square pictures, got {height}×{width}")
        public_images = public_pictures.load(data, height, count, denoiser.channels, public)
        pixels, skipped = public_images.pixels, public_images.skipped
    facts = {
        "data": data.name,
        "skipped": skipped,
        "model": denoiser.identity,
        "command": f"dipp calibrate --count {count}",
        "version": __version__,
    }
    work = latents.work(denoiser, pixels) if latent else calibration.work(denoiser, pixels, others)
    with counting("calibrating", work) as counter:
        table = (
            latents.calibrate(denoiser, pixels, facts, counter.say)
            if latent
            else calibration.calibrate(denoiser, pixels, facts, counter.say, others)
        )
        table.save(target)
    sizes = ", ".join(f"{len(batch)} of {batch.shape[1]}×{batch.shape[2]}" for batch in (pixels, *others))
    typer.echo(f"calibrated on {sizes} ({skipped} skipped): {target}")
