"""CVAT XML 1.1, for images and for videos: boxes (also turned ones), polygons, ellipses and masks.

In a file for a video, frame n is the n-th picture that the user gives, sorted by name. The number of a track is the
region's id. A box that is marked as outside is left out.
"""

from __future__ import annotations

import math
from collections import defaultdict
from xml.etree.ElementTree import Element

from dipp.errors import DippError
from dipp.redaction.formats.reading import Declarations, File, box, declared, named, number, pairs, polygon, whole
from dipp.redaction.outlines import Outline, Pixels, mask_of_runs
from dipp.redaction.regions import Region

SHAPES = ("box", "polygon", "ellipse", "mask")
WORDS = ("tag", "attribute")
"""Elements of an image or a track that are not shapes."""


def recognises(file: File) -> bool:
    """Return whether a file is CVAT XML."""
    return file.xml is not None and file.xml.tag == "annotations"


def read(file: File) -> Declarations:
    """Return the regions of all images, or of all frames of a video, in a CVAT file; raise if it is malformed."""
    root = file.xml
    assert root is not None  # noqa: S101 - `recognises` was asked
    tracks = list(root.iter("track"))
    if tracks and root.find("image") is not None:
        file.fail("has both images and tracks", "export the pictures, and the video, into files of their own")
    if not tracks:
        pictures = (
            (
                image.get("name") or "",
                declared(file, _regions(file, image), (image.get("width"), image.get("height"))),
            )
            for image in root.iter("image")
        )
        return named(file, pictures)
    size = root.findtext("meta/task/original_size/width"), root.findtext("meta/task/original_size/height")
    frames: defaultdict[int, list[Region]] = defaultdict(list)
    for track in tracks:
        for shape in track:
            _require_area(file, shape)
            if shape.tag in SHAPES and shape.get("outside") != "1":
                frame = _frame(file, shape)
                frames[frame].append(Region(_outline(file, shape), track.get("label") or "region", track.get("id")))
    known = None if None in size else size
    stated = root.findtext("meta/task/size")
    count = None if stated is None else whole(file, stated)
    return Declarations(
        frames={frame: declared(file, regions, known) for frame, regions in frames.items()}, count=count
    )


def _frame(file: File, shape: Element) -> int:
    """Return the number of the frame to which a shape belongs, from 0."""
    frame = number(file, shape.get("frame"))
    if frame < 0 or frame != int(frame):
        file.fail(f"must number frames by whole numbers from 0, got {frame:g}")
    return int(frame)


def _regions(file: File, image: Element) -> list[Region]:
    """Return the regions of an image."""
    for shape in image:
        _require_area(file, shape)
    return [
        Region(_outline(file, shape), shape.get("label") or "region", shape.get("group_id"))
        for shape in image
        if shape.tag in SHAPES
    ]


def _require_area(file: File, shape: Element) -> None:
    """Raise if an element is a shape without an area, such as points."""
    if shape.tag not in SHAPES + WORDS:
        file.fail(
            f"has a shape of the type {shape.tag!s:.40}, which is not supported", f"use one of {', '.join(SHAPES)}"
        )


def _outline(file: File, shape: Element) -> Outline:
    """Return the outline of a shape; an ellipse becomes its box."""
    if shape.tag == "polygon":
        words = [word for point in (shape.get("points") or "").split(";") for word in point.split(",")]
        return polygon(file, pairs(file, [number(file, word) for word in words]))
    if shape.tag == "mask":
        left, top = (int(number(file, shape.get(name))) for name in ("left", "top"))
        width, height = (whole(file, shape.get(name)) for name in ("width", "height"))
        lengths = [int(number(file, word)) for word in (shape.get("rle") or "").split(",")]
        try:
            return Pixels(mask_of_runs(lengths, height, width), left, top)
        except DippError as error:
            raise error.about(file.name) from None
    if shape.tag == "ellipse":
        x, y, across, down = (number(file, shape.get(name)) for name in ("cx", "cy", "rx", "ry"))
        edges = [x - across, y - down, x + across, y + down]
    else:
        edges = [number(file, shape.get(name)) for name in ("xtl", "ytl", "xbr", "ybr")]
    plain = box(file, *edges)
    angle = math.radians(number(file, shape.get("rotation") or 0))
    if angle == 0:
        return plain
    corners = ((0, 1), (2, 1), (2, 3), (0, 3))
    x, y = (edges[0] + edges[2]) / 2, (edges[1] + edges[3]) / 2
    cosine, sine = math.cos(angle), math.sin(angle)
    return polygon(
        file,
        (
            (x + (u - x) * cosine - (v - y) * sine, y + (u - x) * sine + (v - y) * cosine)
            for u, v in ((edges[a], edges[b]) for a, b in corners)
        ),
    )
