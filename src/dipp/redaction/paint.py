"""Fills of regions: grey, black, or what the surroundings suggest.

A `Fill` is a function that takes a picture without its hidden pixels and returns it with other pixels in their place:

    (known pixels (H, W, C) in [−1, 1], zero where they are hidden; mask (H, W) of hidden pixels; rows and columns)
    → pixels (H, W, C)

It reads nothing else, and it is deterministic: equal surroundings get equal paint. It is called for a crop around each
region (`crops`), with the rows and columns of that crop in the picture. `PastedFill` takes pixels from another picture.

**Surroundings** (`Painter`). The denoiser gets the surroundings as exactly known, and the harmonic interpolation
(`smooth`) as an estimate of the rest. Its expected picture is mixed with the interpolation, which is hard to beat in
sky and on paper: its error is measured on a band of known pixels around the region (`missed`). A denoiser without
maps of precision gets one SNR for all pixels, and paints little more than the interpolation. An expected picture is
smooth, which shows beside a photograph. So the painting gets grain as strong as that of the surroundings (`grain`).
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dipp.core import randomness
from dipp.core.arrays import Array, host
from dipp.errors import DippError
from dipp.models.diffusion import normals
from dipp.models.evidence import EXACT, Evidence
from dipp.redaction.outlines import Mask

if TYPE_CHECKING:
    from dipp.models.denoiser import Denoiser

Signal = NDArray[np.float32]
"""Pixels (H, W, C) in [−1, 1], float32."""
Part = tuple[slice, slice]
"""Rows and columns of a picture; a part of a JPEG may go beyond its edges, to the end of the last MCU."""
Fill = Callable[[Signal, Mask, Part], Signal]

BAND = 8
"""Width in pixels of the band around a region on which the interpolation is tried."""
PRECISIONS = (8.0, 200.0)
"""Least and largest precision of the interpolation that the denoiser gets: 1 / mean squared error."""
MOST = 0.75
"""Quantile of the squared errors on the band that is taken as the error of the interpolation."""
FLOOR = 5e-4
"""Squared error of the interpolation at which it gets half of the mixture: that of about three grey levels."""
FLATTEST = 0.1
"""Share of the known pixels by which grain is measured: those that differ least from the mean of their 3×3."""
GRAIN = 7.96 / math.sqrt(8 / 9)
"""Deviation of white noise in which the share `FLATTEST` of pixels differ by at most 1 from the mean of their 3×3."""
SWEEPS = 12
"""Number of sweeps of the harmonic interpolation on each level."""
SEED = bytes(randomness.SEED_BYTES)
"""Seed of the noise, which is the same for every picture."""


def grey(known: Signal, unknown: Mask, part: Part | None = None) -> Signal:  # noqa: ARG001
    """Return the picture with mid-grey in its unknown pixels.

    Args:
        known: The picture (H, W, C) in [−1, 1], with zeros in unknown pixels.
        unknown: Mask (H, W) of the unknown pixels.
        part: Rows and columns of the whole picture in which these pixels lie, which this fill ignores.
    """
    return np.where(unknown[..., None], np.float32(0), known)


def black(known: Signal, unknown: Mask, part: Part | None = None) -> Signal:  # noqa: ARG001
    """Return the picture with black in its unknown pixels."""
    return np.where(unknown[..., None], np.float32(-1), known)


@dataclass(frozen=True, eq=False)
class PastedFill:
    """The fill that takes pixels from a public picture of the same size, which shows answers about regions."""

    picture: NDArray[np.uint8] = field(repr=False)
    """Public picture, (H, W, 3); its channels are equal if the surroundings are grey."""

    def __call__(self, known: Signal, unknown: Mask, part: Part) -> Signal:
        """Return the picture with pixels of the public picture in its unknown pixels."""
        pasted = self.picture[part][..., : known.shape[2]].astype(np.float32) / np.float32(127.5) - 1
        beyond = [(0, known.shape[axis] - pasted.shape[axis]) for axis in (0, 1)]
        return np.where(unknown[..., None], np.pad(pasted, (*beyond, (0, 0)), "edge"), known)


@dataclass(frozen=True, eq=False)
class Painter:
    """The fill that continues the surroundings, by a denoiser of three channels."""

    denoiser: Denoiser

    def __call__(self, known: Signal, unknown: Mask, part: Part | None = None) -> Signal:  # noqa: ARG002
        """Return the picture with painted unknown pixels, which have the grain of the surroundings."""
        return grain(self.plain(known, unknown), unknown)

    def plain(self, known: Signal, unknown: Mask) -> Signal:
        """Return the picture with painted unknown pixels, without grain.

        Args:
            known: The picture, zero in its unknown pixels; one or three channels.
            unknown: (H, W): which pixels are unknown.
        """
        grey = known.shape[2] == 1
        if unknown.all():
            return known
        colours = known.repeat(3, axis=2) if grey else known
        plain, error = smooth(colours, unknown), missed(colours, unknown)
        share = np.float32(error**2 / (error**2 + FLOOR**2))
        expected = self._expected(colours, unknown, plain, 1 / max(error, 1e-9))
        painted = np.where(unknown[..., None], share * expected + (1 - share) * plain, colours)
        return painted.mean(axis=2, keepdims=True) if grey else painted

    def _expected(self, known: Signal, unknown: Mask, plain: Signal, precision: float) -> Signal:
        """Return the denoiser's expected picture, given the known pixels and an interpolation of the others.

        `precision` is 1 / mean squared error of the interpolation.
        """

        def batch(values: Signal) -> Array:
            return self.denoiser.placed(np.ascontiguousarray(values.transpose(2, 0, 1)[None]))

        missing = unknown[..., None].astype(np.float32)
        evidence = Evidence(
            batch(known * (1 - missing)),
            batch(np.where(missing > 0, np.float32(0), np.float32(EXACT))),
            batch(plain * missing),
            batch(np.float32(np.clip(precision, *PRECISIONS)) * missing),
        )
        expected: Signal = host(self.denoiser.predict(evidence)[0]).transpose(1, 2, 0)
        return expected


def missed(known: Signal, unknown: Mask) -> float:
    """Return how much the interpolation misses: the upper quartile of its squared error on a band around a region.

    The interpolation is harmonic (`smooth`). The band consists of known pixels, which are hidden together with the
    region for this test; without a band, the error is 1. Because of the quartile, a few lines of text in the band do
    not count.

    Args:
        known: The picture, (H, W, C).
        unknown: (H, W): which pixels are unknown.
    """
    from scipy import ndimage

    hidden = ndimage.binary_dilation(unknown, np.ones((3, 3), bool), BAND)
    band = hidden & ~unknown
    if not band.any() or hidden.all():
        return 1.0
    guess = smooth(np.where(hidden[..., None], np.float32(0), known), hidden)
    return float(np.quantile(np.square(guess - known)[band].mean(axis=1), MOST))


def grain(picture: Signal, unknown: Mask) -> Signal:
    """Return a picture with grain in its unknown pixels: grey noise of a fixed seed, as strong as around them.

    The strength follows from the tenth of the known pixels that differ least from the mean of their 3×3 pixels. Edges
    and textures hardly change it, and it is 0 for drawings and clean paper.

    Args:
        picture: The painted picture, (H, W, C).
        unknown: (H, W): which pixels were painted.
    """
    luma = picture.mean(axis=2)
    clear = np.pad(~unknown, 1)
    around = np.pad(luma, 1, "edge")
    total, whole = np.zeros_like(luma), np.ones_like(unknown)
    for row, column in itertools.product(range(3), range(3)):
        part = slice(row, row + luma.shape[0]), slice(column, column + luma.shape[1])
        total += around[part]
        whole &= clear[part]
    if not whole.any():
        return picture
    strength = GRAIN * float(np.quantile(np.abs(luma - total / 9)[whole], FLATTEST))
    drawn = normals(randomness.stream(SEED, step=0, purpose="grain"), luma.shape)
    return np.where(unknown[..., None], picture + np.float32(strength) * drawn[..., None], picture)


def halved(known: Signal, unknown: Mask) -> tuple[Signal, Mask]:
    """Return the mean of the known pixels in each 2×2 square, and the mask of squares without a known pixel."""
    height, width = unknown.shape
    pad = ((0, height % 2), (0, width % 2))
    weight = np.pad(~unknown, pad).astype(np.float32)
    values = np.pad(known * ~unknown[..., None], (*pad, (0, 0)))
    count = weight.reshape(len(weight) // 2, 2, -1, 2).sum(axis=(1, 3))
    total = values.reshape(len(values) // 2, 2, values.shape[1] // 2, 2, -1).sum(axis=(1, 3))
    return (total / np.maximum(count, 1)[..., None]).astype(np.float32), count == 0


def doubled(picture: Signal, shape: tuple[int, ...]) -> Signal:
    """Return a picture scaled to twice its size by linear interpolation, and cut to a shape (H, W, …)."""
    for axis in (0, 1):
        length = picture.shape[axis]
        places = (np.arange(2 * length) - 0.5) / 2
        first = np.clip(np.floor(places).astype(np.int64), 0, length - 1)
        second = np.minimum(first + 1, length - 1)
        share = np.clip(places - first, 0, 1).astype(np.float32)
        share = share.reshape(-1, *(1,) * (picture.ndim - 1 - axis))
        picture = picture.take(first, axis) * (1 - share) + picture.take(second, axis) * share
    return picture[: shape[0], : shape[1]].astype(np.float32)


def smooth(known: Signal, unknown: Mask) -> Signal:
    """Return the picture with a harmonic interpolation: each unknown pixel is near the mean of its four neighbours.

    It is solved on ever finer grids, with a few sweeps on each.

    Args:
        known: The picture, (H, W, C).
        unknown: (H, W): which pixels are unknown.
    """
    if not unknown.any() or min(unknown.shape) < 4:
        mean = known[~unknown].mean(axis=0) if (~unknown).any() else np.zeros(known.shape[2], np.float32)
        return np.where(unknown[..., None], mean.astype(np.float32), known)
    coarse = smooth(*halved(known, unknown))
    picture = np.where(unknown[..., None], doubled(coarse, known.shape), known)
    height, width = unknown.shape
    chequer = np.add.outer(np.arange(height), np.arange(width)) % 2 == 0
    squares = [(unknown & colour)[..., None] for colour in (chequer, ~chequer)]
    for _ in range(SWEEPS):
        for square in squares:
            around = np.pad(picture, ((1, 1), (1, 1), (0, 0)), "edge")
            mean = (around[:-2, 1:-1] + around[2:, 1:-1] + around[1:-1, :-2] + around[1:-1, 2:]) / 4
            picture = np.where(square, mean, picture)
    return picture


@functools.cache
def _painter(model: str, device: str) -> Painter:
    """Return the painter with a denoiser, which is loaded once for each model and device."""
    from dipp import models

    loaded = models.load(model, device)
    if loaded.latents is not None:
        raise DippError(
            "model", f"must be a denoiser of pixels for painting, got the latent model {model}", "name another"
        )
    if loaded.channels != 3:
        raise DippError("model", f"must have 3 channels for painting, got {loaded.channels} in {model}")
    return Painter(loaded)


PLAIN: dict[str, Fill] = {"grey": grey, "black": black}
"""Fills that need no denoiser."""
PAINT = "paint"
NAMES = (PAINT, *PLAIN)


def fill(name: str, model: str, device: str) -> Fill:
    """Return a fill by its name.

    Args:
        name: paint, grey or black.
        model: Folder or hub id of the denoiser that paints.
        device: Device of that denoiser.

    Raises:
        DippError: There is no such fill, or the denoiser cannot paint.
    """
    if name in PLAIN:
        return PLAIN[name]
    if name != PAINT:
        raise DippError("fill", f"must be one of {', '.join(NAMES)}, got {name}")
    return _painter(model, device)
