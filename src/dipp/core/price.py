"""Prices: what a draw costs a unit, and the terms from which a code computes that cost.

The terms of a step are public integers. There are two kinds of terms for two kinds of codes:

- *By sensitivity*: the exponential mechanism and pairs pay for how far one coordinate can move a score. Their terms are
  `Sensitivity`.
- *Constant*: other codes pay the same whatever the scores are. Such a code defines a class of terms of its own.

Ledgers are made from terms in two ways: from the plan (`Code.terms`), and by the encoder from the integers that it
really used (`Code.recorded`).
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from dipp.core import selection
from dipp.errors import DippError

LEVELS = 255
"""Largest change of an eight-bit value."""
MAX_SLOPE = 1 << 28
"""A(1) of a clipped step stays below this, so that differences of levels fit into 32 bits."""


class Cost(NamedTuple):
    """What one step costs a unit that it touches."""

    epsilon: float
    """Pure ε of all selections of the step in which the unit takes part."""
    rho: float
    """ρ of zCDP of the same selections."""


class Loss(NamedTuple):
    """The law of the privacy loss of one draw, for the two contents of a unit that are easiest to tell apart."""

    epsilon: float
    """ε, rounded up: the loss is ε, −ε or 0."""
    gains: Fraction
    """Probability that the loss is ε."""
    drops: Fraction
    """Probability that the loss is −ε."""


class Reach(NamedTuple):
    """How far one coordinate can move the integer scores of a selection."""

    units: int
    """D: the most by which one coordinate can move any score, in multiples of 2^−S bits."""
    largest: int
    """The largest absolute value of the coordinate's integer shift."""
    fraction_bits: int
    """S: scores are counted in multiples of 2^−S bits."""


class Terms(ABC):
    """The public numbers of a step from which a code prices its draws. Subclasses are frozen dataclasses."""

    @property
    @abstractmethod
    def public(self) -> tuple[Any, ...]:
        """The numbers that must be the same for all images of a step, because a difference would tell about them."""

    def worse(self, other: Self) -> Self:
        """Return terms that cost at least as much as these and as other terms of the same step.

        Raises:
            DippError: The terms differ where they must be equal.
        """
        if other != self:
            raise DippError("terms", "differ between two images, which would tell something about them", "report this")
        return self

    @property
    def loss(self) -> Loss | None:
        """The exact law of the privacy loss of one draw; None if only bounds are known."""
        return None

    @property
    def shown(self) -> tuple[str, str, str]:
        """α, sensitivity D and scale S as texts for a table; empty texts if the price does not depend on them."""
        return "", "", ""

    def to_dict(self) -> dict[str, Any]:
        """Return the terms as a dictionary for JSON, without the numbers that do not apply."""
        return {name: value for name, value in asdict(self).items() if value is not None}  # type: ignore[call-overload]

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """Return the terms that `to_dict` wrote."""
        return cls(**content)


