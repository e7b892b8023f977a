"""Step-limited Poisson private representation (PPR): Definition 3 of the paper.

The index K of the first n points of a Poisson process has the law P[K = k | M, T] ∝ (r(M_k | x)/T_k)^α. Point k has a
public candidate M_k and a public arrival time T_k, and r is the density ratio of the noise around x to the noise alone.
In the paper K is the argmin of V_k·(T_k/r_k)^α with exponential V_k, which has this law. Here one private integer draws
it instead of n private floats. α = 1 is allowed: the step limit makes it a proper law.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from numbers import Rational

from dipp.codes.exponential import Exponential
from dipp.codes.ordered import OrderedOneShot, PoissonCode
from dipp.errors import DippError


@dataclass(frozen=True)
class StepLimited(PoissonCode, Exponential):
    """Step-limited Poisson private representation, as the codec uses it."""

    alpha: Fraction = Fraction(2)
    name, number = "step-limited PPR", 2

    @property
    def zeta_alpha(self) -> Fraction:
        """The α by which the code multiplies scores."""
        return self.alpha


@dataclass(frozen=True)
class StepLimitedPPR(OrderedOneShot):
    """Step-limited Poisson private representation for one private vector."""

    alpha: Fraction = Fraction(2)
    """α, a rational from 1."""

    def __post_init__(self) -> None:
        if not isinstance(self.alpha, Rational) or not self.alpha >= 1:
            raise DippError("alpha", f"must be a rational from 1 with the Poisson order, got {self.alpha}")
        super().__post_init__()

    @property
    def code(self) -> StepLimited:
        """The code with the same α."""
        return StepLimited(Fraction(self.alpha))

    @property
    def _public(self) -> str:
        return f"StepLimitedPPR/{self._public_code}"
