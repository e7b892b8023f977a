"""Sensing chains that ride along with training, so that the network learns the states that encodings reach.

A state of clipped one-bit sensing is not x0 plus noise of its own: each step asks, at a fresh group of pixels and one
colour of each, on which side of the prediction the pixel lies, and the answers move the state. So the only honest
source of such states is the network itself. It costs nothing: what a training step predicts is just what the chain
needs for its next step. With residuals r = x0 − x̂0, the largest tilt V, the clip c = k·√E[r²] and the share q
of coordinates that are touched,

    P[s = +1] = 1/(1 + exp(−2θ)),  θ = V·clip(r/c, ±1)           gain = q·(E_touched[s·r]/E[r²])²
    SNR' = SNR + gain,    SNR'·y' = SNR·y + gain·x̂0 + √(gain/q)·s (touched, 0 elsewhere)

**Cohorts.** Clip and gain are public numbers, means over public pictures. Here these are the pictures of a cohort,
which share all settings and walk in step. When a cohort has made its last prediction, fresh pictures start another one
with new settings.

Nothing here waits for the device, and a step changes tensors in place, so that it can be captured as a CUDA graph.
"""

from __future__ import annotations

import torch
from torch import Tensor

from dipp.models.config import COLOURS, LARGEST_SNR
from dipp.models.evidence import answered

GROUPS = (8, 16, 32)
"""Groups of pixels in a pass."""
PASSES = (0.1, 4.0)
EPSILON = (0.25, 16.0)
"""Range of the ε of a touch. It is log-uniform, like the number of passes."""
TILTS = (2.0, 4.0)
"""ε of a touch divided by its tilt V, for the codes `Pairs` and `Flat`."""
SILENT = 0.2
"""Share of the cohorts whose answers the network is not told."""
CLIPS = (0.25, 2.0)
"""Range of k, the clip divided by the standard deviation of residuals. It is log-uniform."""


