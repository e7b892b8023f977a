"""`dipp info`: show certificate, rate and schedule of an archive or a released dataset."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from dipp.cli.options import AsJson, Calibration
from dipp.errors import DippError


def info(
    archive: Annotated[Path, typer.Argument(help="A .dipp file, or a folder that privatize wrote.")],
    as_json: AsJson = False,
    verify: Annotated[
        bool,
        typer.Option("--verify", help="Compute the certificate again and show its ledger; check every shard."),
    ] = False,
    model: Annotated[
        str | None,
        typer.Option(help="With --verify: the file's denoiser, if not the one that ships; table and configs will do."),
    ] = None,
    calibration: Calibration = None,
) -> None:
    """Show certificate, rate, schedule and model of an archive or dataset; the model itself is not needed."""
    from dipp import report

    if (model or calibration) and not verify:
        raise DippError("model, calibration: they are for --verify; add it")
    against = report.Against(model, calibration) if verify else None
    if archive.is_dir():
        facts = report.dataset_facts(archive, against)
        typer.echo(_json(facts) if as_json else report.dataset_text(archive, facts))
    else:
        import dipp

        source = dipp.open(archive)  # checks that the certificate follows from the plan
        if as_json:
            typer.echo(_json(report.archive_facts(source, against)))
        else:
            typer.echo(report.archive_text(source, against))


def _json(facts: dict[str, Any]) -> str:
    """Facts for scripts, with the sentences that go with them."""
    from dipp import report

    return json.dumps({**facts, "mind": report.advice_of(facts)})
