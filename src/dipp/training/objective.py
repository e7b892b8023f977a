"""What a training step draws and minimises.

**Loss.** The bits of a coded chain are the path's divergence ∫ mse_x0 dSNR/2 nats a coordinate, where mse_x0·SNR is the
mean square of the error in η. The network predicts v = γ·η − σ·x0, whose mean square mse_x0/σ² varies by a factor of
three only over the SNRs that a codec uses (0.06 to 0.28 on CIFAR-10, where that of η varies by a thousand), so that a
plain mean square in v serves every budget; and x̂0 = γ·x_t − σ·v̂ is never divided by a small γ.

**Timesteps.** Four of five pictures get an SNR that is log-uniform on `CODED_SNRS`, where coded steps end; the fifth
one that is log-uniform over the whole schedule, for the sampler's last calls and for pictures out of nothing.

**Noise.** Gaussian; or, for a share of the pictures, the states that chains of sign steps reach (`training.chains`).
"""

from __future__ import annotations

import math

import torch

from dipp.core.signal import to_signal
from dipp.models.diffusion import NoiseSchedule
from dipp.training.chains import Chains

CODED_SNRS = (1e-3, 30.0)
CODED_SHARE = 0.8


class Objective:
    """The loss of a network on a batch, with all that it needs on one device."""

    def __init__(self, schedule: NoiseSchedule, coded: float, device: torch.device) -> None:
        self.coded = coded
        alphas = torch.tensor(schedule.alphas_cumprod.copy())
        self.gamma = alphas.sqrt().float().to(device)
        self.sigma = (1 - alphas).sqrt().float().to(device)
        self.cumulative = density(alphas).cumsum(0).float().to(device)
        self.chains = Chains(schedule, CODED_SNRS[1], device)

    def loss(self, network: torch.nn.Module, pixels: torch.Tensor) -> torch.Tensor:
        """The mean square of v − v̂ for pixels (N, C, H, W) in uint8: mirrored, noised and predicted."""
        mirrored = torch.rand(len(pixels), 1, 1, 1, device=pixels.device) < 0.5
        pictures: torch.Tensor = to_signal(torch.where(mirrored, pixels.flip(3), pixels))
        x0 = pictures
        t = torch.searchsorted(self.cumulative, torch.rand(len(x0), device=x0.device))
        t = t.clamp(max=len(self.gamma) - 1)
        x_t = self._wide(self.gamma, t) * x0 + self._wide(self.sigma, t) * torch.randn_like(x0)
        count = math.ceil(self.coded * len(x0))
        if count:  # the first places of the batch belong to the chains
            self.chains.begin(pictures[:count])
            state = self.chains.state
            x0, x_t, t = (
                torch.cat([state[name], value[count:]]) for name, value in (("x0", x0), ("x_t", x_t), ("t", t))
            )
        gamma, sigma = self._wide(self.gamma, t), self._wide(self.sigma, t)
        x_t = x_t.contiguous(memory_format=torch.channels_last)
        # On CUDA alone: the backward pass in bf16 ends in an illegal instruction on some CPUs.
        with torch.autocast("cuda", torch.bfloat16, enabled=x0.is_cuda):
            output: torch.Tensor = network(x_t, t, return_dict=False)[0]
        if count:
            v = output.detach()[:count].float()
            x_hat = (gamma[:count] * x_t[:count] - sigma[:count] * v).clamp(-1, 1)
            self.chains.advance(x_hat, pictures[:count])
        # v = γ·η − σ·x0 with η = (x_t − γ·x0)/σ, and γ² + σ² = 1.
        return (output.float() - (gamma * x_t - x0) / sigma).square().mean()

    @staticmethod
    def _wide(table: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        return table[t].view(-1, 1, 1, 1)


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
