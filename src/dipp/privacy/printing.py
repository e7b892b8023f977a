"""Print bounds as text, rounded in the direction in which they stay true.

Rounding to the nearest prints about half of all losses lower than they are. So
`upper` prints every ε, ρ or δ that is claimed, and `lower` prints every loss that an audit has shown. JSON keeps all
digits.

**Proof sketch.** The text, read as a float, is no less than the value. Either the nearest decimal of that number of
digits already reads so. Or the value, which is a decimal number exactly, is rounded upwards to as many digits; reading
that takes the float nearest to it, and rounding to the nearest keeps the order of the two. `lower` is the same,
mirrored.
"""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Context

DIGITS = 6
"""Number of significant digits of a printed bound."""


def upper(value: float, digits: int = DIGITS) -> str:
    """Return the value in at most `digits` significant digits (up to 15), rounded up: float(upper(value)) ≥ value.

    Args:
        value: The number.
        digits: Largest number of significant digits; 6 by default.
    """
    nearest = f"{value:.{digits}g}"
    return nearest if float(nearest) >= value else _rounded(value, digits, ROUND_CEILING)


def lower(value: float, digits: int = DIGITS) -> str:
    """Return the value in at most `digits` significant digits (up to 15), rounded down: float(lower(value)) ≤ value.

    Args:
        value: The number.
        digits: Largest number of significant digits; 6 by default.
    """
    nearest = f"{value:.{digits}g}"
    return nearest if float(nearest) <= value else _rounded(value, digits, ROUND_FLOOR)


def _rounded(value: float, digits: int, rounding: str) -> str:
    decimal = Context(prec=digits, rounding=rounding).create_decimal_from_float(value)
    return f"{float(decimal):.{digits}g}"
