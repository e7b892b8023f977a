"""What a draw costs a unit: the terms from which a code prices it, and the charge that comes of them.

Terms are public integers, one record for each step. Two kinds of codes have two kinds of terms:

- *From a sensitivity*: the exponential mechanism and pairs pay for how far one coordinate can move a score. Their terms
  are `Sensitivity`.
- *Constant*: a code may pay the same whatever the scores are. It brings terms of its own, beside its class.

A ledger is made of terms twice: from the plan (`Code.terms`), and by the encoder from what it really used
(`Code.recorded`).
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
"""Largest change of an eight-bit channel."""
MAX_SLOPE = 1 << 28
"""A(1) of a clipped step stays below this, so that differences of levels fit into 32 bits."""


class Cost(NamedTuple):
    """What one step costs a unit that it touches."""

    epsilon: float
    """Pure ε of all the selections that the unit takes part in."""
    rho: float
    """ρ (zCDP) of them."""


class Loss(NamedTuple):
    """The law of the privacy loss of one draw, for the two contents of a unit that are easiest to tell apart."""

    epsilon: float
    """ε, rounded up: the loss is ε, −ε or 0."""
    gains: Fraction
    """Probability that the loss is ε."""
    drops: Fraction
    """Probability that the loss is −ε."""


class Reach(NamedTuple):
    """How far one coordinate can move a selection, in the step's integers."""

    units: int
    """D: units by which it can move any score."""
    largest: int
    """The largest size that its shift can have."""
    fraction_bits: int
    """S: a unit is 2^−S bits."""


class Terms(ABC):
    """The public numbers of a step from which a code prices its draws. Terms are frozen dataclasses."""

    @property
    @abstractmethod
    def public(self) -> tuple[Any, ...]:
        """What must be the same for all images of a step, because it would tell about them if it were not."""

    def worse(self, other: Self) -> Self:
        """Return terms that cost at least as much as these and as others of the same step."""
        if other != self:
            raise DippError("terms", "two images were coded differently, which would tell about them", "report this")
        return self

    @property
    def loss(self) -> Loss | None:
        """The exact law of the privacy loss of one draw; None if only bounds of it are known."""
        return None

    @property
    def shown(self) -> tuple[str, str, str]:
        """α, s and S for the table of a certificate; empty texts if they have no part in the price."""
        return "", "", ""

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers for JSON, without those whose value is None."""
        return {name: value for name, value in asdict(self).items() if value is not None}  # type: ignore[call-overload]

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """Return the terms that `to_dict` wrote."""
        return cls(**content)


@dataclass(frozen=True, slots=True)
class Sensitivity(Terms):
    """How far one coordinate can move the scores of a selection."""

    alpha: Fraction
    """α, which is folded into the sensitivity already."""
    sensitivity: int
    """D: units by which one coordinate can move any score. That is the range of the table that pixels are looked up in,
    or of the clip, if that is smaller."""
    fraction_bits: int
    """S: a unit is 2^−S bits."""
    eta: float
    """η: nats that the rounding of the code's tables can add."""
    clip: int | None = None
    """M: shifts are clipped to ±M units; None if they are not."""
    slope: int | None = None
    """A(1) if shifts are clipped: a small change moves a shift by its share of 2A(1), and not of D, which would be too
    little. None if they are not: A(1) is then D/2."""

    def __post_init__(self) -> None:
        require_whole("sensitivity", self.sensitivity, 1, selection.MAX_ABS_SCORE)
        require_whole("fraction_bits", self.fraction_bits, 0, selection.MAX_FRACTION_BITS)
        if not isinstance(self.alpha, Fraction) or self.alpha <= 0:
            raise DippError("alpha", f"a rational above 0 is needed, got {self.alpha}")
        if (self.clip is None) != (self.slope is None):
            raise DippError("clip, slope", "both of them, or neither, are needed")
        if self.clip is not None and self.slope is not None:
            whole = all(type(value) is int and 1 <= value < MAX_SLOPE for value in (self.clip, self.slope))
            if not whole or self.sensitivity != 2 * min(self.clip, self.slope):
                raise DippError(
                    "clip, slope",
                    f"whole numbers are needed, twice the smaller of which is the sensitivity {self.sensitivity}, got "
                    f"{self.clip} and {self.slope}",
                )

    @property
    def public(self) -> tuple[Any, ...]:
        """Scale, clip and slope."""
        return self.fraction_bits, self.clip, self.slope

    def worse(self, other: Sensitivity) -> Sensitivity:
        """Return the terms of the larger sensitivity."""
        return self if self.sensitivity >= other.sensitivity else other

    @property
    def shown(self) -> tuple[str, str, str]:
        """α, D and S."""
        return str(self.alpha), str(self.sensitivity), str(self.fraction_bits)

    def moved(self, change: int = LEVELS) -> Reach:
        """Return how far a coordinate moves a selection if it changes by at most `change` of the 255 levels."""
        largest = self.sensitivity
        if self.clip is not None and self.slope is not None:
            largest = min(self.clip, 2 * self.slope)
        return Reach(self.units(change), largest, self.fraction_bits)

    def units(self, change: int) -> int:
        """Return the units by which a coordinate moves a score if it changes by `change` of the 255 levels.

        A(v) truncates unit·v/127.5 toward zero, with unit < A(1) + 1. Truncation toward zero moves by no more than the
        real difference, rounded up: on either side of zero it is a floor of sizes, across zero it only loses. The
        product is a float, and off by less than 2^−20 of a unit: the 1 that is added covers that where the real bound
        is a whole number, and changes nothing elsewhere. A clip moves by no more than what it clips.
        """
        slope = self.sensitivity // 2 if self.slope is None else self.slope
        return min(self.sensitivity, -(-((2 * slope + 2) * change + 1) // LEVELS))

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers for JSON, α as text."""
        return {**super(Sensitivity, self).to_dict(), "alpha": str(self.alpha)}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Sensitivity:
        """Return the terms that `to_dict` wrote; α has a few digits, since others could take endless work to read."""
        text = content["alpha"]
        if not re.fullmatch(r"[1-9]\d{0,5}(/[1-9]\d{0,5})?", text):
            raise DippError("alpha", f"a rational of up to six digits is needed, got {text:.40}")
        return cls(**{**content, "alpha": Fraction(text)})


class StepRecord(NamedTuple):
    """What the encoder used in a step."""

    terms: Terms | None
    """The terms that the draw was given; None if nothing is certified."""
    candidates: int
    table: NDArray[np.int32] = np.zeros(1, np.int32)
    """A of each of the 256 pixel values: what the private pixels were looked up in. Only codes that pay for a
    sensitivity ask for it."""
    clip: int | None = None
    """What the shifts were clipped to, if they were."""
    fraction_bits: int = 0
    draws: int | None = None
    """Private integers that were drawn; None if the code does not count them."""

    @property
    def spread(self) -> int:
        """How far apart the levels of two pixels can be."""
        return int(self.table.max()) - int(self.table.min())


def require_whole(name: str, value: object, least: int, most: int) -> None:
    """Raise if a value is not a whole number from `least` to `most`."""
    if type(value) is not int or not least <= value <= most:
        raise DippError(name, f"a whole number from {least} to {most} is needed, got {value}")
