"""What a plan costs the worst pixel, and what a budget allows.

A step costs a pixel a selection for each chunk that holds coordinates of it which the step touches. With ε₁ the ε of
a selection in which one of them takes part (`Arithmetic.epsilon`), a step is charged as follows, rounding η included:

| channel | chunks of the step | selections charged | Σ ε | Σ ρ |
|---|---|---|---|---|
| noise on all C coordinates | any | one with all C | C·ε₁ | C²·ε₁²/8 |
| noise on all C coordinates | at least C, kept apart by `dipp.chunking` | C with one each | C·ε₁ | C·ε₁²/8 |
| sign, period ≥ C | any | one with one, in the C steps of a cycle that touch the pixel | ε₁ | ε₁²/8 |

The first row is the worst case of any deal: k selections with Σt = C coordinates cost Σ(t·(ε₁ − η) + η) ≤ C·ε₁ in pure
ε, and the sum of the squares is largest when all are together. With a period P above C a pixel sits out P − C steps of
each cycle. Which ones, its public rank modulo P says; the ranks are shuffled anew in each cycle, so some pixel may meet
the dearest steps of every cycle, and that pixel is the one that counts. No average over pixels is taken anywhere.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dipp import arithmetic, selection
from dipp.channels import Channel, Sign
from dipp.errors import DippError
from dipp.plan import Mechanism, Plan
from dipp.privacy import conversions

Floats = NDArray[np.float64]

MIN_BUDGET = 1e-30
"""Far below the cost of any step, and far above where floating-point numbers end."""
SLACK = 1 + 2.0**-28
"""Estimates of charges are raised by this factor: far more than floating-point error and η."""


@dataclass(frozen=True)
class Spend:
    """What a sequence of selections costs one pixel."""

    epsilon: float
    """Pure ε."""
    rho: float
    """ρ of zero-concentrated differential privacy."""

    @classmethod
    def of(cls, selections: Iterable[float]) -> Spend:
        """Compose selections, each given by its pure ε, which is its bounded range, too."""
        losses = tuple(selections)
        return cls(conversions.total(losses), conversions.total(map(conversions.zcdp_of_range, losses)))

    def approximate(self, delta: float) -> float:
        """ε of (ε, δ): the smaller of pure ε and the conversion of ρ; both hold, so either may be stated."""
        return min(self.epsilon, conversions.epsilon_of_zcdp(self.rho, delta))


@dataclass(frozen=True)
class Budget:
    """The most that a pixel may be charged: pure ε, or (ε, δ), or ρ. Made by `pure`, `approximate` and `zcdp`."""

    epsilon: float | None = None
    delta: float | None = None
    rho: float | None = None

    def __post_init__(self) -> None:
        if (self.epsilon is None) == (self.rho is None) or (self.delta is not None and self.epsilon is None):
            raise DippError("budget: one of epsilon, epsilon with delta, or rho is needed")
        for name, value in (("epsilon", self.epsilon), ("rho", self.rho)):
            if value is not None and not MIN_BUDGET <= value < math.inf:
                raise DippError(f"{name}: a finite number of at least {MIN_BUDGET} is needed, got {value}")
        if self.delta is not None and not 0 < self.delta < 1:
            raise DippError(f"delta: a number between 0 and 1 is needed, got {self.delta}")

    @classmethod
    def pure(cls, epsilon: float) -> Budget:
        """Pure ε per pixel."""
        return cls(epsilon=epsilon)

    @classmethod
    def approximate(cls, epsilon: float, delta: float) -> Budget:
        """(ε, δ) per pixel."""
        return cls(epsilon=epsilon, delta=delta)

    @classmethod
    def zcdp(cls, rho: float) -> Budget:
        """ρ per pixel."""
        return cls(rho=rho)

    @property
    def zcdp_limit(self) -> float | None:
        """The largest ρ that keeps to the budget; None for a pure one, which ρ does not tell."""
        if self.epsilon is not None and self.delta is not None:
            return conversions.zcdp_of_epsilon(self.epsilon, self.delta)
        return self.rho

    @property
    def limit(self) -> float:
        """The number that the spend is compared with: ε or ρ."""
        return self.epsilon or self.rho or 0.0

    def measure(self, spend: Spend) -> float:
        """What the spend is in the budget's own terms: pure ε, the ε of (ε, δ), or ρ."""
        if self.epsilon is None:
            return spend.rho
        return spend.epsilon if self.delta is None else spend.approximate(self.delta)

    def allows(self, spend: Spend) -> bool:
        """Whether the spend stays within the budget."""
        return self.measure(spend) <= self.limit

    def __str__(self) -> str:
        if self.rho is not None:
            return f"ρ = {self.rho:g}"
        return f"ε = {self.epsilon:g}" + ("" if self.delta is None else f", δ = {self.delta:g}")


