"""`dipp encode`: encode pictures into one archive, which carries its certificate."""

from __future__ import annotations

import mimetypes
from pathlib import Path
from typing import Annotated

import typer

from dipp import files
from dipp.cli.options import (
    AUTO,
    BeaconRound,
    Device,
    OdometerOptions,
    Overwrite,
    PlanOptions,
    Seed,
    SourceWindow,
    given,
    public_seed,
)
from dipp.errors import DippError


def encode(
    images: Annotated[list[Path], typer.Argument(help="Pictures to encode; each is released once.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The archive, a .dipp file.")],
    plan: PlanOptions,
    counting: OdometerOptions,
    overwrite: Overwrite = False,
    device: Device = AUTO,
    seed: Seed = None,
    beacon: BeaconRound = None,
    window: SourceWindow = None,
) -> None:
    """Encode pictures into one archive that carries its certificate."""
    from dipp import report
    from dipp.codec import encoding

    _refuse_output(output, images, overwrite)
    encoded = encoding.encoded(
        images,
        **given(plan),
        device=device,
        seed=public_seed(seed),
        beacon=beacon,
        window=window,
        odometer=counting.meter(plan.delta) or False,
    )
    encoded.archive.save(output)
    typer.echo("\n".join((report.archive_text(encoded.archive), *encoded.unused)))


def _refuse_output(output: Path, images: list[Path], overwrite: bool) -> None:
    """Raise if the archive cannot be written, would replace a file, or has the name of a picture."""
    if output.resolve() in (path.resolve() for path in images):
        raise DippError("output", f"must not be one of the pictures, got {output.name}", "name another file")
    files.require_writable(output)
    files.require_new(output, overwrite=overwrite)
    if (mimetypes.guess_type(output.name)[0] or "").startswith("image/"):
        raise DippError(
            "output",
            f"must be the name of an archive, got {output.name}",
            f"name it {output.with_suffix('.dipp').name}",
        )
