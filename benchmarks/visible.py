"""What stays visible at ε ≤ 4 per pixel, in pictures of 288×288: a face, a letter, and a scan with a burnt-in name.

    python benchmarks/visible.py --out docs/visible.jpg --json benchmarks/results/visible.json

A pixel is protected, and each of these things has thousands that say the same. The pictures are in
`benchmarks/pictures`, whose README says where they are from; the letter is drawn here. Files are those of `dipp encode`
as it stands, decoded to the expected picture.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from baseline import psnr
from matplotlib import font_manager
from PIL import Image, ImageDraw, ImageFont
from provenance import provenance, write

from dipp.codec import Codec
from dipp.codec.pictures import Pixels

PICTURES = Path(__file__).parent / "pictures"
SIDE = 288
EPSILONS = (0.25, 1.0, 4.0)
QUICK = (1.0,)
EDGE, GAP = 22, 6
LETTER = (
    "St Anna Hospital, Ward 7",
    "",
    "Jane Doe, born 1 January 1970,",
    "was with us from 3 to 9 May.",
    "The finding is benign.",
    "",
    "Dr M. Mustermann",
)
"""Made up, as is the name in the scan."""
BURNT_IN = "DOE, JANE  1970-01-01  OS"


def font(size: int) -> ImageFont.FreeTypeFont:
    """The font that matplotlib brings, which has Greek letters."""
    return ImageFont.truetype(font_manager.findfont("DejaVu Sans"), size)


def letter() -> Pixels:
    """Black on paper, in letters of the size that a page has when it is 288 pixels wide."""
    page = Image.new("RGB", (SIDE, SIDE), (244, 241, 232))
    ImageDraw.Draw(page).multiline_text((18, 40), "\n".join(LETTER), fill=(30, 30, 40), font=font(15), spacing=12)
    return np.asarray(page)


def scan() -> Pixels:
    """A retina, with a line that a device would burn in."""
    with Image.open(PICTURES / "retina.png") as image:
        drawn = image.convert("RGB")
    ImageDraw.Draw(drawn).text((8, 6), BURNT_IN, fill="white", font=font(13))
    return np.asarray(drawn)


def face() -> Pixels:
    """An astronaut."""
    with Image.open(PICTURES / "face.png") as image:
        return np.asarray(image.convert("RGB"))


def sheet(originals: dict[str, Pixels], shown: dict[float, dict[str, Pixels]]) -> Image.Image:
    """A row a picture, a column an ε; the original at the left."""
    columns = {"original": originals} | {f"ε = {epsilon:g} per pixel": row for epsilon, row in shown.items()}
    width, height = GAP + (SIDE + GAP) * len(columns), EDGE + (SIDE + GAP) * len(originals)
    page = Image.new("RGB", (width, height), "white")
    for column, (head, pictures) in enumerate(columns.items()):
        left = GAP + column * (SIDE + GAP)
        ImageDraw.Draw(page).text((left, 3), head, fill="black", font=font(14))
        for row, picture in enumerate(pictures.values()):
            page.paste(Image.fromarray(picture), (left, EDGE + row * (SIDE + GAP)))
    return page


def main() -> None:
    """Encode, decode, draw and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="ε = 1 alone, by the preset swift")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--json", type=Path, required=True)
    arguments = parser.parse_args()
    originals = {"face": face(), "letter": letter(), "scan": scan()}
    shown: dict[float, dict[str, Pixels]] = {}
    rows: list[dict[str, Any]] = []
    for epsilon in QUICK if arguments.quick else EPSILONS:
        preset = "swift" if arguments.quick else "sharp"
        codec = Codec.from_pretrained(epsilon=epsilon, preset=preset, size=(SIDE, SIDE))
        shown[epsilon] = {}
        for name, pixels in originals.items():
            archive = codec.encode([pixels], odometer=False)
            (decoded,) = codec.decode(archive)
            shown[epsilon][name] = decoded
            row = {"picture": name, "epsilon": epsilon, "certificate": archive.certificate.epsilon}
            row |= {"payload_bpp": archive.payload_bpp, "bytes": len(archive.to_bytes())}
            rows.append(row | {"psnr": psnr(decoded[None], pixels[None])})
            print(*(f"{key} {value}" for key, value in rows[-1].items()), flush=True)
    sheet(originals, shown).save(arguments.out, quality=85, optimize=True)
    write(arguments.json, {**provenance(), "side": SIDE, "rows": rows})


if __name__ == "__main__":
    main()
