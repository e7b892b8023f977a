"""Whether files travel: archives made on the CPU and on CUDA, decoded on both, and how far the pixels are apart.

    python benchmarks/devices.py MODEL IMAGES.npz TABLE.json --out benchmarks/results/devices.json

IMAGES.npz holds a uint8 array `encode` (N, 32, 32, 3). A GPU is needed. Differences are in grey levels of 255, the
largest over all images, of the noisy reconstruction and of the posterior mean at the final step.
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
from dipp.core.signal import HALF
from dipp.planning.presets import PRESETS
from dipp.privacy.budget import Budget
from experiments.comparisons.unclipped import UNCLIPPED

IMAGES = 8
EPSILON = 16.0
UNCERTIFIED_BPP = 0.3


def main() -> None:
    """Encode on each device, decode on both."""
    parser = argparse.ArgumentParser(description=__doc__)
    Inputs.add_to(parser)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    inputs = Inputs.of(arguments)
    denoisers = {device: inputs.denoiser(device) for device in ("cpu", "cuda")}
    pixels, table = list(inputs.pixels(IMAGES)), inputs.costs()
    source, rows = provenance("cuda"), []
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
                found["noisy"].append(np.concatenate([host(one) for one in states]))
                found["mean"].append(np.concatenate([host(one) for one in means]))
            row: dict[str, Any] = {"preset": name, "encoded_on": encoder, "steps": len(plan.steps)}
            for kind, (one, two) in found.items():
                row[kind] = float(np.abs(one - two).max()) * HALF
            rows.append(row)
            print(json.dumps(row), flush=True)
            write(arguments.out, {**source, "images": IMAGES, "rows": rows})


if __name__ == "__main__":
    main()
