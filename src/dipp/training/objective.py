"""What a training step draws and minimises.

**Loss.** The bits of a coded chain are the path's divergence ∫ mse_x0 dSNR/2 nats a coordinate, where mse_x0·SNR is the
mean square of the error in η. The network predicts v = γ·η − σ·x0, whose mean square mse_x0/σ² varies by a factor of
three only over the SNRs that a codec uses (0.06 to 0.28 on CIFAR-10, where that of η varies by a thousand), so that a
plain mean square in v serves every budget; and x̂0 = γ·x_t − σ·v̂ is never divided by a small γ.

**Timesteps.** Four of five pictures get an SNR that is log-uniform on `CODED_SNRS`, where coded steps end; the fifth
one that is log-uniform over the whole schedule, for the sampler's last calls and for pictures out of nothing.

**Noise.** Gaussian; or, for a share of the pictures, as sign steps make it. A step adds its noise z, of unit variance,
so that √SNR(s)·η_s = √SNR(t)·η_t + √ΔSNR·z. So η is the sum of the z of all steps, each weighted by the square root of
its share of the final SNR: `coded_noise` draws the number of steps and the ratio of successive shares.
"""

from __future__ import annotations

import math

import torch

from dipp.diffusion import NoiseSchedule

CODED_SNRS = (1e-3, 30.0)
CODED_SHARE = 0.8
STEPS = (2, 10)
"""Fewest and most sign steps of a simulated chain."""
RATIOS = (0.2, 1.0)
"""Share of the SNR that a step brings, over that of the step after it."""


class Objective:
    """The loss of a network on a batch, with all that it needs on one device."""

    def __init__(self, schedule: NoiseSchedule, coded: float, device: torch.device) -> None:
        self.coded = coded
        alphas = torch.tensor(schedule.alphas_cumprod.copy())
        self.gamma = alphas.sqrt().float().to(device)
        self.sigma = (1 - alphas).sqrt().float().to(device)
        self.cumulative = density(alphas).cumsum(0).float().to(device)

    def loss(self, network: torch.nn.Module, pixels: torch.Tensor) -> torch.Tensor:
        """The mean square of v − v̂ for pixels (N, C, H, W) in uint8: mirrored, noised and predicted."""
        mirrored = torch.rand(len(pixels), 1, 1, 1, device=pixels.device) < 0.5
        x0 = torch.where(mirrored, pixels.flip(3), pixels).float() / 127.5 - 1
        t = torch.searchsorted(self.cumulative, torch.rand(len(x0), device=x0.device))
        t = t.clamp(max=len(self.gamma) - 1)
        gamma, sigma = self.gamma[t].view(-1, 1, 1, 1), self.sigma[t].view(-1, 1, 1, 1)
        eta = torch.randn_like(x0)
        if self.coded:
            some = torch.rand(len(x0), 1, 1, 1, device=x0.device) < self.coded
            eta = torch.where(some, coded_noise(x0), eta)
        x_t = (gamma * x0 + sigma * eta).contiguous(memory_format=torch.channels_last)
        # On CUDA alone: the backward pass in bf16 ends in an illegal instruction on some CPUs.
        with torch.autocast("cuda", torch.bfloat16, enabled=x0.is_cuda):
            output: torch.Tensor = network(x_t, t, return_dict=False)[0]
        return (output.float() - (gamma * eta - sigma * x0)).square().mean()


def density(alphas: torch.Tensor) -> torch.Tensor:
    """The probability of each timestep: the log SNR that it stands for, as far as it lies in each of the two ranges."""
    levels = (alphas / (1 - alphas)).log()
    middle = (levels[1:] + levels[:-1]) / 2
    edges = torch.cat([levels[:1], middle, levels[-1:]])

    def uniform(low: float, high: float) -> torch.Tensor:
        inside = edges.clamp(low, high)
        width = inside[:-1] - inside[1:]
        return width / width.sum()

    whole = uniform(-math.inf, math.inf)
    low, high = (math.log(snr) for snr in CODED_SNRS)
    if not edges[-1] < high or not edges[0] > low:  # a schedule that has none of those SNRs
        return whole
    return CODED_SHARE * uniform(low, high) + (1 - CODED_SHARE) * whole


def coded_noise(like: torch.Tensor) -> torch.Tensor:
    """Noise of unit variance (N, C, H, W) that is a sum of one-of-C sign steps, as the module's text says."""
    count, channels, height, width = like.shape
    steps = torch.randint(STEPS[0], STEPS[1] + 1, (count, 1, 1, 1), device=like.device)
    ratio = torch.empty(count, 1, 1, 1, device=like.device).uniform_(*RATIOS)
    noise, total = torch.zeros_like(like), torch.zeros_like(ratio)
    for number in range(STEPS[1]):
        share = torch.where(number < steps, ratio**number, 0)
        if number % channels == 0:  # over a cycle of C steps, each channel of a pixel is touched once
            order = torch.rand(count, channels, height, width, device=like.device).argsort(dim=1)
        sign = torch.randint(0, 2, like.shape, device=like.device) * 2 - 1
        noise += (share * channels).sqrt() * sign * (order == number % channels)
        total += share
    return noise / total.sqrt()
