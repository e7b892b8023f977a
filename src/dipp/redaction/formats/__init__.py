"""Files of regions: one module a format, each with `recognises` and `read`, in the registry `FORMATS`.

| module | format |
|---|---|
| `own` | dipp's own JSON |
| `coco` | COCO JSON: boxes, polygons, run lengths |
| `labelme` | LabelMe JSON, a file a picture |
| `voc` | Pascal VOC XML, a file a picture |
| `cvat` | CVAT XML, for images and for videos |
| `deid` | recipes of pydicom's deid: `coordinates` and `ctpcoordinates` |
| `yolo` | YOLO text, a file a picture |
| `masks` | PNG masks, a file a picture |
| `column` | a column of a table, which is no file |
| `reading` | what they share: names of pictures, numbers, JSON, XML |

A new format is a module and an entry in `FORMATS`. The first one that recognises a file reads it.
"""

from __future__ import annotations

from pathlib import Path

from dipp.errors import DippError
from dipp.redaction.formats import coco, cvat, deid, labelme, masks, own, voc, yolo
from dipp.redaction.formats.reading import Declarations, File, Format

FORMATS: dict[str, Format] = {
    "dipp": own,
    "coco": coco,
    "labelme": labelme,
    "voc": voc,
    "cvat": cvat,
    "deid": deid,
    "yolo": yolo,
    "mask": masks,
}
"""By name, in the order in which they are tried."""

__all__ = ["FORMATS", "Declarations", "load"]


def load(path: Path) -> Declarations:
    """Return all regions that a file, or every file of a folder, declares.

    Raises:
        DippError: A file is malformed or of no known format, or two files declare regions for one picture.
    """
    if not path.exists():
        raise DippError(
            "regions",
            f"must name a file or folder that exists, got {path}",
            "name a file, or a folder of files, with regions",
        )
    if path.is_dir():
        places = [one for one in sorted(path.iterdir()) if one.is_file() and not one.name.startswith(".")]
        found = Declarations()
        for one in places:
            if one.name not in yolo.NAMES:
                found = found.add(_load(File.open(one)))
        if not places:
            raise DippError(
                "regions", f"must not name an empty folder, got {path}", "name a folder with files of regions"
            )
        return found
    return _load(File.open(path))


def _load(file: File) -> Declarations:
    for one in FORMATS.values():
        if one.recognises(file):
            return one.read(file)
    raise DippError(file.name, "has no known format of regions", f"use one of {', '.join(FORMATS)}")
