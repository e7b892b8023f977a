"""The pictures of the report, drawn from its JSON: the paper's six panels, rates, the surface, δ, probes, the grid."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from dipp import files
from dipp.codec.pictures import Pixels
from experiments.cifar10.config import Config
from experiments.cifar10.methods import CLEAN, LAPLACE, PRUNED, SLICING
from experiments.cifar10.store import Store

STYLES = {
    LAPLACE: ("#525252", "s", "Laplace noise, clamped"),
    "noise": ("#969696", "s", "Laplace noise, denoised"),
    "cube": ("#dd1c77", "p", "noise of the cube, denoised"),
    "one-channel": ("#756bb1", "v", "Laplace noise on one channel, denoised"),
    "one-bit": ("#9e9ac8", "<", "one bit against mid-grey, denoised"),
    SLICING: ("#8c6d31", "P", "LDP-Slicing, not pruned"),
    PRUNED: ("#bd9e39", "X", "LDP-Slicing, pruned: stated ε a quarter"),
    "diffc": ("#2ca25f", "^", "Gaussian DiffC: no certificate"),
    "paper": ("#08519c", "o", "DP-DiPP, the paper's"),
    "unclipped": ("#fdae6b", "D", "DP-DiPP, sharp of before clipping"),
    "sharp": ("#d94801", "D", "DP-DiPP, sharp"),
}
DPI = 120
CODED = ("diffc", "paper", "unclipped", "sharp")
"""Methods that the codec codes."""
DENOISED = ("#bdbdbd", "s", "Laplace noise, clamped, denoised")
"""Denoised versions of the clamped noisy pictures, which anybody can compute."""
PROBES = {
    "pixel": ("#d94801", "o", "one pixel, black or white"),
    "shade": ("#fdae6b", "s", "one pixel, by 16 levels"),
    "patch": ("#756bb1", "^", "8×8 pixels"),
    "picture": ("#525252", "D", "everything"),
}
BITS, BUDGET, RIGHT = "bits per pixel on disk", "certified ε per pixel", "accuracy on released pictures"
TITLES = ("sharp and its rivals", "the codec, and what it was at first")
"""Titles of the rows of panels."""

Row = dict[str, Any]


def panels(results: dict[str, Any], output: Path) -> None:
    """Draw rate-utility, privacy-utility and rate-privacy; below, the same for the codec, if it has several methods.

    Results of the codec in an earlier experiment are shown only below; above, they would hide the comparison.
    """
    coded = [method for method in CODED if any(row["method"] == method for row in results["releases"])]
    former = {row["method"] for row in results["releases"] if row["earlier"]}.intersection(CODED)
    above = tuple(method for method in STYLES if method not in former)
    lines = (above, CODED) if len(coded) > 1 else (above,)
    figure = Figure(figsize=(13, 0.6 + 3.45 * len(lines)), layout="constrained")
    grid = figure.subplots(len(lines), 3, squeeze=False)
    references = [(row["clip"], _accuracy(row)[0]) for row in results["releases"] if row["method"] == CLEAN]
    certified = _certified(results["releases"])
    epsilons = sorted({row["epsilon"] for row in results["releases"] if row["epsilon"] and row["plotted"]})
    for line, methods in enumerate(lines):
        left, middle, right = grid[line]
        for method in methods:
            rows = [row for row in results["releases"] if row["method"] == method and row["plotted"]]
            rows.sort(key=lambda row: row["epsilon"])
            for axes, x in ((left, _bits), (middle, lambda row: certified[row["epsilon"], row["method"]])):
                _curve(axes, rows, x, STYLES[method])
                if method == LAPLACE:
                    _curve(axes, [{**row, "headline": "denoised"} for row in rows], x, DENOISED)
            points = [(certified[row["epsilon"], method], row["file_bpp"]) for row in rows if row.get("file_bpp")]
            colour, marker, label = STYLES[method]
            if points:
                right.plot(*zip(*points, strict=True), color=colour, marker=marker, label=label)
        for axes in (left, middle):
            for clip, clean in references:
                if clean is not None:
                    style, name = ("--", "clean pictures, gradients clipped") if clip else (":", "clean pictures")
                    axes.axhline(clean, color="black", ls=style, lw=1, label=name)
            axes.set(xscale="log", ylabel=RIGHT)
        left.set(xlabel=BITS)
        middle.set(
            xlabel=BUDGET + ("\n(DiffC: that of DP-DiPP at its timestep)" if "diffc" in {*methods} & {*coded} else "")
        )
        right.set(xscale="log", yscale="log", xlabel=BUDGET, ylabel=BITS)
        for axes in (middle, right):
            axes.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
            axes.xaxis.set_minor_locator(NullLocator())
        for axes in grid[line]:
            axes.grid(alpha=0.3)
    if len(lines) > 1:
        for axes, title in zip(grid[:, 1], TITLES, strict=True):
            axes.set_title(title, fontsize=10)
    _legend(figure, grid.flat)
    _save(figure, output)


def _legend(figure: Figure, drawn: Iterable[Axes]) -> None:
    """Draw one legend below all axes, with each name once."""
    handles = {label: h for axes in drawn for h, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=4, frameon=False)


def _certified(rows: list[Row]) -> dict[tuple[float, str], float]:
    """Return rows by ε and method, with the ε of the certificate, which may be less; DiffC has the paper's ε."""
    shown = [row for row in rows if row["plotted"] and row["epsilon"]]
    found = {(row["epsilon"], row["method"]): (row.get("certificate") or row)["epsilon"] for row in shown}
    return found | {(epsilon, "diffc"): found.get((epsilon, "paper"), epsilon) for epsilon, _ in found}


