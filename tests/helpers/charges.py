"""What selections cost, from the integers of their steps."""

from __future__ import annotations

from dipp.core import selection
from dipp.core.arithmetic import Arithmetic


def selection_epsilon(arithmetic: Arithmetic, touched: int = 1) -> float:
    """Pure ε of one selection by the exponential mechanism in which so many coordinates of a pixel take part."""
    return selection.epsilon(touched * arithmetic.sensitivity, arithmetic.fraction_bits)
