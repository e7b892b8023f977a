"""Diffusion mathematics: the noise schedule, and one step of the reverse process.

A variance-preserving diffusion [Ho et al., 2020] turns an image x0 in [−1, 1] into

    x_t = γ_t·x0 + σ_t·η,    η ~ N(0, 1),    γ_t² = ᾱ_t,    σ_t² = 1 − ᾱ_t,    SNR(t) = γ_t²/σ_t²

for the timesteps t = 0 … T − 1 of the scheduler config that the network was trained with. Given x0, a less noisy state
x_s (s < t) is Gaussian with mean μ_q and deviation σ(s, t); the model puts its prediction x̂0 in place of x0, which
gives μ_p (`Transition`). In units of σ(s, t) the two means differ by

    (μ_q − μ_p)/σ(s, t) = (x0 − x̂0)·√(SNR(s) − SNR(t))

A channel has to convey that difference and nothing else, so the SNRs alone fix the price in ε.

Coefficients are float64 numbers from IEEE operations in a fixed order, so they are the same on every machine. States
may be NumPy arrays or torch tensors of any precision, which is kept. No framework is imported here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dipp.core import randomness
from dipp.errors import DippError, InconsistentError
from dipp.models.betas import betas_of, rescaled

if TYPE_CHECKING:
    import torch

State = TypeVar("State", NDArray[Any], "torch.Tensor")
Denoise = Callable[[State, int], State]
"""A function from a state x_t and its timestep t to the prediction x̂0, clamped to [−1, 1]."""

PREDICTIONS = ("epsilon", "v_prediction", "sample")
"""Possible meanings of a network's output: η, v = γ·η − σ·x0, or x0."""
LOST_GAIN = 1 / 128
"""Largest share by which a plan rounds down the model's SNR gains along timesteps (`planning.planner`)."""
LEAST_SNR = 1e-3
"""SNR below which x̂0 hardly depends on x_t, so that the fast sampler crosses that region in one step."""


@dataclass(frozen=True)
class Transition:
    """One reverse step of a diffusion, from timestep t to a less noisy s: x_s = mean(x_t, x) + sigma·z, with noise z.

    For the picture x = x0 the mean is called μ_q, and for its prediction x = x̂0 it is μ_p. With the factors γ of the
    picture and σ of the noise in a state, γ_{t|s} = γ_t/γ_s and σ²_{t|s} = σ_t² − γ²_{t|s}·σ_s²:

        data_weight  = γ_s·σ²_{t|s}/σ_t²
        state_weight = γ_{t|s}·σ_s²/σ_t²
        sigma        = σ(s, t) = σ_{t|s}·σ_s/σ_t
    """

    t: int
    """Timestep before the step."""
    s: int
    """Timestep after the step, less noisy: s < t."""
    data_weight: float
    """Factor of x in the mean."""
    state_weight: float
    """Factor of x_t in the mean."""
    sigma: float
    """Deviation σ(s, t) of the noise that the step adds."""
    snr_gain: float
    """SNR(s) − SNR(t)."""

    def mean(self, x_t: State, x: State) -> State:
        """Return the mean of the next state x_s, given the state x_t and the picture x or its prediction."""
        return self.data_weight * x + self.state_weight * x_t

    def next_state(self, x_t: State, x_hat: State, z: State) -> State:
        """Return the next state x_s: the mean for the prediction x̂0, plus noise z of unit variance times σ(s, t)."""
        return self.mean(x_t, x_hat) + self.sigma * z


