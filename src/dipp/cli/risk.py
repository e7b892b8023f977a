"""`dipp risk`: measure what programs recognise, read and guess in public pictures after encoding."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from dipp.cli.options import AUTO, AsJson, Device, PlanOptions, given


def risk(
    folder: Annotated[
        Path, typer.Argument(help="Folder of public pictures; a folder of two or more pictures in it is a person.")
    ],
    plan: PlanOptions,
    device: Device = AUTO,
    as_json: AsJson = False,
) -> None:
    """Measure what programs recognise, read and guess in public pictures like yours after encoding."""
    from dipp.risk.survey import survey

    measured = survey(folder, device=device, **given(plan))
    typer.echo(json.dumps(measured.to_dict(), indent=2, ensure_ascii=False) if as_json else str(measured))
