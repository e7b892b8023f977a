"""Channels: the noise laws of steps, with the score of a candidate and its cost.

A channel adds unit-variance noise z to the shift μ = (x0 − x̂0)·√ΔSNR of a coordinate x0 from its prediction x̂0, in a
step of gain ΔSNR. Candidates are drawn from the law of z alone, each coordinate from one 16-bit draw (the sign
channel: one bit); the score of a candidate is the log density ratio
u(z; μ) = φ(z) − φ(z − μ), φ = −log density, summed over the coordinates. The mechanism is the quantised law itself:
whatever the rounding, the certificate holds, because it rests only on how far an integer score can move (`arithmetic`).

The cost of a channel is its slope L = sup|φ'|: the most nats by which a shift of 1 can move the score. ±1 noise has
the least possible slope, L = 1. Gaussian noise has L = ∞ and therefore no certificate.
"""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dipp.core.laws import IntegerLaw, LaplaceLaw, PotentialLaw, SignLaw
from dipp.core.masks import FullMask, Mask, of_period
from dipp.errors import DippError, NoCertificateError

Floats = NDArray[np.float64]


class Channel(ABC):
    """A noise law of variance 1 with its score. Shifts are in units of the standard deviation of the noise."""

    name: ClassVar[str]
    """Name of the channel in texts and JSON."""
    number: ClassVar[int]
    """Number of the channel in files."""
    parameter: ClassVar[str | None] = None
    """Name of the attribute (a whole number or 32-bit float) that files store beside the number; None without one."""

    @property
    @abstractmethod
    def slope(self) -> float:
        """The most nats by which a shift of 1 in one touched coordinate can move the score (L); may be infinite."""

    @property
    def mask(self) -> Mask:
        """The mask that says which coordinates each step touches; by default all of them."""
        return FullMask()

    @property
    def spelling(self) -> str:
        """Name and parameter, such as "Sign(period=1)". It must never change, because checks of payloads cover it."""
        value = "" if self.parameter is None else f"{self.parameter}={getattr(self, self.parameter)!r}"
        return f"{self.name.capitalize()}({value})"

    @property
    def unit_slope(self) -> float:
        """Scale of integer shifts: μ = 1 becomes m = α·unit_slope·2^S/ln 2. It is L, or 1 if L is infinite."""
        return self.slope

    @property
    def certified(self) -> bool:
        """Whether the score is bounded, so that a selection by it has a finite ε."""
        return math.isfinite(self.slope)

    def require_certified(self) -> None:
        """Raise `NoCertificateError` if the channel has no certificate."""
        if not self.certified:
            raise NoCertificateError(self.name, "has an unbounded score, so there is no ε", "use another channel")

    @abstractmethod
    def sample(self, draws: NDArray[np.uint16]) -> Floats:
        """Return the noise value of each draw, float64 of the same shape.

        Args:
            draws: The 16-bit draw of each coordinate; for the sign channel, its bit 0 or 1.
        """

    def delivered(self, shift: Floats) -> Floats:
        """Return the mean of z over all coordinates for a wanted shift: less than the shift if the noise saturates."""
        return np.asarray(shift, np.float64)

    @abstractmethod
    def kl(self, shift: Floats) -> Floats:
        """Return the KL divergence, in bits, of the shifted law from the unshifted law, per touched coordinate.

        Args:
            shift: Shifts in units of the noise's deviation.
        """

    @abstractmethod
    def law(self, alpha: Fraction, fraction_bits: int, limit: int) -> IntegerLaw:
        """Return the integer law of a step.

        Args:
            alpha: α, by which scores are multiplied.
            fraction_bits: S: scores are counted in multiples of 2^−S bits.
            limit: The largest absolute value of an integer shift.
        """


class LocationChannel(Channel):
    """A channel given by a quantile function and a potential φ; each coordinate takes one 16-bit draw."""

    @abstractmethod
    def quantile(self, probability: Floats) -> Floats:
        """Return the quantiles of the noise law at probabilities in (0, 1), elementwise."""

    @abstractmethod
    def potential(self, z: Floats) -> Floats:
        """Return φ(z) in nats, elementwise; φ(0) = 0."""

    def sample(self, draws: NDArray[np.uint16]) -> Floats:
        """Return the quantile at (draw + ½)/2^16 for each draw."""
        table: Floats = self._noise_values()[draws]
        return table

    def kl(self, shift: Floats) -> Floats:
        """Return the KL divergence, in bits, of the shifted noise from the noise, both on the values that draws give.

        The 2^16 noise values z are equally likely without a shift, and in proportion to exp(u(z; μ)) with the shift μ,
        where u is the score. A channel with a closed form overrides this, for speed.
        """
        return np.vectorize(self._kl_of_values)(np.asarray(shift, np.float64))  # type: ignore[no-any-return]

    def _kl_of_values(self, shift: float) -> float:
        z = self._noise_values()
        score = self.potential(z) - self.potential(z - shift)
        log_q = score - score.max()
        log_q -= np.log(np.exp(log_q).sum())
        return float(np.sum(np.exp(log_q) * (log_q + 16 * math.log(2))) / math.log(2))

    @functools.cache  # noqa: B019 - channels are frozen and few
    def _noise_values(self) -> Floats:
        return self.quantile((np.arange(1 << 16) + 0.5) / (1 << 16))

    def law(self, alpha: Fraction, fraction_bits: int, limit: int) -> IntegerLaw:
        """Return the law Φ(z) − Φ(z − m), where Φ is a table of the potential φ in integers."""
        units_per_nat = float(alpha) * 2.0**fraction_bits / math.log(2)
        return PotentialLaw.tabulate(
            self._noise_values(), self.potential, units_per_nat, self.unit_slope, limit, self.certified
        )


