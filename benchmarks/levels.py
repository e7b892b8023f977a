"""Does a lower resolution of early predictions cost quality? Chains with and without levels, by ε.

    python benchmarks/levels.py PHOTOGRAPH... --side 256 --epsilons 1 4

A square in the middle of each photograph is encoded by the plan that `sharp` makes for the whole photograph: with its
levels, without them, and with those of three times the SNR (`dipp.planning.levels`). PSNR is that of the
expected picture; *work* is the work of a plan's network calls, relative to calls at full resolution. Photographs of
about the same size are grouped, because the rule depends on the size.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from provenance import provenance, write

from dipp import models
from dipp.codec.codec import Codec
from dipp.core.geometry import Geometry
from dipp.core.plan import Plan
from dipp.core.steps import SensingStep
from dipp.models import embedded
from dipp.planning.levels import level_at
from dipp.planning.presets import preset
from dipp.planning.table import ErrorTable
from dipp.privacy.budget import Budget

RULES: dict[str, Callable[[float, int], int]] = {
    "without levels": lambda _snr, _pixels: 0,
    "levels": level_at,
    "levels at three times the SNR": lambda snr, pixels: level_at(snr / 3, pixels),
}


def levelled(plan: Plan, pixels: int, rule: Callable[[float, int], int]) -> Plan:
    """Return a plan with other levels."""
    snrs = itertools.accumulate((step.snr_gain for step in plan.steps[:-1]), initial=0.0)
    steps = [
        dataclasses.replace(step, level=rule(snr, pixels) if number else 0)
        for number, (step, snr) in enumerate(zip(plan.steps, snrs, strict=True))
        if isinstance(step, SensingStep)
    ]
    return Plan(plan.coding, tuple(steps))


def work(plan: Plan) -> float:
    """Return the work of a plan's calls, relative to the same number of calls at full resolution."""
    levels = [step.level for step in plan.steps[1:] if isinstance(step, SensingStep)]
    return sum(4.0**-level for level in levels) / len(levels)


def middle(path: Path, side: int) -> Any:
    """Return the square in the middle of a photograph."""
    with Image.open(path) as source:
        left, top = (source.width - side) // 2, (source.height - side) // 2
        return np.asarray(source.convert("RGB").crop((left, top, left + side, top + side)))


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("photographs", nargs="+", type=Path)
    parser.add_argument("--side", type=int, default=256)
    parser.add_argument("--epsilons", nargs="*", type=float, default=[1, 4])
    parser.add_argument("-o", "--output", type=Path, default=Path("benchmarks/results/levels.json"))
    options = parser.parse_args()
    denoiser, table = models.load(embedded.FOLDER, "cpu"), ErrorTable.of_model(embedded.FOLDER)
    groups: dict[str, list[tuple[Path, Geometry]]] = {}
    for path in options.photographs:
        with Image.open(path) as source:
            geometry = Geometry(source.height, source.width, 3)
        groups.setdefault("under 1 megapixel" if geometry.pixels < 1e6 else "over 8 megapixels", []).append(
            (path, geometry)
        )
    found: dict[str, Any] = {}
    for epsilon, (group, paths) in itertools.product(options.epsilons, groups.items()):
        quality: dict[str, list[float]] = {name: [] for name in RULES}
        for path, geometry in paths:
            budget, pixels = Budget.pure(epsilon), middle(path, options.side)
            plan = preset("sharp").planner(denoiser, table, budget, geometry).choose(budget, bpp=1.0).plan
            for name, rule in RULES.items():
                codec = Codec(denoiser, levelled(plan, geometry.pixels, rule), table=table.residuals.digest)  # type: ignore[union-attr]
                (shown,) = codec.decode(codec.encode([pixels], odometer=False))
                quality[name].append(10 * np.log10(255**2 / np.square(shown - pixels.astype(np.float64)).mean()))
        first = np.mean(quality["without levels"])
        row: dict[str, Any] = {"photographs": len(paths), "PSNR without levels": round(float(first), 2)}
        for name in [*RULES][1:]:
            left = work(levelled(plan, geometry.pixels, RULES[name]))
            row[name] = {"dB": round(float(np.mean(quality[name]) - first), 3), "work": round(left, 3)}
        found.setdefault(group, {})[f"ε = {epsilon:g}"] = row
        print(group, epsilon, row, flush=True)
        write(options.output, {**provenance(), "side": options.side, "rows": found})


if __name__ == "__main__":
    main()
