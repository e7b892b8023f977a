"""`dipp audit`: compare what the encoder really reveals about a pixel with what it claims."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from dipp import files
from dipp.cli.options import AsJson, Calibration


def audit(
    epsilon: Annotated[float, typer.Option(help="ε per pixel that is claimed and audited.")] = 4.0,
    preset: Annotated[list[str] | None, typer.Option(help="Preset, sharp unless told; may be given again.")] = None,
    as_json: AsJson = False,
    plot: Annotated[Path | None, typer.Option(help="Where observed against claimed goes (PNG).")] = None,
    model: Annotated[str | None, typer.Option(help="Audit the plan of a real denoiser, exactly.")] = None,
    calibration: Calibration = None,
) -> None:
    """Compare what the encoder really reveals about a pixel with what it claims; exit code 1 if it reveals more."""
    from dipp import audit as audits
    from dipp import report
    from dipp.codec import Codec

    if plot is not None:
        files.require_writable(plot)
    found = []
    for name in dict.fromkeys(preset or ["sharp"]):
        real = None
        if model is not None:
            codec = Codec.from_pretrained(model, epsilon=epsilon, preset=name, calibration=calibration)
            real = codec.plan, codec.denoiser
        found.append(audits.audit(name, epsilon, real))
    if plot is not None:
        from dipp.audit.plot import draw

        draw([point for one in found for point in audits.ladder(one.preset, epsilon)], plot)
    if as_json:
        facts = {one.preset: one.to_dict() for one in found}
        typer.echo(json.dumps(facts if len(found) > 1 else found[0].to_dict()))
    else:
        typer.echo("\n\n".join(map(report.audit_text, found)))
    if not all(one.passed for one in found):
        raise typer.Exit(1)
