"""The Poisson functional representation: α = ∞, so K = argmin T_k/r(M_k | x).

The index is a function of x and the public seed, without any private randomness. It has no certificate, at any n, and
says so wherever one is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from dipp.codes.ordered import Ordered, OrderedOneShot
from dipp.core.code import Indices, Scored
from dipp.core.outcomes import Outcomes
from dipp.core.price import Cost, Reach
from dipp.errors import NoCertificateError

NO_CERTIFICATE = ("PFR", "the index is a function of x and the public seed (ε = ∞)", "use another code")


@dataclass(frozen=True)
class Functional(Ordered):
    """PFR for the codec."""

    name, number = "PFR", 3

    @property
    def score_alpha(self) -> Fraction:
        """1: at α = ∞ any scale has the same best score."""
        return Fraction(1)

    @property
    def zeta_alpha(self) -> Fraction:
        """3: the paper's parameter is the same for all α from there on."""
        return Fraction(3)

    @property
    def alpha_name(self) -> str:
        """Infinity."""
        return "infinity"

    @property
    def certified(self) -> bool:
        """False: the index is a function of the private input."""
        return False

    def draw(self, scored: Scored) -> Indices:
        """The best score wins."""
        return scored.best()

    def eta(self, moved: Reach) -> float:  # noqa: ARG002
        """Raise: there is no price to add to."""
        raise NoCertificateError(*NO_CERTIFICATE)

    def charge(self, moved: Reach, touched: int = 1, apart: bool = True) -> Cost:  # noqa: ARG002
        """Raise: no price is finite."""
        raise NoCertificateError(*NO_CERTIFICATE)

    def outcomes(self, scored: Scored) -> list[Outcomes]:  # noqa: ARG002
        """Raise: nothing is drawn."""
        raise NoCertificateError(*NO_CERTIFICATE)


@dataclass(frozen=True)
class PFR(OrderedOneShot):
    """PFR for one private vector."""

    @property
    def code(self) -> Functional:
        """α = ∞."""
        return Functional()

    @property
    def _public(self) -> str:
        return f"PFR/{self._public_code}"
