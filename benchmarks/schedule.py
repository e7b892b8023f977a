"""The time of planning: the frontiers of five budgets over a thousand timesteps, for every preset.

    python benchmarks/schedule.py --out benchmarks/results/schedule.json

By default it takes the denoiser that ships with dipp, with its table. Loops are compiled before the clock starts;
nothing else is kept from one run to the next. A frontier is the plan of fewest bits to every final timestep within a
budget, certificates included. The fastest of several runs counts: noise only adds.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import checkout  # noqa: F401 - for `experiments`
from inputs import Inputs
from provenance import provenance, write

from dipp.models.denoiser import Denoiser
from dipp.planning.planner import Point
from dipp.planning.presets import PRESETS, Preset
from dipp.planning.table import ErrorTable
from dipp.privacy.budget import Budget
from experiments.comparisons.unclipped import UNCLIPPED

EPSILONS = (1.0, 4.0, 16.0, 64.0, 256.0)
RUNS = 3


def frontiers(
    preset: Preset, denoiser: Denoiser, table: ErrorTable, budgets: Sequence[Budget]
) -> list[tuple[Point, ...]]:
    """Return the frontier of a preset within each budget."""
    return [preset.planner(denoiser, table, budget).frontier(budget) for budget in budgets]


def main() -> None:
    """Plan, and write the times."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    Inputs.add_to(parser)
    parser.add_argument("--quick", action="store_true", help="a quick run: once, instead of the fastest of three")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    inputs = Inputs.of(arguments)
    denoiser, rows = inputs.denoiser(), []
    budgets = {
        "pure": [Budget.pure(epsilon) for epsilon in EPSILONS],
        "approximate": [Budget.approximate(epsilon, 1e-6) for epsilon in EPSILONS],
    }
    frontiers(PRESETS["paper"], denoiser, inputs.costs(), budgets["pure"][:1])
    certified = {name: one for name, one in PRESETS.items() if one.certified}
    for name, preset in {**certified, "unclipped": UNCLIPPED["sharp"]}.items():
        for kind, limits in budgets.items():
            seconds, points = [], 0
            for _ in range(1 if arguments.quick else RUNS):
                table = inputs.costs()  # a new object, so that no planner is cached
                start = time.perf_counter()
                found = frontiers(preset, denoiser, table, limits)
                seconds.append(time.perf_counter() - start)
                points = sum(map(len, found))
            row: dict[str, Any] = {"preset": name, "budgets": kind, "plans": points, "seconds": min(seconds)}
            rows.append(row)
            print(json.dumps(row), flush=True)
    write(arguments.out, {**provenance(), "timesteps": len(denoiser.schedule), "rows": rows})


if __name__ == "__main__":
    main()
