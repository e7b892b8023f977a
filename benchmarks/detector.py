"""The faces that `dipp regions --detector faces` finds, and whether it covers them.

    python benchmarks/detector.py --out benchmarks/results/detector.json
    python benchmarks/detector.py --annotated FOLDER --out benchmarks/results/detector-photographs.json

The pictures are 100 faces of Labeled Faces in the Wild and 100 other pictures, 25×25 pixels each, that scikit-image
ships. They are scaled up, so that a face fills a small, a middle or a large picture. *Found* counts faces whose middle,
a square of half the sides, lies in one box. *False* counts other pictures in which any box is found.

FOLDER has photographs of people and XML files of their faces as dlib has them: its `examples/faces`, nine photographs
of PASCAL VOC 2011. *Whole* counts faces whose whole box lies in one that was found, and *others* boxes without
an annotated face, which may still contain a face.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from xml.etree.ElementTree import parse

import numpy as np
from PIL import Image
from provenance import provenance, write
from skimage import data

from dipp.redaction import detect
from dipp.redaction.detect import DetectedBox, Pixels

SIZES = (50, 100, 400)
FACES = 100
"""Number of the first pictures of the collection, which show faces. All others show none."""
Face = tuple[float, float, float, float]
"""Left, top, width and height of an annotated face."""


def scaled(picture: Pixels, size: int) -> Pixels:
    """Return a grey picture (25, 25) as colours (size, size, 3)."""
    large = Image.fromarray(picture).resize((size, size), Image.Resampling.BICUBIC)
    return np.asarray(large.convert("RGB"))


def _face(annotated: Mapping[str, str]) -> Face:
    left, top, width, height = (float(annotated[name]) for name in ("left", "top", "width", "height"))
    return left, top, width, height


def covers(box: DetectedBox, face: Face, share: float) -> bool:
    """Return whether a box covers the middle of a face: a share of its width and of its height."""
    _, x, y, across, down = box
    left, top, width, height = face
    over, above = (1 - share) / 2 * width, (1 - share) / 2 * height
    return (
        x <= left + over and y <= top + above and x + across >= left + width - over and y + down >= top + height - above
    )


def covered(picture: Pixels) -> bool:
    """Return whether one box covers the middle of a picture."""
    height, width = picture.shape[:2]
    return any(covers(box, (0, 0, width, height), 0.5) for box in detect.faces(picture))


def annotated(folder: Path) -> dict[str, int]:
    """Count the annotated faces of photographs, how many are found, and the boxes without a face."""
    total = dict.fromkeys(("photographs", "faces", "found", "whole", "others"), 0)
    for file in sorted(folder.glob("*ing.xml")):  # testing.xml and training.xml
        for entry in parse(file).getroot().iter("image"):  # noqa: S314 - files that the caller chose
            with Image.open(folder / entry.attrib["file"]) as image:
                boxes = detect.faces(np.asarray(image.convert("RGB")))
            faces = [_face(annotated.attrib) for annotated in entry.iter("box")]
            total["photographs"] += 1
            total["faces"] += len(faces)
            total["found"] += sum(any(covers(box, face, 0.5) for box in boxes) for face in faces)
            total["whole"] += sum(any(covers(box, face, 1.0) for box in boxes) for face in faces)
            total["others"] += sum(not any(covers(box, face, 0.5) for face in faces) for box in boxes)
    return total


def main() -> None:
    """Count, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a quick run: ten pictures of each kind, in two sizes")
    parser.add_argument("--annotated", type=Path, help="count in these annotated photographs instead")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    facts, rows = provenance(), []
    if arguments.annotated is not None:
        counts = annotated(arguments.annotated)
        print(counts)
        write(arguments.out, {**facts, **counts})
        return
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
