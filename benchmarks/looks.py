"""A sheet to look at: pictures at ε = 1, 4 and 16 by the denoiser that ships, decoded as means and once sampled.

    python benchmarks/looks.py [PICTURE...] [-o benchmarks/results/looks.jpg] [--json benchmarks/results/looks.json]

By default the pictures are a person, text, foliage and sky, of sources that the network has not seen.
Each row is a picture: the original, the expected pictures at the three ε, and samples at the smallest ε by several
numbers of network calls, from the same file. PSNR in dB stands below each.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from PIL import Image, ImageDraw, ImageFont
from provenance import provenance, write

import dipp
from dipp import files
from dipp.codec import pictures
from dipp.codec.decoding import Decoding
from dipp.codec.pictures import Pixels

EPSILONS = (1.0, 4.0, 16.0)
CALLS = (3, 8, 20)
GAP, CAPTION = 6, 16
HERE = Path(__file__).parent
PICTURES = [HERE.parent / "examples/pictures/astronaut.png"] + [
    HERE / f"pictures/{name}.png" for name in ("text", "foliage", "sky")
]


def psnr(pixels: Pixels, original: Pixels) -> float:
    """Return the PSNR in dB."""
    return 10 * math.log10(255**2 / float(np.square(pixels.astype(np.float64) - original).mean()))


def row(original: Pixels) -> tuple[dict[str, Pixels], dict[str, Any]]:
    """Return the pictures of a row by their captions, and the measured figures."""
    shown, facts = {"original": original}, dict[str, Any]()
    for epsilon in EPSILONS:
        codec = dipp.Codec.from_pretrained(epsilon=epsilon, size=original.shape[:2])
        archive = codec.encode([original], odometer=False)
        ways = {f"ε = {epsilon:g}": 1}
        if epsilon == EPSILONS[0]:
            ways |= {f"ε = {epsilon:g}, {calls} calls": calls for calls in CALLS}
        for name, calls in ways.items():
            (decoded,) = codec.decode(archive, Decoding(calls=calls))
            quality = round(psnr(decoded, original), 2)
            shown[f"{name}: {quality:.1f} dB"] = decoded
            facts[name] = {"PSNR": quality, "file bits per pixel": round(archive.file_bpp, 3)}
    samples = [name for name in shown if "calls" in name]
    return {name: shown[name] for name in [*(name for name in shown if name not in samples), *samples]}, facts


def sheet(rows: list[dict[str, Pixels]]) -> Image.Image:
    """Return a sheet with the rows below each other."""
    widths = [sum(one.shape[1] + GAP for one in shown.values()) + GAP for shown in rows]
    heights = [max(one.shape[0] for one in shown.values()) + CAPTION + GAP for shown in rows]
    canvas = Image.new("RGB", (max(widths), sum(heights) + GAP), "white")
    draw, top = ImageDraw.Draw(canvas), GAP
    face = ImageFont.truetype(str(Path(mpl.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"), 11)
    for shown, height in zip(rows, heights, strict=True):
        left = GAP
        for caption, one in shown.items():
            canvas.paste(Image.fromarray(one), (left, top))
            draw.text((left, top + one.shape[0] + 1), caption, "black", face)
            left += one.shape[1] + GAP
        top += height
    return canvas


def main() -> None:
    """Encode, decode and draw."""
    parser = argparse.ArgumentParser()
    parser.add_argument("pictures", type=Path, nargs="*", default=PICTURES)
    parser.add_argument("-o", "--output", type=Path, default=Path("benchmarks/results/looks.jpg"))
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/looks.json"))
    options = parser.parse_args()
    rows, found, facts = [], {}, provenance()  # before the sheet in the repository is replaced
    for path in options.pictures:
        shown, found[path.stem] = row(pictures.read(path))
        rows.append(shown)
        print(path.stem, found[path.stem], flush=True)
        with files.atomic(options.output) as part:
            sheet(rows).save(part, format="JPEG", quality=92)
        write(options.json, {**facts, "pictures": found})


if __name__ == "__main__":
    main()
