"""Stage `report`: all records in one file, tables for the document, and the plot. None shows a picture of a person."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from dipp import files
from dipp.risk import bounds
from experiments.people.store import Store

COLOURS = {
    "cells": "#08519c",
    "picture": "#08519c",
    "pixel": "#08519c",
    "clean": "#636363",
    "redacted": "#31a354",
    "region": "#31a354",
}
OTHER = "#d94801"
KINDS = ("naive", "parrot", "restoring", "likelihood")
"""Kinds of attackers, by the first word of their names."""
REGION = ("region, known", "region, other")
"""Names of the probes in claims about regions."""
LINE, LETTER = 3.2, 0.19
"""Height of a line and width of a letter in the plot of methods, in its units, so that names do not overlap."""
ATTACKED = [
    *("top-1: likelihood, known", "strongest, other", "bound"),
    *("top-5: likelihood, known", "strongest, other", "bound"),
]


def stage(store: Store) -> None:
    """Write `results.json`, `tables.md` and `people.png` into the folder of the run."""
    parts = ("claims", "faces", "text", "guesses")
    found = {part: [json.loads(path.read_text()) for path in _paths(store.folder, part)] for part in parts}
    _write(store.folder / "results.json", json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    _write(store.folder / "tables.md", "\n\n".join(tables(found)) + "\n")
    _draw(found, store.folder / "people.png")


def tables(found: dict[str, list[dict[str, Any]]]) -> list[str]:
    """Return the tables of the document: claims, who is recognised, what is read, what is guessed."""
    makers = {
        "claims": (_claims, _regions),
        "faces": (_faces, _remains),
        "text": (_text,),
        "guesses": (_guesses,),
    }
    return [make(found[part]) for part, every in makers.items() for make in every if found[part]]


def _paths(folder: Path, part: str) -> list[Path]:
    return sorted((folder / "records").glob(f"{part}.*.json"))


def _write(path: Path, content: str) -> None:
    with files.atomic(path) as part:
        part.write_text(content)


def _table(head: list[str], rows: list[list[str]]) -> str:
    """Return a table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.0f} %"


def _claims(records: list[dict[str, Any]]) -> str:
    """Return a row for each ε: the likelihood on known pictures, the best attacker on others, and made pictures."""
    rows = []
    for record in sorted(records, key=lambda record: record["epsilon"]):
        (made,) = _of(record, "made")
        last = [f"{_tenth(made['top-1'])} of {made['people']}", _bound(made["bounds"][0])]
        rows.append([f"{record['epsilon']:g}", *_attacked(record, "known", "other"), *last])
    return _table(["ε", *ATTACKED, "made pictures", "their bound"], rows)


def _regions(records: list[dict[str, Any]]) -> str:
    """Return a row for each ε of a region: the likelihood on known pictures, and the strongest attacker on others."""
    every = sorted(records, key=lambda record: record["epsilon"])
    return _table(["ε", *ATTACKED], [[f"{one['epsilon']:g}", *_attacked(one, *REGION)] for one in every])


def _attacked(record: dict[str, Any], known: str, others: str) -> list[str]:
    """Return the success of attackers on known and on other pictures, and the bound: for one name, then for five."""
    (likelihood,), cells = _of(record, known), []
    for number, top in enumerate(("top-1", "top-5")):
        best = max(_of(record, others), key=lambda row: row[top])
        bound = _bound(likelihood["bounds"][number])
        interval = f"; {_range(best['interval'])}" if top == "top-1" else ""
        cells += [_tenth(likelihood[top]), f"{_tenth(best[top])} ({best['attacker']}{interval})", bound]
    return cells


def _of(record: dict[str, Any], probes: str) -> list[dict[str, Any]]:
    """Return the rows of a claim about probes of some kinds."""
    return [row for row in record["rows"] if row["probes"] == probes]


def _range(interval: list[float]) -> str:
    return " to ".join(f"{100 * end:.0f}" for end in interval)


def _tenth(share: float) -> str:
    return f"{100 * share:.1f} %"


def _bound(share: float) -> str:
    """Return a bound in percent, rounded up."""
    return f"{math.ceil(round(1000 * share, 6)) / 10:.1f} %"


def _name(record: dict[str, Any]) -> str:
    size = f" {record['size']}" if record["size"] else ""
    epsilon = "" if record["epsilon"] is None else f", ε = {record['epsilon']:g}"
    return f"{record['family']}{size}{epsilon}"


def _faces(records: list[dict[str, Any]]) -> str:
    """Return the table of who is recognised: top-1 of the strongest attacker of each kind."""
    rows = []
    for one in _sorted(records):
        attackers = one["attackers"]
        best = max(attackers, key=lambda name: attackers[name]["top-1"])
        rows.append(
            [
                _marked(one),
                *(_best(attackers, kind) for kind in KINDS),
                _range(attackers[best]["interval"]),
                _percent(one["top-5 of the strongest"]),
                _percent(one["bound"]["top-1"]) if one["bound"] else "none",
            ]
        )
    return _table(["method", *KINDS, "strongest: 95 %", "top-5", "bound"], rows)


