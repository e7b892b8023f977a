"""Draw evidence that is not a state of one SNR: surroundings of a region, partial answers, coarse pictures.

Each picture gets one kind of evidence, with random parameters:

- *region*: a state that is known outside a box or an ellipse, mostly exactly, while little or nothing is known inside;
  and often, as an estimate, the harmonic interpolation of what is known (`filled`).
- *touched*: a state with less noise at random pixels than at the others; and often a coarse picture.
- *coarse*: no state, or a noisy one; and a coarse picture, means of squares of 1 to 32 pixels with errors.

The precision of an estimate is one divided by its mean squared error on that picture, times a random factor, since
users of the network can only guess it. Nothing here waits for the device, so that a step can be captured as a CUDA
graph.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from dipp.models.config import LARGEST_SNR
from dipp.models.evidence import Evidence

REGION, TOUCHED = 0.45, 0.2
"""Shares of the kinds *region* and *touched*. The rest is *coarse*."""
EXACT, UNKNOWN, ESTIMATED = 0.75, 0.7, 0.75
"""Probabilities that the surroundings of a region are known exactly, that nothing is known inside, and that there is an
estimate."""
SIZES = (1 / 10, 1.2)
"""Range of a region's width and height, as shares of the picture's sides. They are log-uniform."""
SQUARES = (1, 2, 4, 8, 16, 32)
"""Sides in pixels of the squares whose means make a coarse picture."""
ERRORS = (0.02, 0.6)
"""Range of the standard deviation of errors of these means. It is log-uniform."""
GUESS = 0.4
"""Standard deviation of the logarithm of the random factor of a precision."""
PRECISIONS = (0.5, 200.0)
"""Least and largest precision of an estimate."""
SWEEPS = 6
"""Sweeps of the harmonic interpolation on each level."""


def evidence(x0: Tensor) -> Evidence:
    """Return random evidence about pictures (N, C, H, W), with maps of precision (N, 1, H, W)."""
    kind = _uniform(x0)
    region, touched = kind < REGION, (kind >= REGION) & (kind < REGION + TOUCHED)
    hidden = torch.where(region, shapes(x0), torch.rand_like(x0[:, :1]) > _uniform(x0, 0.03, 0.97)) & (region | touched)
    high = torch.where(region & _chance(x0, EXACT), math.inf, _logs(x0, 1e-3, LARGEST_SNR))
    high = torch.where(region | touched, high, torch.where(_chance(x0, 0.5), 0.0, _logs(x0, 1e-3, 10.0)))
    low = torch.where(region, _logs(x0, 1e-3, 1.0), high * _logs(x0, 1e-3, 1.0))
    low = torch.where(_chance(x0, UNKNOWN), 0.0, low)
    precision = torch.where(hidden, low, high)
    state = torch.where(precision > 0, x0 + torch.randn_like(x0) / precision.clamp(min=1e-12).sqrt(), 0.0)
    seen = torch.where(region, filled(state, ~hidden), coarse(x0))
    where = torch.where(region, hidden, True)
    told = torch.where(region | touched, _chance(x0, ESTIMATED), True) & where
    error = ((seen - x0).square() * where).mean((1, 2, 3), keepdim=True) / where.float().mean((1, 2, 3), keepdim=True)
    guess = (GUESS * torch.randn_like(error)).exp() / error.clamp(min=1e-4)
    return Evidence(state, precision, seen * told, guess.clamp(*PRECISIONS) * told)


def shapes(x0: Tensor) -> Tensor:
    """Return random masks (N, 1, H, W), each of a box or an ellipse."""
    (height, width), like = x0.shape[2:], x0[:, :1, :1, :1]
    tall, wide = (_logs(x0, *SIZES) * side / 2 for side in (height, width))
    rows, columns = (torch.arange(side, device=x0.device) + 0.5 for side in (height, width))
    down = (rows.view(1, 1, -1, 1) - torch.rand_like(like) * height) / tall
    across = (columns.view(1, 1, 1, -1) - torch.rand_like(like) * width) / wide
    return torch.where(_chance(x0, 0.5), torch.maximum(down.abs(), across.abs()), (down**2 + across**2).sqrt()) < 1


def coarse(x0: Tensor) -> Tensor:
    """Return coarse pictures (N, C, H, W): means of squares with random errors, as flat squares or interpolated."""
    choice, deviation = torch.randint_like(x0[:, :1, :1, :1], len(SQUARES)), _logs(x0, *ERRORS)
    blurred, smooth = x0, _chance(x0, 0.5)
    for number, side in enumerate(SQUARES):
        if max(x0.shape[2] % side, x0.shape[3] % side):
            continue
        means = functional.avg_pool2d(x0, side)
        means = means + deviation * torch.randn_like(means)
        blocks = means.repeat_interleave(side, 2).repeat_interleave(side, 3)
        wide = functional.interpolate(means, size=x0.shape[2:], mode="bilinear")
        blurred = torch.where(choice == number, torch.where(smooth, wide, blocks), blurred)
    return blurred.clamp(-1, 1)


def filled(x: Tensor, known: Tensor) -> Tensor:
    """Return pictures (N, C, H, W) whose unknown pixels are interpolated harmonically from the known (N, 1, H, W).

    Args:
        x: The pictures, of any values where they are unknown.
        known: Masks that are true in known pixels.
    """
    weight = known.to(x)
    if min(x.shape[2:]) < 4:
        mean = (x * weight).mean((2, 3), keepdim=True) / weight.mean((2, 3), keepdim=True).clamp(min=1e-6)
        return torch.where(known, x, mean)
    pad = (0, x.shape[3] % 2, 0, x.shape[2] % 2)
    total = functional.avg_pool2d(functional.pad(x * weight, pad), 2)
    count = functional.avg_pool2d(functional.pad(weight, pad), 2)
    below = filled(total / count.clamp(min=1e-6), count > 0)
    wide = functional.interpolate(below, scale_factor=2.0, mode="bilinear")[..., : x.shape[2], : x.shape[3]]
    estimate = torch.where(known, x, wide)
    for _ in range(SWEEPS):
        around = functional.pad(estimate, (1, 1, 1, 1), mode="replicate")
        mean = (around[..., :-2, 1:-1] + around[..., 2:, 1:-1] + around[..., 1:-1, :-2] + around[..., 1:-1, 2:]) / 4
        estimate = torch.where(known, x, mean)
    return estimate.clamp(-1, 1)


def _uniform(x0: Tensor, low: float = 0.0, high: float = 1.0) -> Tensor:
    """Return a uniform random number for each picture, as (N, 1, 1, 1)."""
    return torch.empty_like(x0[:, :1, :1, :1]).uniform_(low, high)


def _logs(x0: Tensor, low: float, high: float) -> Tensor:
    """Return for each picture a random number whose logarithm is uniform, as (N, 1, 1, 1)."""
    return _uniform(x0, math.log(low), math.log(high)).exp()


def _chance(x0: Tensor, share: float) -> Tensor:
    """Return for each picture a random truth value that is true with a given probability."""
    return _uniform(x0) < share
