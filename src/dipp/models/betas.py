"""The noise levels of diffusers' beta schedules, computed exactly."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dipp.errors import DippError

BETA_SCHEDULES = ("linear", "scaled_linear", "squaredcos_cap_v2")
"""Names of the supported formulas for betas, as diffusers calls them."""
MAX_COSINE_BETA = Decimal("0.999")
"""Largest beta of the cosine schedule."""
HALF_PI = Decimal("1.5707963267948966192313216916397514420986")
MAX_TIMESTEPS = 1 << 16
"""Largest number of timesteps of a schedule, which the format and the memory of a reader allow."""


def betas_of(config: Mapping[str, Any]) -> NDArray[np.float64]:
    """Return the beta β_t of each timestep of a diffusers scheduler config, in float64.

    They are not rounded to float32, as they are in diffusers.

    Raises:
        DippError: The config has no supported schedule of betas, or an invalid number.
    """
    trained = config.get("trained_betas")
    if trained is not None and not (isinstance(trained, list) and all(map(_is_number, trained))):
        raise DippError("trained_betas", "must be a list of numbers in the scheduler config")
    count = config.get("num_train_timesteps", len(trained) if trained is not None else None)
    if not isinstance(count, int) or not 2 <= count <= MAX_TIMESTEPS:
        raise DippError(
            "num_train_timesteps",
            f"must be a whole number from 2 to {MAX_TIMESTEPS} in the scheduler config, got {count}",
        )
    if trained is not None:
        if len(trained) != count:
            raise DippError("trained_betas", f"must be {count} values, one for each timestep, got {len(trained)}")
        return np.array(trained, np.float64)
    kind = config.get("beta_schedule")
    if kind not in BETA_SCHEDULES:
        raise DippError("beta_schedule", f"must be one of {', '.join(BETA_SCHEDULES)}, got {kind!r}")
    if kind == "squaredcos_cap_v2":
        return _cosine_betas(count)
    first: Any = config.get("beta_start")
    last: Any = config.get("beta_end")
    if not (_is_number(first) and _is_number(last) and first > 0 and last > 0):
        raise DippError(
            "beta_start and beta_end", f"must be positive numbers in the scheduler config, got {first}, {last}"
        )
    ramp = np.arange(count) / (count - 1)
    if kind == "linear":
        return np.asarray(first + (last - first) * ramp, np.float64)
    return np.square(math.sqrt(first) + (math.sqrt(last) - math.sqrt(first)) * ramp)


def rescaled(alphas: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the noise levels ᾱ_t, rescaled so that the last has SNR 0 [Lin et al., 2024], and without that last one.

    √ᾱ_t is shifted and scaled so that the last value is 0 and the first stays as it is.
    """
    roots = np.sqrt(alphas)
    return np.asarray(np.square((roots[:-1] - roots[-1]) * (roots[0] / (roots[0] - roots[-1]))), np.float64)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _cosine_betas(count: int) -> NDArray[np.float64]:
    """Return the betas of the cosine schedule [Nichol & Dhariwal, 2021].

    β_i = min(1 − f((i + 1)/T)/f(i/T), 0.999) with f(u) = cos²(π/2·(u + 0.008)/1.008). They are computed in decimal
    arithmetic, because the cosines of C libraries differ in their last bit, and ε follows from the betas.
    """
    with localcontext(prec=40):
        offset = Decimal("0.008")
        angles = [HALF_PI * (Decimal(i) / count + offset) / (1 + offset) for i in range(count + 1)]
        squares = [_cosine(angle) ** 2 for angle in angles]
        betas = [min(1 - after / before, MAX_COSINE_BETA) for before, after in itertools.pairwise(squares)]
    return np.array([float(beta) for beta in betas])


def _cosine(angle: Decimal) -> Decimal:
    """Return the cosine by its Taylor series, which takes about 20 terms for angles up to π/2."""
    total = term = Decimal(1)
    n = 0
    while abs(term) > Decimal("1e-38"):
        n += 2
        term *= -angle * angle / (n * (n - 1))
        total += term
    return total
