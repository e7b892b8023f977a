"""Trajectories: how the public state of a picture moves along a plan, from knowing nothing to the last step.

A trajectory knows what the denoiser is asked in each step and what becomes of the state once the step's noise z (of
unit variance over all coordinates, 0 where the step does not touch) is known. Everything here is public.

| trajectory | plan | state | start |
|---|---|---|---|
| `Diffusion` | steps along timesteps | x_t, of the noise schedule | x_T, common randomness |
| `Sensing` | steps of clipped sensing | y, an estimate of x0 with noise of power 1/SNR | nothing: SNR 0 |

**Sensing.** With SNR s so far and the gain g of a step, the state is the precision-weighted mean of what was known and
of the new observation x̂0 + z/√g:

    y ← (s·y + g·x̂0 + √g·z)/(s + g),      s ← s + g.

SNRs are sums of gains, and lie between timesteps; which timestep is nearest is the denoiser's business. Before the
first step nothing is known: the prediction is mid-grey, x̂0 = 0, and the network is not asked.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dipp.core.geometry import Geometry
from dipp.core.plan import Plan
from dipp.core.steps import SensingStep, Step
from dipp.models import diffusion
from dipp.models.denoiser import Denoiser

if TYPE_CHECKING:
    import torch


class Trajectory(ABC):
    """The public states of a plan on a denoiser."""

    @abstractmethod
    def start(self, seed: bytes, geometry: Geometry) -> torch.Tensor:
        """Return the state (1, C, H, W) before the first step, the same for all images of a geometry."""

    @abstractmethod
    def predict(self, number: int, state: torch.Tensor) -> torch.Tensor:
        """x̂0 before step `number`."""

    @abstractmethod
    def advance(self, number: int, state: torch.Tensor, x_hat: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        """The state after step `number`."""

    @abstractmethod
    def timestep(self, steps: int) -> int:
        """The timestep of the noise schedule that so many steps lead to."""

    @abstractmethod
    def noisy(self, steps: int, state: torch.Tensor) -> tuple[torch.Tensor, int]:
        """The state after so many steps as x_t of the noise schedule, and its timestep t: where samplers start."""

    @abstractmethod
    def expected(self, steps: int, state: torch.Tensor) -> torch.Tensor:
        """The expected picture after so many steps: one call of the denoiser."""


@dataclass(frozen=True, eq=False)
class Diffusion(Trajectory):
    """States x_t along the timesteps of the denoiser's noise schedule."""

    steps: Sequence[Step]
    denoiser: Denoiser

    def __post_init__(self) -> None:
        for step in self.steps:
            self.denoiser.schedule.require_gain(step.start, step.end, step.snr_gain)

    def start(self, seed: bytes, geometry: Geometry) -> torch.Tensor:
        """Return x_T, from the common randomness alone."""
        import torch

        shape = geometry.channels, geometry.height, geometry.width
        return torch.from_numpy(diffusion.start(seed, shape))[None].to(self.denoiser.device)

    def predict(self, number: int, state: torch.Tensor) -> torch.Tensor:
        """x̂0 at the step's first timestep."""
        return self.denoiser.x0(state, self.steps[number].start)

    def advance(self, number: int, state: torch.Tensor, x_hat: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        """x_s = μ_p + σ(s, t)·z."""
        step = self.steps[number]
        return self.denoiser.schedule.step(step.start, step.end).next_state(state, x_hat, noise)

    def timestep(self, steps: int) -> int:
        """The one that the last of them ends at."""
        return (self.steps[0].start, *(step.end for step in self.steps))[steps]

    def noisy(self, steps: int, state: torch.Tensor) -> tuple[torch.Tensor, int]:
        """The state itself."""
        return state, self.timestep(steps)

    def expected(self, steps: int, state: torch.Tensor) -> torch.Tensor:
        """x̂0 at the timestep that was reached."""
        return self.denoiser.x0(*self.noisy(steps, state), fast=True)


@dataclass(frozen=True, eq=False)
class Sensing(Trajectory):
    """States y at continuous SNRs."""

    steps: Sequence[SensingStep]
    denoiser: Denoiser

    def snr(self, steps: int) -> float:
        """SNR after so many steps: the exact sum of their gains."""
        return math.fsum(step.snr_gain for step in itertools.islice(self.steps, steps))

    def start(self, seed: bytes, geometry: Geometry) -> torch.Tensor:  # noqa: ARG002
        """Return mid-grey, at SNR 0."""
        import torch

        shape = 1, geometry.channels, geometry.height, geometry.width
        return torch.from_numpy(np.zeros(shape, np.float32)).to(self.denoiser.device)

    def predict(self, number: int, state: torch.Tensor) -> torch.Tensor:
        """Mid-grey at first, then the denoiser's prediction at the SNR so far."""
        return self.denoiser.at_snr(state, self.snr(number)) if number else state

    def advance(self, number: int, state: torch.Tensor, x_hat: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        """The precision-weighted mean: see the module's text."""
        before, gain = self.snr(number), self.steps[number].snr_gain
        total = before + gain
        return (before / total) * state + (gain / total) * x_hat + (math.sqrt(gain) / total) * noise

    def timestep(self, steps: int) -> int:
        """The one whose SNR is nearest; pure noise's, if nothing was decoded."""
        schedule = self.denoiser.schedule
        return schedule.nearest(self.snr(steps)) if steps else len(schedule) - 1

    def noisy(self, steps: int, state: torch.Tensor) -> tuple[torch.Tensor, int]:
        """γ_t·y at that timestep."""
        t = self.timestep(steps)
        return self.denoiser.schedule.gamma(t) * state, t

    def expected(self, steps: int, state: torch.Tensor) -> torch.Tensor:
        """x̂0 at the SNR that was reached."""
        return self.denoiser.at_snr(state, self.snr(steps), fast=True) if steps else state


TRAJECTORIES: dict[str, Callable[[Sequence[Any], Denoiser], Trajectory]] = {
    Step.kind: Diffusion,
    SensingStep.kind: Sensing,
}
"""The trajectory of each kind of steps."""


def trajectory(plan: Plan, denoiser: Denoiser) -> Trajectory:
    """Return the trajectory of a plan, or raise if the plan does not fit the denoiser."""
    return TRAJECTORIES[plan.kind](plan.steps, denoiser)