def _remains(records: list[dict[str, Any]]) -> str:
    """Return the table of what remains of the pictures, beside top-1 of the strongest attacker."""
    rows = []
    for one in _sorted(records):
        landmarks, glasses = one["landmarks"], one.get("glasses")
        rows.append(
            [
                _marked(one),
                _percent(one["top-1 of the strongest"]),
                f"{one['PSNR']:.1f}" if one["family"] != "clean" else "",
                _percent(one["faces found"]),
                f"{100 * landmarks['median']:.0f} % of {landmarks['pictures']}" if landmarks else "",
                _percent(max(glasses.values())) if glasses else "",
            ]
        )
    return _table(["method", "top-1", "PSNR", "faces found", "landmarks", "glasses"], rows)


def _marked(record: dict[str, Any]) -> str:
    """Return a method's name, with a mark if its record is older than the attackers that all methods meet."""
    return _name(record) + ("" if "glasses" in record else " †")


def _sorted(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(records, key=lambda record: -record["top-1 of the strongest"])


def _best(attackers: dict[str, dict[str, Any]], kind: str) -> str:
    """Return top-1 of the strongest attacker of a kind, and its name."""
    own = {name.removeprefix(kind).strip(): one["top-1"] for name, one in attackers.items() if name.startswith(kind)}
    if not own:
        return ""
    best = max(own, key=lambda name: own[name])
    return _percent(own[best]) + (f" ({best})" if best else "")


def _text(records: list[dict[str, Any]]) -> str:
    heights = [str(row["height"]) for row in records[0]["rows"]] if records else []
    rows = [
        [_name(one), *(f"{_percent(row['knows the typeface'])} / {_percent(row['tesseract'])}" for row in one["rows"])]
        for one in sorted(records, key=lambda record: (record["family"], record["size"], record["epsilon"] or 0))
    ]
    return _table(["method", *heights], rows)


def _guesses(records: list[dict[str, Any]]) -> str:
    rows = []
    for one in sorted(records, key=lambda record: (record["family"], record["size"], record["epsilon"])):
        side = str(one["size"] or 1)
        rights = {s: [row["right"][s] for row in one["rows"] if row["right"][s] is not None] for s in ("1", side)}
        means = {s: float(np.mean(values)) if values else None for s, values in rights.items()}
        own = one["faces"] if one["family"] == "picture" else means[side]
        bound = _bound(1 / (1 + math.exp(-one["epsilon"])))
        rows.append([_name(one), bound, _percent(means["1"]), _percent(own)])
    return _table(["method", "bound", "a pixel or another", "a unit or another"], rows)


def _draw(found: dict[str, list[dict[str, Any]]], output: Path) -> None:
    """Draw claims against bounds, and recognition against what remains of the pictures."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    claims = sorted(found["claims"], key=lambda claim: claim["epsilon"])
    if claims:
        people = next(row["people"] for row in claims[0]["rows"] if row["probes"] == "known")
        grid = np.linspace(0, 4.5, 60)
        left.plot(
            grid, [100 * bounds.recognised(e, people) for e in grid], color="black", label=f"bound, {people} people"
        )
        for probes, mark, label in (
            ("known", "o", "likelihood, known pictures"),
            ("other", "s", "strongest, other pictures"),
        ):
            best = [max(row["top-1"] for row in claim["rows"] if row["probes"] == probes) for claim in claims]
            left.plot(
                [claim["epsilon"] for claim in claims], [100 * b for b in best], mark, color="#08519c", label=label
            )
        made = [next(row for row in claim["rows"] if row["probes"] == "made") for claim in claims]
        left.plot([c["epsilon"] for c in claims], [100 * m["bounds"][0] for m in made], "_", ms=16, color="#d94801")
        left.plot(
            [c["epsilon"] for c in claims],
            [100 * m["top-1"] for m in made],
            "x",
            color="#d94801",
            label="made pictures, and their bound",
        )
    left.set(xlabel="ε of the whole picture", ylabel="top-1, %", title="claims", ylim=(0, 100))
    left.legend(frameon=False, fontsize=8)
    named: list[tuple[float, float, str]] = []
    shown = [face for face in found["faces"] if face["family"] != "clean"]
    for one in sorted(shown, key=lambda record: -record["top-1 of the strongest"]):
        x, y, name = one["PSNR"], 100 * one["top-1 of the strongest"], _name(one)
        right.plot(x, y, "o", color=COLOURS.get(one["family"], OTHER))
        while any(
            abs(y - other) < LINE and x < left_end + LETTER * len(text) and left_end < x + LETTER * len(name)
            for left_end, other, text in named
        ):
            y -= LINE / 2
        named.append((x, y, name))
        place = x, 100 * one["top-1 of the strongest"]
        line = {"arrowstyle": "-", "lw": 0.4, "color": "grey", "shrinkA": 0, "shrinkB": 2}
        right.annotate(name, place, (x + 0.3, y), fontsize=7, va="center", arrowprops=line)
    right.set(
        xlabel="PSNR, dB",
        ylabel="top-1 of the strongest attacker, %",
        title="who is recognised",
        xlim=(6, 30),
        ylim=(0, 105),
    )
    for axes in (left, right):
        axes.grid(alpha=0.3)
    with files.atomic(output) as part:
        figure.savefig(part, format="png", dpi=110)
