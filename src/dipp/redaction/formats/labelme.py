"""LabelMe JSON, one file for each picture: polygons, rectangles, circles (as the squares around them) and masks.

`group_id` is the region's id.
"""

from __future__ import annotations

import base64
import binascii
import math
from typing import Any

from dipp.errors import DippError
from dipp.redaction.formats import masks
from dipp.redaction.formats.reading import Declarations, File, box, declared, named, numbers, polygon, text
from dipp.redaction.outlines import Outline, Pixels
from dipp.redaction.regions import Region


def recognises(file: File) -> bool:
    """Return whether a file is LabelMe JSON."""
    return isinstance(file.json, dict) and "shapes" in file.json and "imagePath" in file.json


def read(file: File) -> Declarations:
    """Return the regions of the picture that a LabelMe file is about; raise if the file is malformed."""
    content = file.json
    shapes = content["shapes"]
    if not isinstance(shapes, list) or not all(isinstance(shape, dict) for shape in shapes):
        file.fail("must have a list of objects as shapes")
    regions = [
        Region(_outline(file, shape), str(shape.get("label") or "region"), text(shape.get("group_id")))
        for shape in shapes
    ]
    size = content.get("imageWidth"), content.get("imageHeight")
    return named(file, [(str(content["imagePath"] or ""), declared(file, regions, size))])


def _outline(file: File, shape: dict[str, Any]) -> Outline:
    """Return the outline of a shape; raise if the shape has no area."""
    kind = shape.get("shape_type", "polygon")
    if not isinstance(shape.get("points"), list):
        file.fail("has a shape without a list of points")
    points = [(x, y) for x, y in (numbers(file, point, 2) for point in shape["points"])]
    if kind in ("polygon", None):
        return polygon(file, points)
    if kind not in ("rectangle", "circle", "mask"):
        file.fail(f"has a shape of the type {kind!s:.40}, which has no area", "use polygon, rectangle, circle or mask")
    if len(points) != 2:
        file.fail(f"must give a {kind} 2 points, got {len(points)}")
    (x0, y0), (x1, y1) = points
    if kind == "circle":
        radius = math.hypot(x1 - x0, y1 - y0)
        return box(file, x0 - radius, y0 - radius, x0 + radius, y0 + radius)
    if kind == "rectangle":
        return box(file, min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1))
    try:
        drawn = masks.drawn(base64.b64decode(str(shape.get("mask")), validate=True))
        return Pixels(drawn, math.floor(min(x0, x1)), math.floor(min(y0, y1)))
    except (binascii.Error, DippError) as error:
        why = error.without("regions") if isinstance(error, DippError) else error
        file.fail(f"has a mask that cannot be read ({why})")
