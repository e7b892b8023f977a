"""What an ε per pixel looks like: pictures at ε = 1 … 256 beside plain noise, compressed losslessly, at the same ε.

    python benchmarks/privacy_pictures.py MODEL IMAGES.npz --out docs/privacy.png --json benchmarks/results/privacy.json

IMAGES.npz holds a uint8 array `encode` (N, 32, 32, 3). MODEL is calibrated, or its table is named by --calibration.
Noise is Laplace of scale 765/ε a channel, which costs a pixel of three channels ε, clamped and written as PNG.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import font_manager
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont
from provenance import provenance

from dipp.codec.codec import Codec

sys.path.insert(0, str(Path(__file__).parents[1] / "experiments"))
from cifar10.baseline import LaplaceNoise, file_bytes

EPSILONS = (1.0, 4.0, 16.0, 64.0, 256.0)
ZOOM, EDGE, LEFT = 3, 20, 4
Pixels = NDArray[np.uint8]


def psnr(found: Pixels, pixels: Pixels) -> float:
    """10·log10(4/MSE) for data in [−1, 1]."""
    error = np.square((found.astype(np.float64) - pixels) / 127.5).mean()
    return 10 * math.log10(4 / error)


def noise_then_png(pixels: Pixels, epsilon: float) -> tuple[Pixels, float]:
    """The baseline: noisy pictures, and bits per pixel of their PNGs."""
    noisy = LaplaceNoise(epsilon).privatise(pixels, np.random.default_rng(0))
    return noisy, 8 * file_bytes(noisy, "png") / math.prod(pixels.shape[:3])


def sheet(originals: Pixels, blocks: dict[str, list[Pixels]], heads: list[str]) -> Image.Image:
    """A block a method, a row an image, a column an ε; the original at the left."""
    side = ZOOM * originals.shape[1]
    width, height = (side + LEFT) * len(heads) + LEFT, (EDGE + (side + LEFT) * len(originals)) * len(blocks)
    page = Image.new("RGB", (width, height), "white")
    pen, top = ImageDraw.Draw(page), 0
    # The font that matplotlib brings: it has Greek letters.
    font = ImageFont.truetype(font_manager.findfont("DejaVu Sans"), 11)
    for name, columns in blocks.items():
        pen.text((LEFT, top + 4), name, fill="black", font=font)
        for column, (head, pictures) in enumerate(zip(heads, [originals, *columns], strict=True)):
            left = LEFT + column * (side + LEFT)
            if column:
                pen.text((left + side - 2, top + 4), head, fill="black", font=font, anchor="ra")
            for row, picture in enumerate(pictures):
                large = Image.fromarray(picture).resize((side, side), Image.Resampling.NEAREST)
                page.paste(large, (left, top + EDGE + row * (side + LEFT)))
        top += EDGE + (side + LEFT) * len(originals)
    return page


def main() -> None:
    """Encode, decode, draw and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("images", type=Path)
    parser.add_argument("--calibration", type=Path)
    parser.add_argument("--preset", default="sharp")
    parser.add_argument("--count", type=int, default=4)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--json", type=Path, required=True)
    arguments = parser.parse_args()
    pixels = np.load(arguments.images)["encode"][: arguments.count]
    blocks: dict[str, list[Pixels]] = {"dipp, denoised": [], "dipp, noisy": [], "noise, then PNG": []}
    rows = []
    for epsilon in EPSILONS:
        codec = Codec.from_pretrained(
            arguments.model, epsilon=epsilon, preset=arguments.preset, calibration=arguments.calibration
        )
        archive = codec.encode(list(pixels))
        found = archive.certificate
        denoised, noisy = (np.stack(codec.decode(archive, denoise=flag)) for flag in (True, False))
        baseline, png_bpp = noise_then_png(pixels, epsilon)
        for name, pictures in zip(blocks, (denoised, noisy, baseline), strict=True):
            blocks[name].append(pictures)
        row: dict[str, Any] = {"epsilon": epsilon, "certificate": found.epsilon, "rho": found.rho}
        row |= {"steps": len(codec.plan.steps), "payload_bpp": archive.payload_bpp, "png_bpp": png_bpp}
        row["file_bpp"] = archive.file_bpp
        row |= {"psnr": psnr(denoised, pixels), "noisy_psnr": psnr(noisy, pixels), "png_psnr": psnr(baseline, pixels)}
        rows.append(row)
        print(*(f"{name} {value:.4g}" for name, value in row.items()), flush=True)
    heads = ["original", *(f"ε = {epsilon:g} per pixel" for epsilon in EPSILONS)]
    sheet(pixels, blocks, heads).save(arguments.out, format="PNG", optimize=True)
    arguments.json.write_text(json.dumps({**provenance(), "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
