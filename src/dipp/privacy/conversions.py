"""Convert between the three ways to state a privacy loss: pure ε, ρ (zCDP) and (ε, δ).

All are per protected unit (`core.units`), natural logarithms throughout. Every function rounds in the safe direction: a
loss up, an allowance down, by more than the floating-point error of its few operations (`UP`).

1. *Bounded range to ρ.* A selection whose log likelihood ratio ln P[k | x]/P[k | x'] spans at most ε over the outcomes
   k has bounded range ε, and hence ρ = ε²/8 zCDP [Cesar & Rogers, 2021, Lemma 3.2: by Hoeffding's lemma, because a
   privacy loss confined to an interval of length ε is sub-Gaussian with variance ε²/4]. Selections by the exponential
   mechanism have a bounded range equal to their pure ε, rounding η included (`dipp.core.selection`); a pair's loss
   ranges over up to twice its ε (`dipp.codes.pairs`).
2. *Composition.* Pure ε's add up, and so do ρ's [Bun & Steinke, 2016, Lemma 1.7], for adaptively chosen mechanisms.
3. *ρ to (ε, δ).* ρ-zCDP means a Rényi divergence of at most ρα at every order α > 1, and that implies (ε, δ) with

       ε = ρα + ln((α − 1)/α) − (ln δ + ln α)/(α − 1)

   for every α > 1 [Canonne, Kamath & Steinke, 2020, Proposition 12; the same formula in Asoodeh et al., 2020, and Balle
   et al., 2020]. The best order is searched for; since each order is valid, an imperfect search costs a little ε and
   never the guarantee.
4. *Pure ε to ρ.* An ε-DP mechanism is ρ-zCDP with ρ = ε·tanh(ε/2), which is at most the ε²/2 of [Bun & Steinke, 2016,
   Proposition 1.4]; the proof stands in `dipp.codes.pairs`. This is for releases whose ε alone is known.
5. *Groups.* A change of k units costs kε and k²ρ [Bun & Steinke, 2016, Proposition 1.9].
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from dipp.errors import DippError

UP = 1 + 2.0**-40
"""Factor that rounds up by far more than the floating-point error of every formula here."""
MAX_LOG_EXCESS = 200.0
SEARCH_STEPS = 160
"""Golden-section steps over ln(α − 1) in [−200, 200]; 160 leave an interval of 10^−31, below resolution."""


def zcdp_of_pure(epsilon: float) -> float:
    """Return ρ = ε·tanh(ε/2), which every ε-DP mechanism satisfies, rounded up.

    Args:
        epsilon: Pure ε, at least 0.
    """
    _require("epsilon", epsilon)
    return epsilon * math.tanh(epsilon / 2) * UP


def total(losses: Iterable[float]) -> float:
    """Return the sum of the losses, rounded up.

    Args:
        losses: The losses, each at least 0.
    """
    return math.fsum(losses) * UP


def epsilon_of_zcdp(rho: float, delta: float) -> float:
    """Return the smallest ε such that ρ-zCDP implies (ε, δ) by formula 3, rounded up; at least 0.

    Args:
        rho: ρ, at least 0.
        delta: δ, between 0 and 1.

    Raises:
        DippError: `rho` is negative or not finite, or `delta` is not between 0 and 1.
    """
    _require("rho", rho)
    _require_delta(delta)
    if not rho:
        return 0.0
    bound = _minimum(lambda excess: rho * (1 + excess) + _excess_terms(excess, math.log(delta)))
    # The terms cancel: an error is relative to the larger ones, not to their sum.
    return max(0.0, bound + (abs(bound) + rho + 1) * (UP - 1))


def zcdp_of_epsilon(epsilon: float, delta: float) -> float:
    """Return the largest ρ that implies (ε, δ) by formula 3, rounded down: the best that any order gives.

    Args:
        epsilon: ε of (ε, δ), at least 0.
        delta: δ, between 0 and 1.

    Raises:
        DippError: `epsilon` is negative or not finite, or `delta` is not between 0 and 1.
    """
    _require("epsilon", epsilon)
    _require_delta(delta)
    largest = -_minimum(lambda excess: (_excess_terms(excess, math.log(delta)) - epsilon) / (1 + excess))
    # Lower ρ until its conversion back is at most ε, so that rounding cannot make the two inconsistent.
    shrink = 2.0**-38
    while largest > 0 and epsilon_of_zcdp(largest, delta) > epsilon:
        largest *= 1 - shrink
        shrink = min(2 * shrink, 0.5)
    return max(0.0, largest)


def group_epsilon(epsilon: float, units: int) -> float:
    """Return pure ε of any change of k = `units` units: kε, rounded up.

    Args:
        epsilon: Pure ε of one unit.
        units: Number k of units.

    Raises:
        DippError: `units` is below 1.
    """
    _require_units(units)
    return epsilon * units * UP


def group_zcdp(rho: float, units: int) -> float:
    """Return ρ of any change of k = `units` units: k²ρ, rounded up.

    Args:
        rho: ρ of one unit.
        units: Number k of units.

    Raises:
        DippError: `units` is below 1.
    """
    _require_units(units)
    return rho * units * units * UP


def epsilon_of_one(epsilon: float, units: int) -> float:
    """Return the largest ε of one unit for which `group_epsilon` of `units` units is at most `epsilon`.

    Args:
        epsilon: Pure ε of the group.
        units: Number of units of the group.
    """
    return _share(epsilon, units, group_epsilon)


def zcdp_of_one(rho: float, units: int, *, alone: bool) -> float:
    """Return the largest ρ of one unit with which k = `units` units cost at most `rho`.

    Args:
        rho: The largest ρ of all units together.
        units: Number k of units.
        alone: Whether no two units share a draw: k units then cost kρ, and otherwise k²ρ.
    """
    return _share(rho, units, group_epsilon if alone else group_zcdp)


def _share(loss: float, units: int, group: Callable[[float, int], float]) -> float:
    """Return the largest loss of one unit, up to the rounding of floats, for which all units lose at most `loss`."""
    if units == 1:
        return loss
    share = loss / (group(1.0, units) / UP)
    while group(share, units) > loss:
        share = share * (1 - 2.0**-52)
    return share


def _log_ratio(excess: float) -> float:
    """Return ln((α − 1)/α) for α = 1 + excess, without cancellation for small or large α."""
    return -math.log1p(1 / excess)


def _excess_terms(excess: float, log_delta: float) -> float:
    """Return the terms that formula 3 adds to ρα, for α = 1 + excess."""
    return _log_ratio(excess) - (log_delta + math.log1p(excess)) / excess


def _minimum(function: Callable[[float], float]) -> float:
    """Return the least value of a function of α − 1 that a golden-section search over ln(α − 1) meets."""
    golden = (math.sqrt(5) - 1) / 2
    low, high = -MAX_LOG_EXCESS, MAX_LOG_EXCESS
    left, right = high - golden * (high - low), low + golden * (high - low)
    at_left, at_right = function(math.exp(left)), function(math.exp(right))
    best = min(at_left, at_right)
    for _ in range(SEARCH_STEPS):
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - golden * (high - low)
            at_left = function(math.exp(left))
        else:
            low, left, at_left = left, right, at_right
            right = low + golden * (high - low)
            at_right = function(math.exp(right))
        best = min(best, at_left, at_right)
    return best


def _require(name: str, value: float) -> None:
    if not (math.isfinite(value) and value >= 0):
        raise DippError(name, f"must be a finite number of at least 0, got {value}")


def _require_delta(delta: float) -> None:
    if not 0 < delta < 1:
        raise DippError("delta", f"must be between 0 and 1, got {delta}")


def _require_units(units: int) -> None:
    if units < 1:
        raise DippError("units", f"must be a whole number of at least 1, got {units}")
