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

FORMATS = {".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG", ".webp": "WebP", ".tif": "TIFF", ".tiff": "TIFF"}
"""Names that mean a single picture, and what is written."""
QUALITY = 95
"""Quality of a JPEG or WebP."""
TABLE = ".parquet"
"""Names that mean a table of pictures and labels."""
NUMBERED = re.compile(r"\d{5,}\.png")
"""Names of the pictures in a folder."""
MADE_UP = "sampled: details that the file does not convey are made up; do not take them for evidence"


def decode(
    archive: Annotated[Path, typer.Argument(help="A .dipp file, or a folder that privatize wrote.")],
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            help="A folder, in which the classes of a dataset have folders of their own; a .parquet file for Hugging "
            "Face's datasets; or, for one picture, a .png, .jpg, .webp or .tif file.",
        ),
    ],
    model: Model = EMBEDDED,
    noisy: Annotated[bool, typer.Option("--noisy", help="The noisy reconstruction, not the denoised one.")] = False,
    sample: Annotated[
        bool,
        typer.Option("--sample", help="A picture that looks sharper than the expected one: its details are made up."),
    ] = False,
    ancestral: Annotated[
        bool, typer.Option("--ancestral", help="Denoise by DDPM sampling, as the paper does: details are made up.")
    ] = False,
    calls: Annotated[
        int | None,
        typer.Option(help="Network calls that denoise: 1 gives the expected picture, more sample.", show_default="1"),
    ] = None,
    steps: Annotated[int | None, typer.Option(help="Decode only so many steps: a preview.")] = None,
    max_work: Annotated[
        float | None,
        typer.Option(
            help="Billions of pixels that the file may send through the network: pixels × steps.",
            show_default="1.07, or more for a large file",
        ),
    ] = None,
    overwrite: Overwrite = False,
    device: Device = AUTO,
) -> None:
    """Decode an archive or a dataset to 00000.png, 00001.png and so on: by default the expected pictures."""
    from PIL import Image

    import dipp
    from dipp import models
    from dipp.codec.decoder import Decoder
    from dipp.codec.decoding import Decoding
    from dipp.models.bars import PREVIEW, shown

    decoding = Decoding(noisy, sample, ancestral, calls, steps, max_work)
    if archive.is_dir() or output.suffix.lower() == TABLE:
        if steps is not None or ancestral:
            raise DippError("steps, ancestral", "need a .dipp file that is decoded to pictures", "leave them out")
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
    with shown("decoding", sizes, decoder.work(source.release.plan, decoding), PREVIEW):
        for number, picture in enumerate(pictures):
            place = output if single else _place(output, number)
            place.parent.mkdir(exist_ok=True)  # only now, so that a failure leaves no empty folder
            with files.atomic(place) as part:
                grey = picture.shape[2] == 1 or source.grey[number]
                drawn = Image.fromarray(picture[..., 0] if grey else picture)
                drawn.save(part, format=kind, quality=QUALITY)
    typer.echo(f"{counted(len(source), 'picture')} written to {output}")
    if decoding.invents:
        typer.echo(MADE_UP)


def _export(data: Pictures, output: Path, overwrite: bool) -> None:
    """Write a dataset, with its labels."""
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
    """Where a picture of a .dipp file goes in a folder."""
    return folder / f"{number:05d}.png"


def _refuse_others(folder: Path, places: Iterable[Path]) -> None:
    """Refuse a folder with pictures of another decoding that would not be replaced: they would pass for these."""
    found = {path for path in (*folder.glob("*.png"), *folder.glob("*/*.png")) if NUMBERED.fullmatch(path.name)}
    if found and (others := found.difference(places)):
        name = min(others).relative_to(folder)
        raise DippError(
            "output",
            f"{folder} holds {name} of another decoding, which would pass for one of these pictures",
            "remove it, or name another folder",
        )


def _kind(output: Path) -> tuple[bool, str]:
    """Whether a name means a single picture, and what is written; that of another kind of file is refused."""
    import mimetypes

    suffix = output.suffix.lower()
    if suffix in FORMATS:
        return True, FORMATS[suffix]
    if suffix == ".dipp" or mimetypes.guess_type(f"a{suffix}")[0]:
        raise DippError("output", f"must be a folder, or end in {', '.join(FORMATS)}, got {output.name}")
    return False, "PNG"
