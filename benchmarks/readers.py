"""What the decoded picture alone tells an ordinary reader: the colour of a pixel, and the characters of a plate.

    python benchmarks/readers.py --out benchmarks/results/readers.json --sheet docs/plates.jpg
    python benchmarks/readers.py --cells --out benchmarks/results/readers-cells.json

The certificate bounds what a file adds for somebody who knows every other pixel. A reader of the decoded picture has
the neighbours of a pixel instead, which have similar colours. Three questions are measured, on files of `dipp encode`
with its default options:

- *pixels*: "is this the pixel's colour, or is it that one?", where that one is the colour of another random pixel of
  the same picture, if it differs. The reader takes the colour that is nearer to the decoded pixel; a tie counts half.
  A guess is right in 50 % of cases.
- *cells* (`--cells`): the same question about square cells, in files whose unit is the cell. The reader takes the
  content that is nearer to the decoded cell, over all its pixels.
- *plates*: number plates in letters of several heights. The reader compares each decoded character with all letters and
  digits of the typeface, and takes the letter that correlates best. A guess is right once in 36 times.
"""

from __future__ import annotations

import argparse
import itertools
import string
from pathlib import Path
from typing import Any

import checkout  # noqa: F401 - for `experiments`
import numpy as np
from matplotlib import font_manager
from PIL import Image, ImageDraw, ImageFont
from provenance import provenance, write

from dipp.codec import Codec, pictures
from dipp.codec.pictures import Pixels
from dipp.risk.guesses import QUESTIONS, about_cells
from experiments.people.lines import line, matched

ROOT = Path(__file__).parents[1]
SHOWN = {"benchmarks": ("face", "foliage", "retina", "sky", "text"), "examples": ("astronaut", "cat", "coffee")}
"""Seven photographs and a page of small print, by folder."""
PICTURES = [ROOT / folder / "pictures" / f"{name}.png" for folder, names in SHOWN.items() for name in names]
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
PLATE_EPSILONS = (0.25, 0.5, 1.0, 2.0)
SIDES = (8, 16, 32, 64)
CELL_EPSILONS = (1.0, 2.0, 4.0, 8.0, 16.0)
HEIGHTS = (14, 28, 80)
"""Heights of the plates' letters, in pixels."""
PLATES = ("KX52JRT", "B7946QE", "HM03WUG")
"""Invented numbers of plates."""
CHARACTERS = string.ascii_uppercase + string.digits
ROAD = (112, 116, 120)
"""Colour around a plate."""
GAP, CAPTION = 8, 20


def released(pixels: Pixels, epsilon: float, preset: str, unit: str | int = "pixel") -> Pixels:
    """Return the decoded picture of a file."""
    codec = Codec.from_pretrained(epsilon=epsilon, preset=preset, unit=unit, size=pixels.shape[:2])
    (decoded,) = codec.decode(codec.encode([pixels], odometer=False))
    return decoded


def sheet(shown: dict[str, list[Pixels]]) -> Image.Image:
    """Return a page with a row for each caption, and in it the plates with letters of all heights."""
    row = max(CAPTION + max(plate.shape[0] for plate in plates) for plates in shown.values())
    width = GAP + max(sum(plate.shape[1] + GAP for plate in plates) for plates in shown.values())
    page = Image.new("RGB", (width, row * len(shown)), "white")
    caption, draw = ImageFont.truetype(font_manager.findfont("DejaVu Sans"), 14), ImageDraw.Draw(page)
    for top, (name, plates) in zip(itertools.count(0, row), shown.items(), strict=False):
        draw.text((GAP, top + 2), name, fill="black", font=caption)
        left = GAP
        for one in plates:
            page.paste(Image.fromarray(one), (left, top + CAPTION))
            left += one.shape[1] + GAP
    return page


def by_cell(rng: np.random.Generator) -> list[dict[str, Any]]:
    """Return the shares of right guesses about the cells of every picture, for every side and ε of a cell."""
    rows: list[dict[str, Any]] = []
    for side, epsilon, path in itertools.product(SIDES, CELL_EPSILONS, PICTURES):
        original = pictures.read(path)
        right = about_cells(original, released(original, epsilon, "sharp", side), side, rng)
        rows.append({"side": side, "epsilon": epsilon, "picture": path.stem, "right": right})
        print(rows[-1], flush=True)
    return rows


def main() -> None:
    """Encode, decode, ask the readers and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="a quick run: ε = 1, one picture, one small plate, preset swift"
    )
    parser.add_argument("--cells", action="store_true", help="ask only about cells")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sheet", type=Path, help="path of the picture of the plates")
    arguments = parser.parse_args()
    facts, rng = provenance(), np.random.default_rng(0)
    if arguments.cells:
        write(arguments.out, {**facts, "questions": QUESTIONS, "cells": by_cell(rng)})
        return
    quick, preset = arguments.quick, "swift" if arguments.quick else "sharp"
    about_pixels: list[dict[str, Any]] = []
    for epsilon, path in itertools.product((1.0,) if quick else EPSILONS, PICTURES[:1] if quick else PICTURES):
        original = pictures.read(path)
        right = about_cells(original, released(original, epsilon, preset), 1, rng)
        about_pixels.append({"epsilon": epsilon, "picture": path.stem, "right": right})
        print(about_pixels[-1], flush=True)
    about_plates: list[dict[str, Any]] = []
    heights, plates = (HEIGHTS[:1], PLATES[:1]) if quick else (HEIGHTS, PLATES)
    shown = {"original": [line(PLATES[0], height, ROAD).pixels for height in heights]}
    for epsilon, height, plate in itertools.product((1.0,) if quick else PLATE_EPSILONS, heights, plates):
        drawn = line(plate, height, ROAD)
        decoded = released(drawn.pixels, epsilon, preset)
        if plate == PLATES[0]:
            shown.setdefault(f"ε = {epsilon:g} per pixel", []).append(decoded)
        row = {"epsilon": epsilon, "height": height, "plate": plate, "read": matched(drawn, decoded, CHARACTERS)}
        about_plates.append(row)
        print(row, flush=True)
    if arguments.sheet:
        sheet(shown).save(arguments.sheet, quality=88, optimize=True)
    write(arguments.out, {**facts, "questions": QUESTIONS, "pixels": about_pixels, "plates": about_plates})


if __name__ == "__main__":
    main()
