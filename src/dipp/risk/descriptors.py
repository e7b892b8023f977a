"""Faces by dlib: where they are, five landmarks, and descriptors that are near for one person [King, 2017].

This needs the package dlib with its weights: the extra `risk`. The weights are those of `face_recognition_models` (the
network and the five landmarks are in the public domain).

A picture in which no face is found is described all the same: an attacker who knows that it shows a face takes its
middle. So a recogniser is never helped by a detector that fails.
"""

from __future__ import annotations

import functools
import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from dipp.errors import DippError
from dipp.risk.recognition import Floats, Integers, Pixels, Scores, nearest

LONGER = 240
"""Pixels of the longer side to which smaller pictures are enlarged: dlib finds faces of 80 pixels and more."""
MIDDLE = 0.8
"""Side of the square in the middle that stands for a face which was not found, over the shorter side."""
CHIP = 150
"""Side of the picture that dlib's network takes."""


class Face(NamedTuple):
    """What dlib says of the largest face of a picture."""

    found: bool
    """Whether a face was found; the rest is about the picture's middle otherwise."""
    landmarks: Floats
    """Corners of both eyes and the base of the nose: 5 × (x, y), in pixels."""
    descriptor: Floats | None
    """128 numbers; people differ where distances exceed 0.6. None if they were not asked for."""


def installed() -> bool:
    """Return whether dlib and its weights are there."""
    return all(importlib.util.find_spec(name) is not None for name in ("dlib", "face_recognition_models"))


def face(picture: Pixels, *, describe: bool = True) -> Face:
    """Return what dlib says of the largest face of a picture (H, W, 3); descriptors take a third of a second."""
    dlib, detector, landmarks, network = _loaded()
    scale = max(1.0, LONGER / max(picture.shape[:2]))
    height, width = (round(length * scale) for length in picture.shape[:2])
    enlarged = np.asarray(Image.fromarray(picture).resize((width, height), Image.Resampling.BICUBIC))
    boxes = list(detector(enlarged, 0))
    box = max(boxes, key=lambda one: one.area()) if boxes else _middle(dlib, height, width)
    shape = landmarks(enlarged, box)
    points = np.array([(point.x, point.y) for point in shape.parts()], float) / scale
    if not describe:
        return Face(bool(boxes), points, None)
    chip = dlib.get_face_chip(enlarged, shape, CHIP)
    return Face(bool(boxes), points, np.array(network.compute_face_descriptor(chip)))


@dataclass(frozen=True)
class Dlib:
    """The nearest descriptor."""

    name: str = "dlib"

    def fit(self, pictures: Pixels, people: Integers) -> Scores:
        """Return the scores of a gallery: minus the distance to the nearest descriptor of each person."""
        known, count = described(pictures), int(people.max()) + 1

        def scores(probes: Pixels) -> Floats:
            return nearest(described(probes), known, people, count)

        return scores


def described(pictures: Pixels) -> Floats:
    """Return the descriptors of pictures, N × 128."""
    return np.stack([np.asarray(face(picture).descriptor) for picture in pictures])


def _middle(dlib: Any, height: int, width: int) -> Any:
    side = int(MIDDLE * min(height, width))
    left, top = (width - side) // 2, (height - side) // 2
    return dlib.rectangle(left, top, left + side, top + side)


@functools.cache
def _loaded() -> tuple[Any, Any, Any, Any]:
    """Return dlib, its detector of faces, the landmarks and the network; the package of weights is not imported."""
    if not installed():
        raise DippError("dlib", 'the recogniser needs the extra "risk"', 'in a checkout of dipp, pip install ".[risk]"')
    import dlib

    spec = importlib.util.find_spec("face_recognition_models")
    folder = Path(str(spec.origin if spec else "")).parent / "models"
    landmarks = dlib.shape_predictor(str(folder / "shape_predictor_5_face_landmarks.dat"))
    network = dlib.face_recognition_model_v1(str(folder / "dlib_face_recognition_resnet_model_v1.dat"))
    return dlib, dlib.get_frontal_face_detector(), landmarks, network
