"""The budget of an encoding, and estimates of what steps cost before there is a plan and its ledger."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass, field, replace
from typing import TypeGuard

import numpy as np
from numpy.typing import NDArray

from dipp.core import arithmetic, selection
from dipp.core.plan import Coding
from dipp.core.unit import Size, Unit, within
from dipp.core.units import Pixel
from dipp.errors import DippError
from dipp.privacy import conversions
from dipp.privacy.certificate import Certificate
from dipp.privacy.printing import upper

Floats = NDArray[np.float64]

MIN_BUDGET = 1e-30
"""The smallest valid ε or ρ: far below the cost of any step, and far above the smallest floating-point number."""
SLACK = 1 + 2.0**-28
"""Factor that raises estimates of losses by far more than floating-point error and η."""
FAR_LESS = 0.8
"""Fraction of a budget: a plan that uses less says why."""
BOUND = (
    "bound by the rate, not by the budget: --bpp allows a better picture in more bits than the default, which is 1 bit "
    "per pixel, and less above 1 megapixel"
)
NO_BETTER = "by its calibration this denoiser would not show more; one that was trained or calibrated on more might"
AS_ASKED = "its steps end at the timestep that was asked for"


@dataclass(frozen=True)
class Budget:
    """The largest loss that an encoding may cost a unit, or any object of a size: pure ε, (ε, δ) or ρ.

    Make one by `pure`, `approximate` or `zcdp`.
    """

    epsilon: float | None = None
    delta: float | None = None
    rho: float | None = None
    unit: Unit = field(default_factory=Pixel)
    """The unit that the budget protects. With `hidden`, the unit of the plan, into which objects are divided."""
    hidden: Size | None = None
    """Width and height in pixels of the objects that the budget protects, wherever they lie; None for one unit."""

    def __post_init__(self) -> None:
        if (self.epsilon is None) == (self.rho is None) or (self.delta is not None and self.epsilon is None):
            names = [name for name in ("epsilon", "delta", "rho") if getattr(self, name) is not None]
            problem = f"must be one of epsilon, epsilon with delta, and rho, got {' and '.join(names) or 'none'}"
            raise DippError("budget", problem)
        for name, value in (("epsilon", self.epsilon), ("rho", self.rho)):
            if value is not None and not (is_number(value) and MIN_BUDGET <= value < math.inf):
                raise DippError(name, f"must be a finite number of at least {MIN_BUDGET}, got {value!r}")
        if self.delta is not None and not (is_number(self.delta) and 0 < self.delta < 1):
            raise DippError("delta", f"must be a number between 0 and 1, got {self.delta!r}")
        if self.hidden is not None:
            within(*self.hidden, None)

    @classmethod
    def pure(cls, epsilon: float) -> Budget:
        """Return a budget of pure ε per pixel.

        Args:
            epsilon: The largest ε.

        Raises:
            DippError: ε is not positive and finite.
        """
        return cls(epsilon=epsilon)

    @classmethod
    def approximate(cls, epsilon: float, delta: float) -> Budget:
        """Return a budget of (ε, δ) per pixel.

        Args:
            epsilon: The largest ε.
            delta: δ, between 0 and 1.

        Raises:
            DippError: ε is not positive and finite, or δ is not between 0 and 1.
        """
        return cls(epsilon=epsilon, delta=delta)

    @classmethod
    def zcdp(cls, rho: float) -> Budget:
        """Return a budget of ρ (zCDP) per pixel.

        Args:
            rho: The largest ρ.

        Raises:
            DippError: ρ is not positive and finite.
        """
        return cls(rho=rho)

    @property
    def zcdp_limit(self) -> float | None:
        """The largest ρ that is within the budget; None for pure ε, which no ρ implies."""
        if self.epsilon is not None and self.delta is not None:
            return conversions.zcdp_of_epsilon(self.epsilon, self.delta)
        return self.rho

    @property
    def limit(self) -> float:
        """The number that a certificate is compared with: ε or ρ."""
        return self.epsilon or self.rho or 0.0

    @property
    def doubled(self) -> Budget:
        """The same budget with twice the ε or ρ."""
        if self.epsilon is None:
            return replace(self, rho=2 * self.limit)
        return replace(self, epsilon=2 * self.limit)

    def measure(self, certificate: Certificate) -> float:
        """Return the number of a certificate that is compared with `limit`: pure ε, the ε of (ε, δ), or ρ.

        It is that of an object of the hidden size, or of one unit without a hidden size.
        """
        if self.hidden is not None:
            certificate = certificate.for_object(*self.hidden)
        if self.epsilon is None:
            return certificate.rho
        return certificate.epsilon if self.delta is None else certificate.approximate(self.delta)

    def allows(self, certificate: Certificate) -> bool:
        """Return whether the certificate stays within the budget."""
        return self.measure(certificate) <= self.limit

    def __str__(self) -> str:
        stated = {"ε": self.epsilon, "δ": self.delta, "ρ": self.rho}
        parts = [f"{name} = {upper(value)}" for name, value in stated.items() if value is not None]
        return f"{', '.join(parts)} {self.whose}"

    @property
    def whose(self) -> str:
        """What the budget protects, in words that follow a number."""
        if self.hidden is None:
            return f"per {self.unit.short}"
        return f"for any object of at most {'×'.join(map(str, self.hidden))} pixels"

    def for_unit(self, unit: Unit, *, alone: bool = True) -> Budget:
        """Return a budget for one unit that keeps any object of the hidden size within this budget.

        Args:
            unit: The unit of a plan.
            alone: Whether no two units share a draw: k units then pay kρ, and k²ρ otherwise.

        Returns:
            The budget divided by the number k of units that an object can meet: pure ε/k for a pure budget. A budget of
            (ε, δ) is converted to ρ first, which is safe, but less than the exact law of the loss may allow: planners
            that know the law compare a whole plan with the whole budget instead (`allows`). Without a hidden size, the
            same budget for the unit.

        """
        if self.hidden is None:
            return replace(self, unit=unit)
        met = unit.met(*self.hidden)
        if self.epsilon is not None and self.delta is None:
            return Budget(epsilon=conversions.epsilon_of_one(self.epsilon, met), unit=unit)
        return Budget(rho=conversions.zcdp_of_one(self.zcdp_limit or 0.0, met, alone=alone), unit=unit)


def is_number(value: object) -> TypeGuard[float]:
    """Return whether a value is a real number and not a bool."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def is_whole(value: object) -> TypeGuard[int]:
    """Return whether a value is a whole number and not a bool."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def losses(coding: Coding, gains: Floats) -> tuple[Floats, Floats]:
    """Estimate the ε of a selection with one coordinate, for many steps at once.

    The ε is never too low: if rounding leaves it open which scale S a step has, the level is not truncated.

    Args:
        coding: The channel and code of the steps.
        gains: The SNR gains of the steps.

    Returns:
        The level of x = 1 (`Arithmetic.level_of_one`) and the ε of each step.
    """
    alpha = coding.code.score_alpha
    real = float(alpha) * coding.channel.unit_slope * np.sqrt(gains) / math.log(2)
    wanted = np.log2(arithmetic.MIN_LEVEL / real)
    largest = selection.MAX_FRACTION_BITS - max(0, math.ceil(math.log2(alpha)))
    scale = np.exp2(np.clip(np.ceil(wanted), 0, largest))
    doubtful = np.abs(wanted - np.rint(wanted)) < 1e-9
    level = np.where(doubtful, real * scale, np.trunc(real * scale))
    return level, (4 * math.log(2) * level / scale + selection.ETA) * SLACK


def why_unused(
    budget: Budget | None, certificate: Certificate | None, bound: bool, final_timestep: int | None = None
) -> tuple[str, ...]:
    """Return why a plan uses far less than its budget, if it does.

    Args:
        budget: The budget that the plan was made for.
        certificate: The certificate of the plan; None without one.
        bound: Whether the rate, and not the budget, limits the quality.
        final_timestep: The timestep that the caller asked the steps to end at, if any.

    Returns:
        At most one line.
    """
    if budget is None or certificate is None:
        return ()
    used = budget.measure(certificate)
    if used > FAR_LESS * budget.limit:
        return (BOUND,) if bound else ()
    why = AS_ASKED if final_timestep is not None else BOUND if bound else NO_BETTER
    return (f"only {100 * used / budget.limit:.2g} % of {budget} is used: {why}",)
