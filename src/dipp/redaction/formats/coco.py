"""COCO JSON: the polygons or run lengths of each annotation, or its box if it has neither.

Run lengths go column by column, as a list or in COCO's compressed text. `track_id` or `instance_id` is the region's id.
An annotation with several polygons is one object in several parts, and so one unit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from dipp.errors import DippError
from dipp.redaction.formats.reading import (
    Declarations,
    File,
    box,
    declared,
    named,
    numbers,
    pairs,
    polygon,
    text,
    whole,
)
from dipp.redaction.outlines import Outline, Pixels, mask_of_runs
from dipp.redaction.regions import DeclaredRegions, Region


def recognises(file: File) -> bool:
    """Return whether a file is COCO JSON."""
    return isinstance(file.json, dict) and "images" in file.json and "annotations" in file.json


def read(file: File) -> Declarations:
    """Return the regions of all images in a COCO file; raise if the file is malformed."""
    images, annotations = _table(file, "images"), _table(file, "annotations")
    for entry in (*images, *annotations):
        for name in ("id", "image_id", "category_id"):
            if not isinstance(entry.get(name), int | str | None):
                file.fail(f"must have a number as {name}, got {entry[name]!s:.40}")
    kinds = {str(entry.get("id")): str(entry.get("name")) for entry in _table(file, "categories", needed=False)}
    regions: dict[Any, list[Region]] = {image.get("id"): [] for image in images}
    if len(regions) != len(images):
        file.fail("has two images with one id", "give each image an id of its own")
    for number, entry in enumerate(annotations):
        if entry.get("image_id") not in regions:
            file.fail(f"has an annotation for image {entry.get('image_id')!s:.40}, which it does not list")
        kind = kinds.get(str(entry.get("category_id")), str(entry.get("category_id", "region")))
        regions[entry["image_id"]] += in_parts(file, entry, kind, f"annotation {number}")
    by_picture: dict[Any, list[dict[str, Any]]] = {key: [] for key in regions}
    for entry in annotations:
        by_picture[entry["image_id"]].append(entry)
    pictures = (
        (
            str(image.get("file_name") or ""),
            sized(file, regions[key], (image.get("width"), image.get("height")), by_picture[key]),
        )
        for key, image in zip(regions, images, strict=True)
    )
    return named(file, pictures)


def sized(
    file: File, regions: Iterable[Region], size: tuple[Any, Any] | None, annotations: Iterable[dict[str, Any]]
) -> DeclaredRegions:
    """Return the regions of a picture with its size, which run lengths state too, because they cover the whole picture.

    Args:
        file: The file of regions, for errors.
        regions: The regions of the picture.
        size: Width and height that the file states; None if it states none.
        annotations: The annotations of the picture, as JSON.
    """
    sized_regions = declared(file, regions, size)
    shapes = [entry["segmentation"]["size"] for entry in annotations if isinstance(entry.get("segmentation"), dict)]
    for height, width in shapes:
        if sized_regions.size is None:
            sized_regions = replace(sized_regions, size=(whole(file, width), whole(file, height)))
        elif sized_regions.size != (width, height):
            other = f"{sized_regions.size[0]}×{sized_regions.size[1]}"
            file.fail(f"has run lengths for {width}×{height} pixels, and others, or the picture, for {other}")
    return sized_regions


def _table(file: File, name: str, *, needed: bool = True) -> list[dict[str, Any]]:
    """Return the list of objects that a COCO file has under a name, such as images; empty if missing and not needed."""
    rows = file.json.get(name)
    if rows is None and not needed:
        return []
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        file.fail(f"must have a list of objects as {name}")
    return rows


def in_parts(file: File, annotation: dict[str, Any], kind: str, name: str) -> list[Region]:
    """Return the regions of an annotation; several parts share one id, by default `name`.

    Args:
        file: The file of regions.
        annotation: The annotation, as JSON has it.
        kind: Kind of the regions.
        name: Id of the region if the annotation gives none.
    """
    outlines = list(_outlines(file, annotation))
    who = text(annotation.get("track_id", annotation.get("instance_id")))
    who = name if who is None and len(outlines) > 1 else who
    return [Region(outline, kind, who) for outline in outlines]


def _outlines(file: File, annotation: dict[str, Any]) -> Iterator[Outline]:
    """Yield the outlines of an annotation: its polygons, its run lengths, or its box."""
    shape = annotation.get("segmentation")
    if isinstance(shape, dict):
        yield _mask(file, shape)
    elif shape:
        if not isinstance(shape, list):
            file.fail("has a segmentation that is neither a list of polygons nor run lengths")
        for points in shape:
            yield polygon(file, pairs(file, numbers(file, points)))
    elif annotation.get("bbox") is not None:
        left, top, width, height = numbers(file, annotation["bbox"], 4)
        yield box(file, left, top, left + width, top + height)
    else:
        file.fail("has an annotation with neither a bbox nor a segmentation")


def _mask(file: File, shape: dict[str, Any]) -> Pixels:
    """Return the mask that run lengths describe."""
    height, width = (whole(file, side) for side in numbers(file, shape.get("size"), 2))
    counts = shape.get("counts")
    try:
        lengths = uncompressed(counts) if isinstance(counts, str) else [int(length) for length in numbers(file, counts)]
        return Pixels(mask_of_runs(lengths, height, width, columns=True))
    except DippError as error:
        raise error.about(file.name) from None
    except ValueError as error:
        file.fail(str(error))


def uncompressed(counts: str) -> list[int]:
    """Return the run lengths that COCO's compressed text holds.

    A number is written in groups of five bits, the lowest first, each plus 48 as a character. A sixth bit says that
    more groups follow, and the highest bit of the last group is the sign. From the fourth number on, the text holds
    the difference to the number two places before.

    Raises:
        ValueError: The text is malformed or ends early.
    """
    lengths: list[int] = []
    value = shift = 0
    for character in counts:
        group = ord(character) - 48
        if not 0 <= group < 64:
            raise ValueError("has a mask whose run lengths are not COCO's")
        value |= (group & 31) << shift
        shift += 5
        if not group & 32:
            if group & 16:
                value -= 1 << shift
            lengths.append(value + (lengths[-2] if len(lengths) > 2 else 0))
            value = shift = 0
        elif shift > 60:
            raise ValueError("has a mask whose run lengths are not COCO's")
    if shift:
        raise ValueError("has a mask whose run lengths end early")
    return lengths
