"""Draw what `benchmarks/sensing.py` measured: quality against ε, and quality against bits.

python benchmarks/sensing_plot.py --out benchmarks/results/sensing.png
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from dipp import files

RESULTS = Path(__file__).parent / "results"
EPSILONS = (1.0, 4.0, 16.0)
"""ε of the panels of quality against bits."""
COLOURS = ("#08519c", "#31a354", "#d94801")

Row = dict[str, Any]


def best_noise(rows: list[Row]) -> Row:
    """Return the best denoised noise."""
    return max((row for row in rows if row["what"].endswith("denoised")), key=lambda row: float(row["psnr"]))


def by_epsilon(rows: list[Row]) -> dict[float, list[Row]]:
    """Return the rows of each ε, ascending."""
    return {
        epsilon: [row for row in rows if row["epsilon"] == epsilon] for epsilon in sorted({r["epsilon"] for r in rows})
    }


def draw(rows: list[Row]) -> Figure:
    """Draw the two panels."""
    each = by_epsilon(rows)
    figure = Figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subplots(1, 2)

    def line(name: str, chosen: list[Row], style: str, colour: str) -> None:
        left.plot([*each], [row["psnr"] for row in chosen], style, color=colour, label=name)

    def one(what: str) -> list[Row]:
        return [next(row for row in rows_of if row["what"] == what) for rows_of in each.values()]

    line("sharp, 1 bit per pixel", one("sharp"), "o-", COLOURS[0])
    line("swift, 1 bit per pixel", one("swift"), "s--", "#6baed6")
    line("noise, denoised: 8 to 24 bits", [best_noise(rows_of) for rows_of in each.values()], "x-", "#636363")
    line("before sensing: 0.01 to 1 bits", one("unclipped"), ".:", "#969696")
    left.set(xscale="log", xlabel="ε per pixel", ylabel="PSNR of the expected picture, dB", xticks=[*each])
    left.set_xticklabels([f"{epsilon:g}" for epsilon in each])
    left.minorticks_off()
    for epsilon, colour in zip(EPSILONS, COLOURS, strict=True):
        own = sorted(
            (row for row in each[epsilon] if row["what"].startswith("sharp")), key=lambda row: float(row["bpp"])
        )
        right.plot(
            [row["bpp"] for row in own], [row["psnr"] for row in own], "o-", color=colour, label=f"ε = {epsilon:g}"
        )
        noise, before = best_noise(each[epsilon]), next(row for row in each[epsilon] if row["what"] == "unclipped")
        right.plot(noise["bpp"], noise["psnr"], "x", color=colour)
        right.plot(before["bpp"], before["psnr"], ".", color=colour)
    right.plot([], [], "x", color="#636363", label="noise, denoised")
    right.plot([], [], ".", color="#636363", label="before sensing")
    right.set(xscale="log", xlabel="bits per pixel", ylabel="PSNR of the expected picture, dB")
    for axes in (left, right):
        axes.grid(alpha=0.3)
        axes.legend(frameon=False, fontsize=8)
    return figure


def main() -> None:
    """Draw the committed results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, default=RESULTS / "sensing.json")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    with files.atomic(arguments.out) as part:
        draw(json.loads(arguments.results.read_text(encoding="utf-8"))["rows"]).savefig(part, format="png", dpi=120)


if __name__ == "__main__":
    main()
