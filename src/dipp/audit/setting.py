"""The setting of an audit: plans of a preset that need no model, and a simple public denoiser.

Claims hold for any denoiser, so the best linear denoiser for independent pixels serves as well as a network.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from dipp.codec.chain import Chain
from dipp.core.plan import Coding, Plan, Step
from dipp.format.packing import Shape
from dipp.models.diffusion import NoiseSchedule
from dipp.privacy.certificate import Certificate

if TYPE_CHECKING:
    import torch

    from dipp.models.denoiser import Denoiser

CHANNELS = 3
STEPS, SIDE, INDEX_BITS = 3, 64, 8
"""Steps, side of the images and log2 n of the exact audit. Three steps are a whole cycle of the one-of-three sign
channel; n does not enter into ε."""
SMALL_SIDE, SMALL_BITS = 8, 5
"""Side of the images and log2 n of the audits that count encodings."""
VARIANCE = 0.25
"""Variance v of the pixels that the simple denoiser assumes."""


@dataclass(frozen=True, eq=False)
class Shrink:
    """A public denoiser that needs no weights: x̂0 = E[x0 | x_t] for independent pixels of variance v around grey."""

    schedule: NoiseSchedule

    @property
    def device(self) -> torch.device:
        """The CPU."""
        import torch

        return torch.device("cpu")

    def x0(self, x_t: torch.Tensor, t: int) -> torch.Tensor:
        """γ·v/(γ²·v + σ²)·x_t, clamped to [−1, 1]."""
        gamma, sigma = self.schedule.gamma(t), self.schedule.sigma(t)
        return (gamma * VARIANCE / (gamma**2 * VARIANCE + sigma**2) * x_t).clamp(-1, 1)


def schedule() -> NoiseSchedule:
    """The noise schedule of the first DDPM [Ho et al., 2020]."""
    return NoiseSchedule(np.cumprod(1 - np.linspace(1e-4, 0.02, 1000), dtype=np.float64))


def plan_within(coding: Coding, epsilon: float, steps: int, chunk_size: int, index_bits: int) -> Plan:
    """A plan of `steps` steps with equal SNR gains whose certificate is just within ε, for images of three channels."""
    noise = schedule()

    def plan(gain: float) -> Plan:
        times, units = [len(noise) - 1], coding.code.exponent_units(index_bits)
        for number in range(1, steps + 1):
            near = noise.nearest(noise.snr(len(noise) - 1) + number * gain)
            times.append(max(min(near, times[-1] - 1), steps - number))
        pairs = itertools.pairwise(times)
        return Plan(coding, tuple(Step(t, s, gain, chunk_size, index_bits, units) for t, s in pairs))

    # Bisection: ε grows with the gain, up to the truncation of levels, so this is (nearly) the largest gain that fits.
    low, high = 0.0, 4.0
    for _ in range(40):
        middle = float(np.float32((low + high) / 2))
        fits = Certificate.of(plan(middle), CHANNELS, chunk_size).epsilon <= epsilon
        low, high = (middle, high) if fits else (low, middle)
    return plan(low)


def chain_of(plan: Plan, shape: Shape, number: int, denoiser: Denoiser | None = None) -> Chain:
    """A chain whose public seed is `number`, on a denoiser or by default the simple one (it has all a chain needs)."""
    public = denoiser or cast("Denoiser", Shrink(schedule()))
    return Chain(plan, public, number.to_bytes(16, "little"), shape)


def plan_for(coding: Coding, epsilon: float) -> tuple[Plan, Shape]:
    """A plan of about ε for the exact audit, and an image size so large that other pixels can favour any candidate."""
    side = SIDE * math.ceil(math.sqrt(max(1.0, 1 / epsilon)))
    plan = plan_within(coding, epsilon, STEPS, side * side, INDEX_BITS)
    return plan, (side, side, CHANNELS)


def single_step(coding: Coding, epsilon: float, side: int = SMALL_SIDE) -> tuple[Plan, Shape]:
    """A plan whose only selection carries all of ε, which is what counts can show best, and the image size for it."""
    return plan_within(coding, epsilon, 1, side**2 * CHANNELS, SMALL_BITS), (side, side, CHANNELS)


@contextlib.contextmanager
def replaced(module: Any, name: str, value: Any) -> Iterator[None]:
    """Replace a name in a module inside a `with` block: audits feed the encoder known bytes, controls break it."""
    before = getattr(module, name)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, before)
