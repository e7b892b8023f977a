"""Regions in a column of a table, beside the picture that they are for.

Null declares nothing for its picture. Any other value holds one of these:

| value | what is hidden |
|---|---|
| objects of the hub: `{"bbox": [[LEFT, TOP, WIDTH, HEIGHT], …], "category": […]}`, or a list of objects | as in COCO |
| `[[LEFT, TOP, WIDTH, HEIGHT], …]` | boxes |
| regions of dipp's own JSON: `[{"kind": "face", "box": […]}, …]` | boxes, polygons, masks |
| a PNG, as bytes or {bytes, path} | its pixels that are not 0 |
| text | JSON of one of the first three |

Some datasets store the right and lower edge in place of width and height. Read as width and height, they hide at
least the box that was meant.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from dipp.redaction.formats import coco, masks, own
from dipp.redaction.formats.reading import File, box, numbers
from dipp.redaction.regions import DeclaredRegions, Region

PREFIX = "column:"
"""Beginning of the text that users give in place of a file of regions: `column:NAME`."""
KINDS = ("category", "category_id", "label", "kind", "class")
"""Keys of an object that may state its kind; the first one that is present counts."""
OWN = {"box", "edges", "polygon", "mask"}
"""Keys by which an object of dipp's own JSON is recognised."""


def of(name: str, value: Any, size: tuple[Any, Any] | None, kinds: Sequence[str]) -> DeclaredRegions | None:
    """Return the regions that a value declares for its picture; None if it is null.

    Args:
        name: Names of the column and the row, for errors.
        value: The value of the column in one row.
        size: Width and height of the picture; None if the table does not state them.
        kinds: Names of the classes 0, 1, …; empty if they are not known.

    Raises:
        DippError: The value holds no regions, or malformed ones.
    """
    if value is None:
        return None
    file = File(Path(name), b"")
    content = value.get("bytes") if isinstance(value, dict) else value
    if isinstance(content, bytes):
        (declared,) = masks.read(File(Path(name), content)).stems.values()
        return declared
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            file.fail("holds text that is not JSON", "write boxes, objects, or regions of dipp's own JSON")
    entries = _entries(file, value)
    regions = [
        region
        for number, entry in enumerate(entries)
        for region in _regions(file, entry, kinds, f"object {number} of {name}")
    ]
    return coco.sized(file, regions, size, (entry for entry in entries if isinstance(entry, dict)))


def _entries(file: File, value: Any) -> list[Any]:
    """Return the objects in a value of the column; a struct of lists has the n-th object in its n-th items."""
    if isinstance(value, dict) and isinstance(value.get("bbox"), list):
        count = len(value["bbox"])
        lists = {name: values for name, values in value.items() if isinstance(values, list)}
        if any(len(values) != count for values in lists.values()):
            file.fail("holds lists of objects that differ in length")
        return [{name: values[row] for name, values in lists.items()} for row in range(count)]
    if not isinstance(value, list):
        file.fail("must hold boxes, objects with a bbox, regions of dipp's own JSON, or a PNG mask")
    return value


def _regions(file: File, entry: Any, kinds: Sequence[str], name: str) -> Iterator[Region]:
    """Yield the regions of one object; several parts of an object share one id, by default `name`."""
    if isinstance(entry, list):
        left, top, width, height = numbers(file, entry, 4)
        yield Region(box(file, left, top, left + width, top + height))
    elif not isinstance(entry, dict):
        file.fail(f"must hold boxes or objects, got {entry!s:.40}")
    elif OWN & entry.keys():
        yield own.region(file, entry)
    else:
        kind: Any = next((entry[name] for name in KINDS if entry.get(name) is not None), "region")
        named = isinstance(kind, int) and 0 <= kind < len(kinds)
        yield from coco.in_parts(file, entry, kinds[kind] if named else str(kind), name)
