"""What the decoded picture alone tells an ordinary reader: the colour of a pixel, and the characters of a plate.

    python benchmarks/readers.py --out benchmarks/results/readers.json --sheet docs/plates.jpg

The certificate bounds what a file adds for somebody who knows every other pixel. A reader of the decoded picture has
the neighbours of a pixel instead, which say much the same. Two questions are measured, on files of `dipp encode` with
its default options:

- *pixels*: "is this the pixel's colour, or is it that one?", where that one is the colour of another random pixel of
  the same picture, if it differs. The reader takes the colour that is nearer to the decoded pixel; a tie counts half.
  A guess is right in 50 % of cases.
- *plates*: number plates in letters of several heights. The reader compares each decoded character with all letters and
  digits of the typeface, and takes the letter that correlates best. A guess is right once in 36 times.
"""

from __future__ import annotations

import argparse
import itertools
import string
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import font_manager
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont
from provenance import provenance, write

from dipp.codec import Codec, pictures
from dipp.codec.pictures import Pixels

ROOT = Path(__file__).parents[1]
PICTURES = sorted(path for folder in ("examples", "benchmarks") for path in (ROOT / folder / "pictures").glob("*.png"))
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
PLATE_EPSILONS = (0.25, 0.5, 1.0, 2.0)
HEIGHTS = (14, 28, 80)
"""Heights of the plates' letters, in pixels."""
PLATES = ("KX52JRT", "B7946QE", "HM03WUG")
"""Made up."""
CHARACTERS = string.ascii_uppercase + string.digits
QUESTIONS = 20_000
"""Pairs of pixels that are drawn in each picture; those of equal colours are left out."""
INK, PLATE, ROAD = (24, 26, 34), (236, 232, 214), (112, 116, 120)
GAP, CAPTION = 8, 20


def right_about_pixels(original: Pixels, decoded: Pixels, rng: np.random.Generator) -> float:
    """Return the share of questions about pixels that the decoded picture answers right, between 0 and 1."""
    true, seen = original.reshape(-1, 3).astype(np.int64), decoded.reshape(-1, 3).astype(np.int64)
    asked, other = rng.integers(len(true), size=(2, QUESTIONS))
    differ = (true[asked] != true[other]).any(axis=1)
    asked, other = asked[differ], other[differ]
    to_true = np.square(seen[asked] - true[asked]).sum(axis=1)
    to_other = np.square(seen[asked] - true[other]).sum(axis=1)
    return float(((to_true < to_other) + 0.5 * (to_true == to_other)).mean())


def font(height: int) -> ImageFont.FreeTypeFont:
    """Return matplotlib's monospaced bold typeface at the size whose capitals are `height` pixels high."""
    path = font_manager.findfont(font_manager.FontProperties(family="DejaVu Sans Mono", weight="bold"))
    return ImageFont.truetype(path, round(height / 0.729))


def cell(character: str, height: int) -> Image.Image:
    """Return one character on the plate's colour."""
    drawn = Image.new("RGB", (round(0.85 * height), round(1.5 * height)), PLATE)
    middle = (drawn.width / 2, drawn.height / 2 + height / 2)
    ImageDraw.Draw(drawn).text(middle, character, fill=INK, font=font(height), anchor="ms")
    return drawn


def plate(text: str, height: int) -> tuple[Pixels, list[tuple[int, int, int, int]]]:
    """Return a plate on grey ground, and the box (left, top, right, bottom) of each of its characters."""
    cells = [cell(character, height) for character in text]
    edge, (width, tall) = round(0.6 * height), cells[0].size
    drawn = Image.new("RGB", (len(cells) * width + 2 * edge, tall + 2 * edge), ROAD)
    boxes = [(edge + i * width, edge, edge + (i + 1) * width, edge + tall) for i in range(len(cells))]
    for box, one in zip(boxes, cells, strict=True):
        drawn.paste(one, box[:2])
    return np.asarray(drawn), boxes


def normalised(grey: Image.Image) -> NDArray[np.float64]:
    """Return the values of a picture as a vector of mean 0 and length 1."""
    values = np.asarray(grey.convert("L"), dtype=np.float64).ravel()
    values = values - values.mean()
    return np.asarray(values / max(float(np.linalg.norm(values)), 1e-9))


def read(decoded: Pixels, boxes: Iterable[tuple[int, int, int, int]], height: int) -> str:
    """Return the characters that correlate best with what is in the boxes."""
    templates = np.stack([normalised(cell(character, height)) for character in CHARACTERS])
    picture = Image.fromarray(decoded)
    return "".join(CHARACTERS[int(np.argmax(templates @ normalised(picture.crop(box))))] for box in boxes)


def released(pixels: Pixels, epsilon: float, preset: str) -> Pixels:
    """Return what a file of the picture shows."""
    codec = Codec.from_pretrained(epsilon=epsilon, preset=preset, size=pixels.shape[:2])
    (decoded,) = codec.decode(codec.encode([pixels], odometer=False))
    return decoded


def sheet(shown: dict[str, list[Pixels]]) -> Image.Image:
    """Return a page with a row for each caption, and in it the plates of all heights of letters."""
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


def main() -> None:
    """Encode, decode, ask and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="ε = 1, one picture and one small plate, by the preset swift"
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sheet", type=Path, help="where the picture of the plates goes")
    arguments = parser.parse_args()
    facts, rng = provenance(), np.random.default_rng(0)
    quick, preset = arguments.quick, "swift" if arguments.quick else "sharp"
    about_pixels: list[dict[str, Any]] = []
    for epsilon, path in itertools.product((1.0,) if quick else EPSILONS, PICTURES[:1] if quick else PICTURES):
        original = pictures.read(path)
        right = right_about_pixels(original, released(original, epsilon, preset), rng)
        about_pixels.append({"epsilon": epsilon, "picture": path.stem, "right": right})
        print(about_pixels[-1], flush=True)
    about_plates: list[dict[str, Any]] = []
    heights, plates = (HEIGHTS[:1], PLATES[:1]) if quick else (HEIGHTS, PLATES)
    shown = {"original": [plate(PLATES[0], height)[0] for height in heights]}
    for epsilon, height, text in itertools.product((1.0,) if quick else PLATE_EPSILONS, heights, plates):
        original, boxes = plate(text, height)
        decoded = released(original, epsilon, preset)
        if text == PLATES[0]:
            shown.setdefault(f"ε = {epsilon:g} per pixel", []).append(decoded)
        row = {"epsilon": epsilon, "height": height, "plate": text, "read": read(decoded, boxes, height)}
        about_plates.append(row)
        print(row, flush=True)
    if arguments.sheet:
        sheet(shown).save(arguments.sheet, quality=88, optimize=True)
    write(arguments.out, {**facts, "questions": QUESTIONS, "pixels": about_pixels, "plates": about_plates})


if __name__ == "__main__":
    main()
