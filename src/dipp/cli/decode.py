"""`dipp decode`: decode an archive or a dataset to pictures, each written whole or not at all."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dipp import files
from dipp.cli.options import AUTO, EMBEDDED, Device, Model, Overwrite
from dipp.core.words import counted
from dipp.errors import DippError

if TYPE_CHECKING:
    from dipp.data.loading import Pictures

PICTURE_FORMATS = {".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG", ".webp": "WebP", ".tif": "TIFF", ".tiff": "TIFF"}
"""Endings of the names of single pictures, and the formats that are written."""
QUALITY = 95
"""Quality of JPEG and WebP, 0 to 100."""
COMPRESSION = 4
"""Level of PNG's compression. Decoded photographs take 1 % more bytes than at level 6, and a third of the time."""
TABLE = ".parquet"
"""Ending of the names of tables of pictures and labels."""
NUMBERED = re.compile(r"\d{5,}\.png")
"""Names of decoded pictures in a folder."""
MADE_UP = "sampled: details that the file does not convey are made up; do not take them for evidence"
"""Line about pictures that were sampled."""


def decode(
    archive: Annotated[Path, typer.Argument(help="A .dipp file, or a folder that `dipp privatize` wrote.")],
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            help="A folder, with a folder for each class of a dataset; a .parquet file for Hugging Face's "
            "datasets; or, for one picture, a .png, .jpg, .webp or .tif file.",
        ),
    ],
    model: Model = EMBEDDED,
    noisy: Annotated[
        bool, typer.Option("--noisy", help="Write the noisy reconstruction, not the denoised one.")
    ] = False,
    sample: Annotated[
        bool,
        typer.Option(
            "--sample",
            help="Write a sampled picture, which looks sharper than the expected one: its details are made up.",
        ),
    ] = False,
    ancestral: Annotated[
        bool, typer.Option("--ancestral", help="Denoise by DDPM sampling, as in the paper: details are made up.")
    ] = False,
    calls: Annotated[
        int | None,
        typer.Option(
            help="Number of network calls that denoise: 1 gives the expected picture, more calls sample.",
            show_default="1",
        ),
    ] = None,
    steps: Annotated[
        int | None, typer.Option(help="Number of steps to decode, for a preview.", show_default="all")
    ] = None,
    max_work: Annotated[
        float | None,
        typer.Option(
            help="Most work that the file may cause, in billions of pixels through the network (pixels × steps).",
            show_default="1.07, or more for a large file",
        ),
    ] = None,
    overwrite: Overwrite = False,
    device: Device = AUTO,
) -> None:
    """Decode an archive or a dataset to 00000.png, 00001.png and so on; by default to the expected pictures."""
    from PIL import Image

    import dipp
    from dipp import models
    from dipp.codec.decoder import Decoder
    from dipp.codec.decoding import Decoding
    from dipp.models.bars import PREVIEW, shown

    decoding = Decoding(noisy, sample, ancestral, calls, steps, max_work)
    if archive.is_dir() or output.suffix.lower() == TABLE:
        if steps is not None or ancestral:
            raise DippError("steps and ancestral", "need a .dipp file that is decoded to pictures", "leave them out")
        data = dipp.load(archive, model, device=device, noisy=noisy, sample=sample, calls=calls, max_work=max_work)
        _export(data, output, overwrite)
        typer.echo(f"{counted(len(data), 'picture')} written to {output}")
        if decoding.invents:
            typer.echo(MADE_UP)
        return
    source = dipp.open(archive)
    single, kind = _kind(output)
    if single and len(source) != 1:
        raise DippError("output", f"must be a folder for {counted(len(source), 'picture')}, got {output.name}")
    files.require_writable(output, folder=not single)
    files.require_new(output, overwrite=overwrite)
    if not single:
        _refuse_others(output, (_place(output, number) for number in range(len(source))))
    decoder = Decoder(models.load(model, device))
    pictures = decoder.pictures(source, decoding)
    sizes = [height * width for images, height, width in source.runs.tolist() for _ in range(images)]
    with shown("decoding", sizes, decoder.work(source.parameters.plan, decoding), PREVIEW):
        for number, picture in enumerate(pictures):
            target = output if single else _place(output, number)
            target.parent.mkdir(exist_ok=True)  # not earlier, so that a failure leaves no empty folder
            with files.atomic(target) as part:
                grey = picture.shape[2] == 1 or source.grey[number]
                drawn = Image.fromarray(picture[..., 0] if grey else picture)
                drawn.save(part, format=kind, quality=QUALITY, compress_level=COMPRESSION)
    typer.echo(f"{counted(len(source), 'picture')} written to {output}")
    if decoding.invents:
        typer.echo(MADE_UP)


def _export(data: Pictures, output: Path, overwrite: bool) -> None:
    """Decode a dataset to a folder or a table, with its labels."""
    from dipp.data import exporting
    from dipp.models.bars import shown

    table = output.suffix.lower() == TABLE
    if not table and _kind(output)[0]:
        raise DippError("output", f"must be a folder or a {TABLE} file for a dataset, got {output.name}")
    files.require_writable(output, folder=not table)
    files.require_new(output, overwrite=overwrite)
    if not table:
        _refuse_others(output, exporting.places(data, output))
    with shown("decoding", [geometry.pixels for geometry in data.geometries()]):
        exporting.export(data, output)


def _place(folder: Path, number: int) -> Path:
    """Return the path of a decoded picture in a folder; `number` is its position in the .dipp file."""
    return folder / f"{number:05d}.png"


def _refuse_others(folder: Path, places: Iterable[Path]) -> None:
    """Raise if a folder holds pictures of an earlier decoding that would stay beside the new ones.

    Args:
        folder: The folder.
        places: Paths of the new pictures.
    """
    numbered = {path for path in (*folder.glob("*.png"), *folder.glob("*/*.png")) if NUMBERED.fullmatch(path.name)}
    if numbered and (others := numbered.difference(places)):
        name = min(others).relative_to(folder)
        raise DippError(
            "output",
            f"{folder} holds {name} of another decoding, which would pass for one of these pictures",
            "remove it, or name another folder",
        )


def _kind(output: Path) -> tuple[bool, str]:
    """Return whether a name is that of a single picture, and its format; raise for names of other kinds of files."""
    import mimetypes

    suffix = output.suffix.lower()
    if suffix in PICTURE_FORMATS:
        return True, PICTURE_FORMATS[suffix]
    if suffix == ".dipp" or mimetypes.guess_type(f"a{suffix}")[0]:
        raise DippError("output", f"must be a folder, or end in {', '.join(PICTURE_FORMATS)}, got {output.name}")
    return False, "PNG"
