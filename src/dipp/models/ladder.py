"""Noise levels of latent models, by the timesteps of their schedulers, and the schedule of the signal that is coded.

A network of latents z was trained on states z_t = γ_t·z + σ_t·η, and takes a number for each t:

| scheduler | γ_t and σ_t | its output stands for |
|---|---|---|
| any with betas | γ_t² = ᾱ_t, σ_t² = 1 − ᾱ_t | η, v = γ_t·η − σ_t·z, or z |
| flow matching | γ_t = 1 − s, σ_t = s, with s of the scheduler | η − z |

The coded signal is u = z/R (`core.latents`). For every t the state x_t = z_t/c_t with c_t² = γ_t²·R² + σ_t² belongs to
a variance-preserving diffusion of u with the signal-to-noise ratio R²·γ_t²/σ_t². So chains on latents, also those of
flows, run as in `models.diffusion`, and only the network takes states in units of z_t. A chain starts from pure noise,
z_t = η: the deviation of its first state is 1/c_t.

The last noise level of a flow, or of a schedule that was rescaled, has the SNR 0. It is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dipp.core.latents import REACH
from dipp.errors import DippError
from dipp.models.betas import MAX_TIMESTEPS
from dipp.models.diffusion import NoiseSchedule

if TYPE_CHECKING:
    import torch

Floats = NDArray[np.float64]

FLOW_CLASS, FLOW = "FlowMatchEulerDiscreteScheduler", "flow"


@dataclass(frozen=True, eq=False)
class Ladder:
    """The noise levels that a network of latents was trained on, by timestep."""

    gammas: Floats
    """Factors γ_t of the latents, falling with t."""
    sigmas: Floats
    """Deviations σ_t of the noise, rising with t."""
    times: Floats
    """Time that the network takes at each t."""
    prediction: str
    """Meaning of the network's output: one of `diffusion.PREDICTIONS`, or `FLOW`."""

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Ladder:
        """Return the noise levels of a diffusers scheduler config.

        Raises:
            DippError: The config does not state all that they depend on, or states values that are out of range.
        """
        if config.get("_class_name") == FLOW_CLASS:
            return cls._of_flow(config)
        schedule = NoiseSchedule.from_config(config)
        alphas = schedule.alphas_cumprod
        times = np.arange(len(schedule), dtype=np.float64)
        return cls(np.sqrt(alphas), np.sqrt(1 - alphas), times, schedule.prediction)

    @classmethod
    def _of_flow(cls, config: Mapping[str, Any]) -> Ladder:
        count, shift = config.get("num_train_timesteps"), config.get("shift", 1.0)
        if not isinstance(count, int) or not 3 <= count <= MAX_TIMESTEPS:
            raise DippError(
                "num_train_timesteps",
                f"must be a whole number from 3 to {MAX_TIMESTEPS} in the scheduler config, got {count}",
            )
        if not isinstance(shift, int | float) or not 0 < shift < 1e6:
            raise DippError("shift", f"must be a positive number in the scheduler config, got {shift!r}")
        if config.get("invert_sigmas"):
            raise DippError("invert_sigmas", "must be false in the scheduler config", "name another model")
        levels = np.arange(1, count) / count  # without the last level, 1, whose SNR is 0
        if not config.get("use_dynamic_shifting"):  # which changes samplers alone
            levels = shift * levels / (1 + (shift - 1) * levels)
        return cls(1 - levels, levels, levels * count, FLOW)

    def schedule(self) -> NoiseSchedule:
        """Return the noise schedule of the coded signal u = z/R: latents z divided by their range R."""
        signal = np.square(REACH * self.gammas)
        alphas = signal / (signal + np.square(self.sigmas))
        return NoiseSchedule(alphas, "sample", 1 / self.scale(len(self.times) - 1))

    def scale(self, t: int) -> float:
        """Return the factor c_t that turns a state x_t of the coded signal into a state z_t of the network."""
        return float(np.sqrt(np.square(REACH * self.gammas[t]) + np.square(self.sigmas[t])))

    def x0(self, output: torch.Tensor, state: torch.Tensor, t: int) -> torch.Tensor:
        """Return the predicted signal û: predicted latents ẑ, divided by their range R and clamped to [−1, 1].

        Args:
            output: Output of the network for `state`.
            state: States z_t (N, c, h, w).
            t: Their timestep.
        """
        gamma, sigma = float(self.gammas[t]), float(self.sigmas[t])
        if self.prediction == "epsilon":
            output = (state - sigma * output) / gamma
        elif self.prediction == "v_prediction":
            output = gamma * state - sigma * output
        elif self.prediction == FLOW:
            output = state - sigma * output
        return (output / REACH).clamp(-1.0, 1.0)
