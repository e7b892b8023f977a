"""The integer arithmetic of a step: where the private pixel becomes an integer shift, and what that costs.

With α and S folded in, one unit of score is 2^−S bits; `Arithmetic` fixes, per step and from public numbers only,
A(x) = trunc(α·L·√ΔSNR·x/ln 2·2^S) for the private pixel, c = round(…x̂0…) for the public prediction, and the integer
shift m = A(x) − c. Every score (`laws`) is 1-Lipschitz in m, exactly:

    sign       ±m
    Laplace    |z| − |z − m|
    potential  Φ(z) − Φ(z − m) with an integer Φ whose neighbouring values differ by at most one

so that a pixel moves the score of any candidate by at most (its touched coordinates)·(A(1) − A(−1)) units.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dipp.core import selection
from dipp.core.channels import Channel
from dipp.core.laws import IntegerLaw
from dipp.errors import DippError

Floats = NDArray[np.float64]

MIN_LEVEL = 128
"""S is the smallest with A(1) at least this, if the tables hold it: truncation then costs under 1/128 of the budget."""
MAX_LEVEL = 1 << 10
"""A(1) stays below this, so that sums of sixteen shifts fit into 16-bit lanes."""


@dataclass(frozen=True)
class Arithmetic:
    """The public integer arithmetic of one step of a channel: scale S, levels A(x), shifts m, sensitivity."""

    channel: Channel
    snr_gain: float
    """ΔSNR of the step: the shift is (x0 − x̂0)·√ΔSNR for data in [−1, 1]."""
    alpha: Fraction = Fraction(1)

    def __post_init__(self) -> None:
        if not (math.isfinite(self.snr_gain) and self.snr_gain > 0):
            raise DippError(f"snr_gain: a finite number above 0 is needed, got {self.snr_gain}")
        largest = 1 << selection.MAX_FRACTION_BITS
        if not Fraction(1, largest) <= self.alpha <= largest:
            raise DippError(f"alpha: a rational from 2^-15 to 2^15 is needed, got {self.alpha}")
        if self.level_of_one < 1:
            raise DippError(f"snr_gain: {self.snr_gain} is too small to move any score; take fewer, larger steps")
        if self.level_of_one >= MAX_LEVEL:
            raise DippError(f"snr_gain: {self.snr_gain} is too large for one step; split it into smaller ones")

    @property
    def _real_level(self) -> float:
        return float(self.alpha) * self.channel.unit_slope * math.sqrt(self.snr_gain) / math.log(2)

    @functools.cached_property
    def fraction_bits(self) -> int:
        """S: the smallest with A(1) ≥ 128, and at most what the tables of the law and of the selection hold."""
        wanted = max(0, math.ceil(math.log2(MIN_LEVEL / self._real_level)))
        while math.trunc(self._real_level * 2.0**wanted) < MIN_LEVEL:
            wanted += 1
        largest = selection.MAX_FRACTION_BITS - max(0, math.ceil(math.log2(self.alpha)))
        return min(wanted, largest)

    @property
    def unit(self) -> float:
        """Units of integer shift per unit of x."""
        return self._real_level * 2.0**self.fraction_bits

    @property
    def level_of_one(self) -> int:
        """A(1) = −A(−1), truncated, so that the integer sensitivity never exceeds the real one."""
        return math.trunc(self.unit)

    @property
    def limit(self) -> int:
        """No integer shift is larger in size: |A(x)| and |c| are at most A(1)."""
        return 2 * self.level_of_one

    @property
    def sensitivity(self) -> int:
        """Units by which one coordinate can move any candidate's score: A(1) − A(−1)."""
        return 2 * self.level_of_one

    def epsilon(self, touched: int = 1) -> float:
        """Pure ε of one selection in which `touched` coordinates belong to the protected unit (α is inside)."""
        self.channel.require_certified()
        return selection.epsilon(touched * self.sensitivity, self.fraction_bits)

    def levels(self, x: Floats) -> NDArray[np.int32]:
        """A(x) = trunc(unit·x) for the private x in [−1, 1]; anything else is refused."""
        x = np.asarray(x, np.float64)
        if not (np.abs(x) <= 1).all():
            raise DippError("x: values in [-1, 1] are needed; clamp them, and replace NaN, before encoding")
        return np.trunc(self.unit * x).astype(np.int32)

    def centres(self, x_hat: NDArray[np.floating]) -> NDArray[np.int32]:
        """c = round(unit·x̂0), clamped to ±A(1), from the public transcript."""
        if not np.isfinite(x_hat).all():
            raise DippError("x_hat: finite predictions are needed; the denoiser returned NaN or infinity")
        c = np.rint(self.unit * np.asarray(x_hat, np.float64))
        return np.clip(c, -self.level_of_one, self.level_of_one).astype(np.int32)

    def shifts(self, x: Floats, x_hat: Floats) -> NDArray[np.int32]:
        """m = A(x) − c, where the private values enter (of pictures: `chain.Selector`)."""
        return self.levels(x) - self.centres(x_hat)

    @functools.cached_property
    def law(self) -> IntegerLaw:
        """The integer law that scores the candidates of this step."""
        return self.channel.law(self.alpha, self.fraction_bits, self.limit)
