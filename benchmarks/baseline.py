"""Privatise, then compress: Laplace noise of scale 765/ε a channel, clamped, then a lossless codec.

    python benchmarks/baseline.py IMAGES.npz --out benchmarks/results/baseline.json

The same certificate as the codec's (pure ε per pixel of three channels), on the first images of `encode` in IMAGES.npz.
"""

from __future__ import annotations

import argparse
import io
import json
import math
from pathlib import Path

import numpy as np
from PIL import Image

EPSILONS = (1.0, 4.0, 16.0, 64.0, 256.0)
CODECS = {"png": {"format": "PNG", "optimize": True}, "webp": {"format": "WEBP", "lossless": True, "quality": 100}}


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
        noise = np.random.default_rng(0).laplace(scale=765 / epsilon, size=pixels.shape)
        noisy = np.clip(np.rint(pixels + noise), 0, 255).astype(np.uint8)
        error = np.square((noisy.astype(np.float64) - pixels) / 127.5).mean()
        row = {"epsilon": epsilon, "psnr": 10 * math.log10(4 / error)}
        for name, options in CODECS.items():
            sizes = []
            for picture in noisy:
                buffer = io.BytesIO()
                Image.fromarray(picture).save(buffer, **options)  # type: ignore[arg-type]
                sizes.append(8 * buffer.tell())
            row[f"{name}_bpp"] = sum(sizes) / (len(noisy) * noisy.shape[1] * noisy.shape[2])
        rows.append(row)
        print(row, flush=True)
    content = {
        "command": "python benchmarks/baseline.py IMAGES.npz",
        "images": "CIFAR-10 test images 0-255",
        "rows": rows,
    }
    arguments.out.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
