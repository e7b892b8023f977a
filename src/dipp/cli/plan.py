"""`dipp plan`: show the plan for a budget, and the frontier of quality against bits."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dipp import files
from dipp.cli.options import AsJson, Overwrite, PlanOptions, given, require_drawing

if TYPE_CHECKING:
    from dipp.core.latents import Latents
    from dipp.planning.planner import Point
    from dipp.planning.presets import Plans
    from dipp.privacy.budget import Budget
    from dipp.privacy.certificate import Certificate


def plan(
    options: PlanOptions,
    picture: Annotated[
        str | None,
        typer.Option(help="WIDTHxHEIGHT of the picture in pixels.", show_default="the denoiser's own size"),
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="PNG file for a plot of the frontier.")] = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Show the plan for a budget and, with --plot, the frontier of quality against bits."""
    from dipp.codec.options import planned
    from dipp.core.units import parse_size

    if plot is not None:
        require_drawing("plot", plot, overwrite=overwrite)
    width_height = None if picture is None else parse_size(picture, "picture")
    size = None if width_height is None else width_height[::-1]
    denoiser, planner, budget, point = planned(device="cpu", size=size, **given(options))
    if as_json:
        typer.echo(json.dumps(_facts(planner, point, budget, denoiser.latents), indent=2, ensure_ascii=False))
    else:
        typer.echo(_text(planner, point, budget, options.final_timestep, denoiser.latents))
    if plot is not None:
        _draw(planner.frontier(budget), point, plot)
        typer.echo(f"frontier: {plot}", err=as_json)


def _facts(planner: Plans, point: Point, budget: Budget | None, latents: Latents | None) -> dict[str, Any]:
    """Return the facts about a plan for `--json`: certificate (None without one), expected quality, and steps."""
    plan, certificate = point.plan, _certificate(planner, point, budget)
    return {
        "coding": plan.coding.name,
        "alpha": plan.code.alpha_name,
        "certificate": certificate.to_dict() if certificate else None,
        "expected": {"bpp": point.bpp, "psnr": point.psnr, "snr": point.snr},
        "bound_by_rate": point.bound,
        "left": plan.left(planner.geometry) if latents is None else None,
        "steps": [dataclasses.asdict(step) for step in plan.steps],
    }


def _certificate(planner: Plans, point: Point, budget: Budget | None) -> Certificate | None:
    """Return the certificate of a plan for a picture of the planner's size; None if the plan has no certificate."""
    from dipp.privacy.certificate import Certificate

    if budget is None or not point.plan.coding.certified:
        return None
    return Certificate.of(point.plan, planner.geometry, budget.delta, budget.hidden)


def _text(
    planner: Plans, point: Point, budget: Budget | None, final_timestep: int | None, latents: Latents | None
) -> str:
    """Return the plan as a table with a row for each step, and its expected quality."""
    from dipp.core.words import counted
    from dipp.privacy.budget import why_unused
    from dipp.privacy.printing import upper

    plan, coding = point.plan, point.plan.coding
    lines = [f"{'step':>12}  {'ΔSNR':>10}  {'tilt':>7}  {'clip':>7}  {f'ε/{plan.unit.short}':>10}  {'chunk':>6}  bits"]
    certificate = _certificate(planner, point, budget)
    for number, step in enumerate(plan.steps):
        cost = f"{upper(certificate.ledger.selections[number].charge().epsilon) if certificate else 'none':>10}"
        name, tilt, clip = step.cells(number)
        sizes = f"{step.chunk_size:>6}  {step.index_bits}"
        lines.append(f"{name}  {step.snr_gain:10.4g}  {tilt:>7}  {clip:>7}  {cost}  {sizes}")
    lines.append(f"{coding.name}, α = {coding.code.alpha_name}")
    lines.append(f"{plan.words(planner.geometry.channels)}; {counted(plan.calls, 'network call')}")
    of_what = "" if latents is None else " of the latents"
    lines.append(f"expected: {point.bpp:.4f} bits per pixel, {point.psnr:.2f} dB{of_what}, final SNR {point.snr:.4g}")
    lines += [text for text in (plan.left(planner.geometry),) if text is not None and latents is None]
    lines += [f"certificate: {certificate.statement()}"] if certificate else []
    lines += why_unused(budget, certificate, point.bound, final_timestep)
    return "\n".join(lines)


def _draw(points: tuple[Point, ...], chosen: Point, output: Path) -> None:
    """Write a plot of the frontier and the chosen point as a PNG."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.add_subplot()
    axes.plot([p.bpp for p in points], [p.psnr for p in points], color="#9ecae1", zorder=1)
    for number, name in enumerate(dict.fromkeys(point.plan.code.name for point in points)):
        drawn = [point for point in points if point.plan.code.name == name]
        colour = ("#08519c", "#31a354", "#756bb1", "#636363")[number % 4]
        axes.plot([p.bpp for p in drawn], [p.psnr for p in drawn], ".", color=colour, label=name)
    axes.plot([chosen.bpp], [chosen.psnr], "o", color="#d94801", label="chosen")
    axes.set(xscale="log", xlabel="expected payload bits per pixel", ylabel="expected PSNR of the posterior mean, dB")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    with files.atomic(output) as part:
        figure.savefig(part, format="png", dpi=120)
