"""The sheet of docs/redact.md: a street, a portrait, a scan and a document, redacted in four ways.

    python benchmarks/redact_sheet.py --out docs/redact.jpg

Each row is a picture: the original, then the same region blurred, pixelated, black, and painted by dipp from its
surroundings. The portrait and the scan are photographs of `benchmarks/pictures`; the name on the scan, the car in front
of a photograph, and the document are our own drawings, and name nobody.
"""

from __future__ import annotations

import argparse
import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageFont

import dipp
from dipp import files

HERE = Path(__file__).parent
SIDE, GAP, CAPTION = 288, 8, 26
QUALITY = 88
Box = tuple[int, int, int, int]
"""Left, top, width and height."""


@dataclass(frozen=True)
class Example:
    """A picture, and its region to hide."""

    name: str
    picture: Image.Image
    boxes: list[Box]


def photograph(name: str) -> Image.Image:
    """Return a picture of `benchmarks/pictures` in the size of the sheet."""
    with Image.open(HERE / "pictures" / f"{name}.png") as image:
        return image.convert("RGB").resize((SIDE, SIDE), Image.Resampling.LANCZOS)


def street() -> Example:
    """Return a car with a plate, drawn in front of a photograph."""
    picture = photograph("sky")
    draw = ImageDraw.Draw(picture)
    draw.rectangle((0, 200, SIDE, SIDE), fill=(92, 92, 96))
    draw.rounded_rectangle((48, 150, 240, 250), 22, fill=(150, 32, 36))
    draw.polygon(((74, 152), (98, 108), (190, 108), (214, 152)), fill=(120, 24, 28))
    draw.polygon(((88, 150), (106, 116), (182, 116), (200, 150)), fill=(150, 180, 200))
    for left in (60, 200):
        draw.ellipse((left, 172, left + 28, 192), fill=(250, 240, 190))
        draw.rectangle((left, 246, left + 28, 266), fill=(24, 24, 24))
    draw.rectangle((98, 206, 190, 230), fill="white", outline="black")
    draw.text((144, 218), "DP 0815", "black", ImageFont.load_default(20), anchor="mm")
    return Example("street", grainy(picture), [(95, 203, 99, 31)])


def scan() -> Example:
    """Return a scan with a name burnt in."""
    picture = photograph("retina")
    ImageDraw.Draw(picture).text((10, 8), "DOE, JANE  1970-01-01", "white", ImageFont.load_default(16))
    return Example("scan", picture, [(6, 6, 190, 24)])


def document() -> Example:
    """Return a letter with a name and a number."""
    picture = Image.new("RGB", (SIDE, SIDE), (250, 247, 238))
    draw, font = ImageDraw.Draw(picture), ImageFont.load_default(15)
    lines = (
        "To the office of",
        "Jane Doe",
        "12 Nowhere Street",
        "",
        "Your account 4711 0815",
        "was closed on Monday.",
        "",
        "Yours,",
        "J. Smith",
    )
    for number, line in enumerate(lines):
        draw.text((24, 22 + 27 * number), line, (30, 30, 40), font)
    return Example("document", grainy(picture), [(20, 46, 180, 53), (110, 127, 99, 24), (20, 235, 80, 24)])


def grainy(picture: Image.Image) -> Image.Image:
    """Return a picture with the grain of a camera."""
    noise = np.random.default_rng(0).normal(0, 2.5, (*picture.size[::-1], 3))
    return Image.fromarray(np.clip(np.asarray(picture) + noise, 0, 255).astype(np.uint8))


def patched(change: Callable[[Image.Image], Image.Image]) -> Callable[[Example], Image.Image]:
    """Return a way to redact that changes each region by itself."""

    def redact(example: Example) -> Image.Image:
        made = example.picture.copy()
        for left, top, width, height in example.boxes:
            made.paste(change(made.crop((left, top, left + width, top + height))), (left, top))
        return made

    return redact


def pixelated(part: Image.Image) -> Image.Image:
    """Return a part in squares of eight pixels."""
    small = part.resize((max(1, part.width // 8), max(1, part.height // 8)), Image.Resampling.BOX)
    return small.resize(part.size, Image.Resampling.NEAREST)


def by_dipp(example: Example) -> Image.Image:
    """Return the picture that dipp makes."""
    file = io.BytesIO()
    example.picture.save(file, "PNG")
    redacted = dipp.redact(file.getvalue(), regions=example.boxes, device="cpu", odometer=False)
    return Image.open(io.BytesIO(redacted.content))


WAYS: dict[str, Callable[[Example], Image.Image]] = {
    "original": lambda example: example.picture,
    "blur": patched(lambda part: part.filter(ImageFilter.GaussianBlur(5))),
    "pixelation": patched(pixelated),
    "black box": patched(lambda part: Image.new("RGB", part.size)),
    "dipp redact": by_dipp,
}


def main() -> None:
    """Draw the sheet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    examples = [street(), Example("portrait", photograph("face"), [(83, 48, 112, 136)]), scan(), document()]
    size = len(WAYS) * (SIDE + GAP) - GAP, CAPTION + len(examples) * (SIDE + GAP) - GAP
    sheet = Image.new("RGB", size, "white")
    draw = ImageDraw.Draw(sheet)
    for column, (name, way) in enumerate(WAYS.items()):
        left = column * (SIDE + GAP)
        draw.text((left + SIDE // 2, CAPTION // 2), name, "black", ImageFont.load_default(17), anchor="mm")
        for row, example in enumerate(examples):
            sheet.paste(way(example), (left, CAPTION + row * (SIDE + GAP)))
    with files.atomic(arguments.out) as part:
        sheet.save(part, "JPEG", quality=QUALITY, subsampling=0)


if __name__ == "__main__":
    main()