def touches_one(channel: Channel, channels: int) -> bool:
    """Whether a step touches at most one coordinate of a pixel."""
    if channels < 1:
        raise DippError(f"channels: a whole number of at least 1 is needed, got {channels}")
    if not isinstance(channel, Sign) or channel.period == 1:
        return channels == 1
    if channel.period < channels:
        raise DippError(f"period: 1, or at least the {channels} channels, is needed, got {channel.period}")
    return True


def selections(loss: float, channel: Channel, channels: int, chunks: int, *, separate: bool) -> tuple[float, ...]:
    """ε of each selection that a step is charged with, for a pixel it touches: the table of the module's text.

    `loss` is the ε of a selection in which one coordinate takes part; `separate` says that the step's chunks keep the
    coordinates of a pixel apart, where there are at least C.
    """
    if touches_one(channel, channels):
        return (loss,)
    return (loss,) * channels if separate and chunks >= channels else (channels * loss,)


def worst_pixel(charges: Sequence[tuple[float, ...]], channel: Channel, channels: int) -> Spend:
    """Compose the selections of all steps, for the pixel that fares worst.

    In each cycle it is found for ε and for ρ apart: it need not be the same one.
    """
    patterns = _patterns(channel, channels)
    period = channel.period if isinstance(channel, Sign) else 1
    worst = []
    for first in range(0, len(charges), period):
        cycle = dict(enumerate(charges[first : first + period]))
        met = [Spend.of(itertools.chain(*(cycle.get(slot, ()) for slot in pattern))) for pattern in patterns]
        worst.append(Spend(max(one.epsilon for one in met), max(one.rho for one in met)))
    return Spend(conversions.total(one.epsilon for one in worst), conversions.total(one.rho for one in worst))


def spend(plan: Plan, channels: int, pixels: int, *, separate: bool = False) -> Spend:
    """What the plan costs the worst pixel of an image of at least so many pixels, from the integers of its steps.

    Fewer pixels mean fewer chunks, which may be too few to keep the coordinates of a pixel apart: so the smallest of
    several images is the one to ask for.
    """
    channel = plan.mechanism.channel
    charges = [
        selections(
            plan.arithmetic(step).epsilon(),
            channel,
            channels,
            chunks=-(-pixels * channels // step.chunk_size),
            separate=separate,
        )
        for step in plan.steps
    ]
    return worst_pixel(charges, channel, channels)


def losses(mechanism: Mechanism, gains: Floats) -> tuple[Floats, Floats]:
    """A(1) and the ε of a selection with one coordinate for many steps at once, as `Arithmetic` has them.

    The ε is never too low: where 128/level is so close to a power of two that logarithms may disagree on S, the level
    is not truncated.
    """
    alpha = mechanism.alpha or Fraction(1)
    real = float(alpha) * mechanism.channel.unit_slope * np.sqrt(gains) / math.log(2)
    wanted = np.log2(arithmetic.MIN_LEVEL / real)
    largest = selection.MAX_FRACTION_BITS - max(0, math.ceil(math.log2(alpha)))
    scale = np.exp2(np.clip(np.ceil(wanted), 0, largest))
    doubtful = np.abs(wanted - np.rint(wanted)) < 1e-9
    level = np.where(doubtful, real * scale, np.trunc(real * scale))
    return level, (4 * math.log(2) * level / scale + selection.ETA) * SLACK


def _patterns(channel: Channel, channels: int) -> set[tuple[int, ...]]:
    """The steps of a cycle that touch a pixel, for every residue of its rank (`Sign.touched`); each pattern once."""
    period = channel.period if isinstance(channel, Sign) else 1
    if period == 1:
        return {(0,)}
    places = [place * (period // channels) for place in range(channels)]
    return {tuple(sorted((rank + place) % period for place in places)) for rank in range(period)}
