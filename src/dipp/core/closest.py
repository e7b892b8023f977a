"""The draw among the closest candidates: a private choice whose price does not depend on the scores.

A unit of a picture has n public candidates. Any score of its private content ranks them, and T is the set of the m
best. Public integers a ≥ b ≥ 1 weigh the candidates, and the index K is drawn with

    P[K = k] = a/W  for k in T,      P[K = k] = b/W  for k not in T,      W = m·a + (n − m)·b.

**Claim.** For any two contents of the unit, every index has probabilities that differ by a factor of at most a/b. So
the draw is ε-differentially private with ε = ln(a/b), exactly.

*Proof.* W depends on n, m, a and b alone, which are public. So each probability is a/W or b/W, whatever T is, and the
private content decides nothing but T. ∎

Nothing is assumed of the scores: they may be floats of any precision, of any device, infinite or not a number. What the
proof needs is that T always has exactly m elements (`best_of`), and that the draw has exactly this law (`index_at`).

**The draw.** One uniform integer R below W decides. If R < m·a, the index is element ⌊R/a⌋ of T; otherwise it is
element ⌊(R − m·a)/b⌋ of the candidates outside T, both in ascending order. Each element of T is met by a values of R
and each other candidate by b of them, so the law is exact. R comes from the operating system's generator
(`randomness.private_bytes`), by rejection, one R for each unit: a shared R would be revealed by a unit whose content is
known, and with it the index of the other units would tell their T.

**Rényi divergence.** Let T and T' have j elements each that the other does not have; j is at most min(m, n − m). The
candidates in which they differ have the mass w = j·(a + b)/W under both, and within them the two laws are those of
randomised response with p = a/(a + b). So for every order α > 1

    (α − 1)·D_α = g(α) = ln(1 − w + w·RR(α)),      RR(α) = p^α·(1 − p)^(1 − α) + (1 − p)^α·p^(1 − α) ≥ 1,

which grows with w: the largest j is the worst pair. ρ of zCDP is the supremum of D_α/α over α > 1.

**The privacy loss** of the worst pair is +e with probability j·a/W, −e with probability j·b/W and 0 otherwise. For any
other pair the hockey-stick divergence j·(a − e^ε·b)/W is smaller, so this pair dominates, and losses of several draws,
adaptive ones too, are dominated by the sum of independent copies [Dong, Roth & Su, 2022; Zhu, Dong & Wang, 2022].
"""

from __future__ import annotations

import functools
import heapq
import math
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dipp.core import randomness
from dipp.core.price import Loss, StepRecord, Terms, require_whole
from dipp.core.selection import MAX_CANDIDATES
from dipp.errors import DippError

Integers = NDArray[np.int64]

MAX_TOTAL = 1 << 62
"""Largest W, the sum of all weights: its multiples fit into 64 bits, and few draws are rejected."""
MAX_LIGHT = 1 << 16
"""The light weight b of planned draws, unless W would be too large: ε is then met within 2^−16."""
MAX_EPSILON = 40.0
"""Largest ε of one planned draw."""
DECIMALS = Context(prec=100, Emax=MAX_EMAX, Emin=MIN_EMIN)
"""Decimal arithmetic of prices, whose logarithms and exponentials are correctly rounded on every platform."""
ROUNDING = Decimal(2) ** -50
"""Prices are raised by this share of themselves. It is more than rounding can lose when a ledger adds prices up, and
far more than the operations of a price lose. Those cancel at most the first 70 of 100 digits, because ε is at least
2^−62 and the mass w at least 2^−21 (see the docstring of this module)."""
TOLERANCE = Decimal(2) ** -24
"""Largest relative error of ρ above the true supremum, for ε from 0.01."""
MAX_INTERVALS = 1 << 13
"""Largest number of intervals of orders in the bound of ρ. For an ε below 0.01 it makes the bound less tight."""


