"""What a training step draws and minimises.

**States.** Part of a batch are states of sensing chains (`chains`). Of the rest, a share are states whose coordinates
are not all known alike, with estimates (`told`), and the others have Gaussian noise at log-uniform SNRs.

**Borders.** A share of the Gaussian ones are smaller than their tile, by less than the network's stride, down to a
single pixel where the tile is as small as that: so the continuation of pictures is learnt.

**Loss.** The mean square of x0 − x̂0, divided by a running mean of the same at that SNR: between SNR 10⁻³ and 10³ it
falls by a factor of a thousand, and every SNR shall count as much. The running means are those of bins of ln SNR, for
each size of tiles its own. Evidence of other kinds has means of its own, by its level up to `TOLD_LEVEL`: above it a
picture is all but known, and an error in a small region would count for too much. What is exactly known counts as
predicted, since predictions put it back.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from dipp.models.evidence import Evidence, levels
from dipp.models.network import LARGEST_SNR, Config
from dipp.training.bank import Bank
from dipp.training.chains import Chains
from dipp.training.told import evidence

SNRS = (1e-3, 1e3)
BINS = 48
BIN_RANGE = (1e-4, 2e3)
MEMORY = 0.99
"""Share of the running means that a step keeps."""

ODD = 0.15
"""The share of Gaussian states with pictures that are smaller than their tile."""
TOLD_LEVEL = 30.0

Predict = Callable[[Tensor, Tensor, Tensor], Tensor]
"""(stacked planes, SNR of each picture, mask of what is inside) → x̂0."""


class Weights:
    """The running means of the squared error, by bins of ln SNR."""

    def __init__(self, device: torch.device) -> None:
        self.low, high = (math.log(snr) for snr in BIN_RANGE)
        self.width = (high - self.low) / (BINS - 1)
        snr = (self.low + self.width * torch.arange(BINS, device=device)).exp()
        self.means = 0.2 / (1 + 20 * snr) ** 0.7
        """At first a guess."""

    def loss(self, errors: Tensor, snr: Tensor) -> Tensor:
        """The mean of the squared errors of pictures (N,) over the running means, which they then enter."""
        index = ((snr.clamp(*BIN_RANGE).log() - self.low) / self.width).round().long().clamp(0, BINS - 1)
        loss = (errors / self.means[index]).mean()
        count = torch.zeros_like(self.means).index_add_(0, index, torch.ones_like(snr))
        total = torch.zeros_like(self.means).index_add_(0, index, errors.detach())
        keep = MEMORY**count  # a bin that many pictures fall into follows them faster
        self.means.copy_(keep * self.means + (1 - keep) * total / count.clamp(min=1))
        return loss


class Stream:
    """Batches of tiles of one size: cohorts of chains first, then Gaussian states, and evidence of other kinds last."""

    def __init__(self, bank: Bank, config: Config, cohorts: int, cohort: int, gaussian: int, told: int) -> None:
        self.bank, self.config, self.gaussian, self.told = bank, config, gaussian, told
        self.weights, self.told_weights = Weights(bank.tiles.device), Weights(bank.tiles.device)
        self.chains = Chains(cohorts, bank.draw(cohorts * cohort))

    def loss(self, predict: Predict) -> Tensor:
        """The loss on a batch; the chains take their next step."""
        chains, plain = self.chains, len(self.chains.x0) + self.gaussian
        count = len(chains.x0)
        fresh = self.bank.draw(plain + self.told)
        x0 = torch.cat([chains.x0, fresh[count:]])
        snr = torch.cat([chains.snrs, log_uniform(*SNRS, self.gaussian, x0.device)])
        y = torch.cat([chains.state, gaussian(x0[count:plain], snr[count:])])
        inside = torch.cat([torch.ones_like(chains.x0[:, :1]), self._inside(), torch.ones_like(x0[plain:, :1])])
        planes = Evidence(y, snr.view(-1, 1, 1, 1)).stacked(self.config.planes, LARGEST_SNR)
        told = evidence(x0[plain:]) if self.told else None
        if told is not None:
            planes = torch.cat([planes, told.stacked(self.config.planes, LARGEST_SNR)])
            snr = torch.cat([snr, levels(torch.as_tensor(told.merged.precision)).to(snr)])
        x_hat = predict(planes, snr, inside)
        chains.advance(x_hat.detach()[:count].clamp(-1, 1), fresh[:count])
        if told is not None:
            x_hat = torch.cat([x_hat[:plain], told.restored(x_hat[plain:])])
        errors = ((x_hat - x0).square() * inside).mean((1, 2, 3)) / inside.mean((1, 2, 3))
        loss = self.weights.loss(errors[:plain], snr[:plain])
        if told is None:
            return loss
        share = self.told / len(x0)
        return (1 - share) * loss + share * self.told_weights.loss(errors[plain:], snr[plain:].clamp(max=TOLD_LEVEL))

    def _inside(self) -> Tensor:
        """Masks (N, 1, side, side) for the Gaussian states: all of a tile, or all but some lines below and right."""
        device, side = self.bank.tiles.device, self.bank.tiles.shape[1]
        odd = torch.rand(self.gaussian, 1, device=device) < ODD
        most = min(self.config.stride, side)
        cut = torch.where(odd, (torch.rand(self.gaussian, 2, device=device) * most).floor(), 0.0)
        lines = torch.arange(side, device=device).float()
        down, across = ((lines < side - missing[:, None]).float() for missing in cut.unbind(1))
        return (down[:, :, None] * across[:, None, :])[:, None]


def gaussian(x0: Tensor, snr: Tensor) -> Tensor:
    """y = x0 + noise/√SNR."""
    return x0 + torch.randn_like(x0) / snr.sqrt().view(-1, 1, 1, 1)


def log_uniform(low: float, high: float, count: int, device: torch.device) -> Tensor:
    """Numbers whose logarithms are uniform between those of two others."""
    return torch.empty(count, device=device).uniform_(math.log(low), math.log(high)).exp()
