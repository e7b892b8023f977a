"""How many faces `dipp regions --detector faces` finds, and whether it covers them.

    python benchmarks/detector.py --out benchmarks/results/detector.json

The pictures are 100 faces of Labeled Faces in the Wild and 100 other pictures, 25×25 pixels each, that scikit-image
ships. They are scaled up, so that a face fills a small, a middle or a large picture. *Found* counts faces whose middle,
a square of half the sides, lies in one box. *False* counts other pictures in which any box is found.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from PIL import Image
from provenance import provenance, write
from skimage import data

from dipp.redaction import detect
from dipp.redaction.detect import Pixels

SIZES = (50, 100, 400)
FACES = 100
"""The first pictures of the collection are faces, all others are not."""


def scaled(picture: Pixels, size: int) -> Pixels:
    """Return a grey picture (25, 25) as colours (size, size, 3)."""
    large = Image.fromarray(picture).resize((size, size), Image.Resampling.BICUBIC)
    return np.asarray(large.convert("RGB"))


def covered(picture: Pixels) -> bool:
    """Return whether one box covers the middle of a picture."""
    height, width = picture.shape[:2]
    return any(
        left <= width / 4 and top <= height / 4 and left + across >= 0.75 * width and top + down >= 0.75 * height
        for _, left, top, across, down in detect.faces(picture)
    )


def main() -> None:
    """Count, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="ten pictures of each kind, in two sizes")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    facts, rows = provenance(), []
    pictures = np.rint(data.lfw_subset() * 255).astype(np.uint8)  # type: ignore[no-untyped-call]
    count = 10 if arguments.quick else FACES
    for size in SIZES[:2] if arguments.quick else SIZES:
        found = sum(covered(scaled(picture, size)) for picture in pictures[:count])
        false = sum(bool(detect.faces(scaled(picture, size))) for picture in pictures[FACES:][:count])
        rows.append({"side": size, "faces": count, "found": found, "others": count, "false": false})
        print(*rows[-1].values(), flush=True)
    write(arguments.out, {**facts, "rows": rows})


if __name__ == "__main__":
    main()
