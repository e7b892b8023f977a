"""`dipp encode`: encode pictures into one archive, which carries its certificate."""

from __future__ import annotations

import math
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
    public_beacon,
    public_seed,
)
from dipp.core import randomness
from dipp.core.window import Window
from dipp.errors import DippError


def encode(
    images: Annotated[list[Path], typer.Argument(help="Pictures to encode, each released once.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The archive.")],
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
    from dipp.cli.bars import shown
    from dipp.codec import pictures

    # First of all: a seed that is drawn once something of a picture was seen could have been chosen by it.
    fixed, published = public_seed(seed), public_beacon(beacon)
    public, mapped = fixed or randomness.fresh_seed(), Window.of(window)
    _refuse_others(images)
    # Sizes are public, so a plan may depend on them; the smallest picture has the worst certificate.
    sizes = [pictures.declared_size(path) for path in images]
    _refuse_doubles(images, output)
    _refuse_output(output, overwrite)
    codec, meter = plan.codec(device, min(sizes, key=math.prod)), counting.meter(plan.delta)
    with shown("encoding", [math.prod(size) for size in sizes]):
        made = codec.encode(
            images,
            seed=public,
            given=fixed is not None,
            beacon=published,
            window=mapped,
            odometer=meter or False,
        )
    made.save(output)
    typer.echo(report.archive_text(made))
    for line in report.unused(codec.budget, made.facts()["certificate"], codec.bound, plan.final_timestep):
        typer.echo(line)


def _refuse_others(images: list[Path]) -> None:
    """Refuse pipes, which can be read only once, and point to the command that is for folders."""
    if found := next((path for path in images if str(path) == "-" or path.is_fifo()), None):
        raise DippError(f"images: {found} is no file, and pictures are read more than once; save it to a file first")
    if found := next((path for path in images if path.is_dir()), None):
        raise DippError(f"images: {found} is a folder; `dipp privatize {found} DST` releases all that is in it")


def _refuse_output(output: Path, overwrite: bool) -> None:
    """Refuse an archive that cannot be written, or replaces something, or has the name of a picture."""
    files.require_writable(output)
    files.require_new(output, overwrite=overwrite)
    if (mimetypes.guess_type(output.name)[0] or "").startswith("image/"):
        raise DippError(f"output: an archive is no picture; name it {output.with_suffix('.dipp').name}")


def _refuse_doubles(images: list[Path], output: Path) -> None:
    """Refuse an archive that would overwrite a picture, and a picture that would be released twice."""
    from dipp.data.repeats import twice

    if output.resolve() in (path.resolve() for path in images):
        raise DippError(f"output: {output.name} is one of the pictures; name another file")
    if found := twice(images):
        raise DippError(f"images: {found[1].name} is given twice, and each encoding adds to its ε; name it once")
