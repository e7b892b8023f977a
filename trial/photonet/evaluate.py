"""How good a denoiser is: errors on Gaussian states, and whole sensing encodings, simulated.

PSNR is 10·log₁₀(4/MSE) with the mean square error over all pictures, for pixels in [−1, 1] and clamped predictions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

Predict = Callable[[Tensor, Tensor, Tensor | None], Tensor]
"""(y, SNR of each picture, precision) → x̂0."""
SNRS = (0.01, 0.05, 0.2, 1.0, 4.0, 16.0, 64.0, 100.0)
BATCH_PIXELS = 1 << 20


def psnr(x_hat: Tensor, x0: Tensor) -> float:
    """In dB, over all pictures."""
    return 10 * math.log10(4 / (x_hat.clamp(-1, 1) - x0).double().square().mean().item())


@torch.inference_mode()
def in_parts(predict: Predict, y: Tensor, snr: float, precision: Tensor | None) -> Tensor:
    """Predictions of pictures at one SNR, some at a time."""
    size = max(1, BATCH_PIXELS // math.prod(y.shape[2:]))
    level = torch.full((len(y),), snr, device=y.device)
    parts = (slice(start, start + size) for start in range(0, len(y), size))
    return torch.cat([predict(y[part], level[part], None if precision is None else precision[part]) for part in parts])


def gaussian_errors(predict: Predict, x0: Tensor, seed: int = 1234) -> dict[float, float]:
    """PSNR at each SNR on Gaussian noise, which is the same for every denoiser."""
    noise = torch.randn(x0.shape, generator=torch.Generator().manual_seed(seed)).to(x0)
    return {snr: psnr(in_parts(predict, x0 + noise / math.sqrt(snr), snr, None), x0) for snr in SNRS}


@dataclass(frozen=True)
class Sensing:
    """Settings of an encoding by pairs: each touched coordinate costs one bit."""

    epsilon: float
    groups: int = 16
    passes: float = 1.0
    clip: float = 0.5
    """Over the deviation of the public residuals."""

    @property
    def tilt(self) -> float:
        """V: a pixel is touched ⌈T⌉ times, and pays 2V each time."""
        return self.epsilon / math.ceil(self.passes) / 2


class _Walk:
    """Pictures on their way: SNR·y and SNR·precision, and when each coordinate is touched."""

    def __init__(self, x0: Tensor, groups: int) -> None:
        self.x0, self.total, self.weight = x0, torch.zeros_like(x0), torch.zeros_like(x0)
        shape = (len(x0), 1, *x0.shape[2:])
        rank = torch.rand(len(x0), math.prod(shape[2:]), device=x0.device).argsort(1).argsort(1)
        self.group = (rank * groups // rank.shape[1]).view(shape)
        self.colour = torch.randint(x0.shape[1], shape, device=x0.device)
        self.x_hat = torch.zeros_like(x0)

    def ask(self, step: int, settings: Sensing, clip: float) -> tuple[Tensor, Tensor]:
        """Which coordinates the step touches, and the answers there (0 elsewhere)."""
        colours = torch.arange(self.x0.shape[1], device=self.x0.device).view(1, -1, 1, 1)
        lap, group = divmod(step, settings.groups)
        touched = (self.group == group) & ((self.colour + lap) % len(colours[0]) == colours)
        theta = settings.tilt * ((self.x0 - self.x_hat) / clip).clamp(-1, 1)
        sign = torch.where(torch.rand_like(theta) < torch.sigmoid(2 * theta), 1.0, -1.0)
        return touched, sign * touched


def sense(
    predict: Predict, private: Tensor, public: Tensor, settings: Sensing, *, use_map: bool, seed: int = 0
) -> tuple[Tensor, float]:
    """The posterior means of private pictures after an encoding, and its SNR; clip and gain come from public ones."""
    torch.manual_seed(seed)
    walks = [_Walk(x0, settings.groups) for x0 in (private, public)]
    snr = 0.0
    for step in range(round(settings.groups * settings.passes) + 1):
        for walk in walks:
            y, p = (value / max(snr, 1e-20) for value in (walk.total, walk.weight))
            walk.x_hat = in_parts(predict, y, snr, p if use_map else None).clamp(-1, 1)
        if step == round(settings.groups * settings.passes):
            break
        residual = walks[1].x0 - walks[1].x_hat
        energy = residual.square().mean().item()
        answers = [walk.ask(step, settings, settings.clip * math.sqrt(energy)) for walk in walks]
        share = 1 / (settings.groups * private.shape[1])
        agreement = (answers[1][1] * residual).sum() / answers[1][0].sum()
        gain = share * max(0.0, agreement.item() / energy) ** 2
        for walk, (touched, sign) in zip(walks, answers, strict=True):
            walk.total += gain * walk.x_hat + math.sqrt(gain / share) * sign
            walk.weight += gain / share * touched
        snr += gain
    return walks[0].x_hat, snr