def _accuracy(row: Row) -> tuple[float | None, float]:
    """Return the mean accuracy and half its spread in the last epoch, on the method's main output."""
    found = row["accuracy"].get(row["headline"])
    return (None, 0.0) if found is None else (found["last"], (found["spread"] or 0.0) / 2)


def _bits(row: Row) -> float | None:
    return row.get("file_bpp")


def _curve(axes: Axes, rows: list[Row], x: Callable[[Row], float | None], style: tuple[str, str, str]) -> None:
    """Draw accuracy over x in the order of ε; bars reach about from the worst seed to the best."""
    points = [(x(row), *_accuracy(row)) for row in rows]
    drawn = [point for point in points if None not in point]
    colour, marker, label = style
    if drawn:
        across, up, bars = zip(*drawn, strict=True)
        axes.errorbar(across, up, yerr=bars, color=colour, marker=marker, capsize=2, label=label)


def rates(results: dict[str, Any], output: Path) -> None:
    """Draw accuracy over bits at each ε at which `sharp` was trained on at several rates; without any, draw nothing.

    Points left of the dotted line take at most a tenth of the bits of any rival that stores noisy values. Points above
    the dashed line teach more than every rival.
    """
    claims = [claim for claim in results["claims"] if len(_trained(claim, "sharp")) > 1]
    if not claims:
        return
    figure = Figure(figsize=(3.6 * len(claims), 4.4), layout="constrained")
    drawn = figure.subplots(1, len(claims), sharey=True, squeeze=False)[0]
    for axes, claim in zip(drawn, claims, strict=True):
        for method, (colour, marker, label) in STYLES.items():
            entries = sorted(_trained(claim, method), key=lambda entry: float(entry["bpp"]))
            if entries and (method == "sharp" or method not in CODED):
                across, up, spread = zip(
                    *((e["bpp"], e["accuracy"], (e["spread"] or 0) / 2) for e in entries), strict=True
                )
                axes.errorbar(across, up, yerr=spread, color=colour, marker=marker, capsize=2, label=label)
        if claim["noisy_bits"] is not None:
            axes.axvline(
                claim["noisy_bits"] / 10, color="black", ls=":", lw=1, label="a tenth of what noisy values take"
            )
        if claim["best_accuracy"] is not None:
            axes.axhline(claim["best_accuracy"], color="black", ls="--", lw=1, label="the best rival")
        axes.set(xscale="log", xlabel=BITS, title=f"ε = {claim['epsilon']:g} per pixel")
        axes.grid(alpha=0.3)
    drawn[0].set(ylabel=RIGHT)
    _legend(figure, drawn)
    _save(figure, output)


