"""`dipp info`: show certificate, rate and schedule of an archive or a released dataset."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dipp.cli.options import EXIT_NOT_COMPARED, AsJson, ComparedOptions
from dipp.errors import DippError, InconsistentError

if TYPE_CHECKING:
    from dipp.attest.checks import ReleaseCheck

NOT_ASKED = "nothing was compared with a model: add --verify"
"""Reason for the verdict if --verify was not given."""


def info(
    archive: Annotated[Path, typer.Argument(help="A .dipp file, or a folder that `dipp privatize` wrote.")],
    compared: ComparedOptions,
    as_json: AsJson = False,
    size: Annotated[
        str | None, typer.Option(help="WIDTHxHEIGHT: show the ε of any object of this size, wherever it lies.")
    ] = None,
    verify: Annotated[
        bool,
        typer.Option("--verify", help="Show the ledger, check every shard, and compare the plan with its model."),
    ] = False,
) -> None:
    """Show certificate, rate, schedule and model of an archive or dataset.

    Exit code 4 with --verify: nothing wrong was found, but there was no model to compare the plan with; give --model.
    """
    from dipp import report
    from dipp.core import units

    if compared.given and not verify:
        raise DippError("model and calibration", "need --verify", "add it")
    wanted = None if size is None else units.parse_size(size)
    checked = _checked(archive, compared, as_json) if verify else None
    if archive.is_dir():
        from dipp.data import manifest

        facts = manifest.verify(archive, payloads=False) if checked is None else checked.facts
        text = None if as_json else report.dataset_text(archive, facts, checked)
    else:
        from dipp.format import archive as archives

        source = archives.open(archive)  # computes the certificate again from the plan
        facts = source.facts()
        text = None if as_json else report.archive_text(source, checked)
    asked = {} if wanted is None else {"size": report.size_facts(facts["certificate"], wanted)}
    verdict = {"verified": None, "verified_reason": NOT_ASKED} if checked is None else checked.verdict
    typer.echo(json.dumps({**facts, **verdict, **report.advice_facts(facts), **asked}) if text is None else text)
    if text is not None and asked:
        typer.echo(report.size_text(asked["size"]))
    raise typer.Exit(EXIT_NOT_COMPARED if checked is not None and checked.verified is None else 0)


def _checked(archive: Path, compared: ComparedOptions, as_json: bool) -> ReleaseCheck:
    """Check a release; if it is inconsistent, print that as JSON with --json, and raise."""
    from dipp.attest import checks

    try:
        return checks.check(archive, compared.against())
    except InconsistentError as error:
        if as_json:
            verdict: dict[str, Any] = {"verified": False, "verified_reason": str(error)}
            typer.echo(json.dumps(verdict))
        raise