@dataclass(frozen=True, eq=False)
class NoiseSchedule:
    """The noise levels of a diffusion model by timestep, and the meaning of its network's output.

    Raises:
        DippError: The noise levels do not fall strictly inside (0, 1), or the prediction is unknown.
    """

    alphas_cumprod: NDArray[np.float64]
    """ᾱ_0 > ᾱ_1 > … > ᾱ_{T−1}, strictly between 0 and 1."""
    prediction: str = "epsilon"
    """Meaning of the network's output: one of `PREDICTIONS`."""
    first: float = 1.0
    """Deviation of the states that chains start from, at the last timestep."""

    def __post_init__(self) -> None:
        if self.prediction not in PREDICTIONS:
            raise DippError("prediction_type", f"must be one of {', '.join(PREDICTIONS)}, got {self.prediction!r}")
        alphas = np.array(self.alphas_cumprod, np.float64)
        if alphas.ndim != 1 or len(alphas) < 2:
            raise DippError("alphas_cumprod", f"must be at least 2 values in a row, got shape {alphas.shape}")
        if not (alphas[0] < 1 and (np.diff(alphas) < 0).all() and alphas[-1] > 0):
            raise DippError("alphas_cumprod", "must fall strictly inside (0, 1), so that no SNR is 0 or ∞")
        alphas.flags.writeable = False
        object.__setattr__(self, "alphas_cumprod", alphas)

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> NoiseSchedule:
        """Return the schedule of a diffusers scheduler config.

        A last timestep of SNR 0, which `rescale_betas_zero_snr` causes, is left out.

        Args:
            config: The JSON object. It must state everything that ε depends on, because defaults may change.

        Raises:
            DippError: A value is missing or invalid.
        """
        betas = betas_of(config)
        if not ((betas > 0) & (betas < 1)).all():
            raise DippError("scheduler config", "must have betas strictly between 0 and 1")
        alphas = np.cumprod(1.0 - betas, dtype=np.float64)
        if config.get("rescale_betas_zero_snr"):
            alphas = rescaled(alphas)
        return cls(alphas, config.get("prediction_type", "epsilon"))

    def __len__(self) -> int:
        """Return the number T of timesteps."""
        return len(self.alphas_cumprod)

    def gamma(self, t: int) -> float:
        """Return the factor γ_t = √ᾱ_t of the image in a state."""
        return math.sqrt(self._alpha(t))

    def sigma(self, t: int) -> float:
        """Return the deviation σ_t = √(1 − ᾱ_t) of the noise in a state."""
        return math.sqrt(1 - self._alpha(t))

    def snr(self, t: int) -> float:
        """Return the signal-to-noise ratio SNR(t) = ᾱ_t/(1 − ᾱ_t). Some public code calls its square root SNR."""
        return self._alpha(t) / (1 - self._alpha(t))

    def step(self, t: int, s: int) -> Transition:
        """Return the reverse step from timestep t to a less noisy s < t, or raise if s is not below t.

        Args:
            t: Timestep of the state.
            s: Timestep of the next state.
        """
        alpha_t, alpha_s = self._alpha(t), self._alpha(s)
        if s >= t:
            raise DippError("s", f"must be a timestep below t = {t}, got {s}")
        kept = alpha_t / alpha_s  # γ²_{t|s}; variance-preserving, so σ²_{t|s} = 1 − γ²_{t|s}
        variance_t, variance_s = 1 - alpha_t, 1 - alpha_s
        return Transition(
            t=t,
            s=s,
            data_weight=math.sqrt(alpha_s) * (1 - kept) / variance_t,
            state_weight=math.sqrt(kept) * variance_s / variance_t,
            sigma=math.sqrt((1 - kept) * variance_s / variance_t),
            snr_gain=self.snr(s) - self.snr(t),
        )

    def require_gain(self, t: int, s: int, claimed: float) -> None:
        """Raise if the claimed SNR gain of a step from t to s is not the model's, because ε follows from the claim.

        Args:
            t: Timestep of the state.
            s: Timestep of the next state.
            claimed: The claimed SNR gain.
        """
        real = self.step(t, s).snr_gain
        if not real * (1 - LOST_GAIN) <= claimed <= real * (1 + 2.0**-20):  # a float's rounding
            raise InconsistentError(
                "plan",
                f"claims an SNR gain of {claimed:.4g} for step {t} → {s}, and the model has {real:.4g}",
                "do not trust the file",
            )

    def noised(self, x0: State, eta: State, t: int) -> State:
        """Return the noisy state x_t = γ_t·x0 + σ_t·η of pictures x0 at a timestep t.

        Args:
            x0: Pictures in [−1, 1].
            eta: Noise η of unit variance, of the same shape.
            t: Timestep of the state.
        """
        return self.gamma(t) * x0 + self.sigma(t) * eta

    def x0(self, output: State, x_t: State, t: int) -> State:
        """Return the predicted pictures x̂0, clamped to [−1, 1].

        Args:
            output: Output of the network, with the meaning that `prediction` says.
            x_t: State that the network was given, of the same shape.
            t: Its timestep.
        """
        gamma, sigma = self.gamma(t), self.sigma(t)
        if self.prediction == "epsilon":
            output = (x_t - sigma * output) / gamma
        elif self.prediction == "v_prediction":
            output = gamma * x_t - sigma * output
        return output.clip(-1.0, 1.0)

    def nearest(self, snr: float) -> int:
        """Return the timestep whose SNR is nearest to `snr` in ratio, or raise if `snr` is not positive."""
        if not snr > 0:
            raise DippError("snr", f"must be positive, got {snr}")
        return int(np.abs(self._half_log_snrs() - math.log(snr) / 2).argmin())

    def grid(self, t: int, calls: int) -> tuple[int, ...]:
        """Return the timesteps of a fast sampler, from t down to 0.

        From `LEAST_SNR` on, they are as evenly spaced in log SNR as timesteps can be.

        Args:
            t: First timestep.
            calls: Largest number of timesteps, at least 1.

        Raises:
            DippError: `calls` is not a whole number from 1.
        """
        self._alpha(t)
        if calls < 1:
            raise DippError("calls", f"must be a whole number ≥ 1, got {calls}")
        if t < calls:
            return tuple(range(t, -1, -1))
        levels = self._half_log_snrs()[: t + 1]
        wanted = np.linspace(max(levels[t], math.log(LEAST_SNR) / 2), levels[0], calls)[1:]
        nearest = {int(np.abs(levels - level).argmin()) for level in wanted}
        return tuple(sorted({t} | nearest, reverse=True))

    def _half_log_snrs(self) -> NDArray[np.float64]:
        """Return half of the logarithm of the SNR, log(γ_t/σ_t), of all timesteps."""
        return (np.log(self.alphas_cumprod) - np.log1p(-self.alphas_cumprod)) / 2

    def _alpha(self, t: int) -> float:
        """Return the noise level ᾱ_t, or raise if there is no timestep t."""
        if not 0 <= t < len(self):
            raise DippError("t", f"must be a timestep from 0 to {len(self) - 1}, got {t}")
        return float(self.alphas_cumprod[t])


def normals(source: randomness.Stream, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Return public random numbers with a standard normal distribution, from a stream of common randomness.

    Args:
        source: The stream.
        shape: Shape of the array, which is filled in C order.

    Returns:
        Normal quantiles of the stream's 32-bit uniforms, float32.
    """
    from scipy import special  # imported here, because most commands do not need it

    uniforms = randomness.uniforms(source, math.prod(shape))
    return np.asarray(special.ndtri(uniforms), np.float32).reshape(shape)


def start(seed: bytes, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Return the state x_{T−1} from which all images of one size start.

    It is common randomness alone, and costs neither bits nor ε. A true x_{T−1} would have the mean γ_{T−1}·x0. Without
    that mean, the mean of x_s is shorter by the share SNR(T−1)/SNR(s). The noise of x_{T−1} has the same share in the
    noise of x_s. Because all images share it, their noise is correlated by at most that share, and one network call
    serves all.

    Args:
        seed: The public seed.
        shape: Shape of one state, (C, H, W).
    """
    return normals(randomness.stream(seed, purpose="start"), shape)
