"""The cost of selections, computed from the integers of their steps."""

from __future__ import annotations

from dipp.core import selection
from dipp.core.arithmetic import Arithmetic


def selection_epsilon(arithmetic: Arithmetic, touched: int = 1) -> float:
    """Return pure ε of one selection by the exponential mechanism, from the coordinates of a pixel that take part."""
    return selection.epsilon(touched * arithmetic.sensitivity, arithmetic.fraction_bits)
