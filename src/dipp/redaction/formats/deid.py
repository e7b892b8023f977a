"""Recipes of pydicom's deid: the boxes of `coordinates` and `ctpcoordinates`, for every picture.

    coordinates LEFT,TOP,RIGHT,BOTTOM          ctpcoordinates LEFT,TOP,WIDTH,HEIGHT          coordinates all

Recipes may choose boxes by the tags of a file. dipp does not evaluate such conditions, and refuses a recipe that has
them, because it cannot know which boxes apply to a picture.
"""

from __future__ import annotations

import re

from dipp.redaction.formats.reading import Declarations, File, box, declared, number
from dipp.redaction.outlines import Outline
from dipp.redaction.regions import Region

BOXES = re.compile(r"^\s*(coordinates|ctpcoordinates|keepcoordinates|ctpkeepcoordinates)\s+(\S.*)$", re.M)
CONDITIONS = re.compile(
    r"^\s*(?:[+|]+\s*)?(contains|notcontains|equals|notequals|missing|empty|present|notpresent)\s", re.M
)


def recognises(file: File) -> bool:
    """Return whether a file is a recipe of deid with boxes."""
    return file.text is not None and BOXES.search(file.text) is not None


def read(file: File) -> Declarations:
    """Return the boxes of a recipe, which apply to every picture; raise if the recipe has conditions."""
    recipe = file.text or ""
    if match := CONDITIONS.search(recipe):
        file.fail(f"has conditions ({match[1]} …), which are not evaluated", "keep the lines of coordinates that apply")
    whole_picture = False
    regions = []
    for kind, words in BOXES.findall(recipe):
        if "keep" in kind:
            file.fail(f"has {kind}, which names what is to stay", "name what is to be hidden, with coordinates")
        if words.strip().lower() == "all":
            whole_picture = True
        else:
            regions.append(Region(_outline(file, kind, words), "burnt-in"))
    if whole_picture:
        if regions:
            file.fail("has other boxes beside coordinates all, which hides everything", "leave out the other boxes")
        return Declarations(everywhere=declared(file, [Region(box(file, 0, 0, 1, 1), "burnt-in")], relative=True))
    return Declarations(everywhere=declared(file, regions))


def _outline(file: File, kind: str, rest: str) -> Outline:
    """Return the box that a line of a recipe states: its first word is `kind`, and `rest` holds four numbers."""
    values = [number(file, value) for value in rest.split("#")[0].split(",")]
    if len(values) != 4:
        file.fail(f"must give {kind} 4 numbers, got {rest.strip()!s:.40}")
    left, top, right, bottom = values
    if kind == "ctpcoordinates":
        right, bottom = left + right, top + bottom
    return box(file, left, top, right, bottom)
