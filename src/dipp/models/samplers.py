"""Draw pictures from a noisy state: step by step along all timesteps, or in few network calls."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

from dipp.models.diffusion import Denoise, NoiseSchedule, State


def ancestral(
    denoise: Denoise[State], schedule: NoiseSchedule, x_t: State, t: int, noise: Callable[[int], State]
) -> State:
    """Return an image by DDPM sampling from the state x_t through every timestep, with t + 1 network calls.

    It takes the reverse steps (`diffusion.Transition`) to s = t − 1 … 0 with noise(s), and finally returns x̂0.

    Args:
        denoise: The denoiser.
        schedule: Its noise schedule.
        x_t: The state (N, C, H, W).
        t: Its timestep.
        noise: Function from s to standard normal numbers of the state's shape. Drawn from the common randomness
            (`normals`), they give the same picture for the same file.
    """
    for s in range(t - 1, -1, -1):
        x_t = schedule.step(s + 1, s).next_state(x_t, denoise(x_t, s + 1), noise(s))
    return denoise(x_t, 0)


def fast(denoise: Denoise[State], schedule: NoiseSchedule, x_t: State, t: int, calls: int) -> State:
    """Return an image by deterministic sampling from the state x_t, with at most `calls` network calls.

    This is the second-order multistep DPM-Solver++ [Lu et al., 2022]. Its last step, to σ = 0, returns x̂0 itself.

    Let γ and σ be the factors of picture and noise in a state. With λ = log(γ/σ) the probability-flow equation has the
    solution

        x_s = (σ_s/σ_t)·x_t + σ_s·∫ e^λ·x̂0(λ) dλ    from λ_t to λ_s

    in which x̂0 is extrapolated linearly from the last two calls. Let h = λ_s − λ_t, and let h' and x̂0' be those of the
    previous step. With D = x̂0 + (x̂0 − x̂0')·h/(2h'), the step is x_s = (σ_s/σ_t)·x_t + γ_s·(1 − e^−h)·D, correct to
    second order. The first step has no previous one, and takes D = x̂0 (DDIM).

    Args:
        denoise: The denoiser.
        schedule: Its noise schedule.
        x_t: The state (N, C, H, W).
        t: Its timestep.
        calls: Largest number of network calls, at least 1.
    """
    timesteps = schedule.grid(t, calls)
    levels = schedule._half_log_snrs()
    x_hat = denoise(x_t, t)
    slope: State | None = None  # derivative of x̂0 with respect to λ
    for t, s in itertools.pairwise(timesteps):
        h = float(levels[s] - levels[t])
        target = x_hat if slope is None else x_hat + (h / 2) * slope
        x_t = (schedule.sigma(s) / schedule.sigma(t)) * x_t + (-schedule.gamma(s) * math.expm1(-h)) * target
        previous, x_hat = x_hat, denoise(x_t, s)
        slope = (x_hat - previous) * (1 / h)
    return x_hat
