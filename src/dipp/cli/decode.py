"""`dipp decode`: decode an archive to PNG files, each written whole or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dipp import files
from dipp.cli.options import EMBEDDED, Device, Model
from dipp.errors import DippError


def decode(
    archive: Annotated[Path, typer.Argument(help="A .dipp file.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="A PNG for one picture, or a folder.")],
    model: Model = EMBEDDED,
    noisy: Annotated[bool, typer.Option("--noisy", help="The noisy reconstruction, not the denoised one.")] = False,
    sample: Annotated[
        bool,
        typer.Option("--sample", help="A picture that looks real, not the expected one: its details are invented."),
    ] = False,
    ancestral: Annotated[
        bool, typer.Option("--ancestral", help="Denoise by DDPM sampling, as the paper does.")
    ] = False,
    calls: Annotated[
        int | None,
        typer.Option(help="Network calls that denoise: 1 gives the expected picture, more sample.", show_default="1"),
    ] = None,
    steps: Annotated[int | None, typer.Option(help="Decode only so many steps: a preview.")] = None,
    device: Device = "cpu",
) -> None:
    """Decode an archive to 00000.png, 00001.png and so on."""
    from PIL import Image
    from rich.console import Console
    from rich.progress import Progress

    import dipp

    source = dipp.open(archive)
    single = output.suffix.lower() == ".png"
    if single and len(source) != 1:
        raise DippError(f"output: {len(source)} pictures need a folder, not {output.name}")
    files.require_writable(output, folder=not single)
    codec = dipp.Codec.for_archive(source, model, device=device)
    drawn = codec.pictures(source, denoise=not noisy, sample=sample, ancestral=ancestral, calls=calls, steps=steps)
    with Progress(console=Console(stderr=True), disable=len(source) < 2) as bars:
        for number, picture in enumerate(bars.track(drawn, len(source), description="decoding")):
            place = output if single else output / f"{number:05d}.png"
            place.parent.mkdir(exist_ok=True)  # only now, so that a failure leaves no empty folder
            with files.atomic(place) as part:
                Image.fromarray(picture if picture.shape[2] > 1 else picture[..., 0]).save(part, format="PNG")
    typer.echo(f"{len(source)} pictures written to {output}")
