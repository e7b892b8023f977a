"""Everything that was measured, in one JSON; tables and figures are made from that JSON alone."""

from __future__ import annotations

import json
import statistics
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cifar10 import figures, provenance, tables
from cifar10.baseline import CODECS, LaplaceNoise
from cifar10.config import LAPLACE, Config, Release
from cifar10.releases import DELTA
from cifar10.store import MADE_WITH, Store
from dipp import files

LDP_SLICING = {
    "source": "Cao et al., LDP-Slicing, read off its plot for CIFAR-10",
    "points": [[5.2, 0.45], [12, 0.75], [20, 0.81], [58, 0.885]],
    "clean": 0.923,
    "why_not_comparable": (
        "trained on 50,000 pictures and not 5,000; and its public code draws fresh noise for every picture in every "
        "epoch, so that 250 epochs see 250 releases of it, while the stated ε is that of one"
    ),
}
CLAIMED_FROM = 4
"""The ε from which on the claims about bits and accuracy are checked."""

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
    figures.surface(results, folder / "surface.png")
    figures.deviations(results, folder / "deviations.png")
    figures.grid(config, store, folder / "grid.png")
    return folder


def collect(config: Config, store: Store) -> dict[str, Any]:
    """Every figure of a run, as far as it has got."""
    runs = store.records("run.")
    seconds: dict[str, float] = defaultdict(float)
    for run in runs:
        if run["device"] != "CPU":
            seconds[run["stage"]] += run["seconds"]
    rows = [_row(config, store, release) for release in config.releases]
    return {
        "runs": runs,
        "commits": sorted({run["commit"] or "unknown" for run in runs}),
        "devices": sorted({run["device"] for run in runs}),
        "gpu_seconds": {**seconds, "total": sum(seconds.values())},
        "made_with": {what: store.made_with(what) for what in MADE_WITH},
        "config": config.to_dict(),
        "split": "pictures in the order of the test batch: the first half trains classifiers, the second evaluates",
        "missing": missing(config, store),
        "releases": rows,
        "claims": claims(rows),
        "deviations": {r.name: store.record(f"deviations.{r.name}") for r in config.shown("paper")},
        "ancestral": store.record("ancestral"),
        "ldp_slicing": LDP_SLICING,
    }


def missing(config: Config, store: Store) -> dict[str, dict[str, Any]]:
    """By stage: how many records there will be, and the names of those that are not there yet."""
    return {
        stage: {"wanted": len(names), "names": [name for name in names if store.record(name) is None]}
        for stage, names in provenance.records(config).items()
    }


def _row(config: Config, store: Store, release: Release) -> Row:
    """All that is known of a release."""
    row: Row = {"name": release.name, "method": release.method, "epsilon": release.epsilon, "images": release.images}
    row |= {"plotted": release in config.shown(release.method), "same_steps": release.same_steps}
    row |= {"clip": release.clip, "headline": release.headline}
    if release.coded:
        row |= {"release": None, **(store.record(f"encode.{release.name}") or {})}
        del row["release"]
    else:
        found = {codec: store.record(f"baseline.{release.name}.{codec}") for codec in CODECS}
        row["codecs"] = {codec: record["file_bpp"] for codec, record in found.items() if record is not None}
        if len(row["codecs"]) == len(CODECS):
            row["file_bpp"] = min(row["codecs"].values())
        row["certificate"] = _laplace(release.epsilon) if release.method == LAPLACE and release.epsilon else None
    row["metrics"] = {o: store.record(f"metrics.{release.name}.{o}") for o in release.outputs}
    seeds = config.protocol.seeds
    row["accuracy"] = {
        output: accuracy([store.record(f"train.{release.name}.{output}.{seed}") for seed in seeds])
        for output in release.train
    }
    row["denoising"] = store.record(f"denoising.{release.name}")
    return row


def _laplace(epsilon: float) -> dict[str, float]:
    noise = LaplaceNoise(epsilon)
    return {"epsilon": epsilon, "rho": noise.rho, "delta": DELTA, "epsilon_at_delta": noise.approximate(DELTA)}


def accuracy(found: Sequence[dict[str, Any] | None]) -> dict[str, Any] | None:
    """Mean and spread over the seeds; None before all are trained."""
    records = [record for record in found if record is not None]
    if len(records) < len(found):
        return None
    last = [record["last"] for record in records]
    return {
        "seeds": [record["seed"] for record in records],
        "last": statistics.fmean(last),
        "spread": max(last) - min(last),
        "best": statistics.fmean(record["best"] for record in records),
        "on_clean": statistics.fmean(record["clean"] for record in records),
        "each": last,
    }


def claims(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Method against baseline at equal ε, for the plotted releases."""
    shown = {(row["method"], row["epsilon"]): row for row in rows if row["plotted"]}
    along = {row["epsilon"]: row for row in rows if row["same_steps"]}
    found = []
    for epsilon in sorted({row["epsilon"] for row in shown.values() if row["epsilon"]}):
        base, others = shown.get((LAPLACE, epsilon)), {m: shown.get((m, epsilon)) for m in ("paper", "sharp", "diffc")}
        claim: dict[str, Any] = {"epsilon": epsilon, "baseline_bpp": _get(base, "file_bpp"), "baseline": _last(base)}
        claim["denoised_baseline"] = None if base is None else _last({**base, "headline": "denoised"})
        for method, row in others.items():
            claim[f"{method}_bpp"], claim[method] = _get(row, "file_bpp"), _last(row)
            claim[f"{method}_factor"] = _ratio(claim["baseline_bpp"], claim[f"{method}_bpp"])
        paper, diffc, same = (
            _get(row, "payload_bpp") for row in (others["paper"], others["diffc"], along.get(epsilon))
        )
        claim["paper_over_diffc_bits"] = _ratio(paper, diffc)
        claim["paper_over_diffc_bits_same_steps"] = _ratio(paper, same)
        if epsilon >= CLAIMED_FROM:
            factors = [claim["paper_factor"], claim["sharp_factor"]]
            claim["tenth_of_the_bits"] = None if None in factors else min(factors) >= 10
            claim["sharp_above_paper"] = _above(claim["sharp"], claim["paper"])
        for rival in ("baseline", "denoised_baseline"):
            claim[f"{rival}_wins"] = {m: _above(claim[rival], claim[m]) for m in ("paper", "sharp")}
        found.append(claim)
    return found


def _get(row: Row | None, key: str) -> float | None:
    return None if row is None else row.get(key)


def _last(row: Row | None) -> float | None:
    """Accuracy at the last epoch, on the output that is the headline."""
    found = None if row is None else row["accuracy"].get(row["headline"])
    return None if found is None else float(found["last"])


def _ratio(above: float | None, below: float | None) -> float | None:
    return above / below if above is not None and below else None


def _above(first: float | None, second: float | None) -> bool | None:
    return None if first is None or second is None else first > second
