"""`dipp encode`: encode pictures into one archive, which carries its certificate."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dipp import files
from dipp.cli.options import Device, PlanOptions, Seed, public_seed
from dipp.core import randomness
from dipp.errors import DippError


def encode(
    images: Annotated[list[Path], typer.Argument(help="Pictures to encode, each released once.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The archive.")],
    plan: PlanOptions,
    device: Device = "cpu",
    seed: Seed = None,
) -> None:
    """Encode pictures into one archive that carries its certificate."""
    from rich.console import Console
    from rich.progress import Progress

    from dipp import report
    from dipp.codec import pictures

    # First of all: a seed that is drawn once something of a picture was seen could have been chosen by it.
    fixed = public_seed(seed)
    public = fixed or randomness.fresh_seed()
    # Sizes are public, so a plan may depend on them; the smallest picture has the worst certificate.
    codec = plan.codec(device, min(pictures.declared_pixels(path) for path in images))
    _refuse_doubles(images, output)
    files.require_writable(output)
    with Progress(console=Console(stderr=True), disable=len(images) < 2) as bars:
        task = bars.add_task("encoding", total=len(images))
        made = codec.encode(
            (pictures.read(path, codec.denoiser.channels) for path in images),
            seed=public,
            given=fixed is not None,
            progress=lambda done: bars.update(task, completed=done),
        )
    made.save(output)
    typer.echo(report.archive_text(made))
    if codec.bound:
        typer.echo("bound by the rate, not by the budget: --bpp allows a better picture in more bits")


def _refuse_doubles(images: list[Path], output: Path) -> None:
    """Refuse an archive that would overwrite a picture, and a picture that would be released twice."""
    from dipp.data.repeats import twice

    if output.resolve() in (path.resolve() for path in images):
        raise DippError(f"output: {output.name} is one of the pictures; name another file")
    if found := twice(images):
        raise DippError(f"images: {found[1].name} is given twice, and each encoding adds to its ε; name it once")
