"""Draw what remains visible of a face, a plate, a letter, a scan and a street, by what is hidden and at which ε.

    python benchmarks/visible.py --out docs/visible.jpg --json benchmarks/results/visible.json

All five are pictures of 288×288. The README of `benchmarks/pictures` says where the photographs are from; the letter
and the plate are drawn here, and their names are made up. Files are those of `dipp encode` with the options of the
caption, decoded to the expected picture. An ε is pure, and about one pixel, any object of the size, or the picture.

DP-Pix adds Laplace noise to the means of cells [Fan, 2018]. An object of 16×16 meets four 16×16 cells, so each cell
has a quarter of ε. The same network denoises it, told the SNR that is best against the clean picture
(`benchmarks/units.py`).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import checkout  # noqa: F401 - for `experiments`
import numpy as np
from baseline import psnr
from matplotlib import font_manager
from PIL import Image, ImageDraw, ImageFont
from provenance import provenance, write
from readers import PLATES, ROAD
from units import dp_pix

from dipp import models
from dipp.codec import Codec
from dipp.codec.pictures import Pixels
from dipp.core.units import Cells
from dipp.models import embedded
from experiments.people.lines import line

PICTURES = Path(__file__).parent / "pictures"
SIDE = 288
PLATE_HEIGHT = 28
"""Height of the letters of the plate, in pixels."""
HIDDEN = ("8x8", "16x16", "32x32", "64x64")
OPTIONS: dict[str, dict[str, Any]] = {
    **{f"pixel, ε = {epsilon:g}": {"epsilon": epsilon} for epsilon in (1.0, 4.0, 0.25)},
    **{f"{size}, ε = {epsilon:g}": {"hide": size, "epsilon": epsilon} for size in HIDDEN for epsilon in (32.0, 16.0)},
    **{f"picture, ε = {epsilon:g}": {"unit": "picture", "epsilon": epsilon} for epsilon in (32.0, 8.0)},
}
"""Options of the shown files, by caption. At ε = 8 the planner hides the whole picture for every size."""
RIVALS = ("DP-Pix 16x16, ε = 16", "… denoised")
QUICK = ("16x16, ε = 16", "picture, ε = 8")
THUMB, CAPTION, GAP = 130, 15, 4
LETTER = (
    "St Anna Hospital, Ward 7",
    "",
    "Jane Doe, born 1 January 1970,",
    "was with us from 3 to 9 May.",
    "The finding is benign.",
    "",
    "Dr M. Mustermann",
)
"""Invented text, as is the name in the scan."""
BURNT_IN = "DOE, JANE  1970-01-01  OS"


def font(size: int) -> ImageFont.FreeTypeFont:
    """Return matplotlib's font, which has Greek letters."""
    return ImageFont.truetype(font_manager.findfont("DejaVu Sans"), size)


def photograph(name: str) -> Image.Image:
    """Return a committed picture."""
    with Image.open(PICTURES / f"{name}.png") as image:
        return image.convert("RGB")


def letter() -> Image.Image:
    """Return black text on paper, in letters of the size that a page has when it is 288 pixels wide."""
    page = Image.new("RGB", (SIDE, SIDE), (244, 241, 232))
    ImageDraw.Draw(page).multiline_text((18, 40), "\n".join(LETTER), fill=(30, 30, 40), font=font(15), spacing=12)
    return page


def scan() -> Image.Image:
    """Return a retina, with a line that a device would burn in."""
    drawn = photograph("retina")
    ImageDraw.Draw(drawn).text((8, 6), BURNT_IN, fill="white", font=font(13))
    return drawn


def plate() -> Image.Image:
    """Return a number plate on the colour of a road."""
    road, drawn = Image.new("RGB", (SIDE, SIDE), ROAD), Image.fromarray(line(PLATES[0], PLATE_HEIGHT, ROAD).pixels)
    road.paste(drawn, ((SIDE - drawn.width) // 2, (SIDE - drawn.height) // 2))
    return road


def shown(pixels: Pixels, captions: tuple[str, ...]) -> Iterator[tuple[Pixels, dict[str, Any]]]:
    """Yield a decoded picture for each of its files, with the facts of the file."""
    for caption in captions:
        codec = Codec.from_pretrained(**OPTIONS[caption], size=pixels.shape[:2])
        archive = codec.encode([pixels], odometer=False)
        (decoded,) = codec.decode(archive)
        certificate = archive.certificate
        row = {"shown": caption, "unit": codec.plan.unit.short, "epsilon of the unit": certificate.epsilon}
        yield decoded, row | {"bytes": len(archive.to_bytes()), "psnr": psnr(decoded[None], pixels[None])}


def rivals(pixels: Pixels) -> Iterator[tuple[Pixels, dict[str, Any]]]:
    """Yield DP-Pix of a picture, plain and denoised."""
    side, epsilon = Cells(16), 16 / 4
    found = dp_pix(pixels[None], side, epsilon, models.load(embedded.FOLDER, "cpu"))
    for caption, pictures in zip(RIVALS, found, strict=True):
        row = {"shown": caption, "unit": side.short, "epsilon of the unit": epsilon}
        yield pictures[0], row | {"psnr": psnr(pictures, pixels[None])}


def sheet(things: list[list[Pixels]], captions: list[str]) -> Image.Image:
    """Return a page with two rows of pictures for each thing, filled column by column."""
    columns, height = -(-len(captions) // 2), CAPTION + THUMB + GAP
    page = Image.new("RGB", (GAP + columns * (THUMB + GAP), 2 * height * len(things)), "white")
    pen = ImageDraw.Draw(page)
    for above, pictures in enumerate(things):
        for number, (caption, picture) in enumerate(zip(captions, pictures, strict=True)):
            left, top = GAP + number // 2 * (THUMB + GAP), (2 * above + number % 2) * height
            pen.text((left, top), caption, fill="black", font=font(11))
            small = Image.fromarray(picture).resize((THUMB, THUMB), Image.Resampling.LANCZOS)
            page.paste(small, (left, top + CAPTION))
    return page


def main() -> None:
    """Encode, decode, draw and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a quick run: two of the options, and no rival")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--json", type=Path, required=True)
    arguments = parser.parse_args()
    facts, captions = provenance(), QUICK if arguments.quick else tuple(OPTIONS)
    originals = {
        "face": photograph("face"),
        "plate": plate(),
        "letter": letter(),
        "scan": scan(),
        "street": photograph("street"),
    }
    rows, things = list[dict[str, Any]](), list[list[Pixels]]()
    for name, original in originals.items():
        pixels = np.asarray(original)
        things.append([pixels])
        for picture, row in [*shown(pixels, captions), *(() if arguments.quick else rivals(pixels))]:
            things[-1].append(picture)
            rows.append({"picture": name, **row})
            print(*(f"{key} {value}" for key, value in rows[-1].items()), flush=True)
    heads = ["original", *captions, *(() if arguments.quick else RIVALS)]
    sheet(things, heads).save(arguments.out, quality=85, optimize=True)
    write(arguments.json, {**facts, "side": SIDE, "rows": rows})


if __name__ == "__main__":
    main()
