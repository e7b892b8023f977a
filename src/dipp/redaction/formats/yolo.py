"""YOLO text, a file a picture, with the picture's name: a line a region, in shares of width and height.

    CLASS X Y WIDTH HEIGHT [CONFIDENCE]          CLASS X Y X Y X Y …          (centre of a box; points of a polygon)

Names of classes come from `classes.txt` or `obj.names` in the same folder, one a line.
"""

from __future__ import annotations

import re
from pathlib import Path

from dipp.redaction.formats.reading import Declarations, File, box, declared, number, pairs, polygon
from dipp.redaction.outlines import Outline
from dipp.redaction.regions import Region

NAMES = ("classes.txt", "obj.names")
LINE = re.compile(r"\s*\d+(\s+[-+.\deE]+){4,}\s*")


def recognises(file: File) -> bool:
    """Return whether a file is YOLO text; an empty one declares that there is nothing."""
    if file.text is None or file.path.suffix.lower() != ".txt":
        return False
    return all(LINE.fullmatch(line) for line in file.text.splitlines() if line.strip())


def read(file: File) -> Declarations:
    """Return the regions of the one picture of a file."""
    names = _names(file.path.parent)
    regions = []
    for line in (file.text or "").splitlines():
        if line.strip():
            kind, *words = line.split()
            values = [number(file, word) for word in words]
            label = names[int(kind)] if int(kind) < len(names) else kind
            regions.append(Region(_outline(file, values), label))
    return Declarations(stems={file.path.stem: declared(file, regions, relative=True)})


def _outline(file: File, values: list[float]) -> Outline:
    if len(values) > 5:
        return polygon(file, pairs(file, values))
    x, y, width, height = values[:4]
    if max(x, y, width, height) > 2:
        file.fail(f"shares of width and height are needed, got {x:g} {y:g} {width:g} {height:g}", "divide by the size")
    return box(file, x - width / 2, y - height / 2, x + width / 2, y + height / 2)


def _names(folder: Path) -> list[str]:
    """Return the names of classes, where a file has them."""
    for name in NAMES:
        if (folder / name).is_file():
            return [line.strip() for line in (folder / name).read_text("utf-8").splitlines()]
    return []
