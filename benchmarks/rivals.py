"""Noise of the same ε beyond the experiment: in fewer bits, and with more calls of the network.

    python benchmarks/rivals.py MODEL IMAGES.npz --out benchmarks/results/rivals.json

IMAGES.npz holds a uint8 array `encode` (N, 32, 32, 3). The experiment stores noisy values as eight-bit pictures, and
denoises them by one call (`cifar10.rivals`). A receiver can do more, because all of it is
post-processing and costs no ε:

*Rounding.* Values are rounded to steps of the noise's own deviation σ, or of a part or multiple of it; bits are the
entropy of the rounded values, each by itself, which an arithmetic coder reaches.

*More calls.* One call assumes Gaussian noise, but the true law is known. By expectation propagation [Minka, 2001],
the network's answer x̂, of mean squared error v, at the state z of SNR s is turned into what it says without that state,
x ~ N(c, 1/p) with p = 1/v − s and c = (x̂/v − s·z)/p; the released values y are added by their true law, which gives
each value x a mean and a variance (importance sampling, `DRAWS` of them a pixel); and what they say without the network
is the next state. v and the number of calls are the best against the clean pictures, as the SNR of the first call is:
an advantage that the codec does not have.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import checkout  # noqa: F401 - for `experiments`
import numpy as np
import torch
from inputs import Inputs
from provenance import provenance, write
from sensing import RIVALS

from dipp.codec.pictures import Pixels
from dipp.models.denoiser import Denoiser
from dipp.models.evidence import Evidence
from experiments.cifar10.rivals import Cube, Noise, OneBit, OneChannel, Rival, Signal, best_factor, psnr, state

EPSILONS = (1.0, 4.0, 16.0)
STEPS = (0.5, 1.0, 1.5, 2.0)
"""Steps of the rounding, in units of σ."""
CALLS = 6
"""Largest number of network calls."""
DRAWS = 300
LEAST = 0.2
"""Share of its precision that the network's answer keeps without the state, at least: a guess at 1/v − s may be too
small, or negative."""


def rounded(rival: Rival, y: Signal, step: float) -> tuple[Signal, float]:
    """Return values rounded to `step` deviations of their noise, and their bits per pixel."""
    alone = isinstance(rival, OneChannel)
    picked = y != 0 if alone else np.ones(y.shape, np.bool_)
    # The power of noise on one channel is divided by all C channels, so the noisy channel has √C times that deviation.
    size = step * math.sqrt((rival.channels if alone else 1) / rival.snr)
    whole = np.rint(y[picked] / size)
    _, counts = np.unique(whole, return_counts=True)
    shares = counts / counts.sum()
    found = y.copy()
    found[picked] = whole * size
    return found, float(-(shares * np.log2(shares)).sum() * counts.sum() / math.prod(y.shape[:3]))


def log_likelihood(rival: Rival, y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Return ln P(y | x) of pictures (N, C, H, W), up to a constant: for each value, or for each pixel."""
    epsilon, channels = rival.epsilon, rival.channels
    if isinstance(rival, Noise):
        return -(y - x).abs() * epsilon / (2 * channels)
    if isinstance(rival, Cube):
        return -(y - x).abs().amax(1, keepdim=True).expand_as(x) * epsilon / 2
    if isinstance(rival, OneChannel):
        found = -(y / channels - x).abs() * epsilon / 2
    else:
        found = torch.log((1 + math.tanh(epsilon / 2) * y.sign() * x.clamp(-1, 1)) / 2)
    return torch.where(y != 0, found, 0.0)


def posterior(
    rival: Rival, y: torch.Tensor, mean: torch.Tensor, variance: float, generator: torch.Generator
) -> tuple[torch.Tensor, float]:
    """Return the means and the mean variance of x given y, where x ~ N(mean, variance) before."""
    weights, first, second = (torch.zeros_like(mean) for _ in range(3))
    top = log_likelihood(rival, y, mean)
    for _ in range(DRAWS):
        x = mean + math.sqrt(variance) * torch.randn(mean.shape, generator=generator).to(mean)
        weight = torch.exp(log_likelihood(rival, y, x) - top)
        weights, first, second = weights + weight, first + weight * x, second + weight * x.square()
    found = first / weights
    return found, float((second / weights - found.square()).clamp(min=0).mean())


def called(rival: Rival, y: Signal, factor: float, pixels: Pixels, denoiser: Denoiser) -> Iterator[float]:
    """Return the PSNR after each network call."""
    generator = torch.Generator().manual_seed(0)
    released = state(y, denoiser)
    z, snr = released, factor * rival.snr
    for _ in range(CALLS):
        answer = denoiser.predict(Evidence(z, snr))
        quality = psnr(answer, pixels)
        yield quality
        error = 4 / 10 ** (quality / 10)
        precision = max(1 / error - snr, LEAST / error)
        mean = (answer / error - snr * z) / (1 / error - snr) if precision > LEAST / error else answer
        found, variance = posterior(rival, released, mean, 1 / precision, generator)
        snr = 1 / variance - precision
        if snr <= 0:
            return
        z = (found / variance - mean * precision) / snr


def compared(name: str, epsilon: float, denoiser: Denoiser, pixels: Pixels) -> dict[str, Any]:
    """Return the figures of a rival at one ε."""
    rival = RIVALS[name](epsilon)
    y = np.concatenate(list(rival.release(pixels, f"{rival.name}-{epsilon:g}")))
    once, factor = best_factor(rival, y, pixels, denoiser)
    stored = []
    for step in () if isinstance(rival, OneBit) else STEPS:
        coarse, bits = rounded(rival, y, step)
        answer = denoiser.predict(Evidence(state(coarse, denoiser), factor * rival.snr))
        stored.append({"step": step, "bpp": bits, "psnr": psnr(answer, pixels)})
    return {
        "epsilon": epsilon,
        "what": name,
        "psnr": once,
        "factor": factor,
        "rounded": stored,
        "by_calls": list(called(rival, y, factor, pixels, denoiser)),
    }


def main() -> None:
    """Measure every rival at every ε."""
    parser = argparse.ArgumentParser(description=__doc__)
    Inputs.add_to(parser)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--count", type=int, default=64)
    parser.add_argument("--quick", action="store_true", help="a quick run: two pictures and one ε")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    inputs = Inputs.of(arguments)
    denoiser, pixels = inputs.denoiser(arguments.device), inputs.pixels(2 if arguments.quick else arguments.count)
    source, rows = provenance(arguments.device), list[dict[str, Any]]()
    for epsilon in EPSILONS[1:2] if arguments.quick else EPSILONS:
        for name in RIVALS:
            rows.append(compared(name, epsilon, denoiser, pixels))
            print(rows[-1], flush=True)
            write(arguments.out, {**source, "images": len(pixels), "rows": rows})


if __name__ == "__main__":
    main()
