"""`dipp redact`, `dipp check` and `dipp regions`: hide regions of pictures, check the result, and find regions."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dipp import files
from dipp.cli.options import (
    AUTO,
    EMBEDDED,
    WHAT_TO_HIDE,
    AsJson,
    Device,
    HidingOptions,
    Model,
    Overwrite,
    given,
)
from dipp.core.words import counted
from dipp.errors import DippError
from dipp.privacy.printing import upper

if TYPE_CHECKING:
    from dipp.redaction.record import Record
    from dipp.redaction.regions import DeclaredRegions

DETECTED = (
    "What the detector missed is not protected, and no detector finds everything: look at every picture, and add what "
    "is missing."
)

FASTER = "`dipp privatize --regions` takes a folder, on all cores"
"""Advice that is logged when pictures take long."""


@dataclass(frozen=True)
class RedactOptions:
    """Options of `dipp redact` beside those of regions."""

    odometer: Annotated[
        bool, typer.Option(help="Remember what was hidden and what was released, for this user on this machine.")
    ] = True
    epsilon: Annotated[
        float,
        typer.Option(min=0, help="Pure ε of the answers about each region; 0 never reads a region.", show_default=True),
    ] = 0.0
    model: Model = EMBEDDED
    device: Device = AUTO


def redact(
    images: Annotated[list[Path], typer.Argument(help="JPEG, PNG, TIFF, WebP or DICOM files.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="A folder, or the name of a file for a single picture.")
    ],
    regions: Annotated[Path, typer.Option(help=WHAT_TO_HIDE)],
    hiding: HidingOptions,
    options: RedactOptions,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Replace regions of pictures; the rest does not change by a bit. By default, regions are never read.

    The record of each picture is written beside it as NAME.record.json, for `dipp check`. With --epsilon, an output
    that ends in .dipp holds surroundings and answers in one file, for `dipp info` and `dipp decode`.
    """
    from dipp.models.bars import Forecast
    from dipp.redaction.redact import MISSED, Redactor, left_visible, read

    redactor = Redactor.of(**{name: value for name, value in given(hiding, options).items() if name != "gaps"})
    single = len(images) == 1 and bool(output.suffix) and not output.is_dir()
    declared = _declared(images, regions, hiding)
    chosen = [redactor.chosen(path.name, entry) for path, entry in zip(images, declared, strict=True)]
    files.require_writable(output, folder=not single)
    files.require_new(output, overwrite=overwrite)
    targets = _targets(images, output, single=single)
    records, forecast = [], Forecast("redacting", FASTER)
    for path, target, wanted, stated in zip(images, targets, chosen, declared, strict=True):
        redacted = redactor.redact(path.name, read(path), wanted, target)
        target.parent.mkdir(exist_ok=True)
        redacted.save(target)
        records.append(redacted.record)
        forecast.reached(len(records) / len(images))
        if not as_json:
            visible = left_visible(redactor.visible(stated))
            typer.echo(f"{target}: {_summary(redacted.record)}{visible and '; ' + visible}")
    typer.echo(json.dumps([record.facts for record in records]) if as_json else MISSED)


def check(
    picture: Annotated[
        Path,
        typer.Argument(help="A picture that `dipp redact` wrote, or a folder that `dipp privatize --regions` wrote."),
    ],
    record: Annotated[
        Path | None, typer.Argument(help="Record of the picture.", show_default="NAME.record.json beside it")
    ] = None,
    device: Device = AUTO,
    as_json: AsJson = False,
) -> None:
    """Check redacted pictures against their records, and that their regions follow from the surroundings."""
    from dipp.redaction import record as records
    from dipp.redaction.redact import MISSED

    if picture.is_dir():
        if record is not None:
            raise DippError(
                "record", f"must be left out for the folder {picture}, which has its own records", "leave it out"
            )
        _check_release(picture, device, as_json)
        return
    stated = records.Record.read(record or _beside(picture))
    checked = records.check(picture, stated, device)
    if as_json:
        facts = {"regions": checked.regions, "repainted": checked.repainted, "certificate": stated.facts["certificate"]}
        typer.echo(json.dumps(facts))
        return
    typer.echo(
        f"file         the one of the record\n"
        f"regions      {_summary(stated)}\n"
        f"painted      again from the surroundings{_asked(stated)} alone: {checked.repainted}\n"
        f"certificate  {_promised(stated)}; the rest was released as it was\n{MISSED}"
    )


