"""The Poisson functional representation (PFR): α = ∞, so the index is K = argmin_k T_k/r(M_k | x).

Candidate M_k has the public arrival time T_k, and r is the density ratio of the noise around x to the noise alone.
The index is a function of x and the public seed, without any private randomness. So it has no certificate for any n,
and every question about its ε raises `NoCertificateError`.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from dipp.codes.ordered import OrderedOneShot, PoissonCode
from dipp.core.code import Indices, ScoredCandidates
from dipp.core.outcomes import Outcomes
from dipp.core.price import Cost, Reach
from dipp.errors import NoCertificateError

NO_CERTIFICATE = ("PFR", "has an index that is a function of x and the public seed (ε = ∞)", "use another code")
"""Argument, problem and remedy of the error that PFR has no certificate."""


@dataclass(frozen=True)
class Functional(PoissonCode):
    """The Poisson functional representation, as the codec uses it."""

    name, number = "PFR", 3

    @property
    def score_alpha(self) -> Fraction:
        """1, because at α = ∞ the best score does not depend on the scale."""
        return Fraction(1)

    @property
    def zeta_alpha(self) -> Fraction:
        """3, because the exponent of the paper is the same for all α from 3 on."""
        return Fraction(3)

    @property
    def alpha_name(self) -> str:
        """The word "infinity"."""
        return "infinity"

    @property
    def certified(self) -> bool:
        """False, because the index is a function of the private input."""
        return False

    def draw(self, scored: ScoredCandidates) -> Indices:
        """Return the index of the best score of each chunk."""
        return scored.best()

    def eta(self, moved: Reach) -> float:  # noqa: ARG002
        """Raise `NoCertificateError`, because there is no price to add η to."""
        raise NoCertificateError(*NO_CERTIFICATE)

    def charge(self, moved: Reach, touched: int = 1, apart: bool = True) -> Cost:  # noqa: ARG002
        """Raise `NoCertificateError`, because ε is infinite."""
        raise NoCertificateError(*NO_CERTIFICATE)

    def outcomes(self, scored: ScoredCandidates) -> list[Outcomes]:  # noqa: ARG002
        """Raise `NoCertificateError`, because nothing is drawn."""
        raise NoCertificateError(*NO_CERTIFICATE)


@dataclass(frozen=True)
class PFR(OrderedOneShot):
    """The Poisson functional representation for one private vector; it has no certificate."""

    @property
    def code(self) -> Functional:
        """The code at α = ∞."""
        return Functional()

    @property
    def _public(self) -> str:
        return f"PFR/{self._public_code}"
