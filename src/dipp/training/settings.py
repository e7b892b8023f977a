"""The settings of a training run, and how it divides its time and its batches by them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dipp.errors import DippError
from dipp.training.objective import Shares

WARM_UP_STEPS = 200
MAX_SEED = 1 << 23
"""Largest seed of a run; a part of it that is resumed has a seed of its own, in the 40 bits below."""


@dataclass(frozen=True)
class Settings:
    """The settings on which the course of a run depends."""

    steps: int | None = None
    """Length of the run in steps; None if `minutes` is given."""
    minutes: float | None = None
    """Length of the run in minutes, over all its parts; None if `steps` is given."""
    batch: int = 80
    """Large tiles in each step; there are ten times as many small ones."""
    learning_rate: float = 3e-3
    """Its peak, of Muon; it falls to zero at the end."""
    ema: float = 0.9995
    """Decay per step of the running average of the weights; at the start of a run it is smaller."""
    coded: float = 0.5
    """Share of a batch that are states of sensing chains."""
    told: float = 0.5
    """Share of all others with evidence of other kinds: regions, partial answers, coarse pictures (`told`) and, if the
    run starts from a denoiser that has words, answers by these. The rest has Gaussian noise. If it is 0, a network gets
    no planes for such evidence."""
    seed: int = 0

    def __post_init__(self) -> None:
        if (self.steps is None) == (self.minutes is None):
            raise DippError("steps, minutes", "must not both be given or both be missing", "give one of them")
        if not (self.steps is None or self.steps >= 1) or not (self.minutes is None or 0 < self.minutes < math.inf):
            raise DippError("steps, minutes", "must be above 0")
        if self.batch < 2 or not 0 < self.learning_rate < 1 or not 0 <= self.ema < 1 or not 0 < self.coded < 1:
            raise DippError("train", "needs batch ≥ 2, 0 < learning-rate < 1, 0 ≤ ema < 1 and 0 < coded < 1")
        if not 0 <= self.told < 1:
            raise DippError("told", f"must be at least 0 and below 1, got {self.told}")
        if not 0 <= self.seed < MAX_SEED:
            raise DippError("seed", f"must be a whole number from 0 to {MAX_SEED - 1}, got {self.seed}")

    def progress(self, step: int, seconds: float) -> float:
        """Return the share of the run that is done after a number of steps and seconds, from 0 to 1."""
        return min(1.0, step / self.steps if self.steps else seconds / (60 * (self.minutes or math.inf)))

    def pace(self, since: int, progress: float) -> float:
        """The learning rate over its peak, `since` steps into this part of the run."""
        return min(1.0, (since + 1) / WARM_UP_STEPS) * (1 - progress)

    def sizes(self, tiles: int, most: int, *, worded: bool = False) -> Shares:
        """Divide the tiles of a batch; if pictures answer by words, they are half of those with other evidence.

        Args:
            tiles: Tiles of the batch.
            most: Pictures of a cohort of chains, at most; of words, half of it.
            worded: Whether pictures answer by words.
        """
        chains = min(tiles - 1, max(1, round(tiles * self.coded)))
        cohort = min(most, chains)
        cohorts = chains // cohort
        others = tiles - cohorts * cohort
        told = min(others - 1, round(others * self.told))
        half = told // 2 if worded else 0
        each = min(most // 2, half)
        answering = (half // each, each) if each else (0, 0)
        told -= math.prod(answering)
        return Shares(cohorts, cohort, others - told - math.prod(answering), told, answering)
