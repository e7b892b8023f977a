"""The plot of an audit: observed against claimed loss of a unit; no marker may lie above the line.

Losses that are too small for the axis, zero included, are hollow markers on its lower edge.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from dipp import files
from dipp.audit.observations import Observation
from dipp.audit.suite import PIXEL
from dipp.core.unit import Unit

KINDS = {
    "random": ("o", "#9ecae1", "random pairs, exact"),
    "extreme": ("s", "#4292c6", "extreme pairs, exact"),
    "balanced": ("v", "#2171b5", "balanced pairs, exact"),
    "adversarial": ("D", "#08306b", "adversarial pairs, exact"),
    "small": (".", "#41ab5d", "small changes, exact"),
    "black box": ("^", "#d94801", "black box, lower bound"),
}
"""Marker, colour and legend of each kind of observation."""

EDGE = 20.0
"""Factor by which the axis reaches below the smallest claim."""


def draw(points: Sequence[Observation], output: Path, unit: Unit = PIXEL) -> None:
    """Draw the observations of an audit into a PNG, with one panel for each preset.

    Args:
        points: Observed and claimed losses.
        output: The file to write.
        unit: Unit of the claims, which the axes name; a pixel by default.
    """
    names = list(dict.fromkeys(point.preset for point in points))
    figure = Figure(figsize=(4.6 * len(names), 4.4), layout="constrained")
    panels = figure.subplots(1, len(names), squeeze=False)[0]
    for axes, name in zip(panels, names, strict=True):
        drawn = [point for point in points if point.preset == name]
        ends = [min(point.claimed for point in drawn) / 1.5, max(point.claimed for point in drawn) * 1.5]
        edge = ends[0] / EDGE
        axes.plot(ends, ends, color="black", linewidth=0.8, label="claimed")
        for kind, (marker, colour, label) in KINDS.items():
            shown = [point for point in drawn if point.kind == kind]
            inside = [point for point in shown if point.observed >= edge]
            claimed, observed = [point.claimed for point in inside], [point.observed for point in inside]
            axes.plot(claimed, observed, marker, color=colour, markersize=4, label=label)
            if below := [point.claimed for point in shown if point.observed < edge]:
                hollow = {"markerfacecolor": "none", "clip_on": False, "label": f"{label}: below the axis"}
                axes.plot(below, [edge] * len(below), marker, color=colour, markersize=4, **hollow)
        axes.set(xscale="log", yscale="log", title=name)
        axes.set(xlabel=f"claimed ε per {unit.short}", ylabel=f"observed ε per {unit.short}")
        axes.set_ylim(bottom=edge)
        axes.grid(alpha=0.3)
    legend = {label: handle for axes in panels for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    columns = min(len(legend), 2 * len(names))
    figure.legend(legend.values(), legend.keys(), loc="outside lower center", ncols=columns, frameon=False, fontsize=8)
    with files.atomic(output) as part:
        figure.savefig(part, format="png", dpi=120)
