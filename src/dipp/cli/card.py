"""`dipp card`: write the papers that describe a release."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dipp.cli.options import Overwrite


def card(
    release: Annotated[Path, typer.Argument(help="A .dipp file, or a folder that `dipp privatize` wrote.")],
    name: Annotated[str | None, typer.Option(help="Name of the dataset.", show_default="the name of its file")] = None,
    curator: Annotated[
        list[str] | None, typer.Option(help="Who releases the dataset; may be given several times.")
    ] = None,
    licence: Annotated[str | None, typer.Option("--license", "--licence", help="Licence of the dataset.")] = None,
    use: Annotated[str | None, typer.Option(help="Intended use of the dataset.")] = None,
    region: Annotated[
        str | None, typer.Option(help="Region of the world that the dataset is about, or whose laws apply.")
    ] = None,
    url: Annotated[str | None, typer.Option(help="Address where the dataset is published.")] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Folder for the papers.", show_default="the folder of the release"),
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Write the papers of a release: a dataset card, Croissant metadata, and a draft for OpenDP's registry.

    Papers that `dipp privatize` wrote are replaced. Filled-in or edited papers, and other files, are replaced only with
    --overwrite.
    """
    from dipp.data import manifest, redacted
    from dipp.data.folder import REDACTED, manifest_of
    from dipp.papers import writing
    from dipp.papers.guarantee import OwnerDetails

    if release.is_dir():
        verify = redacted.verify if manifest_of(release)["format"] == REDACTED else manifest.verify
        verify(release)  # no number is taken from a manifest that does not follow from its shards
    details = OwnerDetails(name, tuple(curator or ()), licence, use, region, url)
    for path in writing.write(release, details, output, overwrite=overwrite):
        typer.echo(path)
