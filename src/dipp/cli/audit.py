"""`dipp audit`: compare what the encoder reveals about a unit with what it claims."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from dipp.cli.options import AsJson, Calibration, Overwrite, require_drawing
from dipp.errors import DippError


def audit(
    epsilon: Annotated[float, typer.Option(help="Claimed ε of a unit, which is audited.")] = 4.0,
    unit: Annotated[
        str,
        typer.Option(metavar="pixel|N|picture", help="Unit of the claim: each pixel, each N×N cell, or the picture."),
    ] = "pixel",
    preset: Annotated[
        list[str] | None, typer.Option(help="Preset to audit; may be given several times.", show_default="sharp")
    ] = None,
    as_json: AsJson = False,
    plot: Annotated[Path | None, typer.Option(help="PNG file for a plot of observed against claimed losses.")] = None,
    model: Annotated[str | None, typer.Option(help="Denoiser whose plan is audited exactly.")] = None,
    calibration: Calibration = None,
    mechanism: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:FUNCTION",
            help="Function to audit: it takes a picture and returns everything that it releases.",
        ),
    ] = None,
    runs: Annotated[int, typer.Option(help="Number of releases of each picture by --mechanism.")] = 4000,
    overwrite: Overwrite = False,
) -> None:
    """Compare what the encoder reveals about a unit with what it claims; exit code 1 if it reveals more.

    With --mechanism, a function of your own is audited by what it returns. Its claim is its attribute `epsilon`, or
    --epsilon.
    """
    from dipp import audit as audits
    from dipp import report
    from dipp.codec import Codec
    from dipp.core.units import parse

    protected = parse(unit)
    if mechanism is not None:
        if preset or plot or model or calibration or unit != "pixel":
            raise DippError(
                "mechanism", "must be audited alone", "leave out the preset, unit, model, calibration and plot"
            )
        _audit_mechanism(mechanism, epsilon, runs, as_json)
        return
    if plot is not None:
        require_drawing("plot", plot, overwrite=overwrite)
    reports = []
    for name in dict.fromkeys(preset or ["sharp"]):
        real = None
        if model is not None:
            codec = Codec.from_pretrained(model, epsilon=epsilon, preset=name, calibration=calibration, unit=unit)
            real = codec.plan, codec.denoiser
        reports.append(audits.audit(name, epsilon, real, protected))
    if plot is not None:
        from dipp.audit.plot import draw

        draw(
            [point for result in reports for point in audits.ladder(result.preset, epsilon, protected)], plot, protected
        )
    if as_json:
        facts = {result.preset: result.to_dict() for result in reports}
        typer.echo(json.dumps(facts if len(reports) > 1 else reports[0].to_dict()))
    else:
        typer.echo("\n\n".join(map(report.audit_text, reports)))
    if not all(result.passed for result in reports):
        raise typer.Exit(1)


def _audit_mechanism(name: str, epsilon: float, runs: int, as_json: bool) -> None:
    """Audit the function that MODULE:FUNCTION names, and print the result."""
    from dipp import report
    from dipp.audit import mechanism

    result = mechanism.audit(name, mechanism.load(name), epsilon, runs)
    typer.echo(json.dumps(result.to_dict()) if as_json else report.mechanism_text(result))
    if not result.passed:
        raise typer.Exit(1)
