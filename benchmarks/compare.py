"""Show that two checkouts encode alike: same indices, same certificates, same decoded pictures.

    git worktree add --detach ../base 89b0fc8        # the old side, with a .venv of its own
    python benchmarks/compare.py ../base . --out benchmarks/results/compare.json

Each checkout runs `compare_side.py` (from this checkout, so that both sides run the same script) under its own
`.venv/bin/python`. The private bytes are scripted, the public seeds are fixed, and the denoiser is a small blur, so
that everything a side computes is a function of its code. Each case states for both sides the steps of the plan, the
indices, pure ε, ρ and (ε, δ), the numbers of the ledger, and the decoded pictures (posterior mean and last state).

Cases: each preset at several budgets, and 40 random plans, some by a planner and some by hand
(codes pairs, flat, step-limited PPR and PFR; clipped steps and steps along timesteps; one and three channels; grey and
coloured pictures of several sizes).

Checkouts since f31e594 deal coordinates that are coded alone, such as those of pairs, in ascending order; earlier ones
dealt them by the public shuffle, so the private bytes go to other coordinates. So the new side runs twice: unchanged,
and with the order of the shuffle. The script prints how many cases agree in each respect, and exits with 1 if any
differs in the order of the shuffle. Where the API of the new side has changed, change the functions at
the head of `compare_side.py`.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from provenance import commit_of, provenance, write

SIDE = Path(__file__).with_name("compare_side.py")
PRESETS = ("sharp", "swift", "paper", "diffc")
RANDOM_PLANS = 40
ASPECTS = ("plan", "indices", "certificate", "ledger", "pictures")
"""Aspects of a case that are compared."""
SIZES = ((8, 8), (16, 16), (7, 9), (1, 1), (20, 12), (3, 17))


def preset_cases() -> list[dict[str, Any]]:
    """Return cases of each preset at small, middle and large budgets; for diffc, at three timesteps."""
    budgets: list[dict[str, float]] = [{"epsilon": 1}, {"epsilon": 4}, {"epsilon": 16}]
    budgets += [{"epsilon": 4, "delta": 1e-6}, {"rho": 0.5}]
    cases = []
    for preset in PRESETS:
        limits: list[dict[str, Any]]
        if preset == "diffc":
            limits = [{"final_timestep": t} for t in (900, 700, 500)]
        else:
            limits = [{"budget": budget} for budget in budgets]
        cases += [
            {
                "name": f"{preset} {number}",
                "preset": preset,
                "channels": 3,
                "sizes": [[16, 16]] * 2,
                "grey": [],
                **limit,
            }
            for number, limit in enumerate(limits)
        ]
    return cases


def random_cases(count: int, generator: np.random.Generator) -> list[dict[str, Any]]:
    """Return cases with random plans: every third from a planner, the others made by hand."""
    cases = []
    for number in range(count):
        channels = int(generator.choice([1, 3]))
        sizes = [list(map(int, generator.choice(SIZES))) for _ in range(int(generator.integers(1, 4)))]
        common = {"name": f"random {number}", "channels": channels, "sizes": sizes}
        common["grey"] = [bool(channels == 3 and generator.random() < 0.3) for _ in sizes]
        cases.append(common | (_planned(generator) if number % 3 == 0 else _made(generator, channels)))
    return cases


def _planned(generator: np.random.Generator) -> dict[str, Any]:
    """Return a plan of a preset within a random budget, for a random size."""
    height, width = map(int, generator.integers(8, 40, 2))
    budget = {"epsilon": float(np.exp(generator.uniform(np.log(0.5), np.log(32))))}
    found: dict[str, Any] = {"preset": str(generator.choice(["sharp", "swift"])), "planned_for": [height, width]}
    if generator.random() < 0.3:
        budget["delta"] = 1e-6
    if generator.random() < 0.5:
        found["bpp"] = float(generator.choice([0.05, 0.2, 0.5, 2.0]))
    return found | {"budget": budget}


def _made(generator: np.random.Generator, channels: int) -> dict[str, Any]:
    """Return a plan made by hand, with random code, channel and steps."""
    code = str(generator.choice(["pairs", "flat", "ppr", "pfr"], p=[0.35, 0.3, 0.25, 0.1]))
    clipped = code == "pairs" or bool(code != "pfr" and generator.random() < 0.5)
    turns = clipped or bool(generator.random() < 0.5)
    noise = "sign" if turns else str(generator.choice(["laplace", "gaussian" if code == "pfr" else "sign"]))
    period = channels * int(generator.integers(1, 5)) if turns else 1
    count = int(generator.integers(1, 7))
    times = np.sort(generator.choice(np.arange(200, 1000), count + 1, replace=False))[::-1].tolist()
    rows = [
        {
            "tilt": float(np.float32(generator.uniform(0.2, 2.0))),
            "clip": float(np.float32(generator.uniform(0.05, 0.8))),
            "gain": float(np.float32(2.0 ** generator.uniform(-8, -2))),
            "start": int(start),
            "end": int(end),
            "chunk_size": 1 if code == "pairs" else int(generator.integers(3, 60)),
            "index_bits": 1 if code == "pairs" else int(generator.integers(3, 10)),
            "exponent_units": int(generator.integers(66, 120)) if code in ("ppr", "pfr") else 0,
        }
        for start, end in itertools.pairwise(times)
    ]
    return {
        "code": code,
        "alpha": str(generator.choice(["1", "3/2", "2"])) if code == "ppr" else "1",
        "noise": noise,
        "period": period,
        "clipped": clipped,
        "separate": bool(generator.random() < 0.7),
        "steps": rows,
    }


def python_of(checkout: Path) -> Path:
    """Return the interpreter of a checkout, or raise."""
    python = checkout / ".venv" / "bin" / "python"
    if not python.exists():
        raise SystemExit(f"{checkout} has no .venv/bin/python; make one there with `make .venv/.test`")
    return python


def run_side(checkout: Path, cases: list[dict[str, Any]], table: Path, *, shuffled: bool = False) -> dict[str, Any]:
    """Encode and decode all cases in a checkout, in a process of its own with a home folder of its own.

    `shuffled` deals coordinates that are coded alone by the public shuffle, whatever the checkout does.
    """
    with tempfile.TemporaryDirectory() as folder:
        script, out = Path(folder, "cases.json"), Path(folder, "out.json")
        content = {"cases": cases, "table": str(table), "source": str(checkout / "src"), "shuffled": shuffled}
        script.write_text(json.dumps(content))
        env = {**os.environ, "HOME": folder, "DIPP_ODOMETER": f"{folder}/odometer", "OMP_NUM_THREADS": "1"}
        env.pop("PYTHONPATH", None)
        subprocess.run([str(python_of(checkout)), str(SIDE), str(script), str(out)], check=True, env=env, cwd=folder)  # noqa: S603
        facts: dict[str, Any] = json.loads(out.read_text())
    return facts


def compared(cases: list[dict[str, Any]], old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """Return how many cases are equal in each aspect, and in which aspects the others differ."""
    found = {
        case["name"]: [aspect for aspect in ASPECTS if old[case["name"]][aspect] != new[case["name"]][aspect]]
        for case in cases
    }
    equal = {aspect: sum(aspect not in differ for differ in found.values()) for aspect in ASPECTS}
    return {"equal": equal, "differing": {name: differ for name, differ in found.items() if differ}}


def main() -> None:
    """Run both sides, compare them, and exit with 1 if they differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path, help="checkout to compare with")
    parser.add_argument("new", type=Path, help="checkout to be compared")
    parser.add_argument("--seed", type=int, default=0, help="seed of the random plans")
    parser.add_argument("--only", help="run only cases whose names contain this text")
    parser.add_argument("--out", type=Path, help="path of the JSON to write")
    arguments = parser.parse_args()
    old, new = arguments.old.resolve(), arguments.new.resolve()
    cases = preset_cases() + random_cases(RANDOM_PLANS, np.random.default_rng(arguments.seed))
    cases = [case for case in cases if arguments.only is None or arguments.only in case["name"]]
    table = old / "src" / "dipp" / "models" / "embedded" / "calibration.json"
    first, *seconds = (
        run_side(old, cases, table),
        run_side(new, cases, table),
        run_side(new, cases, table, shuffled=True),
    )
    as_it_is, shuffled = (compared(cases, first, second) for second in seconds)
    for name, differ in shuffled["differing"].items():
        print(f"{name}: {', '.join(differ)} differ")
    totals = {
        "cases": len(cases),
        "pictures": sum(len(case["sizes"]) for case in cases),
        "indices": sum(map(len, (row for found in first.values() for row in found["indices"]))),
        "certified": sum(found["certificate"] is not None for found in first.values()),
    }
    print(", ".join(f"{count} {name}" for name, count in totals.items()))
    for title, found in (("as it is", as_it_is), ("in the order of the shuffle", shuffled)):
        print(f"equal {title}: " + ", ".join(f"{aspect} {count}" for aspect, count in found["equal"].items()))
    if arguments.out:
        sides = {"old": commit_of(old), "new": commit_of(new)}
        facts = {"totals": totals, "as_it_is": as_it_is, "shuffled": shuffled}
        write(arguments.out, {**provenance(), **sides, **facts})
    sys.exit(1 if shuffled["differing"] else 0)


if __name__ == "__main__":
    main()
