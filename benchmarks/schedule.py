"""How long planning takes: the frontiers of five budgets over a thousand timesteps, for every preset.

    python benchmarks/schedule.py --out benchmarks/results/schedule.json

The denoiser that ships with dipp, with its table. Loops are compiled before the clock starts; nothing else is kept from
one run to the next. A frontier is the plan of fewest bits to every final timestep within a budget, certificates
included. The fastest of several runs counts: noise only adds.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

from provenance import provenance

from dipp.codec import codec
from dipp.models import embedded
from dipp.models.denoiser import Denoiser
from dipp.planning.presets import PRESETS
from dipp.privacy.budget import Budget

EPSILONS = (1.0, 4.0, 16.0, 64.0, 256.0)
RUNS = 3


def main() -> None:
    """Plan, and write how long it took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    denoiser, rows = models.load(embedded.FOLDER), []
    budgets = {
        "pure": [Budget.pure(epsilon) for epsilon in EPSILONS],
        "approximate": [Budget.approximate(epsilon, 1e-6) for epsilon in EPSILONS],
    }
    codec.planner(denoiser, codec.load_table(embedded.FOLDER, None), "paper", budgets["pure"][0]).frontier(
        budgets["pure"][0]
    )
    for name in (name for name, preset in PRESETS.items() if preset.mechanism.certified):
        for kind, limits in budgets.items():
            seconds, points = [], 0
            for _ in range(RUNS):
                table = codec.load_table(embedded.FOLDER, None)  # another object: planners of the last one do not serve
                start = time.perf_counter()
                found = [codec.planner(denoiser, table, name, limit).frontier(limit) for limit in limits]
                seconds.append(time.perf_counter() - start)
                points = sum(map(len, found))
            row: dict[str, Any] = {"preset": name, "budgets": kind, "plans": points, "seconds": min(seconds)}
            rows.append(row)
            print(json.dumps(row), flush=True)
    content = {**provenance(), "timesteps": len(denoiser.schedule), "rows": rows}
    arguments.out.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
