"""Rivals: noise that a careful practitioner would release at the same pure ε per pixel, to be denoised afterwards.

Values x are in [−1, 1], so a channel moves by 2 at most. Each rival releases of each pixel:

| rival | what | certificate |
|---|---|---|
| `noise` | x + Laplace(2C/ε) in all C channels | (ε/C)-DP per channel |
| `cube` | x + n in all C channels together, n of density ∝ e^(−ε·‖n‖∞/2) | ε-DP: ‖x − x'‖∞ ≤ 2 |
| `one-channel` | x + Laplace(2/ε) in one channel, which public randomness has picked | ε-DP for this channel |
| `one-bit` | the bit ±1 with P[+] = (1 + t·x)/2 for one such channel, t = tanh(ε/2) | ln (1 + t)/(1 − t) = ε |

Nothing is clamped, so every value is unbiased: y = x + noise, or ±1/t. If one of C channels is picked, its value counts
C times, and the others are 0 (mid-grey), so that the mean over the picks is right. `cube` is the K-norm
mechanism [Hardt and Talwar, 2010] of the cube in which the channels of a pixel lie: of the same ε as `noise`, it has
0.37 of its power for C = 3. The last is randomised response against mid-grey, by the optimal mechanism for one bit
[Duchi, Jordan and Wainwright, 2018]. The certificates hold for ideal noise; here it is drawn from an ordinary
floating-point generator.

*Denoising.* A denoiser takes y at the SNR of the noise. But the noise is not Gaussian, and the unpicked channels are
known to have no value. So several SNRs are tried, and the SNR with the best PSNR *against the clean pictures*
counts: an advantage that the codec does not have.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from dipp.codec.pictures import Pixels
from dipp.codec.pixels import to_pixels
from dipp.core.signal import to_levels, to_signal
from dipp.models.denoiser import Denoiser, Numbers
from dipp.models.evidence import Evidence

FACTORS = (0.1, 0.15, 0.25, 0.4, 0.6, 0.8, 1.0, 1.3, 1.8, 2.5, 4.0)
"""SNRs at which the denoiser is tried, relative to the SNR of the noise."""
TUNED = 256
"""Number of pictures on which the best of these SNRs is chosen."""
PART = 1000
"""Number of pictures that are drawn at a time."""

Signal = NDArray[np.float32]


@dataclass(frozen=True)
class Rival(ABC):
    """A mechanism that releases each pixel on its own."""

    epsilon: float
    """Pure ε per pixel."""
    channels: int = 3

    name: ClassVar[str]

    @property
    @abstractmethod
    def snr(self) -> float:
        """Return one divided by the mean power of the noise, as far as it does not depend on the picture."""

    @abstractmethod
    def draw(self, x: Signal, generator: np.random.Generator) -> Signal:
        """Draw the released values y of pictures (N, H, W, C)."""

    @abstractmethod
    def stored(self, y: Signal) -> Pixels | None:
        """Return the released values as eight-bit pictures for lossless codecs, or None for one bit per pixel."""

    def release(self, pixels: Pixels, seed: str) -> Iterator[Signal]:
        """Draw the released values of pictures in parts. A named seed lets any machine draw the same."""
        generator = np.random.default_rng(list(seed.encode()))
        for start in range(0, len(pixels), PART):
            yield self.draw(to_signal(pixels[start : start + PART]).astype(np.float32), generator)

    def _one(self, shape: tuple[int, ...], generator: np.random.Generator) -> NDArray[np.bool_]:
        """Return the number of the picked channel of each pixel."""
        picked = generator.integers(0, self.channels, shape[:3])[..., None]
        return np.asarray(picked == np.arange(self.channels), np.bool_)


class Noise(Rival):
    """Laplace noise on all channels."""

    name = "noise"

    @property
    def snr(self) -> float:
        """Return 1/(2b²) with b = 2C/ε."""
        return (self.epsilon / (2 * self.channels)) ** 2 / 2

    def draw(self, x: Signal, generator: np.random.Generator) -> Signal:
        """Return x + noise."""
        scale = 2 * self.channels / self.epsilon
        return (x + generator.laplace(0, scale, x.shape)).astype(np.float32)

    def stored(self, y: Signal) -> Pixels:
        """Return all channels as eight-bit pictures."""
        return _clamped(y)


class Cube(Rival):
    """Noise on all channels of a pixel together, whose density falls with its largest component."""

    name = "cube"

    @property
    def snr(self) -> float:
        """Return 1/E[n²] = 3/E[r²] with r ~ Gamma(C + 1, 2/ε), and E[r²] = (C + 1)·(C + 2)·(2/ε)²."""
        return 3 * (self.epsilon / 2) ** 2 / ((self.channels + 1) * (self.channels + 2))

    def draw(self, x: Signal, generator: np.random.Generator) -> Signal:
        """Return x + r·u, with u uniform in the cube [−1, 1]^C.

        n = r·u has the right density: that of r is ∝ r^C·e^(−ε·r/2), that of n given r is (2r)^−C where
        ‖n‖∞ ≤ r, and the integral of e^(−ε·r/2) over r ≥ ‖n‖∞ is ∝ e^(−ε·‖n‖∞/2).
        """
        radius = generator.gamma(self.channels + 1, 2 / self.epsilon, (*x.shape[:3], 1))
        return (x + radius * generator.uniform(-1, 1, x.shape)).astype(np.float32)

    def stored(self, y: Signal) -> Pixels:
        """Return all channels as eight-bit pictures."""
        return _clamped(y)


class OneChannel(Rival):
    """Laplace noise on one channel of each pixel."""

    name = "one-channel"

    @property
    def snr(self) -> float:
        """Return the SNR of the channel's noise, b = 2/ε, over C, because 1/C of the values are C times as large."""
        return (self.epsilon / 2) ** 2 / 2 / self.channels

    def draw(self, x: Signal, generator: np.random.Generator) -> Signal:
        """Return C·(x + noise) in the picked channels, and 0 elsewhere."""
        noisy = x + generator.laplace(0, 2 / self.epsilon, x.shape)
        return np.where(self._one(x.shape, generator), self.channels * noisy, 0.0).astype(np.float32)

    def stored(self, y: Signal) -> Pixels:
        """Return the value of each pixel's picked channel. Which channel it is, is public."""
        return _clamped(y.sum(axis=3) / self.channels)