def _trained(claim: dict[str, Any], method: str) -> list[dict[str, Any]]:
    """Return the entries of a method on which classifiers were trained."""
    known = [entry for entry in claim["entries"] if entry["name"] == method and not entry["earlier"]]
    return [entry for entry in known if entry["accuracy"] is not None and entry["bpp"]]


def surface(results: dict[str, Any], output: Path) -> None:
    """Draw all releases of the codec: bits against PSNR and, if trained, accuracy; a line joins releases of one ε."""
    figure = Figure(figsize=(11, 4.5), layout="constrained")
    quality, utility = figure.subplots(1, 2)
    small = {"textcoords": "offset points", "fontsize": 8}
    # One method's names stand below its lines and the other's above, because their lines are often side by side.
    for method, side, place in (
        ("paper", "left", (3, -11)),
        ("unclipped", "right", (-5, 4)),
        ("sharp", "center", (5, 7)),
    ):
        colour, marker, label = STYLES[method]
        rows = [row for row in results["releases"] if row["method"] == method and row.get("file_bpp")]
        for epsilon in sorted({row["epsilon"] for row in rows}):
            here = sorted((row for row in rows if row["epsilon"] == epsilon), key=lambda row: row["file_bpp"])
            found = [(row["file_bpp"], (row["metrics"]["denoised"] or {}).get("psnr")) for row in here]
            trained = [(row["file_bpp"], _accuracy(row)[0]) for row in here]
            for axes, points in ((quality, found), (utility, trained)):
                known = [point for point in points if point[1] is not None]
                if known:
                    named = label in axes.get_legend_handles_labels()[1]
                    style = {"color": colour, "marker": marker, "label": None if named else label}
                    axes.plot(*zip(*known, strict=True), **style)
                    axes.annotate(f"ε ≤ {epsilon:g}", known[-1], xytext=place, color=colour, ha=side, **small)
    quality.set(xscale="log", xlabel=BITS, ylabel="PSNR of the denoised reconstruction, dB")
    utility.set(xscale="log", xlabel=BITS, ylabel=RIGHT)
    for axes in (quality, utility):
        axes.grid(alpha=0.3)
        axes.margins(0.12)  # room for the names of points
        if axes.get_legend_handles_labels()[0]:
            axes.legend(frameon=False)
    _save(figure, output)


def deviations(results: dict[str, Any], output: Path) -> None:
    """Draw δ = |μ_q − μ_p|/σ by ε: how far the means of the sender's and the receiver's law of a step lie apart.

    Boxes have quartiles and the median, whiskers 5 and 95 %. Labels have the ratio of the laws' KL divergences.
    """
    names = {"low": "whislo", "q1": "q1", "median": "med", "q3": "q3", "high": "whishi"}
    boxes = [
        {names[key]: value for key, value in found["quantiles"].items()}
        | {"label": f"ε = {row['epsilon']:g}\nKL ratio {found['kl_ratio']:.3f}"}
        for row in results["releases"]
        if (found := results["deviations"].get(row["name"])) is not None
    ]
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.add_subplot()
    if boxes:
        axes.bxp(boxes, showfliers=False)
    axes.set(
        yscale="log", ylabel=r"$\delta = |\mu_q - \mu_p|/\sigma$", xlabel="preset paper; KL ratio: Laplace to Gaussian"
    )
    axes.grid(alpha=0.3, axis="y")
    _save(figure, output)


