"""`dipp info`: show certificate, rate and schedule of an archive or a released dataset."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from dipp.cli.options import AsJson


def info(
    archive: Annotated[Path, typer.Argument(help="A .dipp file, or a folder that privatize wrote.")],
    as_json: AsJson = False,
    verify: Annotated[
        bool,
        typer.Option("--verify", help="Compute the certificate again and show its ledger; check every shard."),
    ] = False,
) -> None:
    """Show certificate, rate, schedule and model of an archive or dataset; the model itself is not needed."""
    from dipp import report

    if archive.is_dir():
        facts = report.dataset_facts(archive, verify)
        typer.echo(json.dumps(facts) if as_json else report.dataset_text(archive, facts))
    else:
        import dipp

        source = dipp.open(archive)  # checks that the certificate follows from the plan
        if as_json:
            typer.echo(json.dumps(report.archive_facts(source, verify)))
        else:
            typer.echo(report.archive_text(source, verify))
