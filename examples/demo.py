"""The demo: sample pictures at three ε through the denoiser that ships with dipp, beside noise at the same ε.

    python examples/demo.py [-o demo]

Writes an archive a picture and ε, and a contact sheet, `sheet.png`; prints the certificates. The noise is what a
careful practitioner would take at these ε: Laplace noise on one random channel of each pixel. It is shown as it is
stored, as a PNG, and denoised by the same network.
"""

from __future__ import annotations

import argparse
import io
import math
import time
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

import dipp
from dipp import files, report
from dipp.codec import pictures, to_pixels
from dipp.codec.pictures import Pixels
from dipp.core.signal import HALF, to_signal
from dipp.privacy.printing import upper

Signal = NDArray[np.float64]

PICTURES = Path(__file__).parent / "pictures"
EPSILONS = (1.0, 2.0, 4.0)
FACTORS = (0.1, 0.2, 0.4, 0.7, 1.0)
"""SNRs that the network is told of noise, over the real one; the best counts: noise that is not Gaussian, and
lies on one channel, is not what it was trained on."""
GAP, CAPTION, TITLE = 8, 34, 30


@dataclass(frozen=True)
class Cell:
    """A picture of the sheet, and the two lines under it."""

    pixels: Pixels
    lines: tuple[str, str]


def png_bits(pixels: Pixels) -> float:
    """Bits per pixel of an optimised PNG."""
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, format="PNG", optimize=True)
    return 8 * stream.tell() / int(pixels.shape[0] * pixels.shape[1])


def psnr(pixels: Pixels, original: Pixels) -> float:
    """In dB."""
    return 10 * math.log10(255**2 / float(np.square(pixels.astype(np.float64) - original).mean()))


def noised(original: Pixels, epsilon: float) -> tuple[Pixels, Signal, float]:
    """Laplace noise on one random channel of each pixel: pure ε for any change of a pixel, in exact arithmetic.

    What is stored, the other channels being mid-grey; and an unbiased picture of x0 in [−1, 1], with its SNR.
    """
    generator, channels = np.random.default_rng(), original.shape[2]
    scale = 2 / epsilon
    noisy = to_signal(original) + generator.laplace(scale=scale, size=original.shape)
    chosen = generator.integers(0, channels, original.shape[:2])[..., None] == np.arange(channels)
    stored = np.where(chosen, noisy, 0.0)
    pixels = np.clip(np.rint((stored + 1) * HALF), 0, 255).astype(np.uint8)
    return pixels, channels * stored, 1 / (channels * 2 * scale**2)


def released(original: Pixels, epsilon: float, path: Path) -> list[Cell]:
    """Encode a picture into a file, decode the file, and compare: a row of the sheet."""
    codec = dipp.Codec.from_pretrained(epsilon=epsilon, size=original.shape[:2])
    codec.encode([original], odometer=False).save(path)
    archive = dipp.open(path)
    (ours,) = codec.decode(archive)
    stored, y, snr = noised(original, epsilon)
    state = torch.from_numpy(y).permute(2, 0, 1)[None].float()
    tried = [to_pixels(codec.denoiser.at_snr(state, factor * snr))[0] for factor in FACTORS]
    denoised = max(tried, key=lambda pixels: psnr(pixels, original))
    rate = f"{png_bits(stored):.3g} bpp"
    return [
        Cell(original, ("original", f"PNG: {png_bits(original):.3g} bpp")),
        Cell(ours, (f"dipp, ε = {upper(epsilon)}", f"{archive.file_bpp:.3g} bpp, {psnr(ours, original):.1f} dB")),
        Cell(denoised, (f"noise, denoised, ε = {upper(epsilon)}", f"{rate}, {psnr(denoised, original):.1f} dB")),
        Cell(stored, (f"noise as PNG, ε = {upper(epsilon)}", rate)),
    ]


def sheet(blocks: list[list[list[Cell]]]) -> Image.Image:
    """The rows of the first picture, and below them those of the others side by side."""
    rows = [*blocks[0], *([cell for row in rows for cell in row] for rows in zip(*blocks[1:], strict=True))]
    width = max(sum(cell.pixels.shape[1] + GAP for cell in row) for row in rows) + GAP
    height = TITLE + sum(row[0].pixels.shape[0] + CAPTION + GAP for row in rows) + GAP
    canvas = Image.new("RGB", (width, height), "white")
    draw = ImageDraw.Draw(canvas)
    face = Path(mpl.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"
    title, small = ImageFont.truetype(str(face), 14), ImageFont.truetype(str(face), 11)
    draw.text((GAP, GAP), "ε is per pixel, pure differential privacy; bpp counts every bit of the file", "black", title)
    top = TITLE + GAP
    for row in rows:
        left = GAP
        for cell in row:
            canvas.paste(Image.fromarray(cell.pixels), (left, top))
            shown = small if cell.pixels.shape[1] > 200 else ImageFont.truetype(str(face), 9)
            draw.text((left, top + cell.pixels.shape[0] + 2), "\n".join(cell.lines), "black", shown)
            left += cell.pixels.shape[1] + GAP
        top += row[0].pixels.shape[0] + CAPTION + GAP
    return canvas


def main() -> None:
    """Encode, decode, draw."""
    parser = argparse.ArgumentParser()
    parser.add_argument("-o", "--output", type=Path, default=Path("demo"))
    output = parser.parse_args().output
    output.mkdir(parents=True, exist_ok=True)
    began, blocks = time.monotonic(), []
    for name in ("cat", "astronaut", "coffee"):
        original, rows = pictures.read(PICTURES / f"{name}.png"), []
        for epsilon in EPSILONS:
            path = output / f"{name}-{epsilon:g}.dipp"
            rows.append(released(original, epsilon, path))
            print(f"{time.monotonic() - began:5.0f} s  {path}, {path.stat().st_size} bytes", flush=True)
        blocks.append(rows)
    with files.atomic(output / "sheet.png") as part:
        sheet(blocks).save(part, format="PNG")
    for path in (output / f"cat-{epsilon:g}.dipp" for epsilon in EPSILONS):
        print(f"\n{path}\n{report.archive_text(dipp.open(path))}")
    total = sum(EPSILONS)
    print(
        f"\nEach file stands for itself: whoever released all three of a picture would have spent ε = {upper(total)}."
    )
    print(f"{output / 'sheet.png'}: look at it")


if __name__ == "__main__":
    main()
