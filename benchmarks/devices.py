"""Differences between devices: archives made on the CPU and on CUDA, decoded on both, and compared.

    python benchmarks/devices.py MODEL IMAGES.npz TABLE.json --out benchmarks/results/devices.json
    python benchmarks/devices.py MODEL CIFAR --units --images 32 --out benchmarks/results/devices-units.json

IMAGES.npz holds a uint8 array `encode` (N, 32, 32, 3). A GPU is needed. Stated are the largest differences over all
images, in grey levels of 255, of the noisy reconstruction and of the posterior mean at the final step. With `--units`,
the decoded pictures of units larger than a pixel are compared, by the words of MODEL.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import checkout  # noqa: F401 - for `experiments`
import numpy as np
from inputs import Inputs
from provenance import provenance, write

from dipp.codec import Codec
from dipp.codec.decoder import Decoder
from dipp.codec.decoding import NOISY
from dipp.core.arrays import host
from dipp.core.geometry import Geometry
from dipp.core.signal import HALF
from dipp.core.unit import Unit
from dipp.core.units import Cells, Picture
from dipp.models.denoiser import Denoiser
from dipp.planning.presets import PRESETS
from dipp.planning.questions import QuestionPlanner
from dipp.privacy.budget import Budget
from experiments.comparisons.unclipped import UNCLIPPED

IMAGES = 8
UNITS: tuple[tuple[Unit, float], ...] = ((Cells(4), 4.0), (Cells(8), 32.0), (Cells(16), 32.0), (Picture(), 64.0))
EPSILON = 16.0
UNCERTIFIED_BPP = 0.3


def main() -> None:
    """Encode on each device, and decode each file on both."""
    parser = argparse.ArgumentParser(description=__doc__)
    Inputs.add_to(parser)
    parser.add_argument("--units", action="store_true", help="encode with an ε for each unit larger than a pixel")
    parser.add_argument("--images", dest="count", type=int, default=IMAGES)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    inputs = Inputs.of(arguments)
    denoisers = {device: inputs.denoiser(device) for device in ("cpu", "cuda")}
    pixels, rows = list(inputs.pixels(arguments.count)), list[dict[str, Any]]()
    source: dict[str, Any] = {**provenance("cuda"), "images": len(pixels)}
    if arguments.units:
        for unit, epsilon in UNITS:
            rows += of_units(denoisers, pixels, unit, epsilon)
            write(arguments.out, {**source, "rows": rows})
        return
    table = inputs.costs()
    for name, preset in {**PRESETS, "unclipped": UNCLIPPED["sharp"]}.items():
        budget = Budget.pure(EPSILON) if preset.certified else None
        plans = preset.planner(denoisers["cpu"], table, budget)
        plan = plans.choose(budget, bpp=None if preset.certified else UNCERTIFIED_BPP).plan
        codecs = {device: Codec(denoiser, plan, budget) for device, denoiser in denoisers.items()}
        for encoder, codec in codecs.items():
            archive = codec.encode(pixels, odometer=False)
            found: dict[str, list[Any]] = {"noisy": [], "mean": []}
            for device, other in codecs.items():
                ends = (end.noisy() for end in Decoder(other.denoiser).ends(archive, NOISY))
                states, means = zip(*((x, denoisers[device].x0(x, t)) for x, t in ends), strict=True)
                found["noisy"].append(np.concatenate([host(state) for state in states]))
                found["mean"].append(np.concatenate([host(mean) for mean in means]))
            row: dict[str, Any] = {"preset": name, "encoded_on": encoder, "steps": len(plan.steps)}
            for kind, (one, two) in found.items():
                row[kind] = float(np.abs(one - two).max()) * HALF
            rows.append(row)
            print(json.dumps(row), flush=True)
            write(arguments.out, {**source, "rows": rows})


def of_units(denoisers: dict[str, Denoiser], pixels: list[Any], unit: Unit, epsilon: float) -> list[dict[str, Any]]:
    """Return a row for each encoding device, for pictures with an ε for each unit, decoded on both devices."""
    rows = []
    for encoder, denoiser in denoisers.items():
        assert denoiser.books is not None
        plan = QuestionPlanner(denoiser.books, Geometry.of(pixels[0].shape), (unit,)).choose(Budget(epsilon, unit=unit))
        codecs = {name: Codec(one, plan.plan, table=denoiser.books.digest) for name, one in denoisers.items()}
        archive = codecs[encoder].encode(pixels, odometer=False)
        one, two = (np.stack(list(codec.decode(archive))).astype(int) for codec in codecs.values())
        row = {"unit": unit.short, "epsilon": epsilon, "encoded_on": encoder, "questions": len(plan.plan.steps)}
        rows.append({**row, "pictures": int(np.abs(one - two).max())})
        print(json.dumps(rows[-1]), flush=True)
    return rows


if __name__ == "__main__":
    main()
