"""The plot of `quality.py`: PSNR against payload bits, per ε, both presets.

python benchmarks/quality_plot.py benchmarks/results/quality.json benchmarks/results/quality.png
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from matplotlib.figure import Figure

COLOURS = {4.0: "#6baed6", 16.0: "#2171b5", 64.0: "#08306b"}


def main() -> None:
    """Draw the rows of the results."""
    folder = Path(sys.argv[1])
    rows = json.loads((folder / "quality.json").read_text())["rows"]
    baseline = {row["epsilon"]: row for row in json.loads((folder / "baseline.json").read_text())["rows"]}
    figure = Figure(figsize=(8, 4.8), layout="constrained")
    axes = figure.add_subplot()
    for epsilon, colour in COLOURS.items():
        for preset, style in (("sharp", "o-"), ("paper", "s--")):
            chosen = sorted(
                (r for r in rows if (r["epsilon"], r["preset"]) == (epsilon, preset)), key=lambda r: r["bpp"]
            )
            label = f"{preset}, ε = {epsilon:g}"
            axes.plot([r["bpp"] for r in chosen], [r["psnr"] for r in chosen], style, color=colour, label=label, ms=4)
        plain = baseline[epsilon]
        axes.plot(
            min(plain["png_bpp"], plain["webp_bpp"]),
            plain["psnr"],
            "x",
            color=colour,
            ms=8,
            label=f"noise itself, lossless codec, ε = {epsilon:g}",
        )
    axes.set(
        xscale="log", xlabel="bits per pixel (payload)", ylabel="PSNR, dB (curves: posterior mean; ×: not denoised)"
    )
    axes.set_title("CIFAR-10, 256 images, per-pixel pure ε")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    figure.savefig(folder / "quality.png", dpi=130)


if __name__ == "__main__":
    main()
