"""Chains of sign steps that run alongside training, so that the network learns the noise that the codec makes.

A coded state is not x0 plus independent noise: every step moves it by the network's prediction and by ±√P on the share
1/P of its coordinates, with signs that lean towards x0. So only the network itself can generate such states. That costs
no extra network call: the prediction of a training step is what a chain needs for its next step,

    SNR(s)·x_s/γ_s = SNR(t)·x_t/γ_t + ΔSNR·x̂0 + √ΔSNR·z,    P(z = +√P) = 1/(1 + exp(−2θ)),    θ = √(P·ΔSNR)·(x0 − x̂0)

which is `diffusion.Transition` in terms of sums, with the channel sampled exactly.

**Sizes of steps.** They follow from θ: where it is large, a sign is nearly certain and conveys little. Each chain draws
the mean square that θ shall have in its steps, log-uniform over `POWERS`: from the small steps of a small budget to the
largest that a planner may take. A chain ends at the largest SNR or after `LONGEST` steps, and a fresh picture takes its
place.
"""

from __future__ import annotations

import math

import torch

from dipp.models.diffusion import NoiseSchedule

POWERS = (0.01, 0.6)
"""Range of the mean square of θ: from a step that conveys little to one that loses a quarter of its energy to
saturation."""
PERIODS = (3, 3, 3, 9)
"""Periods P of the sign channel that chains draw from, in these proportions.

A pixel's channels take turns in consecutive steps here; in the codec their order is shuffled and, with a period of
nine, they are three steps apart.
"""
LONGEST = 24
"""Largest number of steps of a chain."""


class Chains:
    """The chains of a batch, each with a picture and a state of its own."""

    def __init__(self, schedule: NoiseSchedule, largest_snr: float, device: torch.device) -> None:
        alphas = torch.tensor(schedule.alphas_cumprod.copy(), device=device)
        self.snrs = (alphas / (1 - alphas)).float()
        self.gammas = alphas.sqrt().float()
        self.largest_snr = largest_snr
        self.state: dict[str, torch.Tensor] = {}
        """x0 and x_t; of each chain the timestep t, the number of steps taken, power and period; of each pixel its
        place in the cycle. Empty before `begin`."""

    def begin(self, x0: torch.Tensor) -> None:
        """Start a chain for each of the pictures (N, C, H, W), unless chains are under way."""
        if not self.state:
            self.state = self._fresh(x0)

    def advance(self, x_hat: torch.Tensor, x0: torch.Tensor) -> None:
        """Take a step of each chain by its prediction x̂0; where a chain ends, a picture of `x0` starts another."""
        now, channels = self.state, x_hat.shape[1]
        error, t, period = now["x0"] - x_hat, now["t"], now["period"]
        wide = (-1, 1, 1, 1)
        # The share 1/P of the coordinates has θ² = P·ΔSNR·error².
        gain = now["power"] / (period * error.square().mean((1, 2, 3)).clamp(min=1e-6))
        wanted = self.snrs[t] + gain
        # SNRs fall with t: s is the largest timestep whose SNR is as high as wanted, but at most t − 1.
        s = torch.searchsorted(-self.snrs, -wanted, right=True) - 1
        s = torch.minimum(s.clamp(min=0), t - 1)
        ended = (s < 0) | (now["number"] >= LONGEST)
        s = s.clamp(min=0)
        ended |= self.snrs[s] > self.largest_snr
        delta = (self.snrs[s] - self.snrs[t]).clamp(min=0).view(wide)
        amplitude = period.sqrt().view(wide)
        theta = amplitude * delta.sqrt() * error
        sign = torch.where(torch.rand_like(theta) < torch.sigmoid(2 * theta), amplitude, -amplitude)
        place = (now["place"] + now["number"].view(wide)) % period.view(wide)
        z = torch.where(place == torch.arange(channels, device=place.device).view(1, -1, 1, 1), sign, 0)
        total = now["x_t"] * (self.snrs[t] / self.gammas[t]).view(wide) + delta * x_hat + delta.sqrt() * z
        following = {
            **now,
            "x_t": total * (self.gammas[s] / self.snrs[s]).view(wide),
            "t": s,
            "number": now["number"] + 1,
            # At the end of a cycle, pixels are dealt to the steps of the next one anew.
            "place": torch.where(
                ((now["number"] + 1) % period == 0).view(wide), self._places(x0, period), now["place"]
            ),
        }
        fresh = self._fresh(x0)
        self.state = {
            name: torch.where(ended.view(wide if value.ndim == 4 else (-1,)), fresh[name], value)
            for name, value in following.items()
        }

    def _fresh(self, x0: torch.Tensor) -> dict[str, torch.Tensor]:
        """The state of chains that start: pure noise at the last timestep, random power and period."""
        count, device = len(x0), x0.device
        low, high = (math.log(power) for power in POWERS)
        period = torch.tensor(PERIODS, device=device)[torch.randint(len(PERIODS), (count,), device=device)]
        return {
            "x0": x0,
            "x_t": torch.randn_like(x0),
            "t": torch.full((count,), len(self.snrs) - 1, device=device),
            "number": torch.zeros(count, dtype=torch.int64, device=device),
            "power": torch.empty(count, device=device).uniform_(low, high).exp(),
            "period": period,
            "place": self._places(x0, period),
        }

    @staticmethod
    def _places(x0: torch.Tensor, period: torch.Tensor) -> torch.Tensor:
        """A random place in the cycle, 0 … period − 1, for each pixel (N, 1, H, W)."""
        uniform = torch.rand(len(x0), 1, *x0.shape[2:], device=x0.device)
        return (uniform * period.view(-1, 1, 1, 1)).floor()