@dataclass(frozen=True, slots=True)
class Sensitivity(Terms):
    """Terms of codes that pay for how far one coordinate can move the scores of a selection."""

    alpha: Fraction
    """α, which the sensitivity includes already."""
    sensitivity: int
    """D: the most by which one coordinate can move any score, in multiples of 2^−S bits. It is the range of the table
    in which pixels are looked up, or of the clip if that is smaller."""
    fraction_bits: int
    """S: scores are counted in multiples of 2^−S bits."""
    eta: float
    """η: the most nats that the rounding of the code's tables can add to ε."""
    clip: int | None = None
    """M: integer shifts are clipped to ±M; None without a clip."""
    slope: int | None = None
    """A(1), if shifts are clipped: the price of a small change is in proportion to 2A(1), and not to D, which may be
    smaller. None without a clip, because A(1) is then D/2."""

    def __post_init__(self) -> None:
        require_whole("sensitivity", self.sensitivity, 1, selection.MAX_ABS_SCORE)
        require_whole("fraction_bits", self.fraction_bits, 0, selection.MAX_FRACTION_BITS)
        if not isinstance(self.alpha, Fraction) or self.alpha <= 0:
            raise DippError("alpha", f"must be a rational above 0, got {self.alpha}")
        if (self.clip is None) != (self.slope is None):
            raise DippError("clip and slope", "must be given together or not at all")
        if self.clip is not None and self.slope is not None:
            whole = all(type(value) is int and 1 <= value < MAX_SLOPE for value in (self.clip, self.slope))
            if not whole or self.sensitivity != 2 * min(self.clip, self.slope):
                raise DippError(
                    "clip and slope",
                    "must be whole numbers whose smaller one is half of the sensitivity "
                    f"{self.sensitivity}, got {self.clip} and {self.slope}",
                )

    @property
    def public(self) -> tuple[Any, ...]:
        """The scale S, the clip and the slope, which must be the same for all images of a step."""
        return self.fraction_bits, self.clip, self.slope

    def worse(self, other: Sensitivity) -> Sensitivity:
        """Return the terms with the larger sensitivity."""
        return self if self.sensitivity >= other.sensitivity else other

    @property
    def shown(self) -> tuple[str, str, str]:
        """α, the sensitivity D and the scale S as texts."""
        return str(self.alpha), str(self.sensitivity), str(self.fraction_bits)

    def moved(self, change: int = LEVELS) -> Reach:
        """Return how far a coordinate moves a selection if it changes by at most `change` of the 255 pixel levels."""
        largest = self.sensitivity
        if self.clip is not None and self.slope is not None:
            largest = min(self.clip, 2 * self.slope)
        return Reach(self.units(change), largest, self.fraction_bits)

    def units(self, change: int) -> int:
        """Return the most by which a coordinate moves a score if it changes by `change` of the 255 pixel levels.

        The level A truncates unit·v/127.5 towards zero for a pixel value v, with unit < A(1) + 1. Truncation moves by
        no more than the real difference, rounded up: on either side of zero it rounds sizes down, across zero it only
        loses. The product is a float, and off by less than 2^−20: the added 1 covers that if the real bound is a whole
        number, and changes nothing otherwise. A clipped value moves by no more than the value itself.
        """
        slope = self.sensitivity // 2 if self.slope is None else self.slope
        return min(self.sensitivity, -(-((2 * slope + 2) * change + 1) // LEVELS))

    def to_dict(self) -> dict[str, Any]:
        """Return the terms as a dictionary for JSON, with α as a text."""
        return {**super(Sensitivity, self).to_dict(), "alpha": str(self.alpha)}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Sensitivity:
        """Return the terms that `to_dict` wrote.

        α must have few digits, because an α with very many could take endless work to read.
        """
        text = content["alpha"]
        if not re.fullmatch(r"[1-9]\d{0,5}(/[1-9]\d{0,5})?", text):
            raise DippError("alpha", f"must be a rational of up to six digits, got {text:.40}")
        return cls(**{**content, "alpha": Fraction(text)})


class StepRecord(NamedTuple):
    """What the encoder used in a step."""

    terms: Terms | None
    """The terms by which the step was drawn; None if nothing is certified."""
    candidates: int
    """Number of candidates of each draw."""
    table: NDArray[np.int32] = np.zeros(1, np.int32)
    """The integer level of each of the 256 pixel values: the table in which private pixels were looked up. Only codes
    that pay for a sensitivity use it."""
    clip: int | None = None
    """M, to which shifts were clipped; None without a clip."""
    fraction_bits: int = 0
    """S: scores are counted in multiples of 2^−S bits."""
    draws: int | None = None
    """Number of private integers that were drawn; None if the code does not count them."""

    @property
    def spread(self) -> int:
        """The largest difference of the levels A(x) of two pixel values."""
        return int(self.table.max()) - int(self.table.min())


def require_whole(name: str, value: object, least: int, most: int) -> None:
    """Raise if a value is not a whole number from `least` to `most`.

    Args:
        name: Name of the value, for the error.
        value: The value.
        least: Smallest valid number.
        most: Largest valid number.
    """
    if type(value) is not int or not least <= value <= most:
        raise DippError(name, f"must be a whole number from {least} to {most}, got {value}")
