"""Files of regions: one module for each format, with `recognises` and `read`, in the registry `FORMATS`.

| module | format |
|---|---|
| `own` | dipp's own JSON |
| `coco` | COCO JSON: boxes, polygons, run lengths |
| `labelme` | LabelMe JSON, one file for each picture |
| `voc` | Pascal VOC XML, one file for each picture |
| `cvat` | CVAT XML, for images and for videos |
| `deid` | recipes of pydicom's deid: `coordinates` and `ctpcoordinates` |
| `yolo` | YOLO text, one file for each picture |
| `masks` | PNG masks, one file for each picture |
| `column` | a column of a table, in place of a file |
| `reading` | what the formats share: names of pictures, numbers, JSON, XML |

A new format is a module and an entry in `FORMATS`. A file is read by the first format that recognises it.
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
"""Formats by name, in the order in which they are tried."""

__all__ = ["FORMATS", "Declarations", "load"]


def load(path: Path) -> Declarations:
    """Return the regions that a file declares, or all files in a folder.

    Args:
        path: A file or a folder.

    Raises:
        DippError: A file is malformed or has no known format, or two files declare regions for one picture.
    """
    if not path.exists():
        raise DippError("regions", f"must name a file, or a folder of files, that exists, got {path}")
    if path.is_dir():
        files = [file for file in sorted(path.iterdir()) if file.is_file() and not file.name.startswith(".")]
        declarations = Declarations()
        for file in files:
            if file.name not in yolo.NAMES:
                declarations = declarations.add(_load(File.open(file)))
        if not files:
            raise DippError(
                "regions", f"must not name an empty folder, got {path}", "name a folder with files of regions"
            )
        return declarations
    return _load(File.open(path))


def _load(file: File) -> Declarations:
    """Return the regions of a file, read by the first format that recognises it."""
    for file_format in FORMATS.values():
        if file_format.recognises(file):
            return file_format.read(file)
    raise DippError(file.name, "has no known format of regions", f"use one of {', '.join(FORMATS)}")
