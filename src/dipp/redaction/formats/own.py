"""dipp's own JSON format of regions, which `dipp regions` writes.

    {"format": "dipp regions", "version": 1, "pictures": [
      {"name": "street.jpg", "size": [4000, 3000], "boxes": "raw", "regions": [
        {"kind": "face", "id": "anna", "box": [LEFT, TOP, WIDTH, HEIGHT]},
        {"kind": "face", "edges": [LEFT, TOP, RIGHT, BOTTOM]},
        {"kind": "plate", "polygon": [[X, Y], [X, Y], [X, Y]]},
        {"kind": "name", "mask": {"size": [WIDTH, HEIGHT], "corner": [LEFT, TOP], "runs": [OUT, IN, OUT, …]}}]}]}

`size`, `boxes`, `kind` and `id` may be left out. `boxes` says whether coordinates belong to the picture as it is stored
(raw) or as it is turned by its EXIF orientation (oriented). The runs of a mask go row by row and begin with pixels
outside of the region.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dipp.errors import DippError
from dipp.redaction.formats.reading import Declarations, File, box, named, numbers, polygon, text, whole
from dipp.redaction.outlines import Outline, Pixels, mask_of_runs
from dipp.redaction.regions import DeclaredRegions, Region

FORMAT, VERSION = "dipp regions", 1
ORIENTED = {"raw": False, "oriented": True}


def recognises(file: File) -> bool:
    """Return whether a file is dipp's own JSON."""
    return isinstance(file.json, dict) and file.json.get("format") == FORMAT


def read(file: File) -> Declarations:
    """Return the regions of all pictures in a file of dipp's own JSON; raise if it is malformed."""
    content = file.json
    if content.get("version") != VERSION or not isinstance(content.get("pictures"), list):
        file.fail(f"must have version {VERSION} and a list of pictures")
    return named(file, (_picture(file, entry) for entry in content["pictures"]))


def _picture(file: File, entry: Any) -> tuple[str, DeclaredRegions]:
    """Return the name and the regions of one picture from its JSON."""
    if not isinstance(entry, dict) or not isinstance(entry.get("regions"), list):
        file.fail("must have a name and a list of regions for every picture")
    name = str(entry.get("name") or "")
    size = None
    if entry.get("size") is not None:
        width, height = numbers(file, entry["size"], 2)
        size = whole(file, width), whole(file, height)
    boxes = entry.get("boxes")
    if boxes is not None and boxes not in ORIENTED:
        file.fail(f"must have raw or oriented as boxes, got {boxes!s:.40}")
    regions = tuple(region(file, facts) for facts in entry["regions"])
    return name, DeclaredRegions(regions, size, False, file.name, ORIENTED.get(boxes) if boxes else None)


def region(file: File, entry: Any) -> Region:
    """Return a region from its JSON; raise if it is malformed.

    Args:
        file: The file that holds it, for errors.
        entry: The JSON of the region.
    """
    shapes = {"box", "edges", "polygon", "mask"} & set(entry) if isinstance(entry, dict) else set()
    if len(shapes) != 1:
        file.fail("must have one of box, edges, polygon and mask in every region")
    try:
        outline = _outline(file, entry)
    except DippError as error:
        raise error.about(file.name) from None
    return Region(outline, str(entry.get("kind") or "region"), text(entry.get("id")))


def _outline(file: File, entry: dict[str, Any]) -> Outline:
    """Return the outline of a region from its JSON."""
    if "box" in entry:
        left, top, width, height = numbers(file, entry["box"], 4)
        return box(file, left, top, left + width, top + height)
    if "edges" in entry:
        return box(file, *numbers(file, entry["edges"], 4))
    if "polygon" in entry:
        if not isinstance(entry["polygon"], list):
            file.fail("must have a list of points as polygon")
        points = [numbers(file, point, 2) for point in entry["polygon"]]
        return polygon(file, ((x, y) for x, y in points))
    mask = entry["mask"]
    if not isinstance(mask, dict) or not {"size", "runs"} <= mask.keys():
        file.fail("must have size and runs in every mask")
    width, height = (whole(file, side) for side in numbers(file, mask["size"], 2))
    left, top = (int(side) for side in numbers(file, mask.get("corner", [0, 0]), 2))
    lengths = [int(length) for length in numbers(file, mask["runs"])]
    return Pixels(mask_of_runs(lengths, height, width), left, top)


def packed(declared: DeclaredRegions | None) -> str | None:
    """Return the regions of one picture as text without loss; None if nothing is declared for it."""
    if declared is None:
        return None
    facts = [entry(region) for region in declared.regions]
    return json.dumps([facts, declared.size, declared.relative, declared.source, declared.oriented])


def unpacked(text: str | None) -> DeclaredRegions | None:
    """Return the regions that `packed` has written as text."""
    if text is None:
        return None
    facts, size, relative, source, oriented = json.loads(text)
    regions = tuple(region(File(Path(source), b""), entry) for entry in facts)
    return DeclaredRegions(regions, None if size is None else (size[0], size[1]), relative, source, oriented)


def entry(region: Region) -> dict[str, Any]:
    """Return the JSON of a region."""
    who = {} if region.id is None else {"id": region.id}
    return {"kind": region.kind, **who, **region.outline.facts()}
