"""The demo: two pictures, and what remains visible of them at several kinds of protection.

    python examples/demo.py [-o demo]

It writes the files of both pictures, and `sheet.png`, which shows the decoded pictures; it prints the certificates of
the first picture.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
from PIL import Image, ImageDraw, ImageFont

import dipp
from dipp import files, report

ROOT = Path(__file__).parents[1]
GAP, CAPTION = 8, 40


@dataclass(frozen=True)
class Example:
    """A picture, and the box in it that redaction hides."""

    path: Path
    box: tuple[int, int, int, int]
    """Left, top, width and height."""


@dataclass(frozen=True)
class Way:
    """A way to protect a picture: keywords of `dipp.encode`, and the command with the same options."""

    name: str
    options: dict[str, Any]
    caption: tuple[str, str]
    """The options of the command, and what they protect."""


EXAMPLES = (
    Example(ROOT / "benchmarks/pictures/face.png", (83, 48, 112, 136)),
    Example(ROOT / "examples/pictures/cat.png", (34, 60, 72, 64)),
)
WAYS = (
    Way("pixel", {"epsilon": 1}, ("--epsilon 1", "any one pixel; recognisable")),
    Way("object", {"epsilon": 16, "hide": (16, 16)}, ("--hide 16x16 --epsilon 16", "any object of 16×16 pixels")),
    Way("picture", {"epsilon": 16, "unit": "picture"}, ("--unit picture --epsilon 16", "the whole picture")),
)


def row(example: Example, output: Path) -> list[Image.Image]:
    """Write the files of a picture, and return what they show: the original, each way, and the redacted picture."""
    name = example.path.stem
    shown = [Image.open(example.path).convert("RGB")]
    for way in WAYS:
        path = output / f"{name}-{way.name}.dipp"
        dipp.encode(example.path, odometer=False, progress=False, **way.options).save(path)
        (pixels,) = dipp.open(path).decode()
        shown.append(Image.fromarray(pixels))
        print(f"{path}, {path.stat().st_size} bytes", flush=True)
    redacted = output / f"{name}-redacted.png"
    dipp.redact(example.path, regions=[example.box], odometer=False).save(redacted)
    print(f"{redacted}, with its record", flush=True)
    return [*shown, Image.open(redacted)]


def sheet(rows: list[list[Image.Image]]) -> Image.Image:
    """Return the rows below one another, with a caption above each column."""
    captions = [("original", ""), *(way.caption for way in WAYS), ("dipp redact", "the box, ε = 0: never read")]
    side = max(picture.width for pictures in rows for picture in pictures)
    size = len(captions) * (side + GAP) - GAP, CAPTION + len(rows) * (side + GAP) - GAP
    canvas = Image.new("RGB", size, "white")
    draw = ImageDraw.Draw(canvas)
    font = ImageFont.truetype(str(Path(mpl.get_data_path()) / "fonts/ttf/DejaVuSans.ttf"), 15)
    for column, lines in enumerate(captions):
        draw.text((column * (side + GAP) + 2, 0), "\n".join(lines), "black", font)
    for number, pictures in enumerate(rows):
        for column, picture in enumerate(pictures):
            whole = picture.resize((side, side), Image.Resampling.LANCZOS)
            canvas.paste(whole, (column * (side + GAP), CAPTION + number * (side + GAP)))
    return canvas


def main() -> None:
    """Encode, decode, redact and draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, default=Path("demo"))
    output = parser.parse_args().output
    output.mkdir(parents=True, exist_ok=True)
    rows = [row(example, output) for example in EXAMPLES]
    with files.atomic(output / "sheet.png") as part:
        sheet(rows).save(part, format="PNG")
    for way in WAYS:
        path = output / f"{EXAMPLES[0].path.stem}-{way.name}.dipp"
        print(f"\n{path}\n{report.archive_text(dipp.open(path))}")
    print("\nEach certificate is about one file: several files of one picture tell more together (`dipp odometer`).")
    print(f"{output / 'sheet.png'}: look at it")


if __name__ == "__main__":
    main()
