"""The report: everything that was measured, in one JSON file, from which tables and figures are made."""

from __future__ import annotations

import json
import statistics
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dipp import files
from experiments.cifar10 import figures, provenance, tables
from experiments.cifar10.baseline import LaplaceNoise
from experiments.cifar10.config import Config
from experiments.cifar10.methods import LAPLACE, NOISES, PRUNED, SLICING, Release
from experiments.cifar10.releases import DELTA
from experiments.cifar10.store import MADE_WITH, Store

LDP_SLICING = {
    "source": "Cao et al., LDP-Slicing, read off its plot for CIFAR-10",
    "points": [[5.2, 0.46], [12, 0.75], [20, 0.81], [58, 0.885]],
    "clean": 0.923,
    "why_not_comparable": (
        "its public code draws fresh noise for every picture in every epoch, so that 250 epochs see 250 releases of "
        "it, while the stated ε is that of one; and its pruning spreads a pixel over four, so that a pixel loses up "
        "to four times the stated ε"
    ),
}
OURS = "sharp"
VALUES = (LAPLACE, "noise", "cube", "one-channel")
"""Rivals that store noisy values instead of bits."""
RIVALS = (LAPLACE, *NOISES, SLICING, PRUNED)
FORMER = {"sharp": "unclipped"}
"""Former names of methods in the first experiment, with their names today."""

Row = dict[str, Any]


def write(config: Config, store: Store) -> Path:
    """Write results.json, tables.md and the figures into the folder `report` of the run."""
    folder = store.folder / "report"
    folder.mkdir(exist_ok=True)
    results = collect(config, store)
    with files.atomic(folder / "results.json") as part:
        part.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    with files.atomic(folder / "tables.md") as part:
        part.write_text(tables.write(results))
    figures.panels(results, folder / "panels.png")
    figures.rates(results, folder / "rates.png")
    figures.surface(results, folder / "surface.png")
    figures.grid(config, store, folder / "grid.png")
    if results["deviations"]:
        figures.deviations(results, folder / "deviations.png")
    if results["probes"]:
        figures.probes(results, folder / "probes.png")
    return folder


def collect(config: Config, store: Store) -> dict[str, Any]:
    """Collect all figures that a run has made so far."""
    runs = store.records("run.")
    seconds: dict[str, float] = defaultdict(float)
    for run in runs:
        if run["device"] != "CPU":
            seconds[run["stage"]] += run["seconds"]
    rows = [_row(config, store, release) for release in config.releases] + earlier(config)
    return {
        "runs": runs,
        "commits": sorted({run["commit"] or "unknown" for run in runs}),
        "devices": sorted({run["device"] for run in runs}),
        "gpu_seconds": {**seconds, "total": sum(seconds.values())},
        "made_with": {what: store.made_with(what) for what in MADE_WITH},
        "config": config.to_dict(),
        "split": f"pictures of {config.split}, in their order: the first {config.cut} train, the others evaluate",
        "missing": missing(config, store),
        "releases": rows,
        "claims": claims(rows),
        "deviations": {r.name: store.record(f"deviations.{r.name}") for r in config.shown("paper")},
        "ancestral": store.record("ancestral"),
        "probes": [found for found in store.records("probes.") if found is not None],
        "ldp_slicing": LDP_SLICING,
    }


def earlier(config: Config) -> list[Row]:
    """Return the plotted rows of an earlier run by the same protocol, marked as earlier, under today's names."""
    if config.earlier is None:
        return []
    known = json.loads((Path(__file__).parent / config.earlier).read_text())
    found = []
    for row in (row for row in known["releases"] if row["plotted"]):
        method = FORMER.get(row["method"], row["method"])
        name = row["name"].replace(row["method"], method, 1)
        found.append({**row, "name": name, "method": method, "earlier": True})
    return found


def missing(config: Config, store: Store) -> dict[str, dict[str, Any]]:
    """Return, for each stage, the number of its records and the names of the missing ones."""
    return {
        stage: {"wanted": len(names), "names": [name for name in names if store.record(name) is None]}
        for stage, names in provenance.records(config).items()
    }


def _row(config: Config, store: Store, release: Release) -> Row:
    """Return all results of a release."""
    row: Row = {"name": release.name, "method": release.method, "epsilon": release.epsilon, "images": release.images}
    row |= {"plotted": release in config.shown(release.method), "same_steps": release.same_steps}
    row |= {"clip": release.clip, "headline": release.headline, "earlier": False}
    if release.coded:
        row |= {"release": None, **(store.record(f"encode.{release.name}") or {})}
        del row["release"]
    else:
        codecs = provenance.codecs(release)
        found = {codec: store.record(f"baseline.{release.name}.{codec}") for codec in codecs}
        row["codecs"] = {codec: record["file_bpp"] for codec, record in found.items() if record is not None}
        if len(row["codecs"]) == len(codecs):
            row["file_bpp"] = min(row["codecs"].values())
        row["certificate"] = _certificate(release)
    row["metrics"] = {o: store.record(f"metrics.{release.name}.{o}") for o in release.outputs}
    row["accuracy"] = {
        output: accuracy([store.record(f"train.{release.name}.{output}.{seed}") for seed in config.seeds(release)])
        for output in release.train
    }
    row["denoising"] = store.record(f"denoising.{release.name}")
    return row


