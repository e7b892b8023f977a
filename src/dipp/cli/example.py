"""`dipp example`: write one of the free photographs that ship with dipp, to try dipp with it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dipp import files
from dipp.errors import DippError

PLACES = (Path(__file__).parent / "pictures", Path(__file__).parents[3] / "examples" / "pictures")
"""Folders of the photographs: in an installed dipp (`force-include` in pyproject.toml), and in a checkout."""


def example(
    picture: Annotated[Path, typer.Argument(help="The file to write: cat.png, coffee.png or astronaut.png.")],
) -> None:
    """Write a free photograph to try dipp with, such as cat.png."""
    photographs = {path.name: path for folder in PLACES for path in folder.glob("*.png")}
    if picture.name not in photographs:
        raise DippError("picture", f"must be one of {', '.join(sorted(photographs))}, got {picture.name}")
    if picture.exists():
        raise DippError("picture", f"must not exist yet, got {picture}", "name another file")
    files.require_writable(picture)
    with files.atomic(picture) as part:
        part.write_bytes(photographs[picture.name].read_bytes())
    typer.echo(f"{picture} written")