class OneBit(Rival):
    """Randomised response of one channel of each pixel, against mid-grey."""

    name = "one-bit"

    @property
    def snr(self) -> float:
        """Return t²/C with t = tanh(ε/2): a value is ±C/t with probability 1/C, so its mean square is C/t²."""
        return math.tanh(self.epsilon / 2) ** 2 / self.channels

    def draw(self, x: Signal, generator: np.random.Generator) -> Signal:
        """Return ±C/t in the picked channels, and 0 elsewhere."""
        t = math.tanh(self.epsilon / 2)
        up = generator.random(x.shape) < (1 + t * x) / 2
        sign = np.where(up, 1.0, -1.0) * (self.channels / t)
        return np.where(self._one(x.shape, generator), sign, 0.0).astype(np.float32)

    def stored(self, y: Signal) -> Pixels | None:  # noqa: ARG002
        """Return None: a random bit cannot be compressed."""
        return None


RIVALS: dict[str, type[Rival]] = {kind.name: kind for kind in (Noise, Cube, OneChannel, OneBit)}


def _clamped(y: NDArray[np.float32]) -> Pixels:
    return np.asarray(to_levels(y), np.uint8)


def state(y: Signal, denoiser: Denoiser) -> torch.Tensor:
    """Return released values as the state that a denoiser takes."""
    return torch.from_numpy(y).permute(0, 3, 1, 2).to(denoiser.device)


def psnr(x_hat: torch.Tensor, pixels: Pixels) -> float:
    """Return the PSNR of expected pictures in dB, with the mean squared error over all pictures."""
    clean = torch.from_numpy(to_signal(pixels)).permute(0, 3, 1, 2).to(x_hat)
    return 10 * math.log10(4 / float((x_hat - clean).square().mean()))


def best_factor(rival: Rival, y: Signal, pixels: Pixels, denoiser: Denoiser) -> tuple[float, float]:
    """Return the best PSNR over `FACTORS`, and its factor."""
    noisy = state(y, denoiser)
    return max((psnr(denoiser.predict(Evidence(noisy, factor * rival.snr)), pixels), factor) for factor in FACTORS)


def denoised(rival: Rival, pixels: Pixels, denoiser: Denoiser, seed: str) -> tuple[Pixels, dict[str, float]]:
    """Return the expected pictures of a rival's release, and how they were made."""
    found, facts = [], dict[str, float]()
    for y in rival.release(pixels, seed):
        if not facts:
            tuned = slice(min(TUNED, len(y)))
            best, factor = best_factor(rival, y[tuned], pixels[tuned], denoiser)
            facts = {"snr": rival.snr, "factor": factor, "psnr_of_the_first": best}
        part = denoiser.predict(Evidence(state(y, denoiser), facts["factor"] * rival.snr), Numbers.FAST)
        found.append(to_pixels(part))
    return np.concatenate(found), facts
