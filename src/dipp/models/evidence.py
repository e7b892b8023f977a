"""Evidence: what is known about pictures before a denoiser predicts them. Everything here is public.

    state       y = x0 + noise/√precision, coordinate by coordinate
    precision   the SNR of each pixel of y, from 0 (nothing is known) to `EXACT` (y is x0); a single number is the
                SNR of all pixels
    estimate    a second view of x0, with errors of power 1/estimate_precision: from words, or from a coarser picture
    answers     the outcomes of comparing coordinates with predictions (`compared`), which a state alone blurs

**Merging.** The errors of an estimate are smooth and those of a state are white, and a network that takes both as
separate planes can use that. Any other network gets them merged into one state. If both errors are independent, with
the powers 1/s and 1/p of their precisions, the best linear combination is the precision-weighted mean, and precisions
add:

    y ← (s·y + p·e)/(s + p),      s ← s + p

**Level.** A network scales its features by one SNR for the whole picture, the level. Let pixels of deviation d be
estimated from their own value alone. The level of a map of SNRs s is the SNR that leaves them the same share of their
variance as the map leaves on average:

    1/(1 + level·d²) = mean of 1/(1 + s·d²)

So the level is s if all pixels have the same s. An exactly known pixel leaves nothing, so the level is finite unless
all pixels are exactly known. If half of them are exactly known and half are unknown, it is 1/d².

**Answers.** Sensing asks of a coordinate whether it lies above or below its prediction. The state is a sum over all
answers and predictions, in which the early ones fade. So a network may also take, for each coordinate, the prediction
that it was last compared with, and the answer: its sign, times how closely answers follow residuals. For a coordinate
that was never asked, the answer is 0, and `compared` is the last prediction. These planes reveal nothing new, because
they follow from the same indices as the state.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

from dipp.core.arrays import Array, library
from dipp.errors import DippError

EXACT = math.inf
"""Precision of a coordinate that is known exactly, which predictions leave as it is."""
LARGEST = 1e12
"""Precision that stands for `EXACT` in means, whose weights must be finite."""
USUAL, FALL, POWER = 0.2, 20.0, 0.7
"""Constants of the usual mean squared error of predictions by SNR (`answered`). Networks are trained with these."""
DEVIATION = 0.5
"""Standard deviation d of pixel values in [−1, 1], by which levels are defined."""


@dataclass(frozen=True, eq=False)
class Evidence:
    """What is known of a batch of pictures x0 in [−1, 1], as NumPy arrays or tensors.

    Raises:
        DippError: A precision is a number below 0, or not a number.
    """

    state: Array
    """The state y (N, C, H, W)."""
    precision: float | Array
    """SNR of all pixels, or a map of it that broadcasts to (N, 1, H, W); at least 0."""
    estimate: Array | None = None
    """A second view of x0 (N, C, H, W), or None."""
    estimate_precision: float | Array = 0.0
    """SNR of the estimate, at least 0: a number, or a map that broadcasts to (N, 1, H, W)."""
    compared: Array | None = None
    """What each coordinate was last compared with (N, C, H, W); None if nothing was asked."""
    answers: Array | None = None
    """Answers of these comparisons (N, C, H, W), from −1 to 1 (`answered`); None if nothing was asked."""

    def __post_init__(self) -> None:
        for precision in (self.precision, self.estimate_precision):
            if isinstance(precision, int | float) and not precision >= 0:
                raise DippError("snr", f"must be 0 or more, got {precision}")

    @property
    def merged(self) -> Evidence:
        """The evidence with state and estimate merged into one state, their precision-weighted mean."""
        if self.estimate is None:
            return self
        if isinstance(self.precision, int | float) and self.precision == 0:
            return Evidence(self.estimate, self.estimate_precision)
        s, p = bounded(self.precision), bounded(self.estimate_precision)
        share = p / (s + p + 1 / LARGEST)
        return Evidence((1 - share) * self.state + share * self.estimate, s + p)

    @property
    def level(self) -> float:
        """The single SNR that stands for all precisions of the merged state, as this module defines it."""
        precision = self.merged.precision
        if isinstance(precision, int | float):
            return float(precision)
        return float(levels(precision.reshape(1, -1))[0])

    def part(self, images: slice, rows: slice, columns: slice) -> Evidence:
        """Return the evidence of some of the pictures, in some of their rows and columns.

        Args:
            images: Which pictures.
            rows: Which rows of pixels.
            columns: Which columns of pixels.
        """

        def cut(values: Array) -> Array:
            if values is None or isinstance(values, int | float):
                return values
            parts = [
                slice(None) if values.shape[axis] == 1 else part
                for axis, part in ((0, images), (2, rows), (3, columns))
            ]
            return values[parts[0], :, parts[1], parts[2]]

        return replace(self, **{field.name: cut(getattr(self, field.name)) for field in fields(self)})

    def stacked(self, planes: Sequence[str], largest: float) -> Array:
        """Return the planes that a network takes, stacked in one array (N, K, H, W).

        Args:
            planes: Names of the network's planes, from `config.CHANNELS`. `inside` is left out.
            largest: Largest SNR that the network knows, which replaces larger precisions.
        """
        merged = self.merged
        state = merged.state
        nothing, parts = library(state).zeros_like(state), {"state": state}
        if "precision" in planes:
            parts["precision"] = _map(bounded(merged.precision, largest), state[:, :1])
        if "estimate" in planes:
            parts["estimate"] = nothing if self.estimate is None else self.estimate
            parts["estimate precision"] = _map(bounded(self.estimate_precision, largest), state[:, :1])
        if "compared" in planes:
            parts["compared"] = nothing if self.compared is None else self.compared
            parts["answer"] = nothing if self.answers is None else self.answers
        told = [_like(parts[name], state) for name in planes if name in parts]
        return library(state).concatenate(told, 1) if len(told) > 1 else state

    def restored(self, x_hat: Array) -> Array:
        """Return a prediction (N, C, H, W) in which exactly known coordinates have their known values."""
        if isinstance(self.precision, int | float):
            return x_hat
        known, state = (_like(values, x_hat) for values in (self.precision, self.state))
        return library(x_hat).where(known == EXACT, state, x_hat)


def bounded(precision: Array, largest: float = LARGEST) -> Array:
    """Return a precision, with values above `largest` replaced by it."""
    return min(precision, largest) if isinstance(precision, int | float) else precision.clip(max=largest)


def answered(noise: Array, gain: float | Array, snr: float | Array) -> Array:
    """Return the plane of answers that a network takes after a step of sensing.

    Args:
        noise: Noise z of the step (N, C, H, W). Let q be the share of the coordinates that the step touches: z is
            ±1/√q at these, and 0 elsewhere.
        gain: Gain g in SNR of the step: q·(E[s·r]/E[r²])², with the signs s of z and the residuals r.
        snr: SNR before the step.

    Returns:
        √g·z·e (N, C, H, W), with the usual deviation e of residuals at that SNR, e² = 0.2/(1 + 20·SNR)^0.7. Its size is
        about the correlation of the answers with the residuals.
    """
    deviation = (USUAL / (1 + FALL * snr) ** POWER) ** 0.5
    return noise * (gain**0.5 * deviation)


def levels(precision: Array) -> Array:
    """Return for each map of precision (N, …) its level: the single SNR that stands for the map, (N,)."""
    power = bounded(precision) * DEVIATION**2
    left = 1 / (1 + power)
    # The mean of 1 − left is computed separately, because the difference 1 − rest would have few digits at low SNRs.
    known, rest = ((values.reshape(len(values), -1)).mean(1) for values in (power * left, left))
    return known / rest / DEVIATION**2


def _map(precision: Array, other: Array) -> Array:
    """Return a precision, which is a number or a map, as a map of the shape of `other`."""
    if isinstance(precision, int | float):
        return library(other).full_like(other, precision)
    return library(other).broadcast_to(_like(precision, other), other.shape)


def _like(values: Array, other: Array) -> Array:
    """Return values with the dtype and the device of another array of the same library."""
    return values.astype(other.dtype, copy=False) if library(other).__name__ == "numpy" else values.to(other)
