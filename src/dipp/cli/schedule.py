"""`dipp schedule`: show the plan that a budget buys, and the frontier of quality against bits."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dipp import files
from dipp.cli.options import PlanOptions

if TYPE_CHECKING:
    from dipp.planning.planner import Planner, Point


def schedule(
    plan: PlanOptions,
    plot: Annotated[Path | None, typer.Option(help="Where the frontier goes (PNG).")] = None,
) -> None:
    """Show the plan that a budget buys and, with --plot, the frontier of quality against bits."""
    from dipp import models
    from dipp.planning.presets import preset
    from dipp.planning.table import ErrorTable

    if plot is not None:
        files.require_writable(plot)
    recipe = preset(plan.preset)
    budget = recipe.budget(plan.epsilon, plan.delta, plan.rho)
    planner = recipe.planner(models.load(plan.model), ErrorTable.of_model(plan.model, plan.calibration), budget)
    point = planner.choose(budget, final_timestep=plan.final_timestep, bpp=plan.bpp)
    typer.echo(_text(planner, point))
    if plot is not None:
        _draw(planner.frontier(budget), point, plot)
        typer.echo(f"frontier: {plot}")


def _text(planner: Planner, point: Point) -> str:
    """The plan as a table with a row for each step, and what is expected of it."""
    from dipp.core.plan import Plan
    from dipp.privacy.certificate import Certificate

    coding = point.plan.coding
    lines = [f"{'step':>12}  {'ΔSNR':>10}  {'ε/pixel':>8}  {'chunk':>6}  bits"]
    for step in point.plan.steps:
        cost = "    none"
        if coding.certified:
            alone = Certificate.of(Plan(coding, (step,)), planner.channels, planner.pixels)
            cost = f"{alone.epsilon:8.4f}"
        lines.append(
            f"{step.start:>5} → {step.end:<4}  {step.snr_gain:10.4g}  {cost}  {step.chunk_size:>6}  {step.index_bits}"
        )
    lines.append(f"{coding.name}, α = {coding.code.alpha_name}")
    lines.append(f"expected: {point.bpp:.4f} bits per pixel, {point.psnr:.2f} dB, final SNR {point.snr:.4g}")
    return "\n".join(lines)


def _draw(points: tuple[Point, ...], chosen: Point, output: Path) -> None:
    """Plot the frontier and the chosen point, as a PNG."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.add_subplot()
    axes.plot([p.bpp for p in points], [p.psnr for p in points], color="#08519c", label="fewest bits to each final SNR")
    axes.plot([chosen.bpp], [chosen.psnr], "o", color="#d94801", label="chosen")
    axes.set(xscale="log", xlabel="expected payload bits per pixel", ylabel="expected PSNR of the posterior mean, dB")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    with files.atomic(output) as part:
        figure.savefig(part, format="png", dpi=120)
