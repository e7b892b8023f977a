"""Check that no picture is given twice, and say how many pictures a device takes at a time."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from dipp.core.geometry import Geometry
from dipp.errors import DippError

BATCH = {"cpu": 16, "mps": 16, "cuda": 512}
"""Largest number of images that are encoded or decoded at a time, by type of device."""
BATCH_PIXELS = 1 << 20
"""Largest number of pixels of a batch of several images. A larger image is a batch of its own."""


def without_repeats(images: Iterable[Any]) -> Iterator[Any]:
    """Yield pictures as they are given, or raise at a file that was given before.

    Such a file would be released twice, at the ε of one release.

    Args:
        images: Pictures of any kind. Only those that are paths are compared.
    """
    seen: set[tuple[int, int]] = set()
    for image in images:
        if isinstance(image, str | os.PathLike):
            try:
                facts = Path(image).stat()
            except (OSError, ValueError):
                facts = None  # a later step reads the file, and raises
            if facts is not None and facts.st_ino:  # some file systems do not number files
                if (facts.st_dev, facts.st_ino) in seen:
                    name = Path(image).name
                    raise DippError("images", f"name {name} twice, and each encoding adds to its ε", "name it once")
                seen.add((facts.st_dev, facts.st_ino))
        yield image


def listed(images: Iterable[Any]) -> list[Any]:
    """Return all pictures as a list, or raise if two of them are the same object or the same memory.

    Such a picture would be released twice, at the ε of one release. A generator that fills the same array for each
    picture gives such a list: in the end, the array holds the last picture alone.

    Args:
        images: The pictures, of any kinds that `codec.pictures.as_picture` accepts.
    """
    pictures, first = list(images), dict[Any, int]()
    for number, image in enumerate(pictures):
        if not isinstance(image, str | os.PathLike) and (before := first.setdefault(_memory(image), number)) < number:
            raise DippError(
                "images",
                f"hold the same object as picture {before} and as picture {number}, and each encoding adds to its ε",
                "give it once, and copy an array before you fill it again",
            )
    return pictures


def _memory(image: Any) -> Any:
    """Return a key that is equal for two pictures if they share their memory, as two views of an array do."""
    if isinstance(image, np.ndarray):
        return image.__array_interface__["data"][0], image.shape, image.strides
    return id(image)


def name(image: Any) -> str | None:
    """Return the file name of a picture that is given by its path; None for a picture in memory."""
    return Path(image).name if isinstance(image, str | os.PathLike) else None


def batch_size(device: str, geometry: Geometry) -> int:
    """Return how many images of a geometry are encoded or decoded at a time on a type of device.

    Args:
        device: Type of the device: cpu, mps or cuda.
        geometry: Geometry of the images.
    """
    return max(1, min(BATCH[device], BATCH_PIXELS // geometry.pixels))
