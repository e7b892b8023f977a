"""The exponents of the zeta code: the formula of the paper, and a table of the shortest codes."""

from __future__ import annotations

import math
from fractions import Fraction

from dipp.core.entropy import EXPONENT_UNITS
from dipp.errors import DippError

REFITTED_ALPHA = Fraction(2)
"""The α for which `REFITTED` was made."""
REFITTED_KL = range(0, 20, 2)
"""KL divergence in bits of each column of `REFITTED`."""
REFITTED_PADS = range(2, 8)
"""Pad of each row of `REFITTED`: log2 n − KL in bits, for n candidates."""
REFITTED = (
    (124, 72, 63, 58, 56, 54, 54, 54, 53, 52),
    (127, 76, 66, 61, 57, 56, 55, 55, 54, 53),
    (128, 79, 68, 63, 59, 57, 57, 56, 55, 54),
    (128, 82, 70, 65, 61, 59, 58, 57, 56, 54),
    (128, 84, 72, 66, 62, 60, 59, 58, 56, 54),
    (128, 86, 74, 68, 64, 61, 60, 59, 56, 54),
)
"""Exponents of the shortest codes for α = 2, in units of 1/64. `benchmarks/fit_zeta.py` made them."""
LOG2_3_56 = Fraction(1_831_877, 1_000_000)
"""log2(3.56), rounded."""


def paper_exponent(kl_bits: float, alpha: Fraction = Fraction(2)) -> Fraction:
    """Return the exponent 1 + 1/ℓ of the paper, to the nearest 1/64, with ℓ = KL + log2(3.56)/min((α − 1)/2, 1).

    Args:
        kl_bits: The KL divergence of a chunk in bits, a public guess.
        alpha: α, by which the code multiplies scores; above 1.

    Raises:
        DippError: `alpha` is not above 1.
    """
    if alpha <= 1:
        raise DippError("alpha", f"must be above 1 for the paper's exponent, got {alpha}")
    length = _exact_kl(kl_bits) + LOG2_3_56 / min((Fraction(alpha) - 1) / 2, Fraction(1))
    return Fraction(round(EXPONENT_UNITS * (1 + 1 / length)), EXPONENT_UNITS)


def refitted_exponent(kl_bits: float, candidates: int) -> Fraction:
    """Return the exponent of the shortest code for α = 2, from the table `REFITTED`.

    The row is that of the nearest pad ⌈log2 n⌉ − KL; the columns are interpolated in KL.

    Args:
        kl_bits: The KL divergence of a chunk in bits, a public guess.
        candidates: n, the number of candidates.

    Raises:
        DippError: `candidates` is below 1.
    """
    if candidates < 1:
        raise DippError("candidates", f"must be at least 1, got {candidates}")
    kl = _exact_kl(kl_bits)
    pad = round((candidates - 1).bit_length() - kl)
    row = min(max(pad, REFITTED_PADS[0]), REFITTED_PADS[-1]) - REFITTED_PADS[0]
    column = min(int(kl / REFITTED_KL.step), len(REFITTED_KL) - 2)
    left, right = REFITTED[row][column : column + 2]
    share = min(kl / REFITTED_KL.step - column, Fraction(1))
    return Fraction(round(left + (right - left) * share), EXPONENT_UNITS)


def _exact_kl(kl_bits: float) -> Fraction:
    """Return a KL as a rational, so that exponents are equal on every platform; raise unless it is finite and ≥ 0."""
    if not 0 <= kl_bits < math.inf:
        raise DippError("kl_bits", f"must be a finite number from 0, got {kl_bits}")
    return Fraction(kl_bits)
