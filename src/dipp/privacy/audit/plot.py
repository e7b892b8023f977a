"""The plot of an audit: observed loss against what is claimed; nothing may lie above the line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from dipp.privacy.audit import Point

KINDS = {
    "random": ("o", "#9ecae1", "random pairs, exact"),
    "extreme": ("s", "#4292c6", "extreme pairs, exact"),
    "adversarial": ("D", "#08306b", "adversarial pairs, exact"),
    "black box": ("^", "#d94801", "black box, lower bound"),
}


def draw(points: Sequence[Point], output: Path) -> None:
    """One panel a preset."""
    names = list(dict.fromkeys(point.preset for point in points))
    figure = Figure(figsize=(4.6 * len(names), 4.4), layout="constrained")
    for axes, name in zip(figure.subplots(1, len(names), squeeze=False)[0], names, strict=True):
        own = [point for point in points if point.preset == name]
        ends = [min(point.claimed for point in own) / 1.5, max(point.claimed for point in own) * 1.5]
        axes.plot(ends, ends, color="black", linewidth=0.8, label="claimed")
        for kind, (marker, colour, label) in KINDS.items():
            # Losses below the axis, near zero, say nothing about the claim.
            shown = [point for point in own if point.kind == kind and point.observed > ends[0] / 20]
            places = [point.claimed for point in shown], [point.observed for point in shown]
            axes.plot(*places, marker, color=colour, markersize=4, label=label)
        axes.set(xscale="log", yscale="log", title=name, xlabel="claimed ε per pixel", ylabel="observed ε")
        axes.grid(alpha=0.3)
        axes.legend(frameon=False, fontsize=8)
    figure.savefig(output, format="png", dpi=120)