class Chains:
    """Sensing chains on pictures of one size, in cohorts: groups of pictures with common settings and steps."""

    def __init__(self, cohorts: int, pictures: Tensor) -> None:
        self.cohorts, self.size = cohorts, len(pictures) // cohorts
        device, shape = pictures.device, (len(pictures), 1, *pictures.shape[2:])
        self.x0 = pictures.clone()
        self.total = torch.zeros_like(pictures)
        """The state y, multiplied by its SNR."""
        self.compared, self.answers = torch.zeros_like(pictures), torch.zeros_like(pictures)
        """For each coordinate its last prediction and its last answer (`models.evidence`)."""
        self.silent = torch.zeros(cohorts, dtype=torch.bool, device=device)
        """Whether the network sees no answers of a cohort. It also sees none when it predicts at a lower resolution."""
        self.snr = torch.zeros(cohorts, device=device)
        self.group = torch.zeros(shape, dtype=torch.uint8, device=device)
        """The step of a pass that touches each pixel."""
        self.colour = torch.zeros_like(self.group)
        """The channel of each pixel that the first pass touches."""
        self.settings = torch.zeros(5, cohorts, device=device)
        """For each cohort: groups of a pass, number of steps, tilt V, k of the clip, and number of steps taken."""
        self._groups, self._tilts = torch.tensor(GROUPS, device=device), torch.tensor(TILTS, device=device)
        self._ranges = torch.tensor([PASSES, EPSILON, CLIPS], device=device).log()
        self._colours = torch.arange(COLOURS, device=device).view(1, -1, 1, 1)
        self._begin(torch.ones(cohorts, dtype=torch.bool, device=device), pictures)
        # Cohorts shall not all be at their beginning: the first ones are short.
        self.settings[1] = (self.settings[1] * torch.rand_like(self.snr)).ceil()

    @property
    def snrs(self) -> Tensor:
        """Return the SNR of each picture's state (N,)."""
        return self._each(self.snr)

    @property
    def state(self) -> Tensor:
        """Return the state y of each picture (N, C, H, W), which is 0 before the first step."""
        return self.total / self._wide(self.snr).clamp(min=1e-20)

    @property
    def told(self) -> tuple[Tensor, Tensor]:
        """Return the last predictions and answers of each coordinate, with 0 where the network shall not see them."""
        heard = ~self._wide(self.silent)
        return self.compared * heard, self.answers * heard

    def advance(self, x_hat: Tensor, pictures: Tensor) -> None:
        """Take one step of each chain. New pictures replace those of cohorts that have ended.

        Args:
            x_hat: Predictions x̂0 from the states (N, C, H, W).
            pictures: New pictures (N, C, H, W), which are used where a cohort has ended.
        """
        groups, steps, tilt, clip, taken = self.settings
        residual = self.x0 - x_hat
        energy = self._mean(residual.square())
        step_group, step_pass = taken % groups, taken // groups
        colour = (self.colour + self._wide(step_pass)) % COLOURS
        touched = (self.group == self._wide(step_group)) & (colour == self._colours)
        theta = self._wide(tilt) * (residual / self._wide(clip * energy.sqrt()).clamp(min=1e-6)).clamp(-1, 1)
        sign = torch.where(torch.rand_like(theta) < torch.sigmoid(2 * theta), 1.0, -1.0) * touched
        share = self._mean(touched.float()).clamp(min=1e-6)
        # E_touched[s·r] is the mean over all coordinates divided by the share; a gain from noise alone is none.
        agreement = (self._mean(sign * residual) / share).clamp(min=0)
        gain = share * (agreement / energy.clamp(min=1e-8)).square()
        noise = sign / self._wide(share.sqrt())
        self.total += self._wide(gain) * x_hat + self._wide(gain.sqrt()) * noise
        self.compared.copy_(torch.where(~touched & (self.answers != 0), self.compared, x_hat))
        told = answered(noise, self._wide(gain), self._wide(self.snr))
        self.answers.copy_(torch.where(touched, told, self.answers))
        self.snr += gain
        ended = (taken >= steps) | (self.snr > LARGEST_SNR)  # the last state was predicted too, by now
        self.settings[4] += 1
        self._begin(ended, pictures)

    def _begin(self, ended: Tensor, pictures: Tensor) -> None:
        """Start new chains, with new settings and pictures, in the cohorts where `ended` is true."""
        low, high = self._ranges[:, :1], self._ranges[:, 1:]
        passes, epsilon, clip = (low + (high - low) * torch.rand(3, self.cohorts, device=low.device)).exp()
        groups, tilts = (
            choices[torch.randint(len(choices), (self.cohorts,), device=low.device)].float()
            for choices in (self._groups, self._tilts)
        )
        steps = (groups * passes).round().clamp(min=1)
        fresh = torch.stack([groups, steps, epsilon / tilts, clip, torch.zeros_like(groups)])
        starts = (torch.rand(self.group.shape, device=low.device) * self._wide(groups)).to(torch.uint8)
        wide = self._wide(ended)
        self.settings.copy_(torch.where(ended, fresh, self.settings))
        self.snr.masked_fill_(ended, 0)
        self.x0.copy_(torch.where(wide, pictures, self.x0))
        for values in (self.total, self.compared, self.answers):
            values.masked_fill_(wide, 0)
        self.silent.copy_(torch.where(ended, torch.rand_like(self.snr) < SILENT, self.silent))
        self.group.copy_(torch.where(wide, starts, self.group))
        self.colour.copy_(torch.where(wide, torch.randint_like(self.colour, COLOURS), self.colour))

    def _each(self, values: Tensor) -> Tensor:
        """Return values of cohorts, each repeated for the pictures of its cohort, (N,)."""
        return values[:, None].expand(-1, self.size).reshape(-1)

    def _wide(self, values: Tensor) -> Tensor:
        """Return values of cohorts, each repeated for the pictures of its cohort, (N, 1, 1, 1)."""
        return self._each(values).view(-1, 1, 1, 1)

    def _mean(self, values: Tensor) -> Tensor:
        """Return the mean of values (N, C, H, W) over each cohort."""
        return values.mean((1, 2, 3)).view(self.cohorts, -1).mean(1)
