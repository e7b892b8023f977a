"""Recognisers: programs that say which person of a gallery a picture shows.

A recogniser learns from the pictures of a gallery, and scores each probe (a picture of an unknown person) for each
person. Top-1 is how often the right person has the highest score; top-5 is how often the right person is among the five
highest.

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
"""Pictures (N, H, W, 3), or one picture (H, W, 3)."""
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Scores = Callable[[Pixels], Floats]
"""A function from N pictures to their scores (N, people); the person with the highest score is the guess."""

SIDE = 32
"""Longer side in pixels to which pictures are reduced for Fisherfaces."""
RIDGE = 0.3
"""What is added to the scatter within people so that it has an inverse, as a share of its mean."""


class Recogniser(Protocol):
    """A program that learns to recognise people from the pictures of a gallery."""

    @property
    def name(self) -> str:
        """Name of the recogniser in reports."""

    def fit(self, pictures: Pixels, people: Integers) -> Scores:
        """Learn from a gallery, and return a function that scores pictures for its people.

        Args:
            pictures: The gallery, uint8 (N, H, W, 3).
            people: The person of each picture, as a number from 0 to P − 1: int64 (N,).

        Returns:
            A function from pictures (M, H, W, 3) to scores (M, P).
        """


class Recognition(NamedTuple):
    """How often a recogniser named the right person."""

    top1: float
    """Share of pictures for which the right person has the highest score."""
    top5: float
    """Share of pictures for which the right person is among the five highest scores."""
    right: tuple[int, ...]
    """For each picture, the number of people who are ranked before the right one."""


def recognition(scores: Floats, people: Integers) -> Recognition:
    """Return how often the right person has the highest score; equal scores are ranked at random.

    Args:
        scores: float64 (pictures, people).
        people: For each picture, the number of the right person: int64 (pictures,).

    Raises:
        DippError: There are no pictures, or their numbers differ.
    """
    if scores.shape[0] != len(people) or not len(people):
        raise DippError("scores", f"must have a row for each of {len(people)} pictures, got shape {scores.shape}")
    lots = np.random.default_rng(0).random(scores.shape)
    order = np.lexsort((lots, -scores), axis=1)
    ranks = np.argmax(order == people[:, None], axis=1)
    return Recognition(float((ranks < 1).mean()), float((ranks < 5).mean()), tuple(ranks.tolist()))


@dataclass(frozen=True)
class Fisherfaces:
    """A recogniser by linear discriminants of principal components [Belhumeur, Hespanha & Kriegman, 1997].

    It names the person of the nearest picture along the discriminants.
    """

    name: str = "Fisherfaces"
    side: int = SIDE
    """Longer side in pixels to which pictures are reduced."""

    def fit(self, pictures: Pixels, people: Integers) -> Scores:
        """Learn from a gallery, and return scores: minus the distance of a probe to each person's nearest picture.

        Args:
            pictures: Pictures of the gallery, uint8 (N, H, W, 3).
            people: Number of the person in each picture.

        Returns:
            A function from probes (M, H, W, 3) to scores (M, people).

        Raises:
            DippError: The gallery does not have two pictures of any person.
        """
        grey = greys(pictures, self.side)
        mean = grey.mean(axis=0)
        axes = _discriminants(grey - mean, people)
        known, count = (grey - mean) @ axes, int(people.max()) + 1

        def scores(probes: Pixels) -> Floats:
            return nearest((greys(probes, self.side) - mean) @ axes, known, people, count)

        return scores


def nearest(probes: Floats, known: Floats, people: Integers, count: int) -> Floats:
    """Return minus the distance of each probe to the nearest known vector of each person.

    Args:
        probes: float64 (N, D).
        known: Vectors of the gallery, float64 (M, D).
        people: The person of each known vector, from 0 to `count` − 1: int64 (M,).
        count: Number of people.

    Returns:
        float64 (N, `count`).
    """
    squares = np.square(probes).sum(1)[:, None] - 2 * probes @ known.T + np.square(known).sum(1)
    distances = np.sqrt(squares.clip(0))
    return np.stack([-distances[:, people == person].min(axis=1) for person in range(count)], axis=1)


def greys(pictures: Pixels, side: int) -> Floats:
    """Return pictures as rows of grey values, reduced so that the longer side has at most `side` pixels.

    Args:
        pictures: uint8 (N, H, W, 3).
        side: Largest length of the longer side, in pixels.

    Returns:
        float64 (N, h·w), from 0 to 255.
    """
    scale = min(1.0, side / max(pictures.shape[1:3]))
    height, width = (max(1, round(length * scale)) for length in pictures.shape[1:3])
    rows = [
        np.asarray(Image.fromarray(picture).convert("L").resize((width, height), Image.Resampling.BOX))
        for picture in pictures
    ]
    return np.stack(rows).reshape(len(rows), -1).astype(np.float64)


def _discriminants(centred: Floats, people: Integers) -> Floats:
    """Return the axes along which people differ most, and pictures of one person least.

    Args:
        centred: Pictures of the gallery as rows of grey values, less their mean: float64 (N, pixels).
        people: The person of each picture, int64 (N,).

    Returns:
        float64 (pixels, people − 1).
    """
    count, every = len(centred), np.unique(people)
    if count <= len(every):
        raise DippError(
            "people", f"must have two pictures of at least one person, got {count} pictures of {len(every)} people"
        )
    _, sizes, principal = np.linalg.svd(centred, full_matrices=False)
    kept = int(min(count - len(every), (sizes > 1e-9 * max(sizes[0], 1e-9)).sum()))
    basis = principal[: max(kept, 1)].T
    rows = centred @ basis
    means = np.stack([rows[people == person].mean(axis=0) for person in every])
    within = rows - means[np.searchsorted(every, people)]
    scatter = within.T @ within
    scatter += RIDGE * (np.trace(scatter) / len(scatter) + 1e-9) * np.eye(len(scatter))
    # Whiten the scatter within people, then take the principal axes of the means of people.
    values, vectors = np.linalg.eigh(scatter)
    whitening = vectors / np.sqrt(values.clip(1e-12))
    weights = np.sqrt([(people == person).sum() for person in every])[:, None]
    between = weights * (means - rows.mean(axis=0)) @ whitening
    _, _, directions = np.linalg.svd(between, full_matrices=False)
    axes: Floats = basis @ whitening @ directions[: len(every) - 1].T
    return axes
