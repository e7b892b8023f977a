"""Plans of questions to regions: how a budget is divided among draws, by public numbers alone.

A region of one place that is divided into split × split blocks pays for split² draws. A draw tells more for its ε the
larger that is (`benchmarks/regions.py`), so a place is divided only where each block still gets `ENOUGH`.
"""

from __future__ import annotations

import math

from dipp.core.plan import Plan
from dipp.core.regions import Regions
from dipp.errors import DippError
from dipp.planning.questions import CODING, MOST, candidates_of, step_of
from dipp.privacy.ledger import MAX_TOUCHED

SPLITS = (8, 4, 2, 1)
ENOUGH = 8.0
"""Least ε of each draw where a place is divided into several blocks."""
CLOSER = 1 - 2.0**-45
"""Factor by which the ε of a draw is lowered if the sum over the draws was rounded to more than the budget."""


def plan_of_regions(unit: Regions, epsilon: float) -> Plan:
    """Return the plan of one question whose worst region pays at most ε.

    Args:
        unit: The regions. Of one that has fewer places than another, less is asked and paid.
        epsilon: Pure ε of a region, above 0. Draws use at most 16 each, so that large budgets may not be used up.

    Raises:
        DippError: ε is not a positive number.
    """
    if not (math.isfinite(epsilon) and epsilon > 0):
        raise DippError("epsilon", f"a number above 0 is needed to ask regions, got {epsilon}")
    most = unit.most_places
    split = next((one for one in SPLITS if most * one**2 <= min(epsilon / ENOUGH, MAX_TOUCHED)), 1)
    each = min(epsilon / (most * split**2), MOST)
    while True:
        step = step_of(candidates_of(each)._replace(split=split), each)
        plan = Plan(CODING, (step,), unit=unit)
        if step.weights.epsilon * most * split**2 <= epsilon:
            return plan
        each *= CLOSER
