"""Make plans of questions to regions, which divide a budget among draws by public numbers alone.

A region of one place (box) that is divided into split × split blocks pays for split² draws. One draw with a large ε
tells more than several draws with the same ε together (`benchmarks/regions.py`). So a place is divided only if each
block still gets an ε of `ENOUGH`.
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
"""Least ε of each draw if a place is divided into several blocks."""
CLOSER = 1 - 2.0**-45
"""Factor that lowers the ε of a draw if rounding lifts the sum over the draws above the budget."""


def plan_of_regions(unit: Regions, epsilon: float) -> Plan:
    """Return the plan of one question whose worst region pays at most ε.

    Args:
        unit: The regions. A region with fewer places than another has fewer draws, and costs less.
        epsilon: Pure ε of a region, above 0. A draw uses at most 16, so a large budget may not be used up.

    Raises:
        DippError: ε is not a positive number.
    """
    if not (math.isfinite(epsilon) and epsilon > 0):
        raise DippError("epsilon", f"must be positive to ask regions, got {epsilon}")
    most = unit.most_places
    split = next((sides for sides in SPLITS if most * sides**2 <= min(epsilon / ENOUGH, MAX_TOUCHED)), 1)
    each = min(epsilon / (most * split**2), MOST)
    while True:
        step = step_of(candidates_of(each)._replace(split=split), each)
        plan = Plan(CODING, (step,), unit=unit)
        if step.weights.epsilon * most * split**2 <= epsilon:
            return plan
        each *= CLOSER
