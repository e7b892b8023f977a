"""Pictures at ε = 1 … 256 per pixel, beside plain noise of the same ε, compressed losslessly.

    python benchmarks/privacy_pictures.py MODEL IMAGES.npz --out privacy.png --json benchmarks/results/privacy.json

IMAGES.npz holds a uint8 array `encode` (N, 32, 32, 3); by default, the denoiser that ships with dipp and tiles of
the sample pictures. MODEL has a calibration, or --calibration names its table. `--quick` stops at ε = 16.
The noise is Laplace of scale 765/ε per channel, which costs ε per pixel of three channels, clamped and saved as PNG.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from baseline import EPSILONS, noise_then, psnr
from inputs import SAMPLES, pictures
from matplotlib import font_manager
from PIL import Image, ImageDraw, ImageFont
from provenance import provenance, write

from dipp.codec import Codec
from dipp.codec.decoding import Decoding
from dipp.codec.pictures import Pixels
from dipp.models import embedded

QUICK = 16.0
ZOOM, EDGE, LEFT = 3, 20, 4


def sheet(originals: Pixels, blocks: dict[str, list[Pixels]], heads: list[str]) -> Image.Image:
    """Return a sheet with a block for each method, a row for each image and a column for each ε."""
    side = ZOOM * originals.shape[1]
    width, height = (side + LEFT) * len(heads) + LEFT, (EDGE + (side + LEFT) * len(originals)) * len(blocks)
    page = Image.new("RGB", (width, height), "white")
    pen, top = ImageDraw.Draw(page), 0
    # matplotlib's font has Greek letters.
    font = ImageFont.truetype(font_manager.findfont("DejaVu Sans"), 11)
    for name, columns in blocks.items():
        pen.text((LEFT, top + 4), name, fill="black", font=font)
        for column, (head, shown) in enumerate(zip(heads, [originals, *columns], strict=True)):
            left = LEFT + column * (side + LEFT)
            if column:
                pen.text((left + side - 2, top + 4), head, fill="black", font=font, anchor="ra")
            for row, picture in enumerate(shown):
                large = Image.fromarray(picture).resize((side, side), Image.Resampling.NEAREST)
                page.paste(large, (left, top + EDGE + row * (side + LEFT)))
        top += EDGE + (side + LEFT) * len(originals)
    return page


def main() -> None:
    """Encode, decode, draw and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", nargs="?", default=str(embedded.FOLDER))
    parser.add_argument("images", nargs="?", type=Path, default=SAMPLES)
    parser.add_argument("--calibration", type=Path)
    parser.add_argument("--preset", default="sharp")
    parser.add_argument("--count", type=int, default=4)
    parser.add_argument("--quick", action="store_true", help="a quick run: no ε above 16")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--json", type=Path, required=True)
    arguments = parser.parse_args()
    pixels = pictures(arguments.images, arguments.count)
    epsilons = [epsilon for epsilon in EPSILONS if epsilon <= QUICK or not arguments.quick]
    blocks: dict[str, list[Pixels]] = {"dipp, denoised": [], "dipp, noisy": [], "noise, then PNG": []}
    rows = []
    for epsilon in epsilons:
        codec = Codec.from_pretrained(
            arguments.model, epsilon=epsilon, preset=arguments.preset, calibration=arguments.calibration
        )
        archive = codec.encode(list(pixels), odometer=False)
        found = archive.certificate
        denoised, noisy = (np.stack(codec.decode(archive, Decoding(noisy=not flag))) for flag in (True, False))
        baseline, bits = noise_then(("png",), pixels, epsilon)
        for name, shown in zip(blocks, (denoised, noisy, baseline), strict=True):
            blocks[name].append(shown)
        row: dict[str, Any] = {"epsilon": epsilon, "certificate": found.epsilon, "rho": found.rho}
        row |= {"steps": len(codec.plan.steps), "payload_bpp": archive.payload_bpp, "png_bpp": bits["png"]}
        row["file_bpp"] = archive.file_bpp
        row |= {"psnr": psnr(denoised, pixels), "noisy_psnr": psnr(noisy, pixels), "png_psnr": psnr(baseline, pixels)}
        rows.append(row)
        print(*(f"{name} {value:.4g}" for name, value in row.items()), flush=True)
    heads = ["original", *(f"ε = {epsilon:g} per pixel" for epsilon in epsilons)]
    sheet(pixels, blocks, heads).save(arguments.out, format="PNG", optimize=True)
    write(arguments.json, {**provenance(), "rows": rows})


if __name__ == "__main__":
    main()