def probes(results: dict[str, Any], output: Path) -> None:
    """Draw how often the best guess is right, beside the bound for a pixel; and losses beside the certificate."""
    figure = Figure(figsize=(11, 4.6), layout="constrained")
    share, loss = figure.subplots(1, 2)
    found = sorted(results["probes"], key=lambda probe: float(probe["epsilon"]))
    places = range(len(found))
    for kind, (colour, marker, label) in PROBES.items():
        rows = [one["kinds"][kind] for one in found]
        share.plot(places, [row["expected"] for row in rows], color=colour, marker=marker, label=label)
        spans = []
        for row, one in zip(rows, found, strict=True):
            allowed = row["pixels"] * one["certified"]
            spans.append([row["losses"][name] / allowed for name in ("median", "high", "largest")])
        middle, high, top = zip(*spans, strict=True)
        loss.plot(places, middle, color=colour, marker=marker)
        loss.vlines(places, middle, top, color=colour, alpha=0.4)
        loss.plot(places, high, color=colour, marker="_", ls="none")
    bounds = [one["kinds"]["pixel"]["bound"] for one in found]
    share.plot(places, bounds, "k--", label="the certificate's bound for one pixel")
    share.axhline(0.5, color="black", ls=":", lw=1)
    loss.axhline(1, color="black", ls="--", lw=1)
    share.set(ylabel="best guesses that are right", ylim=(0.45, 1.02))
    loss.set(ylabel="loss over what the certificate allows\n(median, 95 %, largest)", ylim=(0, 1.05))
    for axes in (share, loss):
        axes.set_xticks(list(places), [f"{one['epsilon']:g}" for one in found])
        axes.set(xlabel=BUDGET)
        axes.grid(alpha=0.3)
    figure.legend(loc="outside lower center", ncols=5, frameon=False)
    _save(figure, output)


def grid(config: Config, store: Store, output: Path) -> None:
    """Draw the first pictures: a column for each ε, a row for each method and output. Missing pictures are left out."""
    cells: dict[str, dict[float, Pixels]] = {}
    for method in STYLES:
        label = f"{method} (no certificate)" if method == "diffc" else method
        for release in config.shown(method):
            for name in reversed(release.outputs):
                found = _previews(store, release.name, name)
                if release.epsilon is not None and len(found):
                    cells.setdefault(label if name == method else f"{label}, {name}", {})[release.epsilon] = found
    if not cells:
        return
    epsilons = sorted({epsilon for row in cells.values() for epsilon in row})
    lines = {CLEAN: {epsilons[0]: _previews(store, CLEAN, CLEAN)}, **cells}
    width = 0.6 * -(-config.previews // 2)
    figure = Figure(figsize=(1.5 + width * len(epsilons), 0.4 + 1.2 * len(lines)), layout="constrained")
    drawn = figure.subplots(len(lines), len(epsilons), squeeze=False)
    for line, (label, row) in zip(drawn, lines.items(), strict=True):
        for axes, epsilon in zip(line, epsilons, strict=True):
            axes.set(xticks=[], yticks=[])
            axes.set_axis_off()
            if len(row.get(epsilon, ())):
                axes.imshow(_sheet(row[epsilon]), interpolation="nearest")
        line[0].text(-0.05, 0.5, f"  {label}", transform=line[0].transAxes, ha="right", va="center", fontsize=9)
    for axes, epsilon in zip(drawn[1], epsilons, strict=True):
        axes.set_title(f"ε ≤ {epsilon:g} per pixel", fontsize=9)
    _save(figure, output)


def _previews(store: Store, release: str, output: str) -> Pixels:
    found = store.pictures(release, output, "previews")
    return np.zeros((0, 1, 1, 3), np.uint8) if found is None else found


def _sheet(pictures: Pixels) -> Pixels:
    """Return pictures in two lines; if their number is odd, the last square is white."""
    white = np.full_like(pictures[: len(pictures) % 2], 255)
    lines = np.split(np.concatenate([pictures, white]), 2)
    return np.concatenate([np.concatenate(list(line), axis=1) for line in lines])


def _save(figure: Figure, output: Path) -> None:
    with files.atomic(output) as part:
        figure.savefig(part, format="png", dpi=DPI)
