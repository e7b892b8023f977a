"""Time and peak memory against the number of pixels: one coded step, encoded and decoded on the CPU.

    python benchmarks/size.py [--model FOLDER] [--preset swift] [--largest 2048] [-o benchmarks/results]

Every size runs in a process of its own, whose peak of resident memory is read at its end; `base` is that of a process
with the same modules that has coded 32×32. The step is the last one of the plan at ε = 4, of the preset that is named;
for clipped sensing these are the first two steps, because the first calls no network.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from provenance import provenance, write

import dipp
from dipp.codec.decoding import Decoding
from dipp.codec.pictures import Pixels
from dipp.core.plan import Plan
from dipp.core.steps import SensingStep
from dipp.models import embedded

SIDES = (32, 64, 128, 256, 512, 1024, 2048)
PHOTOGRAPH = (3000, 4000)
EPSILON = 4
LIMIT_GB = 4.0


def picture(height: int, width: int) -> Pixels:
    """Return a smooth picture with some detail, the same at every size."""
    y, x = np.mgrid[:height, :width]
    waves = [128 + 60 * np.sin(x / (7 + 5 * c)) + 60 * np.cos(y / (11 + 3 * c)) for c in range(3)]
    return np.stack(waves, axis=2).astype(np.uint8)


def one(model: str, preset: str, height: int, width: int) -> dict[str, Any]:
    """Encode and decode one step of one picture, and return the time and memory."""
    codec = dipp.Codec.from_pretrained(model, epsilon=EPSILON, preset=preset, size=(height, width))
    own = codec.plan.steps[:2] if codec.plan.kind == SensingStep.kind else codec.plan.steps[-1:]
    step = dipp.Codec(codec.denoiser, Plan(codec.plan.coding, own))
    step.encode([picture(32, 32)], odometer=False)  # libraries start up, and kernels are compiled
    image = picture(height, width)
    began = time.perf_counter()
    coded = step.encode([image], odometer=False)
    encoded = time.perf_counter()
    step.decode(coded, Decoding(noisy=True))
    decoded = time.perf_counter()
    return {
        "height": height,
        "width": width,
        "pixels": height * width,
        "encode seconds": round(encoded - began, 2),
        "decode seconds": round(decoded - encoded, 2),
        "peak GB": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20), 3),
        "bytes": len(coded.to_bytes()),
    }


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Draw time and memory against pixels, with straight lines through the origin and the base."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    pixels = [row["pixels"] for row in rows]
    for name, colour in (("encode seconds", "#08519c"), ("decode seconds", "#d94801")):
        left.plot(pixels, [row[name] for row in rows], "o-", color=colour, ms=4, label=name.split()[0])
    rate = rows[-1]["encode seconds"] / pixels[-1]
    left.plot(pixels, [rate * count for count in pixels], ":", color="grey", label="linear")
    left.set(xscale="log", yscale="log", xlabel="pixels", ylabel="seconds a step, 2 CPU cores")
    right.plot(pixels, [row["peak GB"] for row in rows], "o-", color="#08519c", ms=4, label="peak of the process")
    right.axhline(LIMIT_GB, ls=":", color="grey", label=f"{LIMIT_GB:g} GB")
    right.set(xlabel="pixels", ylabel="GB", ylim=(0, LIMIT_GB * 1.1))
    for axes in (left, right):
        axes.grid(alpha=0.3)
        axes.legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=130)


def main() -> None:
    """Run every size, the largest last, and write JSON and plot."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=str(embedded.FOLDER))
    parser.add_argument("--preset", default="sharp")
    parser.add_argument("--largest", type=int, default=SIDES[-1])
    parser.add_argument("-o", "--output", type=Path, default=Path("benchmarks/results"))
    parser.add_argument("--one", type=int, nargs=2, metavar=("HEIGHT", "WIDTH"))
    options = parser.parse_args()
    if options.one:
        print(json.dumps(one(options.model, options.preset, *options.one)))
        return
    sizes = [(side, side) for side in SIDES if side <= options.largest]
    rows = []
    for height, width in [*sizes, PHOTOGRAPH] if options.largest == SIDES[-1] else sizes:
        command = [sys.executable, __file__, "--model", options.model, "--preset", options.preset]
        command += ["--one", str(height), str(width)]
        answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout  # noqa: S603
        rows.append(json.loads(answer.splitlines()[-1]))
        print(rows[-1], flush=True)
        facts = {**provenance(), "version": dipp.__version__, "preset": options.preset, "epsilon": EPSILON}
        write(options.output / "size.json", {**facts, "rows": rows})
    draw(rows, options.output / "size.png")


if __name__ == "__main__":
    main()
