"""Glasses: labels by hand of who wears them, and a recogniser that learns from pictures of other people."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from dipp.codec.pictures import Pixels
from dipp.risk.descriptors import Face
from dipp.risk.recognition import Floats, Integers
from experiments.people.faces import EACH, GALLERY, HEIGHT, LEFT_OUT, PEOPLE, WIDTH, Faces

EVERY = tuple(range(1, EACH + 1))
WORN = {
    **dict.fromkeys((6, 14, 27, 28, 31, 34, 37), EVERY),
    **dict.fromkeys((13, 17), (1, 2, 5, 6, 7, 8, 9, 10)),
    4: (1, 2, 3, 8, 9),
    7: (4, 5, 10),
    19: (1, 2, 3, 6, 10),
    20: (1, 2, 3, 5, 7, 8, 9, 10),
    36: (9, 10),
}
"""Numbers of the pictures with glasses, by person of ORL."""
STRIP = (64, 32)
"""Width and height of the strip around the eyes."""
LEFT, RIGHT = np.array([16.0, 12.0]), np.array([48.0, 12.0])
"""Positions of the eyes in the strip."""
RIDGE = 1.0

Labels = NDArray[np.bool_]


def labels(faces: Faces) -> tuple[Labels, Labels] | None:
    """Return whether each picture of the gallery and of the probes shows glasses; None for pictures without labels."""
    if faces.pictures.shape[:4] != (PEOPLE - LEFT_OUT, EACH, HEIGHT, WIDTH):
        return None
    rows = np.array([[n in WORN.get(who, ()) for n in EVERY] for who in range(LEFT_OUT + 1, PEOPLE + 1)])
    return rows[:, :GALLERY].reshape(-1), rows[:, GALLERY:].reshape(-1)


def strips(pictures: Pixels, described: Sequence[Face]) -> Floats:
    """Return the edges in the strip around the eyes that dlib finds, N × values."""
    return np.stack([_edges(*pair) for pair in zip(pictures, described, strict=True)])


def right(learnt: Floats, worn: Labels, owners: Integers, asked: Floats, truth: Labels, who: Integers) -> float:
    """Return the mean share of right answers about pictures with and without glasses; a guess is right in half.

    Args:
        learnt: Strips to learn from.
        worn: Whether each shows glasses.
        owners: The person on each strip; strips of a person do not teach answers about the same person.
        asked: Strips to answer about.
        truth: The right answers.
        who: The person on each of these strips.
    """
    said = np.zeros(len(asked))
    for person in np.unique(who):
        others, own = owners != person, who == person
        said[own] = _scores(learnt[others], worn[others], asked[own])
    return float(np.mean([((said > 0) == truth)[truth == glasses].mean() for glasses in (True, False)]))


def _edges(picture: Pixels, face: Face) -> Floats:
    left, right = sorted((face.landmarks[:2].mean(axis=0), face.landmarks[2:4].mean(axis=0)), key=lambda eye: eye[0])
    along = (right - left) / (RIGHT - LEFT)[0]
    turn = np.array([[along[0], -along[1]], [along[1], along[0]]])
    onto = np.column_stack([turn, left - turn @ LEFT])
    grey = Image.fromarray(picture).convert("L")
    strip = grey.transform(STRIP, Image.Transform.AFFINE, tuple(onto.ravel()), Image.Resampling.BILINEAR)
    values = np.asarray(strip, float)
    values = (values - values.mean()) / (values.std() + 1e-6)
    down, across = np.abs(np.diff(values, axis=0))[:-1], np.abs(np.diff(values, axis=1))[:, :-1]
    return np.concatenate([_halved(down), _halved(across)])


def _halved(values: Floats) -> Floats:
    """Return means of 2×2 values as a row."""
    height, width = (length // 2 for length in values.shape)
    return np.asarray(values.reshape(height, 2, width, 2).mean(axis=(1, 3)).ravel())


def _scores(learnt: Floats, worn: Labels, asked: Floats) -> Floats:
    """Return the scores of a ridge regression in which both answers weigh the same: above 0 for glasses."""
    mean = learnt.mean(axis=0)
    rows, target = learnt - mean, np.where(worn, 1.0, -1.0)
    weights = np.sqrt(np.where(worn, 0.5 / worn.mean(), 0.5 / (1 - worn.mean())))
    weighed = rows * weights[:, None]
    kernel = weighed @ weighed.T
    kernel += (RIDGE * np.trace(kernel) / len(kernel) + 1e-9) * np.eye(len(kernel))
    return np.asarray((asked - mean) @ weighed.T @ np.linalg.solve(kernel, weights * target))
