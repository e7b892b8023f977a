"""What a training step draws and minimises.

**Loss.** The bits of a coded chain are the divergence of its path, ∫ mse_x0 dSNR/2 nats a coordinate, where mse_x0·SNR
is the mean squared error of η. The network predicts v = γ·η − σ·x0. Over the SNRs that a codec uses, its mean squared
error mse_x0/σ² varies by a factor of five only (0.06 to 0.28 on CIFAR-10, where that of η varies by a thousand), so
that a plain mean square in v serves every budget; and x̂0 = γ·x_t − σ·v̂ needs no division by a small γ.

**Timesteps.** Four pictures of five get an SNR that is log-uniform on `CODED_SNRS`, where coded steps end. The fifth
gets one that is log-uniform over the whole schedule, for the last calls of a sampler and for sampling from pure noise.

**Noise.** It is Gaussian; a share of the pictures has the states that chains of sign steps reach instead
(`training.chains`).
"""

from __future__ import annotations

import math

import torch

from dipp.core.signal import to_signal
from dipp.models.diffusion import NoiseSchedule
from dipp.training.chains import Chains

CODED_SNRS = (1e-3, 30.0)
"""Range of SNRs at which coded steps end."""
CODED_SHARE = 0.8
"""Share of the pictures whose SNR is drawn from that range."""


class Objective:
    """The loss of a network on a batch; `coded` is the share of the batch that chains of sign steps take."""

    def __init__(self, schedule: NoiseSchedule, coded: float, device: torch.device) -> None:
        self.coded = coded
        alphas = torch.tensor(schedule.alphas_cumprod.copy())
        self.gamma = alphas.sqrt().float().to(device)
        self.sigma = (1 - alphas).sqrt().float().to(device)
        self.cumulative = density(alphas).cumsum(0).float().to(device)
        self.chains = Chains(schedule, CODED_SNRS[1], device)

    def loss(self, network: torch.nn.Module, pixels: torch.Tensor) -> torch.Tensor:
        """The mean square of v − v̂ for uint8 pixels (N, C, H, W), which are mirrored at random and noised."""
        mirrored = torch.rand(len(pixels), 1, 1, 1, device=pixels.device) < 0.5
        pictures: torch.Tensor = to_signal(torch.where(mirrored, pixels.flip(3), pixels))
        x0 = pictures
        t = torch.searchsorted(self.cumulative, torch.rand(len(x0), device=x0.device))
        t = t.clamp(max=len(self.gamma) - 1)
        x_t = self._wide(self.gamma, t) * x0 + self._wide(self.sigma, t) * torch.randn_like(x0)
        count = math.ceil(self.coded * len(x0))
        if count:  # chains take the first places of the batch
            self.chains.begin(pictures[:count])
            state = self.chains.state
            x0, x_t, t = (
                torch.cat([state[name], value[count:]]) for name, value in (("x0", x0), ("x_t", x_t), ("t", t))
            )
        gamma, sigma = self._wide(self.gamma, t), self._wide(self.sigma, t)
        x_t = x_t.contiguous(memory_format=torch.channels_last)
        # bf16 on CUDA only: on some CPUs its backward pass ends in an illegal instruction.
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
        """table[t], in a shape that broadcasts against pictures."""
        return table[t].view(-1, 1, 1, 1)


def density(alphas: torch.Tensor) -> torch.Tensor:
    """The probability of each timestep: the width in log SNR that it stands for, weighted by the two ranges of SNRs."""
    levels = (alphas / (1 - alphas)).log()
    middle = (levels[1:] + levels[:-1]) / 2
    edges = torch.cat([levels[:1], middle, levels[-1:]])

    def uniform(low: float, high: float) -> torch.Tensor:
        inside = edges.clamp(low, high)
        width = inside[:-1] - inside[1:]
        return width / width.sum()

    whole = uniform(-math.inf, math.inf)
    low, high = (math.log(snr) for snr in CODED_SNRS)
    if not edges[-1] < high or not edges[0] > low:  # the schedule has none of those SNRs
        return whole
    return CODED_SHARE * uniform(low, high) + (1 - CODED_SHARE) * whole
