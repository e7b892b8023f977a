"""Draw the rate-privacy-quality surface: the planner's expectation for the denoiser that ships, by ε and bit rate.

    python benchmarks/surface_plot.py --out docs/surface.svg

Nothing is encoded: the expectations follow from the denoiser's public residuals, as those of `dipp plan` do.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from dipp import files, models
from dipp.core.geometry import Geometry
from dipp.models import embedded
from dipp.planning.presets import preset
from dipp.planning.table import ErrorTable
from dipp.privacy.budget import Budget

Floats = NDArray[np.float64]

EPSILONS = np.geomspace(0.25, 32, 29)
RATES = np.geomspace(0.01, 4, 160)
PIXELS = 256 * 256
LOSS = 0.1
"""If the best plan loses more than this many dB against an unlimited rate, the rate counts as its limit."""
LEVELS = range(12, 36, 2)


def surface() -> Floats:
    """Return the expected PSNR of the best plan for each ε (rows) and rate (columns), or NaN without a plan."""
    sharp, denoiser = preset("sharp"), models.load(embedded.FOLDER)
    table = ErrorTable.of_model(embedded.FOLDER)
    values = np.full((len(EPSILONS), len(RATES)), np.nan)
    for row, epsilon in enumerate(EPSILONS):
        budget = Budget.pure(float(epsilon))
        points = sharp.planner(denoiser, table, budget, Geometry(1, PIXELS, 3)).frontier(budget)
        for column, rate in enumerate(RATES):
            values[row, column] = max((point.psnr for point in points if point.bpp <= rate), default=np.nan)
    return values


def draw(quality: Floats) -> Figure:
    """Draw lines of equal quality over ε and bits, and the line where the budget stops to limit quality."""
    figure = Figure(figsize=(7.5, 4.6), layout="constrained")
    axes = figure.subplots()
    shades = axes.contourf(EPSILONS, RATES, quality.T, levels=np.arange(10, 37, 1), cmap="YlGnBu", alpha=0.85)
    lines = axes.contour(EPSILONS, RATES, quality.T, levels=list(LEVELS), colors="#16425b", linewidths=0.9)
    axes.clabel(lines, fmt="%g dB", fontsize=8)
    enough = [RATES[np.argmax(row >= np.nanmax(row) - LOSS)] for row in quality]
    axes.plot(EPSILONS, enough, "--", color="#b3541e", linewidth=1.8)
    for text, place in {
        "more bits buy nothing:\nε decides": (1, 2),
        "the bits decide:\nmore ε buys little": (11, 0.055),
    }.items():
        box = {"facecolor": "white", "alpha": 0.75, "edgecolor": "none", "pad": 2}
        axes.annotate(text, place, ha="center", va="center", fontsize=9, color="#8a3d10", bbox=box)
    axes.set(xscale="log", yscale="log", xlabel="ε per pixel (pure)", ylabel="payload bits per pixel")
    axes.set_xticks([0.25, 0.5, 1, 2, 4, 8, 16, 32], ["0.25", "0.5", "1", "2", "4", "8", "16", "32"])
    axes.set_yticks([0.01, 0.03, 0.1, 0.3, 1, 3], ["0.01", "0.03", "0.1", "0.3", "1", "3"])
    axes.minorticks_off()
    figure.colorbar(shades, label="expected PSNR, dB", ticks=list(LEVELS))
    return figure


def main() -> None:
    """Plan and draw."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    out = parser.parse_args().out
    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "dipp", "font.family": "DejaVu Sans"})
    figure = draw(surface())
    with files.atomic(out) as part:
        figure.savefig(part, format="svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