def _beside(picture: Path) -> Path:
    """Return the path of a picture's record; raise if it does not exist, or if the picture is itself a record."""
    from dipp.redaction import record as records

    if picture.name.endswith(records.SUFFIX):
        raise DippError(str(picture), "is a record", "name the picture first: dipp check PICTURE RECORD")
    beside = records.beside(picture)
    if not beside.is_file():
        raise DippError(str(beside), "does not exist", "name the record of the picture: dipp check PICTURE RECORD")
    return beside


def _asked(record: Record) -> str:
    """Return a text that says that regions show answers; empty for ε = 0."""
    return " and the answers of the record" if "answers" in record.facts else ""


def _promised(record: Record) -> str:
    """Return a text that says what the certificate of a record promises."""
    epsilon = record.facts["certificate"]["epsilon"]
    if epsilon:
        return f"ε = {upper(epsilon)} pure for each region, and for anything in it"
    return "ε = 0 for what the regions hide"


def _check_release(folder: Path, device: str, as_json: bool) -> None:
    """Check a folder of redacted pictures, and print the result."""
    from dipp.data import redacted
    from dipp.redaction.redact import MISSED

    facts = redacted.verify(folder, device)
    if as_json:
        typer.echo(
            json.dumps({"images": facts["images"], "kinds": facts["kinds"], "certificate": facts["certificate"]})
        )
        return
    typer.echo(
        f"files        {counted(facts['images'], 'picture')}, each the one of its record\n"
        f"regions      {counted(sum(facts['kinds'].values()), 'region')}, painted again from their surroundings\n"
        f"certificate  ε = 0 for what the regions hide; the rest was released as it was\n{MISSED}"
    )


def regions(
    images: Annotated[list[Path], typer.Argument(help="Pictures in which regions are found.")],
    detector: Annotated[
        str,
        typer.Option(help="faces, text, or your own MODULE:FUNCTION: (H, W, 3) → kind, left, top, width, height."),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="File of regions to write, for `dipp redact --regions`.")
    ],
    overwrite: Overwrite = False,
) -> None:
    """Write a file of regions where a detector finds faces or text. It misses some: look at every picture."""
    from dipp.redaction import detect

    files.require_writable(output)
    files.require_new(output, overwrite=overwrite)
    detects = detect.detector(detector)
    entries = []
    for path in images:
        entries.append(detect.entry(path, detects))
        typer.echo(f"{path}: {counted(len(entries[-1]['regions']), 'region')}")
    with files.atomic(output) as part:
        part.write_text(json.dumps(detect.document(entries), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    typer.echo(DETECTED)


def _declared(images: list[Path], regions: Path, hiding: HidingOptions) -> list[DeclaredRegions | None]:
    """Return the regions that are declared for each picture; None for a picture without an entry."""
    from dipp.redaction import formats, tracks

    order = sorted(range(len(images)), key=lambda number: images[number].name)
    sorted_images = [images[number] for number in order]
    in_order = tracks.declared(formats.load(regions), sorted_images, hiding.gaps, allow_none=hiding.allow_none)
    in_given_order: list[DeclaredRegions | None] = [None] * len(images)
    for number, entry in zip(order, in_order, strict=True):
        in_given_order[number] = entry
    return in_given_order


def _targets(images: list[Path], output: Path, *, single: bool) -> list[Path]:
    """Return the path to which each picture is written.

    Raises:
        DippError: An original would be overwritten, or two pictures would get the same name.
    """
    from dipp.redaction.output import named
    from dipp.redaction.redact import read
    from dipp.redaction.sources import written_as

    sources: dict[Path, Path] = {}
    for path in images:
        try:
            target = output if single else output / named(path.name, written_as(read(path)))
        except DippError as error:
            raise error.renamed("image", path.name) from None
        if target in sources:
            names = f"{sources[target].name} and {path.name}"
            raise DippError(
                "images",
                f"must get different names, but {names} would both be {target.name}",
                "redact them into two folders",
            )
        sources[target] = path
        if target.exists() and any(image.exists() and target.samefile(image) for image in images):
            raise DippError("output", f"must not be an original, got {target}", "name another file or folder")
    return list(sources)


def _summary(record: Record) -> str:
    """Return a text that says what was hidden, from a record."""
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(record.kinds.items()))
    total = sum(record.kinds.values())
    if not total:
        return "nothing to hide"
    epsilon = record.facts["certificate"]["epsilon"]
    asked = f", asked at ε = {upper(epsilon)} each" if epsilon else ""
    return f"{counted(total, 'region')} hidden ({kinds}), {record.share:.1%} of it{asked}"
