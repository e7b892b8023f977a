"""Pascal VOC XML, one file for each picture.

Some programs count pixels from 1, as VOC does, and others from 0. The hidden box covers both meanings.
"""

from __future__ import annotations

from xml.etree.ElementTree import Element

from dipp.redaction.formats.reading import Declarations, File, box, declared, named, number
from dipp.redaction.regions import Region


def recognises(file: File) -> bool:
    """Return whether a file is VOC XML."""
    return file.xml is not None and file.xml.tag == "annotation"


def read(file: File) -> Declarations:
    """Return the regions of the picture that a VOC file is about; raise if the file is malformed."""
    root = file.xml
    assert root is not None  # noqa: S101 - `recognises` was asked
    size = root.findtext("size/width"), root.findtext("size/height")
    stated = None if size in ((None, None), ("0", "0")) else size
    regions = [_region(file, entry) for entry in root.iter("object")]
    return named(file, [((root.findtext("filename") or "").strip(), declared(file, regions, stated))])


def _region(file: File, entry: Element) -> Region:
    """Return the region of an object."""
    words = [entry.findtext(f"bndbox/{name}") for name in ("xmin", "ymin", "xmax", "ymax")]
    if None in words:
        file.fail("has an object without a bndbox of xmin, ymin, xmax and ymax")
    left, top, right, bottom = (number(file, word) for word in words)
    if right < left or bottom < top:
        file.fail(f"has an empty box from {left:g},{top:g} to {right:g},{bottom:g}", "exchange its ends")
    return Region(box(file, left - 1, top - 1, right + 1, bottom + 1), entry.findtext("name") or "region")
