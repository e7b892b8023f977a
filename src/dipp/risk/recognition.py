"""Recognisers: programs that say which of the people of a gallery a picture shows.

A recogniser learns from the pictures of a gallery, and scores each picture for each person. How often the right person
has the highest score is top-1; how often it is among the five highest is top-5.

| attacker | learns from | sees |
|---|---|---|
| naive | clean pictures | protected pictures |
| parrot | pictures that were protected in the same way | protected pictures |
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from dipp.errors import DippError

Pixels = NDArray[np.uint8]
"""Pictures (N, H, W, 3)."""
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Scores = Callable[[Pixels], Floats]
"""From pictures to scores, pictures × people; the highest is the guess."""

SIDE = 32
"""Longer side to which pictures are scaled for Fisherfaces, in pixels."""
RIDGE = 0.3
"""What is added to the scatter within people, as a share of its mean: it has no inverse otherwise."""


class Recogniser(Protocol):
    """A way to learn people from pictures."""

    @property
    def name(self) -> str:
        """Name in reports."""

    def fit(self, pictures: Pixels, people: Integers) -> Scores:
        """Return the scores that a gallery leads to; `people` are the numbers 0 … P − 1 of its pictures."""


class Recognition(NamedTuple):
    """How often the right person was named."""

    top1: float
    top5: float
    right: tuple[int, ...]
    """For each picture, how many people had a higher score than the right one."""


def recognition(scores: Floats, people: Integers) -> Recognition:
    """Return how often the right people have the highest scores; people of equal scores take their places by lot.

    Args:
        scores: Pictures × people.
        people: The right ones.
    """
    if scores.shape[0] != len(people) or not len(people):
        raise DippError("scores", f"a row for each of {len(people)} pictures is needed, got {scores.shape}")
    lots = np.random.default_rng(0).random(scores.shape)
    order = np.lexsort((lots, -scores), axis=1)
    places = np.argmax(order == people[:, None], axis=1)
    return Recognition(float((places < 1).mean()), float((places < 5).mean()), tuple(places.tolist()))


@dataclass(frozen=True)
class Fisherfaces:
    """Linear discriminants of principal components [Belhumeur, Hespanha & Kriegman, 1997], and the nearest picture."""

    name: str = "Fisherfaces"
    side: int = SIDE

    def fit(self, pictures: Pixels, people: Integers) -> Scores:
        """Return the scores of a gallery: minus the distance to the nearest picture of each person."""
        grey = greys(pictures, self.side)
        mean = grey.mean(axis=0)
        axes = _discriminants(grey - mean, people)
        known, count = (grey - mean) @ axes, int(people.max()) + 1

        def scores(probes: Pixels) -> Floats:
            return nearest((greys(probes, self.side) - mean) @ axes, known, people, count)

        return scores


def nearest(probes: Floats, known: Floats, people: Integers, count: int) -> Floats:
    """Return minus the distance of each probe to the nearest known vector of each of `count` people."""
    squares = np.square(probes).sum(1)[:, None] - 2 * probes @ known.T + np.square(known).sum(1)
    distances = np.sqrt(squares.clip(0))
    return np.stack([-distances[:, people == person].min(axis=1) for person in range(count)], axis=1)


def greys(pictures: Pixels, side: int) -> Floats:
    """Return pictures as rows of grey values, scaled so that the longer side has at most `side` pixels."""
    scale = min(1.0, side / max(pictures.shape[1:3]))
    height, width = (max(1, round(length * scale)) for length in pictures.shape[1:3])
    rows = [
        np.asarray(Image.fromarray(one).convert("L").resize((width, height), Image.Resampling.BOX)) for one in pictures
    ]
    return np.stack(rows).reshape(len(rows), -1).astype(np.float64)


def _discriminants(centred: Floats, people: Integers) -> Floats:
    """Return the axes, pixels × (P − 1), along which people differ most and pictures of one person least."""
    count, every = len(centred), np.unique(people)
    if count <= len(every):
        raise DippError(
            "people", f"at least two pictures are needed of some person, got {count} of {len(every)} people"
        )
    _, sizes, principal = np.linalg.svd(centred, full_matrices=False)
    kept = int(min(count - len(every), (sizes > 1e-9 * max(sizes[0], 1e-9)).sum()))
    basis = principal[: max(kept, 1)].T
    rows = centred @ basis
    means = np.stack([rows[people == person].mean(axis=0) for person in every])
    within = rows - means[np.searchsorted(every, people)]
    scatter = within.T @ within
    scatter += RIDGE * (np.trace(scatter) / len(scatter) + 1e-9) * np.eye(len(scatter))
    # Whitened within people, the principal axes between them.
    values, vectors = np.linalg.eigh(scatter)
    whitening = vectors / np.sqrt(values.clip(1e-12))
    weights = np.sqrt([(people == person).sum() for person in every])[:, None]
    between = weights * (means - rows.mean(axis=0)) @ whitening
    _, _, directions = np.linalg.svd(between, full_matrices=False)
    axes: Floats = basis @ whitening @ directions[: len(every) - 1].T
    return axes
