"""Codes that pay for how far one coordinate can move their scores, and those whose tilt a planner chooses."""

from __future__ import annotations

from abc import abstractmethod
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, Self

from dipp.core.channels import Channel
from dipp.core.price import LEVELS, Cost, Reach, Sensitivity, StepRecord, Terms
from dipp.errors import DippError

if TYPE_CHECKING:
    from dipp.core.step import CodedStep
from dipp.core.code import Code


class SensitivityCode(Code):
    """A code that pays for how far one coordinate can move its scores. Its unit is a pixel."""

    terms_kind = Sensitivity

    @classmethod
    def at(cls, alpha: Fraction) -> Self:
        """Return the code of this class that multiplies scores by α; raise if the class fixes another α.

        Args:
            alpha: α, by which scores are multiplied.
        """
        if alpha != cls().score_alpha:
            raise DippError("alpha", f"must be {cls().score_alpha} for {cls.name}, got {alpha}")
        return cls()

    @abstractmethod
    def charge(self, moved: Reach, touched: int = 1, apart: bool = True) -> Cost:
        """Return what the selections of a step cost a pixel; ε is `touched` times that of one coordinate.

        Args:
            moved: How far one coordinate can move a selection.
            touched: The number of coordinates of the pixel that take part.
            apart: Whether each of these coordinates takes part in a different selection.
        """

    @abstractmethod
    def eta(self, moved: Reach) -> float:
        """Return η: the nats that the rounding of the code's tables adds to the ε of one coordinate.

        Args:
            moved: How far one coordinate can move a selection.
        """

    def terms(self, step: CodedStep, channel: Channel) -> Sensitivity:
        """Return the terms that follow from the integers of a planned step."""
        integers = step.arithmetic(channel, self.score_alpha)
        slope = None if integers.clip is None else integers.level_of_one
        eta, clip = self.eta(integers.moved), integers.largest_shift
        return Sensitivity(self.score_alpha, integers.sensitivity, integers.fraction_bits, eta, clip, slope)

    def recorded(self, used: StepRecord) -> Sensitivity:
        """Return the terms that follow from the used clip and from the table in which pixels were looked up."""
        clip, slope, sensitivity, limit = used.clip, None, used.spread, used.spread
        if clip is not None:
            slope, sensitivity, limit = int(used.table.max()), min(used.spread, 2 * clip), min(clip, used.spread)
        eta = self.eta(Reach(sensitivity, limit, used.fraction_bits))
        return Sensitivity(self.score_alpha, sensitivity, used.fraction_bits, eta, clip, slope)

    @classmethod
    def priced_by(cls, terms: Terms) -> Self:
        """Return the code with the α of the terms; raise if the η of the terms is not that of the code."""
        if not isinstance(terms, Sensitivity):
            raise DippError(cls.name, f"needs terms of a sensitivity, got {type(terms).__name__}")
        code = cls.at(terms.alpha)
        if terms.eta != code.eta(terms.moved()):
            raise DippError("eta", f"must be that of the code, got {terms.eta}")
        return code

    def price(self, terms: Terms, touched: int = 1, apart: bool = True, change: int = LEVELS) -> Cost:
        """Return the cost of a change of at most `change` levels in each coordinate."""
        if not isinstance(terms, Sensitivity):
            raise DippError(self.name, f"needs terms of a sensitivity, got {type(terms).__name__}")
        return self.charge(terms.moved(change), touched, apart)


class TiltedCode(SensitivityCode):
    """A code whose tilt a planner can choose as large as the budget allows."""

    most_tilt: ClassVar[float]
    """Largest planned tilt in nats."""

    @abstractmethod
    def tilt(self, epsilon: float) -> float:
        """Return the tilt, in nats and before it is multiplied by α, of a clipped selection of this pure ε."""

    @abstractmethod
    def pure(self, rho: float) -> float:
        """Return the pure ε of a clipped selection from its ρ of zCDP.

        Args:
            rho: ρ of the selection.
        """
