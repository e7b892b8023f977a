"""The settings of a training run, and the pace and the batches that follow from them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dipp.errors import DippError
from dipp.training.objective import Shares

WARM_UP_STEPS = 200
MAX_SEED = 1 << 23
"""Bound of seeds. A resumed run adds its step in the 40 bits below the seed."""


@dataclass(frozen=True)
class Settings:
    """The settings of a training run."""

    steps: int | None = None
    """Length of the run in steps; None if `minutes` is given."""
    minutes: float | None = None
    """Length of the run in minutes, over all its parts; None if `steps` is given."""
    batch: int = 80
    """Number of large tiles in each step. There are ten times as many small tiles."""
    learning_rate: float = 3e-3
    """Peak of Muon's learning rate, which falls to zero at the end."""
    ema: float = 0.9995
    """Share of the running average of the weights that each step keeps. It is smaller at the start of a run."""
    coded: float = 0.5
    """Share of a batch whose states come from sensing chains."""
    told: float = 0.5
    """Share of the other states with evidence of other kinds: regions, partial answers and coarse pictures (`told`).

    If the run starts from a denoiser with words, half of it are answers by words. The rest of the batch has Gaussian
    noise. If it is 0, the network gets no planes for such evidence."""
    seed: int = 0

    def __post_init__(self) -> None:
        if (self.steps is None) == (self.minutes is None):
            raise DippError("steps and minutes", "must not both be given or both be missing", "give one of them")
        if not (self.steps is None or self.steps >= 1) or not (self.minutes is None or 0 < self.minutes < math.inf):
            raise DippError("steps and minutes", "must be above 0")
        if self.batch < 2:
            raise DippError(
                "batch",
                f"must be at least 2, got {self.batch}: a step takes a tile of a sensing chain and another one",
                "give 2, or train on smaller tiles by --size",
            )
        for name, value in (("learning_rate", self.learning_rate), ("coded", self.coded)):
            if not 0 < value < 1:
                raise DippError(name, f"must be above 0 and below 1, got {value}")
        for name, value in (("ema", self.ema), ("told", self.told)):
            if not 0 <= value < 1:
                raise DippError(name, f"must be at least 0 and below 1, got {value}")
        if not 0 <= self.seed < MAX_SEED:
            raise DippError("seed", f"must be a whole number from 0 to {MAX_SEED - 1}, got {self.seed}")

    def progress(self, step: int, seconds: float) -> float:
        """Return the share of the run that is done after a number of steps and seconds, from 0 to 1.

        Args:
            step: Number of steps.
            seconds: Duration so far.
        """
        return min(1.0, step / self.steps if self.steps else seconds / (60 * (self.minutes or math.inf)))

    def pace(self, since: int, progress: float) -> float:
        """Return the learning rate divided by its peak.

        Args:
            since: Steps since the run began or was resumed.
            progress: Share of the whole run that is done.
        """
        return min(1.0, (since + 1) / WARM_UP_STEPS) * (1 - progress)

    def sizes(self, tiles: int, most: int, *, worded: bool = False) -> Shares:
        """Divide the tiles of a batch among the kinds of states.

        Args:
            tiles: Number of tiles in the batch.
            most: Largest number of pictures in a cohort of chains. A cohort that answers by words has at most half.
            worded: Whether half of the pictures with other evidence answer by words.

        Returns:
            The number of tiles of each kind.
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
