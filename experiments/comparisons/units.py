"""Rivals that answer about each unit of a picture with the same pure ε as dipp, and a network for the answers.

| rival | what is released of each unit | certificate |
|---|---|---|
| DP-Pix [Fan, 2018] | its mean colour, with Laplace noise of scale 6/ε on [−1, 1] | an L1 change of 3·2 costs ε |
| PrivUnitG | one answer about the unit's coarse pixels (`privunit`), shortened to a public norm | ε |

Both are unbiased, so a denoiser takes them unchanged, at the resolution at which they were released.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from dipp.codec.grids import Cuts, interpolated, pooled
from dipp.codec.pictures import Pixels
from dipp.core.arrays import Array, colours_last
from dipp.core.signal import to_signal
from dipp.core.unit import Unit
from dipp.models.denoiser import Denoiser
from dipp.models.evidence import Evidence
from experiments.comparisons import privunit

PARTS = (1, 2, 4)
"""Numbers of coarse pixels along a side of a unit that PrivUnitG may answer about."""
RADII = (0.5, 0.9, 1.0)
"""Quantiles of the norms of units, to which units may be shortened."""
PART = 1000
"""The most pictures that the network takes at a time."""


@dataclass(frozen=True, eq=False)
class Answers:
    """Released answers about pictures: noisy coarse pixels."""

    state: torch.Tensor
    """Noisy coarse pixels (N, C, h, w)."""
    snr: float
    """1 over the power of the noise."""
    unit: Unit
    parts: int
    """Number of coarse pixels along a side of a unit."""
    sides: tuple[int, int]
    """Height and width of the pictures."""

    def first(self, count: int) -> Answers:
        """Return the answers about the first pictures."""
        return Answers(self.state[:count], self.snr, self.unit, self.parts, self.sides)

    @property
    def power(self) -> float:
        """Estimate the power of the coarse pixels without their noise from the released values."""
        return max(float(self.state.square().mean()) - 1 / self.snr, 1e-3)

    @property
    def share(self) -> float:
        """Return the factor by which coarse pixels are shrunk: their power divided by their power with noise."""
        return self.power / (self.power + 1 / self.snr)

    def on_pixels(self, factor: float = 1.0) -> torch.Tensor:
        """Return `factor` times the coarse pixels as a signal (N, C, H, W), interpolated."""
        return self._interpolated(factor * self.state)

    def shrunk(self) -> Pixels:
        """Return pictures without a network: coarse pixels shrunk by `share`, and interpolated."""
        return shown(self.on_pixels(self.share))

    def squares(self) -> Pixels:
        """Return pictures without a network: each coarse pixel as a square."""
        cuts = self._cuts(self.parts)
        rows, columns = (np.diff(cut) for cut in cuts)
        wide = np.repeat(np.repeat(self.state.numpy(), rows, axis=2), columns, axis=3)
        return shown(torch.from_numpy(wide))

    def denoised(self, denoiser: Denoiser, factor: float) -> Pixels:
        """Return the network's prediction if it is told `factor` times the SNR of the answers."""
        found = []
        for part in torch.split(self.state, PART):
            predicted = denoiser.predict(Evidence(part.to(denoiser.device), factor * self.snr))
            found.append(shown(self._interpolated(predicted)))
        return np.concatenate(found)

    def _interpolated(self, coarse: torch.Tensor) -> torch.Tensor:
        onto = Cuts(*(np.arange(side + 1) for side in self.sides))
        found: torch.Tensor = interpolated(coarse, self._cuts(self.parts), onto)
        return found

    def _cuts(self, parts: int) -> Cuts:
        return Cuts(*(self.unit.divisions(side, parts) for side in self.sides))


def shown(signal: Array) -> Pixels:
    """Return a signal (N, C, H, W) as pictures (N, H, W, C)."""
    values = (colours_last(signal) + 1) * 127.5
    return np.asarray(np.rint(values.clip(0, 255)), np.uint8)


def dp_pix(pixels: Pixels, unit: Unit, epsilon: float, generator: np.random.Generator) -> Answers:
    """Return the means of units with DP-Pix's noise."""
    height, width = pixels.shape[1:3]
    rows, columns = (unit.divisions(side, 1)[:-1] for side in (height, width))
    sums = np.add.reduceat(np.add.reduceat(pixels, rows, axis=1, dtype=np.int64), columns, axis=2)
    means = to_signal(sums * (len(rows) * len(columns) / (height * width)))
    noisy = means + generator.laplace(0, 6 / epsilon, means.shape)
    state = torch.from_numpy(noisy.astype(np.float32)).permute(0, 3, 1, 2).contiguous()
    return Answers(state, epsilon**2 / 72, unit, 1, (height, width))


def priv_unit(
    pixels: Pixels, unit: Unit, parts: int, radius: float, epsilon: float, generator: np.random.Generator
) -> Answers:
    """Return one answer of PrivUnitG about the coarse pixels of each unit of square pictures."""
    vectors, shape = coarse(pixels, unit, parts)
    answers = privunit.released(vectors, radius, epsilon, generator)
    folded = torch.from_numpy(answers.astype(np.float32)).reshape(shape).permute(0, 3, 1, 4, 2, 5)
    state = folded.reshape(len(pixels), shape[3], shape[1] * parts, shape[2] * parts)
    height, width = pixels.shape[1:3]
    return Answers(state, 1 / privunit.variance(radius, epsilon), unit, parts, (height, width))


def radii(pixels: Pixels, unit: Unit, parts: int) -> list[float]:
    """Return norms to which units may be shortened: the quantiles `RADII` of the norms of some pictures."""
    norms = np.linalg.norm(coarse(pixels, unit, parts)[0], axis=1)
    return [float(one) for one in np.quantile(norms, RADII)]


def coarse(pixels: Pixels, unit: Unit, parts: int) -> tuple[NDArray[Any], tuple[int, ...]]:
    """Return the coarse pixels of each unit (units × dimensions) of square pictures, and their shape before."""
    signal = torch.from_numpy(to_signal(pixels).astype(np.float32)).permute(0, 3, 1, 2)
    means = pooled(signal, Cuts(*(unit.divisions(side, parts) for side in pixels.shape[1:3])))
    images, channels, height, width = means.shape
    shape = images, channels, height // parts, parts, width // parts, parts
    cells = means.reshape(shape).permute(0, 2, 4, 1, 3, 5)
    return cells.reshape(-1, channels * parts**2).numpy(), tuple(cells.shape)
