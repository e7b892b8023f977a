"""The start-up time of `dipp encode` and `dipp decode`: the whole command on a picture of 32×32, in two checkouts.

    python benchmarks/startup.py BEFORE --rounds 5 --out benchmarks/results/startup.json

BEFORE is another checkout of dipp; without it, only this one is measured. The commands of both take turns, so that
other work on the machine slows both. Beside the time on the clock stands the processor's (user and system), which is
the time on an idle machine. `import torch` alone is the lower limit.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from PIL import Image
from provenance import provenance, write

HERE = Path(__file__).parents[1]
MAIN = "import sys; sys.argv[0] = 'dipp'; from dipp.cli import main; main()"


def timed(words: list[str], environment: Mapping[str, str]) -> tuple[float, float]:
    """Return the clock and processor seconds of a command."""
    before, began = os.times(), time.monotonic()
    subprocess.run(words, env=dict(environment), check=True, capture_output=True)  # noqa: S603
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return time.monotonic() - began, cpu


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before", nargs="?", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    checkouts = {"before": arguments.before, "after": HERE} if arguments.before else {"after": HERE}
    found: dict[str, dict[str, list[tuple[float, float]]]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        Image.fromarray(np.random.default_rng(0).integers(0, 256, (32, 32, 3), np.uint8)).save(folder / "a.png")
        for number in range(arguments.rounds + 1):  # the first run only fills caches
            for name, checkout in checkouts.items():
                environment = os.environ | {"PYTHONPATH": str(checkout / "src"), "DIPP_ODOMETER": str(folder / name)}
                archive, picture = folder / f"{name}{number}.dipp", folder / f"{name}{number}.png"
                commands = {
                    "import torch": ["-c", "import torch"],
                    "encode": ["-c", MAIN, "encode", str(folder / "a.png"), "-o", str(archive), "--epsilon", "2"],
                    "decode": ["-c", MAIN, "decode", str(archive), "-o", str(picture)],
                }
                for command, words in commands.items():
                    one = timed([sys.executable, *words], environment)
                    if number:
                        found.setdefault(name, {}).setdefault(command, []).append(one)
    rows = []
    for name, commands_of in found.items():
        for command, times in commands_of.items():
            clock, cpu = zip(*times, strict=True)
            row = {"checkout": name, "command": command, "least_cpu": min(cpu), "median_cpu": statistics.median(cpu)}
            rows.append(row | {"least_clock": min(clock), "median_clock": statistics.median(clock)})
            print(*(value if isinstance(value, str) else f"{value:.2f}" for value in rows[-1].values()), flush=True)
    write(arguments.out, {**provenance(), "rounds": arguments.rounds, "rows": rows})


if __name__ == "__main__":
    main()