@dataclass(frozen=True)
class Laplace(LocationChannel):
    """Laplace noise of density ∝ exp(−√2·|z|), with L = √2: the channel of the paper."""

    name, number = "laplace", 0

    @property
    def slope(self) -> float:
        """√2."""
        return math.sqrt(2)

    def quantile(self, probability: Floats) -> Floats:
        """Return −sign(p − ½)·ln(1 − |2p − 1|)/√2."""
        centred = 2 * probability - 1
        return -np.sign(centred) * np.log1p(-np.abs(centred)) / math.sqrt(2)

    def potential(self, z: Floats) -> Floats:
        """Return √2·|z|."""
        return math.sqrt(2) * np.abs(z)

    def kl(self, shift: Floats) -> Floats:
        """Return (δ − 1 + e^−δ)/ln 2 with δ = √2·|shift| (appendix C of the paper)."""
        delta = math.sqrt(2) * np.abs(shift)
        return (delta + np.expm1(-delta)) / math.log(2)

    def law(self, alpha: Fraction, fraction_bits: int, limit: int) -> IntegerLaw:
        """Return the law |z| − |z − m| with integer exponential magnitudes."""
        return LaplaceLaw.at(alpha, fraction_bits, limit)


@dataclass(frozen=True)
class Gaussian(LocationChannel):
    """Gaussian noise, as in plain DiffC. Its score is unbounded, L = ∞, so it has no certificate."""

    name, number = "gaussian", 1

    @property
    def slope(self) -> float:
        """∞, because the score is unbounded."""
        return math.inf

    @property
    def unit_slope(self) -> float:
        """1, because there is no finite slope to scale by."""
        return 1.0

    def quantile(self, probability: Floats) -> Floats:
        """Return the standard normal quantile."""
        from scipy.special import ndtri  # here, because SciPy is slow to import

        return np.asarray(ndtri(probability), np.float64)

    def potential(self, z: Floats) -> Floats:
        """Return z²/2."""
        return z * z / 2

    def kl(self, shift: Floats) -> Floats:
        """Return shift²/2 nats, in bits."""
        return np.square(shift) / (2 * math.log(2))


@dataclass(frozen=True)
class Sign(Channel):
    """Sign noise: z = ±√period on touched coordinates and 0 elsewhere, from one bit per coordinate. L = √period.

    Over a cycle of `period` steps every coordinate is touched once and no pixel twice in a step (`masks.TurnMask`).
    With period = C a step touches one of the C channels of each pixel; larger periods touch the share 1/period of the
    coordinates; and period = 1 is plain ±1 noise on all channels of every pixel. The score of a candidate is the sum of
    ±θ over touched coordinates, with its sign and the tilt θ = √period·μ of a shift μ. It tilts the bits: the mean of z
    is √period·tanh θ, close to the wanted μ·period on the touched coordinates while θ is small.
    """

    period: int = 3
    """Number of steps in which every coordinate is touched once."""
    name, number, parameter = "sign", 2, "period"

    def __post_init__(self) -> None:
        if not isinstance(self.period, int) or self.period < 1:
            raise DippError("period", f"must be a whole number of steps from 1, got {self.period}")
        of_period(self.period)  # raises if the period is too long

    @property
    def mask(self) -> Mask:
        """The mask that touches one channel of a pixel at a time; with period 1, all coordinates."""
        return of_period(self.period)

    @property
    def slope(self) -> float:
        """√period."""
        return math.sqrt(self.period)

    def delivered(self, shift: Floats) -> Floats:
        """Return tanh(θ)/√period for θ = √period·shift, which is less than θ/√period: a mean of signs stays in ±1."""
        return np.asarray(np.tanh(self.slope * np.asarray(shift, np.float64)) / self.slope, np.float64)

    def sample(self, draws: NDArray[np.uint16]) -> Floats:
        """Return +√period for bit 1 and −√period for bit 0."""
        return (2.0 * draws.astype(np.float64) - 1.0) * self.slope

    def kl(self, shift: Floats) -> Floats:
        """Return (θ·tanh θ − ln cosh θ)/ln 2 for the tilt θ = √period·shift of a touched coordinate."""
        theta = np.abs(np.asarray(shift, np.float64)) * self.slope
        small = np.minimum(theta, 1.0)
        log_cosh = np.where(
            theta < 1, np.log1p(np.sinh(small) ** 2) / 2, theta + np.log1p(np.exp(-2 * theta)) - math.log(2)
        )
        return np.asarray((theta * np.tanh(theta) - log_cosh) / math.log(2), np.float64)

    def law(self, alpha: Fraction, fraction_bits: int, limit: int) -> IntegerLaw:  # noqa: ARG002
        """Return the law +m for bit 1, −m for bit 0."""
        return SignLaw(limit=limit)


CHANNELS: dict[int, type[Channel]] = {kind.number: kind for kind in (Laplace, Gaussian, Sign)}
"""Class of each channel by its number in files. A new channel needs its class and an entry here."""
