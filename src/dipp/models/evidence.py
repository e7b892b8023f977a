"""Evidence: all that a denoiser is told about pictures before it predicts them. Everything here is public.

    state       y = x0 + noise/√precision, coordinate by coordinate
    precision   the SNR of each pixel of y, from 0 (nothing is known) to `EXACT` (y is x0); one number says that
                all are known alike
    estimate    a second view of x0, with errors of power 1/estimate_precision: from words, or from a coarser picture
    answers     what came of comparing coordinates with predictions (`compared`), which a state alone blurs

**Merging.** The errors of an estimate are smooth where those of a state are white, and a network that takes both as
planes of its own can use that. Any other network gets them as one state. If both errors are independent, of the powers
that their precisions s and p say, the best linear combination is the precision-weighted mean, and precisions add:

    y ← (s·y + p·e)/(s + p),      s ← s + p

**Level.** A network scales its features by one SNR for the whole picture. For a map it is the SNR that leaves pixels of
deviation d the same share of their variance as the map does on average, each estimated from its own value alone:

    1/(1 + level·d²) = mean of 1/(1 + s·d²)

So it is s where all are known alike. Exactly known pixels leave nothing, so it is finite unless all of them are: with
half of the pixels known and half of them unknown, it is 1/d².

**Answers.** Sensing asks of a coordinate whether it lies above or below its prediction. The state has the sum of all
answers and predictions, in which the early ones fade. So a network may also be told what each coordinate was compared
with when it was last asked, and the answer: its sign, times how closely answers follow residuals. Where a coordinate
was never asked, the answer is 0, and it would be compared with the last prediction. Nothing of this is new knowledge:
both follow from the same indices as the state, and a network without these planes does without.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

from dipp.core.arrays import Array, library
from dipp.errors import DippError

EXACT = math.inf
"""Precision of a coordinate that is known exactly: a prediction gives it back as it is."""
LARGEST = 1e12
"""Largest precision that enters a mean: the weights of exactly known coordinates must be finite."""
USUAL, FALL, POWER = 0.2, 20.0, 0.7
"""The mean squared error that predictions usually have, by SNR (`answered`): networks are trained with these."""
DEVIATION = 0.5
"""Standard deviation d of pixel values in [−1, 1], by which levels are defined."""


@dataclass(frozen=True, eq=False)
class Evidence:
    """What is known of a batch of pictures x0 in [−1, 1], in arrays of NumPy or in tensors.

    Raises:
        DippError: A precision is a number below 0, or not a number.
    """

    state: Array
    """y (N, C, H, W)."""
    precision: float | Array
    """SNR of all pixels, or a map of it that broadcasts to (N, 1, H, W); at least 0."""
    estimate: Array | None = None
    """A second view of x0 (N, C, H, W); None if there is none."""
    estimate_precision: float | Array = 0.0
    """SNR of the estimate, at least 0: a number, or a map that broadcasts to (N, 1, H, W)."""
    compared: Array | None = None
    """What each coordinate was last compared with (N, C, H, W); None if nothing was asked."""
    answers: Array | None = None
    """What came of it (N, C, H, W), from −1 to 1 (`answered`); None if nothing was asked."""

    def __post_init__(self) -> None:
        for precision in (self.precision, self.estimate_precision):
            if isinstance(precision, int | float) and not precision >= 0:
                raise DippError("snr", f"a number from 0 on is needed, got {precision}")

    @property
    def merged(self) -> Evidence:
        """The same with state and estimate as one state: their precision-weighted mean."""
        if self.estimate is None:
            return self
        if isinstance(self.precision, int | float) and self.precision == 0:
            return Evidence(self.estimate, self.estimate_precision)
        own, other = bounded(self.precision), bounded(self.estimate_precision)
        share = other / (own + other + 1 / LARGEST)
        return Evidence((1 - share) * self.state + share * self.estimate, own + other)

    @property
    def level(self) -> float:
        """The one SNR that stands for the precision of the merged state."""
        precision = self.merged.precision
        if isinstance(precision, int | float):
            return float(precision)
        return float(levels(precision.reshape(1, -1))[0])

    def part(self, images: slice, rows: slice, columns: slice) -> Evidence:
        """Return what is known of some of the pictures, in some of their rows and columns."""

        def cut(values: Array) -> Array:
            if values is None or isinstance(values, int | float):
                return values
            places = [
                slice(None) if values.shape[axis] == 1 else own for axis, own in ((0, images), (2, rows), (3, columns))
            ]
            return values[places[0], :, places[1], places[2]]

        return replace(self, **{field.name: cut(getattr(self, field.name)) for field in fields(self)})

    def stacked(self, planes: Sequence[str], largest: float) -> Array:
        """Return what a network takes of it as one array (N, K, H, W): its planes, one after the other.

        Args:
            planes: Names of the network's planes; `inside` is not among what is stacked.
            largest: Largest SNR that the network knows; larger precisions are taken for it.
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
        """Return a prediction with the exactly known coordinates put back."""
        if isinstance(self.precision, int | float):
            return x_hat
        known, state = (_like(values, x_hat) for values in (self.precision, self.state))
        return library(x_hat).where(known == EXACT, state, x_hat)


def bounded(precision: Array, largest: float = LARGEST) -> Array:
    """Return a precision, or a largest one in its place."""
    return min(precision, largest) if isinstance(precision, int | float) else precision.clip(max=largest)


def answered(noise: Array, gain: float | Array, snr: float | Array) -> Array:
    """Return the answers that a network is told after a step of sensing.

    Args:
        noise: The step's noise z (N, C, H, W): ±1/√q at the touched share q of the coordinates, and 0 elsewhere.
        gain: g of the step: q·(E[s·r]/E[r²])², of signs s and residuals r.
        snr: SNR before the step.

    Returns:
        √g·z·e, with the deviation e that residuals usually have at that SNR, e² = 0.2/(1 + 20·SNR)^0.7. So its size is
        about the correlation of the answers with the residuals.
    """
    deviation = (USUAL / (1 + FALL * snr) ** POWER) ** 0.5
    return noise * (gain**0.5 * deviation)


def levels(precision: Array) -> Array:
    """Return the level of each of several maps of precision (N, …): a tensor (N,)."""
    power = bounded(precision) * DEVIATION**2
    left = 1 / (1 + power)
    # One less the share that is left is taken as a mean of its own: at low SNRs a difference would have few digits.
    told, rest = ((values.reshape(len(values), -1)).mean(1) for values in (power * left, left))
    return told / rest / DEVIATION**2


def _map(precision: Array, other: Array) -> Array:
    """Return a precision as a map of another array's shape."""
    if isinstance(precision, int | float):
        return library(other).full_like(other, precision)
    return library(other).broadcast_to(_like(precision, other), other.shape)


def _like(values: Array, other: Array) -> Array:
    """Return values of the type, and on the device, of another array of their library."""
    return values.astype(other.dtype, copy=False) if library(other).__name__ == "numpy" else values.to(other)
