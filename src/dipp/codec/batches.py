"""How pictures are taken: a file once, and as many at a time as a device holds."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from dipp.core.geometry import Geometry
from dipp.errors import DippError

BATCH = {"cpu": 16, "mps": 16, "cuda": 512}
"""Images that are encoded or decoded at a time, at most."""
BATCH_PIXELS = 1 << 20
"""Pixels of such a batch: it holds a larger image alone."""


def once(images: Iterable[Any]) -> Iterator[Any]:
    """The pictures as they are given; a file that was given before would be released twice, at the ε of one release."""
    seen: set[tuple[int, int]] = set()
    for image in images:
        if isinstance(image, str | os.PathLike):
            try:
                facts = Path(image).stat()
            except (OSError, ValueError):
                facts = None  # reading it will say so
            if facts is not None and facts.st_ino:  # which some file systems do not number
                if (facts.st_dev, facts.st_ino) in seen:
                    name = Path(image).name
                    raise DippError("images", f"{name} is given twice, and each encoding adds to its ε", "name it once")
                seen.add((facts.st_dev, facts.st_ino))
        yield image


def listed(images: Iterable[Any]) -> list[Any]:
    """Return all pictures at once; raise if two of them are one object, or one place in memory.

    That would be released twice, at the ε of one release. A generator that fills the same array for each picture gives
    such a list: by its end, the array holds the last picture alone.
    """
    found, first = list(images), dict[Any, int]()
    for number, image in enumerate(found):
        if not isinstance(image, str | os.PathLike) and (before := first.setdefault(_memory(image), number)) < number:
            raise DippError(
                "images",
                f"picture {number} is the same object as picture {before}, and each encoding adds to its ε",
                "give it once, and copy an array that is filled again",
            )
    return found


def _memory(image: Any) -> Any:
    """Return what two pictures share if they are the same values in memory; views of an array are objects anew."""
    if isinstance(image, np.ndarray):
        return image.__array_interface__["data"][0], image.shape, image.strides
    return id(image)


def name(image: Any) -> str | None:
    """Return the name of a picture that is given by its path; None for one in memory."""
    return Path(image).name if isinstance(image, str | os.PathLike) else None


def batch_size(device: str, geometry: Geometry) -> int:
    """Return how many images of a geometry are taken at a time on a type of device."""
    return max(1, min(BATCH[device], BATCH_PIXELS // geometry.pixels))
