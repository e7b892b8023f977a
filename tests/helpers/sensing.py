"""Sensing without a good network: plans, made-up residuals, and a denoiser that is a public Wiener filter."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from dipp.codes import Flat, Pairs
from dipp.core.channels import Sign
from dipp.core.code import Code
from dipp.core.plan import Coding, Plan
from dipp.core.steps import SensingStep
from dipp.models.denoiser import TimestepDenoiser
from dipp.planning.residuals import Residuals
from helpers.networks import IDENTITY, linear_schedule

Floats = NDArray[np.float64]
Pixels = NDArray[np.uint8]

CLIPS = (0.25, 0.1875, 0.125)
GAINS = (2**-6, 2**-5, 2**-4)


def sensing_plan(
    code: Code | None = None,
    *,
    groups: int = 4,
    steps: int = 6,
    tilt: float = 1.0,
    channels: int = 3,
    clip: float = 1.0,
) -> Plan:
    """Return steps of one tilt, with three clips (times `clip`) and gains in turn, each for one channel of a pixel."""
    code = Pairs() if code is None else code
    sizes = (1, 1) if isinstance(code, Pairs) else (7, 5)
    units = 0 if code.fixed_length else 80
    rows = (SensingStep(tilt, clip * CLIPS[i % 3], GAINS[i % 3], *sizes, units) for i in range(steps))
    return Plan(Coding(Sign(period=channels * groups), code), tuple(rows))


def code_of(name: str) -> Code:
    return {"pairs": Pairs(), "flat": Flat()}[name]


def made_up_residuals(
    start: float = 0.5, power: float = 0.35, shape: float = 1.0, points: int = 12, slices: int = 8
) -> Residuals:
    """Return residuals with a Weibull law of this shape, whose deviation falls from `start` with a power of the SNR."""
    snrs = np.geomspace(1e-3, 300.0, points)
    sizes = (-np.log1p(-(np.arange(slices) + 0.5) / slices)) ** shape
    sizes /= math.sqrt(float(np.square(sizes).mean()))
    deviation = start * (1 + 30 * np.array([0.0, *snrs])) ** -power
    rows = np.minimum(deviation[:, None] * sizes, 2.0)
    searched = np.array([(pad, tilt) for pad in (3.0, 4.0, 6.0, 8.0) for tilt in (0.5, 2.0)])
    realised = np.array([0.86, 0.95, 0.9, 0.97, 0.94, 0.98, 0.97, 0.99])
    touched = np.linspace(1.0, 1.1, points + 1)
    return Residuals(np.array([0.0, *snrs]), rows, touched, searched, realised)


def waves(count: int, side: int = 16, seed: int = 0) -> Pixels:
    """Return pictures (N, side, side, 3) of a Gaussian field with the spectrum of `WienerDenoiser`."""
    generator = np.random.default_rng(seed)
    noise = generator.standard_normal((count, 3, side, side))
    mixed = np.einsum("ij,njhw->nihw", _mixing(), noise)
    field = np.fft.ifft2(np.fft.fft2(mixed) * np.sqrt(_spectrum(side))).real
    return np.clip(np.rint((field.transpose(0, 2, 3, 1) + 1) * 127.5), 0, 255).astype(np.uint8)


def _mixing() -> Floats:
    """Return the matrix that makes the colours of a pixel similar."""
    return np.array([[1.0, 0.0, 0.0], [0.9, math.sqrt(1 - 0.81), 0.0], [0.8, 0.3, math.sqrt(1 - 0.64 - 0.09)]])


def _spectrum(side: int) -> Floats:
    """Return the power of each frequency; it falls with the third power, and the mean square is 0.1."""
    frequency = np.hypot(*np.meshgrid(np.fft.fftfreq(side), np.fft.fftfreq(side)))
    power = 1 / (frequency + 1 / side) ** 3
    return np.asarray(0.1 * power / power.mean(), np.float64)


class WienerDenoiser(TimestepDenoiser):
    """The best linear prediction of `waves`, for each channel on its own, without a network."""

    def __init__(self, side: int = 16) -> None:
        self.schedule = linear_schedule()
        self.identity = IDENTITY
        self.channels = 3
        self.sample_size = (side, side)
        self.device = torch.device("cpu")
        self._power = torch.from_numpy(_spectrum(side))

    def x0(self, x_t: torch.Tensor, t: int, *, fast: bool = False) -> torch.Tensor:  # noqa: ARG002
        """Return frequencies shrunk by S/(S + 1/SNR)."""
        y, noise = x_t / self.schedule.gamma(t), 1 / self.schedule.snr(t)
        kept = (self._power / (self._power + noise)).float()
        found: torch.Tensor = torch.fft.ifft2(torch.fft.fft2(y) * kept).real.clamp(-1, 1)
        return found


class BrokenDenoiser(TimestepDenoiser):
    """A denoiser whose predictions are sometimes not numbers, depending on the state."""

    def __init__(self, *values: float, size: int = 8) -> None:
        self.schedule = linear_schedule()
        self.identity = IDENTITY
        self.channels = 3
        self.sample_size = (size, size)
        self.device = torch.device("cpu")
        self.values = values

    def x0(self, x_t: torch.Tensor, t: int, *, fast: bool = False) -> torch.Tensor:  # noqa: ARG002
        """Return each of `values` where the state is above a level of its own, and the state itself elsewhere."""
        found: Any = x_t.clone()
        for number, value in enumerate(self.values):
            found = torch.where(x_t > 0.2 * number - 0.1, torch.full_like(x_t, value), found)
        return torch.as_tensor(found)
