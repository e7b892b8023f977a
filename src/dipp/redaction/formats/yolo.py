"""YOLO text, one file for each picture and with its name: one line for each region, in shares of width and height.

    CLASS X Y WIDTH HEIGHT [CONFIDENCE]          CLASS X Y X Y X Y …          (centre of a box; points of a polygon)

Names of classes come from `classes.txt` or `obj.names` in the same folder, one in each line.

Lines of a *pose* (CLASS X Y WIDTH HEIGHT and then keypoints) are not read. With an odd count of numbers they are no
polygon. With visibility flags, each third number after the box is 0, 1 or 2, and such a line is refused. K keypoints
without flags are 4 + 2K numbers between 0 and 1, and so is a polygon of K + 2 points: nothing in the line tells them
apart, and the line is read as a polygon.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from dipp.redaction.formats.reading import Declarations, File, box, declared, number, pairs, polygon
from dipp.redaction.outlines import Outline
from dipp.redaction.regions import Region

NAMES = ("classes.txt", "obj.names")
LINE = re.compile(r"\s*\d+(\s+[-+.\deE]+){4,}\s*")


def recognises(file: File) -> bool:
    """Return whether a file is YOLO text; an empty .txt file is, and declares that there is nothing to hide."""
    if file.text is None or file.path.suffix.lower() != ".txt":
        return False
    return all(LINE.fullmatch(line) for line in file.text.splitlines() if line.strip())


def read(file: File) -> Declarations:
    """Return the regions of the picture that a YOLO file is about; raise if the file is malformed."""
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
    """Return the box or the polygon of a line; raise if it may be the keypoints of a pose."""
    if len(values) > 5:
        if len(values) % 2 or _is_flagged(values):
            file.fail(
                f"has a line of {len(values)} numbers after the class, which may be keypoints of a pose",
                "of a pose keep CLASS X Y WIDTH HEIGHT alone; let a polygon begin at another of its points",
            )
        return polygon(file, pairs(file, values))
    x, y, width, height = values[:4]
    if max(x, y, width, height) > 2:
        file.fail(f"must give shares of width and height, got {x:g} {y:g} {width:g} {height:g}", "divide by the size")
    return box(file, x - width / 2, y - height / 2, x + width / 2, y + height / 2)


def _is_flagged(values: Sequence[float]) -> bool:
    """Return whether the numbers of a line may be a box and keypoints X Y VISIBILITY, with visibilities 0, 1 and 2."""
    return len(values) % 3 == 1 and all(value in (0, 1, 2) for value in values[6::3])


def _names(folder: Path) -> list[str]:
    """Return the names of the classes 0, 1, …; empty if no file in the folder states them."""
    for name in NAMES:
        if (folder / name).is_file():
            return [line.strip() for line in (folder / name).read_text("utf-8").splitlines()]
    return []
