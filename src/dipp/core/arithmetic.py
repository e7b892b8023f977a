"""The integer arithmetic of a step: how the private pixel becomes an integer shift, and how far it can move a score.

Scores are integers: a score in bits is multiplied by the code's factor α, and counted in multiples of 2^−S bits.
`Arithmetic` fixes, for each step and from public numbers only, the level A(x) of a private pixel x, the centre c of
its public prediction x̂0, and the shift m, which is clipped to ±M:

    A(x) = trunc(unit·x),    c = round(unit·x̂0) within ±A(1),    m = clip(A(x) − c, −M, M)

where unit = α·K/ln 2·2^S, if a change of x by 1 has a *tilt* of K nats. Every score (`laws`) of a candidate with the
noise z is 1-Lipschitz in the shift m, exactly:

    sign       ±m
    Laplace    |z| − |z − m|
    potential  Φ(z) − Φ(z − m) with an integer Φ whose neighbouring values differ by at most one

**Sensitivity.** For a fixed public c, A(x) lies in an interval of length 2A(1), and the clip leaves one of length 2M:
the shift moves by at most D = min(2A(1), 2M), whatever the pixel, and so does the score of any candidate.

**Tilt and clip.** A step that conveys a shift (x0 − x̂0)·√ΔSNR through a channel of slope L has K = L·√ΔSNR and no
clip: the largest shift is 2A(1). A *clipped* step has a largest tilt of V nats, which a residual of the clip's width w
reaches: K = V/w, and M = trunc(α·V/ln 2·2^S). Both M and A(1) are rounded towards zero, so that no integer exceeds its
real number.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dipp.core import selection
from dipp.core.channels import Channel
from dipp.core.laws import IntegerLaw
from dipp.core.price import MAX_SLOPE, Reach
from dipp.errors import DippError

Floats = NDArray[np.float64]

MIN_LEVEL = 128
"""The scale S is the smallest for which the level A(1) is at least this, if the tables allow it. Truncation then costs
less than 1/128 of the budget."""
MIN_CLIP = 512
"""With a clip, the scale S is the smallest for which the largest shift M is at least this."""
MAX_LEVEL = 1 << 10
"""A(1), or M with a clip, stays below this, so that the sum of sixteen shifts fits into a 16-bit integer."""


@dataclass(frozen=True)
class Clip:
    """The clip of a step. It is public, and fixed before a picture is read."""

    tilt: float
    """V: the largest tilt of a coordinate, in nats."""
    width: float
    """w: the tilt is V for every residual |x0 − x̂0| of at least w."""

    def __post_init__(self) -> None:
        if not (0 < self.tilt < math.inf and 0 < self.width < math.inf):
            raise DippError("clip", f"must have a finite tilt and width above 0, got {self.tilt} and {self.width}")


@dataclass(frozen=True)
class Arithmetic:
    """The public integers of one step of a channel: scale S, levels A(x), centres c, shifts m, sensitivity D.

    Raises:
        DippError: A number is out of its range, or too small or too large for the integers of a step.

    """

    channel: Channel
    snr_gain: float
    """ΔSNR of the step: without a clip, the shift is (x0 − x̂0)·√ΔSNR for data in [−1, 1]."""
    alpha: Fraction = Fraction(1)
    """α, by which scores are multiplied."""
    clip: Clip | None = None
    """The clip of the step. If there is one, the integers follow from it and not from the gain."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.snr_gain) and self.snr_gain > 0):
            raise DippError("snr_gain", f"must be a finite number above 0, got {self.snr_gain}")
        largest = 1 << selection.MAX_FRACTION_BITS
        if not Fraction(1, largest) <= self.alpha <= largest:
            raise DippError("alpha", f"must be a rational from 2^-15 to 2^15, got {self.alpha}")
        name, value = ("snr_gain", self.snr_gain) if self.clip is None else ("tilt", self.clip.tilt)
        if self._largest < 1 or self.level_of_one < 1:
            raise DippError(name, f"is too small to move any score, got {value}", "take fewer, larger steps")
        if self._largest >= MAX_LEVEL:
            raise DippError(name, f"is too large for one step, got {value}", "split it into smaller ones")
        if self.level_of_one >= MAX_SLOPE:
            raise DippError("clip", f"is too narrow, got {self.clip and self.clip.width}", "take a wider one")

    @property
    def _real_level(self) -> float:
        """The level of x = 1 in bits, times α: A(1) at S = 0, before it is truncated."""
        slope = self.channel.unit_slope * math.sqrt(self.snr_gain)
        if self.clip is not None:
            slope = self.clip.tilt / self.clip.width
        return float(self.alpha) * slope / math.log(2)

    @property
    def _real_largest(self) -> float:
        """The largest shift in bits, times α, from which S is chosen: the largest tilt or, without a clip, x = 1."""
        return self._real_level if self.clip is None else float(self.alpha) * self.clip.tilt / math.log(2)

    @functools.cached_property
    def fraction_bits(self) -> int:
        """The number S of fraction bits: levels and clips are whole multiples of 2^−S.

        It is the smallest for which the clip is at least `MIN_CLIP` (without a clip, the level of white at least
        `MIN_LEVEL`), and at most what the tables of weights allow.
        """
        least = MIN_LEVEL if self.clip is None else MIN_CLIP
        wanted = max(0, math.ceil(math.log2(least / self._real_largest)))
        while math.trunc(self._real_largest * 2.0**wanted) < least:
            wanted += 1
        largest = selection.MAX_FRACTION_BITS - max(0, math.ceil(math.log2(self.alpha)))
        return min(wanted, largest)

    @property
    def _largest(self) -> int:
        """The number from which S is chosen, `_real_largest`·2^S, truncated: M for a clipped step, otherwise A(1)."""
        return math.trunc(self._real_largest * 2.0**self.fraction_bits)

    @property
    def unit(self) -> float:
        """The factor by which x is multiplied before it is truncated to its level A(x)."""
        return self._real_level * 2.0**self.fraction_bits

    @property
    def level_of_one(self) -> int:
        """A(1) = −A(−1), truncated, so that the integer sensitivity never exceeds the real one."""
        return math.trunc(self.unit)

    @property
    def largest_shift(self) -> int | None:
        """The bound to which integer shifts are clipped (M); None without a clip."""
        return None if self.clip is None else self._largest

    @property
    def limit(self) -> int:
        """The largest absolute value of a shift m: 2A(1), or M if that is smaller."""
        return 2 * self.level_of_one if self.clip is None else min(2 * self.level_of_one, self._largest)

    @property
    def sensitivity(self) -> int:
        """The most by which one coordinate can move the score of a candidate, in multiples of 2^−S bits (D)."""
        return 2 * self.level_of_one if self.clip is None else 2 * min(self.level_of_one, self._largest)

    @property
    def moved(self) -> Reach:
        """How far any change of one coordinate can move a selection; codes compute prices from it."""
        return Reach(self.sensitivity, self.limit, self.fraction_bits)

    def levels(self, x: Floats) -> NDArray[np.int32]:
        """Return A(x) = trunc(unit·x) of private values, elementwise, as int32.

        Raises:
            DippError: A value is not in [−1, 1].

        """
        x = np.asarray(x, np.float64)
        if not (np.abs(x) <= 1).all():
            raise DippError("x", "must have values in [-1, 1]", "clamp them, and replace NaN, before encoding")
        return np.trunc(self.unit * x).astype(np.int32)

    def centres(self, x_hat: NDArray[np.floating]) -> NDArray[np.int32]:
        """Return c = round(unit·x̂0) within ±A(1) of public predictions, as int32; 0 if a prediction is not finite.

        So the encoder never fails because of a prediction. If it could fail and were run again, its file would be
        conditioned on not having failed, which no certificate covers.
        """
        finite = np.nan_to_num(np.asarray(x_hat, np.float64), nan=0.0, posinf=0.0, neginf=0.0)
        return np.clip(np.rint(self.unit * finite), -self.level_of_one, self.level_of_one).astype(np.int32)

    def clipped(self, shifts: Any) -> Any:
        """Return shifts within ±M, or the same shifts if the step has no clip.

        Args:
            shifts: An array or a tensor of 32-bit integers.
        """
        return shifts if self.clip is None else shifts.clip(-self._largest, self._largest)

    def shifts(self, x: Floats, x_hat: Floats) -> NDArray[np.int32]:
        """Return m = clip(A(x) − c, ±M) of private values x and public predictions x̂0, as int32.

        The codec does the same for whole pictures in `codec.encoder.Selector`.

        Args:
            x: Private values in [−1, 1].
            x_hat: Public predictions of the same shape.
        """
        shifts: NDArray[np.int32] = self.clipped(self.levels(x) - self.centres(x_hat))
        return shifts

    @functools.cached_property
    def law(self) -> IntegerLaw:
        """The integer law by which the candidates of this step are scored."""
        return self.channel.law(self.alpha, self.fraction_bits, self.limit)
