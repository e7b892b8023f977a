"""The pictures: the ORL database of faces [Samaria & Harter, 1994], 10 of each of 40 people, grey, 92×112.

Either a folder with a folder for each person (`s1` … `s40`, as it is published), or one sheet with a row for each
person. Research with credit: pictures are never kept in records or documents.

The first two people are left out: in a copy that is in circulation they are others, photographed elsewhere.
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
GALLERY = 5
"""Pictures of each person that an attacker has; the others are probes."""


@dataclass(frozen=True, eq=False)
class Faces:
    """Pictures of people, by person and number."""

    pictures: Pixels
    """People × 10 × 112 × 92 × 3; all channels are equal."""

    @property
    def people(self) -> int:
        """N."""
        return len(self.pictures)

    def part(self, first: int, last: int) -> tuple[Pixels, NDArray[np.int64]]:
        """Return pictures `first` to `last` − 1 of each person, and whose they are."""
        chosen = self.pictures[:, first:last]
        who = np.repeat(np.arange(self.people, dtype=np.int64), last - first)
        return np.ascontiguousarray(chosen.reshape(-1, HEIGHT, WIDTH, 3)), who

    @property
    def gallery(self) -> tuple[Pixels, NDArray[np.int64]]:
        """What an attacker has."""
        return self.part(0, GALLERY)

    @property
    def probes(self) -> tuple[Pixels, NDArray[np.int64]]:
        """What is protected."""
        return self.part(GALLERY, EACH)


def load(place: Path) -> Faces:
    """Read a folder or a sheet."""
    grey = _of_folder(place) if place.is_dir() else _of_sheet(place)
    return Faces(np.repeat(grey[LEFT_OUT:, ..., None], 3, axis=4))


def _of_sheet(path: Path) -> Pixels:
    with Image.open(path) as image:
        sheet = np.asarray(image.convert("L"))
    if sheet.shape != (PEOPLE * HEIGHT, EACH * WIDTH):
        raise DippError(f"faces: a sheet of 40 rows of 10 pictures of 92×112 is needed, got {sheet.shape}")
    return sheet.reshape(PEOPLE, HEIGHT, EACH, WIDTH).swapaxes(1, 2)


def _of_folder(folder: Path) -> Pixels:
    people = sorted((path for path in folder.glob("s*") if path.is_dir()), key=_number)
    rows = [[_grey(path) for path in sorted(person.glob("*.pgm"), key=_number)] for person in people]
    if len(rows) != PEOPLE or any(len(row) != EACH for row in rows):
        raise DippError(f"faces: {folder} needs folders s1 to s40 with ten .pgm files each")
    return np.array(rows)


def _grey(path: Path) -> Pixels:
    with Image.open(path) as image:
        return np.asarray(image.convert("L"))


def _number(path: Path) -> int:
    digits = re.search(r"\d+", path.stem)
    return int(digits.group()) if digits else 0
