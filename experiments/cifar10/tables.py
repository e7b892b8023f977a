"""The tables of the report, in Markdown, from its JSON."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from dipp.privacy.printing import upper
from experiments.cifar10.baseline import CODECS, PACKED
from experiments.cifar10.methods import CLEAN
from experiments.cifar10.releases import DELTA

MISSING = "–"

Row = dict[str, Any]


def write(results: dict[str, Any]) -> str:
    """Write all tables, after a list of missing records."""
    rows, parts = results["releases"], []
    if unfinished := gaps(results["missing"]):
        parts.append(("Not finished", "".join(f"- missing: {line}\n" for line in unfinished)))
    parts.append(
        (
            "Claims at equal ε per pixel: bits per pixel on disk, accuracy at the last epoch",
            of_claims(results["claims"]),
        )
    )
    head = ["release", "output", "bpp on disk", "payload", "pure ε", "ρ", f"ε at δ = {upper(DELTA)}"]
    head += ["accuracy, last epoch", "spread", "best epoch", "on clean pictures"]
    parts.append(("Classifiers", _table(head, _classifiers(rows))))
    head = ["release", *CODECS, PACKED]
    lossless = ([row["name"], *(_number(row["codecs"].get(c)) for c in head[1:])] for row in rows if row.get("codecs"))
    parts.append(("Lossless codecs, bits per pixel", _table(head, lossless)))
    head = ["release", "output", "code", "images", "pure ε", "bpp on disk", "steps", "final timestep"]
    head += ["PSNR, dB", "MS-SSIM", "Fréchet"]
    parts.append(("Reconstructions against the clean pictures", _table(head, _quality(rows))))
    if results["deviations"]:
        parts.append(("Standardised mean deviation δ along the coded chain, and divergences", _deviations(results)))
    if results["probes"]:
        parts.append(("Probes: how often the best guess tells what was encoded", of_probes(results["probes"])))
    check = results["ancestral"]
    if check is not None:
        lines = ([name, *_measures(check[name])] for name in ("ancestral", "fast"))
        title = f"Samplers on the first {check['fast']['images']} pictures of {check['release']}"
        parts.append((title, _table(["sampler", "PSNR, dB", "MS-SSIM", "Fréchet"], lines)))
    other = results["ldp_slicing"]
    lines = ([_number(epsilon), _percent(share)] for epsilon, share in [*other["points"], [math.inf, other["clean"]]])
    parts.append((f"{other['source']}; not comparable", _table(["ε", "accuracy"], lines)))
    lines = ([stage, f"{seconds / 60:.1f}"] for stage, seconds in results["gpu_seconds"].items())
    parts.append(("GPU time", _table(["stage", "minutes"], lines)))
    return "\n".join(f"**{title}**\n\n{text}" for title, text in parts)


def gaps(found: dict[str, dict[str, Any]]) -> list[str]:
    """Return a line for each unfinished stage."""
    return [
        f"{len(part['names'])} of {part['wanted']} records of {stage}, from {part['names'][0]} on"
        for stage, part in found.items()
        if part["names"]
    ]


def of_claims(found: Sequence[dict[str, Any]]) -> str:
    """Return a line for each method at each ε, the most accurate first, and whether `sharp` is above all rivals."""
    head = ["ε", "method", "bpp on disk", "accuracy, last epoch", "spread", "on clean pictures"]
    lines: list[list[str]] = []
    for claim in found:
        for entry in sorted(claim["entries"], key=lambda entry: -(entry["accuracy"] or 0)):
            shares = (entry[key] for key in ("accuracy", "spread", "on_clean"))
            name = f"{entry['name']}{' (earlier)' * entry['earlier']}"
            name += f" [{entry['release']}]" * (entry["method"] == "sharp")
            lines.append([_number(claim["epsilon"]), name, _number(entry["bpp"]), *map(_percent, shares)])
    kinds = list(dict.fromkeys(kind for claim in found for kind in claim["times_fewer_bits"]))
    verdicts = ["ε", "best rival", "lead of sharp over it", *(f"times fewer bits than {kind}" for kind in kinds)]
    verdicts += ["bits per pixel at which sharp reaches its accuracy", "times fewer bits than any noisy values"]
    verdicts += ["payload of paper over that of DiffC", "the same with the steps of paper"]
    decided = []
    for claim in found:
        numbers = [claim["times_fewer_bits"].get(kind) for kind in kinds]
        numbers += [(claim["fewest_bits"] or {}).get(key) for key in ("bpp", "times_fewer")]
        numbers += [claim["paper_over_diffc_bits"], claim["paper_over_diffc_bits_same_steps"]]
        facts = [_number(claim["epsilon"]), claim["best_rival"] or MISSING, _points(claim["margin"])]
        decided.append([*facts, *map(_number, numbers)])
    return f"{_table(head, lines)}\n{_table(verdicts, decided)}"


def of_probes(found: Sequence[dict[str, Any]]) -> str:
    """Return the table of how often the best guess is right."""
    head = ["ε", "candidates differ in", "pixels", "guesses right", "expected", "the certificate's bound"]
    head += ["median loss", "95 %", "largest", "code", "pictures"]
    lines = [
        [
            _bound(one["certified"]),
            kind,
            str(row["pixels"]),
            *(_percent(row[key]) for key in ("right", "expected")),
            _percent_at_most(row["bound"]),
            *(_number(value) for value in row["losses"].values()),
            one["code"],
            str(one["images"]),
        ]
        for one in sorted(found, key=lambda one: float(one["epsilon"]))
        for kind, row in one["kinds"].items()
    ]
    return _table(head, lines)


def _classifiers(rows: Iterable[Row]) -> Iterable[list[str]]:
    for row in rows:
        promise = row.get("certificate") or {}
        rates = [row.get("file_bpp"), row.get("payload_bpp")]
        bounds = [promise.get(key) for key in ("epsilon", "rho", "epsilon_at_delta")]
        for output, found in row["accuracy"].items():
            shares = ((found or {}).get(key) for key in ("last", "spread", "best", "on_clean"))
            name = f"{row['name']}{' (earlier)' * row['earlier']}"
            yield [name, output, *map(_number, rates), *map(_bound, bounds), *map(_percent, shares)]


def _quality(rows: Iterable[Row]) -> Iterable[list[str]]:
    for row in rows:
        for output, found in row["metrics"].items():
            if row["method"] != CLEAN and not row["earlier"] and found is not None:
                epsilon = _bound((row.get("certificate") or {}).get("epsilon"))
                facts = [row.get(key) for key in ("file_bpp", "steps", "final_timestep")]
                code, images = row.get("mechanism", MISSING), str(row["images"])
                yield [row["name"], output, code, images, epsilon, *map(_number, facts), *_measures(found)]


def _measures(found: dict[str, Any] | None) -> list[str]:
    return [_number((found or {}).get(key)) for key in ("psnr", "ms_ssim", "frechet")]


def _deviations(results: dict[str, Any]) -> str:
    head = [
        "release",
        "5 %",
        "25 %",
        "median",
        "75 %",
        "95 %",
        "above 1",
        "Laplace KL, bpp",
        "Gaussian KL, bpp",
        "ratio",
    ]
    lines = []
    for name, found in results["deviations"].items():
        if found is not None:
            numbers = [*found["quantiles"].values(), found["above_one"], found["laplace_kl_bpp"]]
            lines.append([name, *map(_number, [*numbers, found["gaussian_kl_bpp"], found["kl_ratio"]])])
    return _table(head, lines)


def _table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    rows = [head, ["---"] * len(head), *lines]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _number(value: float | None) -> str:
    if value is None:
        return MISSING
    return "∞" if math.isinf(value) else f"{value:.4g}"


def _bound(value: float | None) -> str:
    """Return an ε or ρ as text, rounded up."""
    return MISSING if value is None else upper(value, 4)


def _points(difference: float | None) -> str:
    if difference is None:
        return MISSING
    digits = 1 if abs(difference) >= 5e-4 else 2
    return f"{100 * difference:+.{digits}f} points"


def _percent(share: float | None) -> str:
    return MISSING if share is None else f"{100 * share:.1f} %"


def _percent_at_most(bound: float) -> str:
    """Return a bound of a share as text, rounded up."""
    return f"{math.ceil(1000 * bound) / 10:.1f} %"
