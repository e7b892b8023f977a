"""Questions without a good network: plans, random words, and a denoiser that shrinks and blurs."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from dipp.codec.codec import Codec
from dipp.codes import Closest
from dipp.core.channels import Sign
from dipp.core.closest import Weights
from dipp.core.plan import Coding, Plan
from dipp.core.steps import BLOCK, SIGNS, WORDS, Question
from dipp.core.unit import Unit
from dipp.core.units import Cells, Picture
from dipp.models.books import Book, Books
from dipp.models.denoiser import Denoiser, TimestepDenoiser
from helpers.networks import IDENTITY, linear_schedule

CODING = Coding(Sign(period=1), Closest())
FAMILIES = ("raw", "between 1", "between 2", "between 3", "again", "finer")
DIGEST = "0f" * 32
"""Digest of the random words."""


def question(
    split: int = 1,
    *,
    rounds: int = 1,
    bits: int = 4,
    epsilon: float = 2.0,
    best: int = 1,
    scale: float | None = None,
    snr: float = 4.0,
) -> Question:
    """Return a question by words or, with a scale, by signs."""
    law = Weights.within(1 << bits, best, epsilon)
    kind = (WORDS, 1.0) if scale is None else (SIGNS, scale)
    return Question(split, rounds, *kind, best, law.heavy, law.light, snr, 1, bits)


def questions_plan(unit: Unit, *steps: Question) -> Plan:
    """Return a plan of questions to units."""
    return Plan(CODING, steps, unit=unit)


PLANS = {
    "cells": questions_plan(Cells(8), question(rounds=4), question(2, bits=5, best=3, epsilon=1.5)),
    "cells by signs": questions_plan(Cells(8), question(rounds=2), question(2, bits=6, best=2, scale=0.25)),
    "picture": questions_plan(Picture(), question(), question(2, bits=5, epsilon=1.0)),
    "picture by signs": questions_plan(Picture(), question(bits=5, scale=0.5), question(4, scale=0.125)),
}
"""Plans for each unit and kind of candidates, with one, two and four rounds, and one or several draws per unit."""


def books(channels: int = 3, bits: tuple[int, ...] = (4, 5, 6)) -> Books:
    """Return random words of all families, the same every time."""
    generator = np.random.default_rng(0)
    made = {}
    for family in FAMILIES:
        for each in bits:
            words = generator.normal(0, 0.3, (1 << each, BLOCK**2 * channels)).astype(np.float32)
            made[family, each] = Book(words, generator.integers(1, 100, 1 << each))
    return Books(made, [], DIGEST)


class BlurringDenoiser(TimestepDenoiser):
    """A denoiser that predicts the mean of a pixel's neighbourhood, shrunk, without a network."""

    def __init__(self, channels: int = 3, *, any_size: bool = True, size: int = 16) -> None:
        self.schedule = linear_schedule()
        self.identity = IDENTITY
        self.channels = channels
        self.sample_size = (size, size)
        self.any_size = any_size
        self.device = torch.device("cpu")
        self.books = books(channels)

    def x0(self, x_t: torch.Tensor, t: int, *, fast: bool = False) -> torch.Tensor:  # noqa: ARG002
        """Return 0.8 times the mean of 3×3 pixels of the state without its noise."""
        padded = torch.nn.functional.pad(x_t / self.schedule.gamma(t), (1, 1, 1, 1), mode="replicate")
        return 0.8 * torch.nn.functional.avg_pool2d(padded, 3, 1).clamp(-1, 1)


def codec_of(plan: Plan, denoiser: Denoiser | None = None) -> Codec:
    """Return a codec of a plan of questions, by default with the blurring denoiser."""
    return Codec(denoiser or BlurringDenoiser(), plan, table=DIGEST)


def noise(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    """Return a picture of noise."""
    return np.random.default_rng(seed).integers(0, 256, shape, np.uint8)
