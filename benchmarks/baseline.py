"""Privatise, then compress: Laplace noise of scale 765/ε a channel, clamped, then a lossless codec.

    python benchmarks/baseline.py IMAGES.npz --out benchmarks/results/baseline.json

The same certificate as the codec's (pure ε per pixel of three channels), on the first images of `encode` in IMAGES.npz.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from pathlib import Path

import numpy as np
from provenance import provenance

sys.path.insert(0, str(Path(__file__).parents[1] / "experiments"))
from cifar10.baseline import LaplaceNoise, file_bytes

EPSILONS = (1.0, 4.0, 16.0, 64.0, 256.0)
CODECS = ("png", "webp")


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("images", type=Path)
    parser.add_argument("--count", type=int, default=256)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    pixels = np.load(arguments.images)["encode"][: arguments.count]
    rows = []
    for epsilon in EPSILONS:
        noisy = LaplaceNoise(epsilon).privatise(pixels, np.random.default_rng(0))
        error = np.square((noisy.astype(np.float64) - pixels) / 127.5).mean()
        row = {"epsilon": epsilon, "psnr": 10 * math.log10(4 / error)}
        for codec in CODECS:
            row[f"{codec}_bpp"] = 8 * file_bytes(noisy, codec) / math.prod(noisy.shape[:3])
        rows.append(row)
        print(row, flush=True)
    content = {**provenance(), "images": len(pixels), "rows": rows}
    arguments.out.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
