"""The pictures of people: ten of each person, in a folder for each person, all of the same size.

| set | pictures |
|---|---|
| ORL [Samaria & Harter, 1994] | 40 people, grey, 92×112; `s1` … `s40`, or one sheet with a row for each person |
| LFW [Huang et al., 2007] | any people with ten pictures or more, in colour, 250×250, with their surroundings |

The pictures may be used for research with credit; records and documents contain none. The first two people of ORL are
left out, because one common copy shows other people in their place.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from dipp.codec.pictures import Pixels
from dipp.errors import DippError

PEOPLE, EACH, HEIGHT, WIDTH = 40, 10, 112, 92
LEFT_OUT = 2
SUFFIXES = (".pgm", ".jpg", ".png")
BOXES: dict[tuple[int, ...], tuple[int, int, int, int]] = {
    (HEIGHT, WIDTH): (14, 110, 10, 82),
    (250, 250): (60, 200, 65, 185),
}
"""Top, bottom, left and right of the face, by height and width of the picture. Equal boxes tell nothing."""
GALLERY = 5
"""Number of pictures of each person that an attacker has; the others are probes."""


@dataclass(frozen=True, eq=False)
class Faces:
    """Pictures of people, by person and number."""

    pictures: Pixels
    """Pictures, people × 10 × H × W × 3."""

    @property
    def people(self) -> int:
        """Return the number of people."""
        return len(self.pictures)

    def part(self, first: int, last: int) -> tuple[Pixels, NDArray[np.int64]]:
        """Return pictures `first` to `last` − 1 of each person, and whose they are."""
        chosen = self.pictures[:, first:last]
        who = np.repeat(np.arange(self.people, dtype=np.int64), last - first)
        return np.ascontiguousarray(chosen.reshape(-1, *chosen.shape[2:])), who

    @property
    def gallery(self) -> tuple[Pixels, NDArray[np.int64]]:
        """Return the pictures that an attacker has."""
        return self.part(0, GALLERY)

    @property
    def probes(self) -> tuple[Pixels, NDArray[np.int64]]:
        """Return the pictures that are protected."""
        return self.part(GALLERY, EACH)


def load(place: Path) -> Faces:
    """Return the faces in a folder or on the sheet."""
    rows = _of_folder(place) if place.is_dir() else _of_sheet(place)
    if rows.shape[2:4] not in BOXES:
        raise DippError("faces", f"must have 92×112 or 250×250 pixels, got {rows.shape[3]}×{rows.shape[2]}")
    return Faces(rows[LEFT_OUT:] if len(rows) == PEOPLE else rows)


def _of_sheet(path: Path) -> Pixels:
    with Image.open(path) as image:
        sheet = np.asarray(image.convert("RGB"))
    if sheet.shape[:2] != (PEOPLE * HEIGHT, EACH * WIDTH):
        raise DippError("faces", f"must be a sheet of 40 rows of 10 pictures of 92×112, got {sheet.shape}")
    return sheet.reshape(PEOPLE, HEIGHT, EACH, WIDTH, 3).swapaxes(1, 2)


def _of_folder(folder: Path) -> Pixels:
    people = sorted((path for path in folder.iterdir() if path.is_dir()), key=_order)
    rows = [
        sorted((path for path in person.iterdir() if path.suffix in SUFFIXES), key=_order)[:EACH] for person in people
    ]
    if len(rows) < 2 or any(len(row) < EACH for row in rows):
        raise DippError(
            "faces",
            f"must be a folder with {EACH} pictures for each of two or more people, got {folder}",
        )
    pictures = [[_read(path) for path in row] for row in rows]
    if len({one.shape for row in pictures for one in row}) > 1:
        raise DippError("faces", f"must have one size, but {folder} has several")
    return np.array(pictures)


def _read(path: Path) -> Pixels:
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB"))


def _order(path: Path) -> tuple[int, str]:
    digits = re.search(r"\d+", path.stem)
    return int(digits.group()) if digits else 0, path.stem
