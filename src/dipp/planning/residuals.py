"""Residuals of a denoiser on sensing chains, from which the planner of sensing computes gains.

A sensing chain asks every coordinate against the prediction, so that what a step conveys depends on the sizes of the
residuals |x0 − x̂0| that it meets. `Residuals` holds their distribution on really coded public pictures, by the SNR of
the state. At each SNR the residuals of all coordinates are sorted and cut into Q slices of equal count, and a row of
the table has the root mean square of each slice. Before the first step nothing is known, the prediction is mid-grey,
and the residual is x0 itself: that row stands at SNR 0. The logarithms of the sizes are interpolated over the SNR
between the first two rows and over log SNR between the others; beyond the last row they go on with the slope of the
last ones.

Along a pass, coordinates that have not been asked yet have larger residuals than those that have. `touched` is the
factor by which the touched coordinates convey more than the average of all.

A code that searches realises a little less than the tilt that it is given. `realised` is that fraction, for some pads
(the bits by which an index exceeds the divergence of its chunk) and some tilts.
"""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dipp.errors import DippError

Floats = NDArray[np.float64]

NAMES = ("snrs", "quantiles", "touched", "searched", "realised")
"""The stored fields, in the order of the digest."""
LAST = 6
"""Number of the last rows that the slope beyond them is computed from."""


@dataclass(frozen=True, eq=False)
class Residuals:
    """Public statistics of residuals on sensing chains, in units of x ∈ [−1, 1]."""

    snrs: Floats
    """SNRs of the rows, ascending from 0."""
    quantiles: Floats
    """A row for each SNR: root mean squares of the equally likely slices of |x0 − x̂0|, ascending."""
    touched: Floats
    """At each SNR, the mean of |r|·tanh θ (residual r, tilt θ) over touched coordinates, divided by that over all."""
    searched: Floats
    """Rows (pad, tilt) at which a searching code was measured, with the same ascending tilts for each pad."""
    realised: Floats
    """Fraction of its tilt that the code realised, for each row of `searched`."""

    def __post_init__(self) -> None:
        for name in NAMES:
            array = np.array(getattr(self, name), np.float64)
            if not np.isfinite(array).all():
                raise DippError(name, "must be finite numbers")
            array.flags.writeable = False
            object.__setattr__(self, name, array)
        if self.snrs.ndim != 1 or len(self.snrs) < 3 or self.snrs[0] != 0 or (np.diff(self.snrs) <= 0).any():
            raise DippError("snrs", "must be three or more, ascending from 0")
        if self.quantiles.ndim != 2 or len(self.quantiles) != len(self.snrs) or (self.quantiles < 0).any():
            raise DippError("quantiles", f"must have a row of sizes for each of {len(self.snrs)} SNRs")
        if not (self.quantiles[:, -1] > 0).all():
            raise DippError("quantiles", "must have residuals above 0 in each row")
        if self.touched.shape != self.snrs.shape or not ((self.touched > 0.5) & (self.touched < 2)).all():
            raise DippError("touched", "must have a factor between 0.5 and 2 for each SNR")
        if self.searched.shape != (len(self.realised), 2) or not ((self.realised > 0) & (self.realised <= 1.5)).all():
            raise DippError(
                "searched and realised", "must be rows of pad and tilt, and a fraction above 0 for each row"
            )
        if not ((self.searched > 0).all() and all((np.diff(tilts) > 0).all() for _, tilts, _ in self._curves)):
            raise DippError("searched", "must have positive pads and tilts, with ascending tilts for each pad")

    def at(self, snrs: Floats) -> Floats:
        """Return the interpolated row of residuals at each SNR: (N, Q) numbers for SNRs of shape (N,)."""
        first, logs = self.snrs[1], np.log(self.snrs[1:])
        wanted = np.log(np.maximum(snrs, first))
        position = np.interp(wanted, logs, np.arange(len(logs)))
        low = np.minimum(position.astype(np.int64), len(logs) - 2)
        share = (position - low)[:, None]
        start, inner = self._logs[0], self._logs[1:]
        rows = (1 - share) * inner[low] + share * inner[low + 1]
        rows += np.maximum(wanted - logs[-1], 0.0)[:, None] * self._last_slope
        early = np.minimum(np.asarray(snrs) / first, 1.0)[:, None]
        return np.asarray(np.exp((1 - early) * start + early * rows), np.float64)

    @functools.cached_property
    def _logs(self) -> Floats:
        return np.asarray(np.log(np.maximum(self.quantiles, 1e-9)), np.float64)

    @functools.cached_property
    def _last_slope(self) -> float:
        """The slope of the logarithm of the root mean squared error over ln SNR at the last rows; at most 0."""
        last = min(LAST, len(self.snrs) - 2)
        fallen = np.log(np.square(self.quantiles[[-1 - last, -1]]).mean(axis=1)) / 2
        return float(min(0.0, (fallen[1] - fallen[0]) / math.log(self.snrs[-1] / self.snrs[-1 - last])))

    def touched_at(self, snrs: Floats) -> Floats:
        """Return the factors of `touched` at some SNRs, interpolated over log SNR."""
        logs = np.log(np.maximum(snrs, self.snrs[1] * 1e-6))
        later = np.interp(logs, np.log(self.snrs[1:]), self.touched[1:])
        return np.asarray(np.where(np.asarray(snrs) > 0, later, self.touched[0]), np.float64)

    def mse(self, snrs: Floats) -> Floats:
        """Return the mean squared error of the expected picture at each SNR, per coordinate."""
        errors: Floats = np.square(self.at(np.asarray(snrs, np.float64))).mean(axis=1)
        return errors

    def psnr(self, snrs: Floats) -> Floats:
        """Return the PSNR in dB of the expected picture at each SNR, 10·log10(4/MSE) for data in [−1, 1]."""
        return np.asarray(10 * np.log10(4 / self.mse(snrs)), np.float64)

    def realised_at(self, pad: float, tilt: float) -> float:
        """Return the fraction of a tilt that a searching code realises, interpolated between tilts at the nearest pad.

        Args:
            pad: Difference of the bits of an index and the KL of its chunk, in bits.
            tilt: The tilt in nats.
        """
        _, tilts, shares = min(self._curves, key=lambda curve: abs(curve[0] - pad))
        return float(np.interp(math.log(tilt), np.log(tilts), shares))

    @property
    def pads(self) -> tuple[float, ...]:
        """The pads at which a searching code was measured."""
        return tuple(pad for pad, _, _ in self._curves)

    @functools.cached_property
    def _curves(self) -> list[tuple[float, Floats, Floats]]:
        """Each pad, with its tilts and the fractions of them that were realised."""
        rows = [(pad, self.searched[:, 0] == pad) for pad in dict.fromkeys(self.searched[:, 0].tolist())]
        return [(pad, self.searched[which, 1], self.realised[which]) for pad, which in rows]

    @functools.cached_property
    def digest(self) -> str:
        """SHA-256 of the statistics in hex digits, by which a file names the table that its gains follow from."""
        digest = hashlib.sha256(b"dipp/residuals/2")
        for array in (getattr(self, name) for name in NAMES):
            digest.update(np.array(array.shape, "<u8").tobytes() + np.ascontiguousarray(array, "<f8").tobytes())
        return digest.hexdigest()

    def to_dict(self, rounded: Any) -> dict[str, Any]:
        """Return the statistics as a dictionary for JSON; `rounded` is a function that cuts digits of arrays."""
        return {name: rounded(getattr(self, name)) for name in NAMES}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Residuals:
        """Return the statistics from the dictionary that `to_dict` made."""
        return cls(**{name: content[name] for name in NAMES})