def _certificate(release: Release) -> dict[str, float] | None:
    """Return the pure ε that a rival has by construction, and ρ for clamped noise on all channels."""
    if release.epsilon is None:
        return None
    if release.method != LAPLACE:
        return {"epsilon": release.epsilon}
    noise = LaplaceNoise(release.epsilon)
    delta = {"delta": DELTA, "epsilon_at_delta": noise.approximate(DELTA)}
    return {"epsilon": release.epsilon, "rho": noise.rho, **delta}


def accuracy(found: Sequence[dict[str, Any] | None]) -> dict[str, Any] | None:
    """Return mean and spread of the accuracies over seeds, or None before all seeds are trained."""
    records = [record for record in found if record is not None]
    if len(records) < len(found):
        return None
    last = [record["last"] for record in records]
    return {
        "seeds": [record["seed"] for record in records],
        "last": statistics.fmean(last),
        "spread": max(last) - min(last) if len(last) > 1 else None,
        "best": statistics.fmean(record["best"] for record in records),
        "on_clean": statistics.fmean(record["clean"] for record in records),
        "each": last,
    }


def claims(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return for each ε the bits and the accuracy of every method, and when `sharp` is above all rivals."""
    along = {row["epsilon"]: row for row in rows if row["same_steps"]}
    found = []
    for epsilon in sorted({row["epsilon"] for row in rows if row["plotted"] and row["epsilon"]}):
        here = [row for row in rows if row["epsilon"] == epsilon]
        entries = [_entry(row, output) for row in here for output in row["accuracy"]]
        ours = next((e for e in entries if e["name"] == OURS and e["plotted"]), None)
        rivals = [e for e in entries if e["method"] in RIVALS and e["accuracy"] is not None]
        best = max(rivals, key=lambda entry: float(entry["accuracy"]), default=None)
        claim: dict[str, Any] = {
            "epsilon": epsilon,
            "entries": entries,
            "best_rival": None if best is None else best["name"],
            "best_accuracy": None if best is None else best["accuracy"],
        }
        claim["margin"] = _difference(None if ours is None else ours["accuracy"], claim["best_accuracy"])
        noisy = {e["method"]: e["bpp"] for e in entries if e["method"] in VALUES}
        own = None if ours is None else ours["bpp"]
        claim["times_fewer_bits"] = {m: _ratio(noisy[m], own) for m in VALUES if m in noisy}
        claim["noisy_bits"] = min((bits for bits in noisy.values() if bits is not None), default=None)
        claim["fewest_bits"] = _fewest(entries, best, claim["noisy_bits"])
        shown = {row["method"]: row for row in here if row["plotted"]}
        paper, diffc = (shown.get(method, {}) for method in ("paper", "diffc"))
        bits = [row.get("payload_bpp") for row in (paper, diffc, along.get(epsilon, {}))]
        claim["paper_over_diffc_bits"] = _ratio(bits[0], bits[1])
        claim["paper_over_diffc_bits_same_steps"] = _ratio(bits[0], bits[2])
        found.append(claim)
    return found


def _fewest(
    entries: Sequence[dict[str, Any]], rival: dict[str, Any] | None, noisy: float | None
) -> dict[str, Any] | None:
    """Return the smallest release of `sharp` that teaches as much as the best rival; None if there is no such release.

    The result also says how many times fewer bits it takes than every rival that stores noisy values.
    """
    known = [e for e in entries if e["method"] == OURS and e["accuracy"] is not None and e["bpp"]]
    enough = [e for e in known if rival is not None and e["accuracy"] >= rival["accuracy"]]
    if not enough:
        return None
    least = min(enough, key=lambda entry: float(entry["bpp"]))
    return {"release": least["release"], "bpp": least["bpp"], "times_fewer": _ratio(noisy, least["bpp"])}


def _entry(row: Row, output: str) -> dict[str, Any]:
    """Return the entry of a method and reconstruction at one ε."""
    share = row["accuracy"][output] or {}
    return {
        "name": row["method"] if output == row["headline"] else f"{row['method']}, {output}",
        "release": row["name"],
        "method": row["method"],
        "plotted": row["plotted"],
        "earlier": row["earlier"],
        "bpp": row.get("file_bpp"),
        "accuracy": share.get("last"),
        "spread": share.get("spread"),
        "on_clean": share.get("on_clean"),
    }


def _difference(first: float | None, second: float | None) -> float | None:
    return None if first is None or second is None else first - second


def _ratio(above: float | None, below: float | None) -> float | None:
    return above / below if above is not None and below else None
