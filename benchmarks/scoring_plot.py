"""The plot of `scoring.py`: rates against dimension, CPU and GPU side by side."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

COLOURS = {"sign": "#08519c", "laplace": "#d94801", "logistic": "#6a51a3", "generator": "#969696"}
COLOURS |= {"float-thread": "#238b45", "float-numpy": "#74c476", "reference": "#525252"}
CANDIDATES = 1 << 16


def series(rows: list[dict[str, Any]], **wanted: Any) -> tuple[list[int], list[float]]:
    """Return dimensions and rates of the rows that have all wanted values."""
    chosen = [row for row in rows if all(row.get(key) == value for key, value in wanted.items())]
    return [row["dims"] for row in chosen], [row["rate"] for row in chosen]


def plot(results: Path, output: Path) -> None:
    """Draw the results of `scoring.py cpu` and `scoring.py cuda`."""
    figure = Figure(figsize=(11, 5), layout="constrained")
    for place, name in enumerate(("cpu", "cuda"), start=1):
        facts = json.loads((results / f"scoring-{name}.json").read_text())
        axes = figure.add_subplot(1, 2, place)
        for label, (dims, rates), style in _lines(name, facts["rates"]):
            colour = COLOURS[label.split(",")[0]]
            axes.plot(dims, rates, style, color=colour, label=label, lw=1.8, ms=4)
        axes.set(xscale="log", yscale="log", xlabel="coordinates of a chunk", title=facts["device"])
        axes.set_ylabel("G candidates × coordinates a second")
        axes.set_xticks([32, 96, 256, 1024, 3072], labels=["32", "96", "256", "1024", "3072"])
        axes.minorticks_off()
        axes.grid(alpha=0.3)
        axes.legend(frameon=False, fontsize=8, ncol=4, loc="upper center", bbox_to_anchor=(0.5, -0.14))
    figure.savefig(output, dpi=130)


def _lines(name: str, rows: list[dict[str, Any]]) -> list[tuple[str, tuple[list[int], list[float]], str]]:
    if name == "cpu":
        fast, plain = ("sign", "laplace"), ("logistic", "float-thread", "float-numpy", "reference")
        lines = [(c, series(rows, program=c, stage="score", n=CANDIDATES), "o-") for c in fast]
        lines += [(f"{c}, selected", series(rows, program=c, stage="select", n=CANDIDATES), "o:") for c in fast]
        lines += [("generator, 16 bits", series(rows, program="generator", stage="16 bits", n=CANDIDATES), "--")]
        return lines + [(c, series(rows, program=c, stage="score"), "s-") for c in plain]
    kernel = [{**row, "rate": row["kernel_rate"]} for row in rows]
    whole = [{**row, "rate": row["select_rate"]} for row in rows if "select_rate" in row]
    alone = [{**row, "rate": row["generator_rate"]} for row in rows if "generator_rate" in row]
    native = {"cuda": True, "n": CANDIDATES}
    lines = [(c, series(kernel, law=c, **native), "o-") for c in ("sign", "laplace")]
    lines += [(f"{c}, selected", series(whole, law=c, **native), "o:") for c in ("sign", "laplace")]
    lines += [("generator, 1 bit", series(alone, law="sign", **native), "--")]
    lines += [("logistic", series(kernel, law="logistic", cuda=False), "^-")]
    return lines + [(c, series(kernel, law=c), "s-") for c in ("float-thread", "reference")]
