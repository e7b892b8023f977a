"""The plot of `quality.py`: PSNR against payload bits, per ε, both presets, and noise followed by a lossless codec.

    python benchmarks/quality_plot.py --out benchmarks/results/quality.png

It also prints the bits of `unclipped` relative to `paper` at equal ε and PSNR, wherever the measured ranges overlap:
the logarithms of rates are interpolated over PSNR, between rows that no other row of the preset beats in both.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

RESULTS = Path(__file__).parent / "results"
COLOURS = {1.0: "#9ecae1", 4.0: "#4292c6", 16.0: "#08519c", 64.0: "#6a51a3", 256.0: "#3f007d"}
STYLES = {"unclipped": "o-", "paper": "s--"}


def envelope(rows: list[dict[str, Any]]) -> tuple[list[float], list[float]]:
    """Return PSNR, ascending, and log bits per pixel of the rows that no other row dominates."""
    kept: list[dict[str, Any]] = []
    for row in sorted(rows, key=lambda row: (row["bpp"], -row["psnr"])):
        if not kept or row["psnr"] > kept[-1]["psnr"]:
            kept.append(row)
    return [row["psnr"] for row in kept], [math.log(row["bpp"]) for row in kept]


def ratios(rows: list[dict[str, Any]], epsilon: float) -> Iterator[tuple[float, float]]:
    """Return the PSNR of measured points, and the bits of `unclipped` relative to `paper` at the same PSNR."""
    own, other = (
        envelope([row for row in rows if (row["epsilon"], row["preset"]) == (epsilon, name)]) for name in STYLES
    )
    for value in sorted(own[0] + other[0]):
        if max(own[0][0], other[0][0]) <= value <= min(own[0][-1], other[0][-1]):
            yield value, math.exp(np.interp(value, *own) - np.interp(value, *other))


def main() -> None:
    """Draw the rows of the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    rows = json.loads((RESULTS / "quality.json").read_text())["rows"]
    for epsilon in COLOURS:
        print(f"ε = {epsilon:g}:", ", ".join(f"{ratio:.2f} at {at:.2f} dB" for at, ratio in ratios(rows, epsilon)))
    baseline = {row["epsilon"]: row for row in json.loads((RESULTS / "baseline.json").read_text())["rows"]}
    figure = Figure(figsize=(8.5, 4.8), layout="constrained")
    axes = figure.add_subplot()
    for epsilon, colour in COLOURS.items():
        for preset, style in STYLES.items():
            here = sorted((r for r in rows if (r["epsilon"], r["preset"]) == (epsilon, preset)), key=lambda r: r["bpp"])
            bpp, psnr, spread = zip(*((r["bpp"], r["psnr"], r["spread"]) for r in here), strict=True)
            axes.errorbar(bpp, psnr, np.array(spread) / 2, fmt=style, color=colour, ms=4, capsize=2, elinewidth=1)
        plain = baseline[epsilon]
        axes.plot(min(plain["png_bpp"], plain["webp_bpp"]), plain["psnr"], "x", color=colour, ms=8, mew=2)
    ticks = ([0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30], ["0.01", "0.03", "0.1", "0.3", "1", "3", "10", "30"])
    axes.set_xscale("log")
    axes.set_xticks(*ticks)
    axes.set(xlabel="bits per pixel (payload)", ylabel="PSNR, dB")
    axes.set_title("CIFAR-10, 256 images, pure ε per pixel; bars: spread over 3 seeds")
    axes.grid(alpha=0.3)
    entries = [Line2D([], [], color=colour, lw=3, label=f"ε = {epsilon:g}") for epsilon, colour in COLOURS.items()]
    entries += [
        Line2D([], [], color="grey", marker="o", ls="-", label="unclipped, posterior mean"),
        Line2D([], [], color="grey", marker="s", ls="--", label="paper, posterior mean"),
        Line2D([], [], color="grey", marker="x", ls="", mew=2, label="noise, then PNG or WebP\n(not denoised)"),
    ]
    axes.legend(handles=entries, frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    figure.savefig(arguments.out, format="png", dpi=130)


if __name__ == "__main__":
    main()
