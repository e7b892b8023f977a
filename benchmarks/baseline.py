"""Privatise, then compress: Laplace noise of scale 765/ε per channel, clamped, then a lossless codec.

    python benchmarks/baseline.py IMAGES.npz --out benchmarks/results/baseline.json

It has the same certificate as the codec (pure ε per pixel of three channels), and is measured on the first images of
`encode` in IMAGES.npz; by default, on tiles of the sample pictures.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import checkout  # noqa: F401 - for `experiments`
import numpy as np
from inputs import SAMPLES, pictures
from provenance import provenance, write

from dipp.codec.pictures import Pixels
from experiments.cifar10.baseline import LaplaceNoise, file_bytes
from experiments.cifar10.metrics import psnr as psnr

EPSILONS = (1.0, 4.0, 16.0, 64.0, 256.0)
CODECS = ("png", "webp")


def noise_then(codecs: tuple[str, ...], pixels: Pixels, epsilon: float) -> tuple[Pixels, dict[str, float]]:
    """Return noisy pictures, and the bits per pixel of their files for each lossless codec."""
    noisy = LaplaceNoise(epsilon).privatise(pixels, np.random.default_rng(0))
    return noisy, {codec: 8 * file_bytes(noisy, codec) / math.prod(pixels.shape[:3]) for codec in codecs}


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("images", nargs="?", type=Path, default=SAMPLES)
    parser.add_argument("--count", type=int, default=256)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    pixels = pictures(arguments.images, arguments.count)
    rows = []
    for epsilon in EPSILONS:
        noisy, bits = noise_then(CODECS, pixels, epsilon)
        row = {"epsilon": epsilon, "psnr": psnr(noisy, pixels)}
        row |= {f"{codec}_bpp": bpp for codec, bpp in bits.items()}
        rows.append(row)
        print(row, flush=True)
    write(arguments.out, {**provenance(), "images": len(pixels), "rows": rows})


if __name__ == "__main__":
    main()