@dataclass(frozen=True)
class Weights(Terms):
    """The public law of one draw, from which the draw is priced.

    Attributes:
        candidates: n, the number of candidates.
        best: m, the number of candidates in T, the set of the best.
        heavy: a, the weight of a candidate in T.
        light: b, the weight of any other candidate.

    Raises:
        DippError: A number is not whole, or 2 ≤ n ≤ `MAX_CANDIDATES`, 1 ≤ m < n, 1 ≤ b ≤ a or W ≤ 2^62 does not hold.

    """

    candidates: int
    best: int
    heavy: int
    light: int

    def __post_init__(self) -> None:
        require_whole("candidates", self.candidates, 2, MAX_CANDIDATES)
        require_whole("best", self.best, 1, self.candidates - 1)
        require_whole("heavy", self.heavy, 1, MAX_TOTAL)
        require_whole("light", self.light, 1, self.heavy)
        if self.total > MAX_TOTAL:
            raise DippError("weights", f"must have a sum of at most 2^62, got {self.total}", "take smaller weights")

    @classmethod
    def within(cls, candidates: int, best: int, epsilon: float) -> Weights:
        """Return the weights whose ε is as close to `epsilon` as possible without exceeding it.

        Args:
            candidates: Number of candidates.
            best: Number of candidates that have the heavy weight.
            epsilon: The largest ε of the draw, from 0 to `MAX_EPSILON`.

        Returns:
            Weights whose light weight is `MAX_LIGHT`, or the largest power of two below it for which W is at most 2^62.

        Raises:
            DippError: `epsilon` is out of its range, or the heavy weight that it needs makes W too large.

        """
        if not 0 <= epsilon <= MAX_EPSILON:
            raise DippError("epsilon", f"must be from 0 to {MAX_EPSILON:g} for one draw, got {epsilon}")
        with localcontext(DECIMALS):
            odds = (Decimal(epsilon) * (1 - ROUNDING)).exp()
            light = MAX_LIGHT
            while light > 1 and light * (best * odds + candidates) > MAX_TOTAL:
                light //= 2
            weights = cls(candidates, best, max(light, int(light * odds)), light)
        while weights.epsilon > epsilon and weights.heavy > light:
            weights = cls(candidates, best, weights.heavy - 1, light)
        return weights

    @property
    def public(self) -> tuple[Any, ...]:
        """All four numbers, which must be the same for all images of a step."""
        return self.candidates, self.best, self.heavy, self.light

    @property
    def loss(self) -> Loss:
        """The law of the loss between the two contents of a unit that are easiest to tell apart."""
        gains, drops = (Fraction(self.differing * weight, self.total) for weight in (self.heavy, self.light))
        return Loss(self.epsilon, gains, drops)

    @property
    def total(self) -> int:
        """The sum of the weights of all candidates (W)."""
        return self.best * self.heavy + (self.candidates - self.best) * self.light

    @property
    def differing(self) -> int:
        """The largest number of candidates in one set of best candidates that another such set does not have (j)."""
        return min(self.best, self.candidates - self.best)

    @property
    def epsilon(self) -> float:
        """ε = ln(heavy/light), rounded up."""
        return _epsilon(self)

    @property
    def rho(self) -> float:
        """ρ of zCDP: the supremum over α > 1 of the Rényi divergence of order α divided by α, rounded up."""
        return _rho(self)

    def draw(self, best: Integers, tally: Tally) -> Integers:
        """Draw one index for each unit, each by a private integer of its own.

        Args:
            best: The set T of each unit: units × m indices, ascending and distinct in each row.
            tally: The record to which the draws are added.

        Returns:
            The index of each unit, int64.

        Raises:
            DippError: A row is not a set of m candidates in ascending order.

        """
        sets = np.asarray(best, np.int64)
        if sets.ndim != 2 or sets.shape[1] != self.best or (np.diff(sets) <= 0).any():
            raise DippError("best", f"must have {self.best} ascending indices for each unit, got shape {sets.shape}")
        if sets.size and (sets.min() < 0 or sets.max() >= self.candidates):
            raise DippError("best", f"must have indices from 0 to {self.candidates - 1}")
        tally.add(self, len(sets))
        return self.index_at(_private_below(self.total, len(sets)), sets)

    def index_at(self, drawn: NDArray[np.uint64], best: Integers) -> Integers:
        """Return the index for each private integer R below W, by the rule in the module's docstring.

        Args:
            drawn: One integer R for each unit.
            best: The set T of each unit, units × m indices.
        """
        heavy = np.uint64(self.best * self.heavy)
        inside = drawn < heavy
        member = np.minimum(drawn, heavy - np.uint64(1)) // np.uint64(self.heavy)
        rank = ((np.maximum(drawn, heavy) - heavy) // np.uint64(self.light)).astype(np.int64)
        # Element i of T has t_i − i candidates outside T below it. If that is at most `rank`, the index is one higher.
        outside = rank + (best - np.arange(self.best) <= rank[:, None]).sum(axis=1)
        chosen = np.take_along_axis(best, member.astype(np.int64)[:, None], axis=1)[:, 0]
        return np.where(inside, chosen, outside)


@dataclass
class Tally:
    """The record of draws, which the draws write themselves: their law and their number.

    The encoder makes its ledger from this and not from a plan. So a draw by other integers than the planned ones, or
    one draw too many, leads to another ledger.
    """

    law: Weights | None = None
    """The law of all draws so far; None before the first draw."""
    draws: int = 0
    """Number of private integers that were drawn."""

    def add(self, law: Weights, draws: int) -> None:
        """Add a number of draws by one law to the record, or raise if the draws before had another law.

        Args:
            law: The law of the draws.
            draws: Number of draws.
        """
        self.law = law if self.law is None else law.worse(self.law)
        self.draws += draws

    @property
    def observed(self) -> StepRecord:
        """The record of this step's draws, from which the encoder makes its ledger; empty before the first draw."""
        return StepRecord(self.law, self.law.candidates if self.law else 1, draws=self.draws)


def best_of(scores: NDArray[Any], best: int) -> Integers:
    """Return the indices of the `best` largest scores of each row, ascending.

    Every row has exactly `best` distinct indices, whatever the scores: NaN counts as the smallest score, and among
    equal scores the lower index comes first. A row depends on the scores of that row alone.

    *Proof.* Let v be the `best`-th largest score of a row. Fewer than `best` scores lie above v, and at least `best`
    are v or above. So all scores above v, together with the first few scores equal to v, are exactly `best`. ∎

    Args:
        scores: Units × candidates, integers of up to 32 bits or floats.
        best: m, the number of indices, from 1 to the number of candidates.

    Returns:
        Units × m indices, int64.

    """
    ordered = np.where(np.isnan(scores), -np.inf, scores)
    rank = ordered.shape[1] - best
    least = np.partition(ordered, rank, axis=1)[:, rank, None]
    above, level = ordered > least, ordered == least
    missing = best - above.sum(axis=1, keepdims=True)
    chosen = above | (level & (np.cumsum(level, axis=1) <= missing))
    return np.nonzero(chosen)[1].reshape(len(ordered), best).astype(np.int64)


def _private_below(limit: int, count: int) -> NDArray[np.uint64]:
    """Return `count` private integers, uniform below `limit`, by rejection.

    The rejections depend on the drawn bits and on the public limit alone.
    """
    most = np.uint64((1 << 64) // limit * limit - 1)
    drawn = np.empty(count, np.uint64)
    missing = np.arange(count)
    while len(missing):
        drawn[missing] = np.frombuffer(randomness.private_bytes(8 * len(missing)), np.uint64)
        missing = missing[drawn[missing] > most]
    return drawn % np.uint64(limit)


def rounded_up(value: Decimal) -> float:
    """Return a float that is at least `value` after it is raised by `ROUNDING`."""
    with localcontext(DECIMALS):
        raised = value * (1 + ROUNDING)
        nearest = float(raised)
        return nearest if Decimal(nearest) >= raised else math.nextafter(nearest, math.inf)


@functools.lru_cache(maxsize=4096)
def _epsilon(weights: Weights) -> float:
    with localcontext(DECIMALS):
        return rounded_up((Decimal(weights.heavy) / weights.light).ln())


@functools.lru_cache(maxsize=4096)
def _rho(weights: Weights) -> float:
    """Return the supremum of D_α/α, rounded up; D_α, g and w are those of the module's docstring.

    *Claim.* The result is at least the supremum, and for ε ≥ 0.01 above it by at most 2^−24 of itself.

    *Proof.* g is convex, as the logarithm of a moment generating function of the loss, and g(1) = 0. So on an interval
    [1 + u, 1 + v] of orders g lies below its chord, which is s·x − k at α = 1 + x, with k ≥ 0. So

        D_α/α = g(α)/(α·(α − 1)) ≤ (s·x − k)/(x·(1 + x)),

    which rises up to x = (k + √(k² + s·k))/s and falls beyond: its maximum over the interval is at this x or at the
    nearer end. Beyond the last interval D_α ≤ ε gives ε/α. The largest of these bounds is an upper bound at any time.
    Intervals are halved until it exceeds the largest computed value by at most the tolerance, or until there are
    `MAX_INTERVALS`. As α → 1 the value is w·ε·tanh(ε/2), the divergence of order 1. ∎
    """
    if weights.heavy == weights.light:
        return 0.0
    with localcontext(DECIMALS):
        return rounded_up(_supremum(weights))


def _supremum(weights: Weights) -> Decimal:
    """Return the bound of `_rho` before it is rounded up to a float."""
    ratio = Decimal(weights.heavy) / weights.light
    loss = ratio.ln()
    mass = Decimal(weights.differing * (weights.heavy + weights.light)) / weights.total
    share = ratio / (1 + ratio)

    def log_moment(excess: Decimal) -> Decimal:
        """Return g(1 + excess), where g is the function in the module's docstring."""
        grown = (excess * loss).exp()
        return (1 - mass + mass * (share * grown + (1 - share) / grown)).ln()

    zero = Decimal(0)
    best = mass * loss * (ratio - 1) / (ratio + 1)
    last = loss / best  # for orders above 1 + last, ε/α is below the divergence of order 1
    intervals = [_bounded(zero, zero, last, log_moment(last))]
    while -intervals[0][0] > best * (1 + TOLERANCE) and len(intervals) < MAX_INTERVALS:
        _, left, at_left, right, at_right = heapq.heappop(intervals)
        middle = (left + right) / 2
        at_middle = log_moment(middle)
        best = max(best, at_middle / (middle * (1 + middle)))
        heapq.heappush(intervals, _bounded(left, at_left, middle, at_middle))
        heapq.heappush(intervals, _bounded(middle, at_middle, right, at_right))
    return max(best, -intervals[0][0])


def _bounded(left: Decimal, at_left: Decimal, right: Decimal, at_right: Decimal) -> tuple[Decimal, ...]:
    """Return an entry of `_supremum`'s heap of intervals: minus the interval's bound, and its ends with values of g."""
    slope = (at_right - at_left) / (right - left)
    offset = max(slope * left - at_left, Decimal(0))
    peak = min(max((offset + (offset * (offset + slope)).sqrt()) / slope, left), right)
    return -(slope - offset / peak if peak else slope) / (1 + peak), left, at_left, right, at_right
