"""What a training step draws and minimises.

**States.** Part of a batch are states of sensing chains (`chains`). Of the rest, a share are states whose pixels are
not all known alike, with estimates (`told`), and answers by words (`worded`). The others have Gaussian noise at
log-uniform SNRs.

**Borders.** A share of the Gaussian ones are smaller than their tile, by less than the network's stride, down to a
single pixel where the tile is as small as that: so the continuation of pictures is learnt.

**Loss.** The mean square of x0 − x̂0, divided by a running mean of the same at that SNR: between SNR 10⁻³ and 10³ it
falls by a factor of a thousand, and every SNR shall count as much. The running means are those of bins of ln SNR, for
each size of tiles its own. Evidence of other kinds and words have means of their own. Those of the former go by level
up to `TOLD_LEVEL`: above it a picture is all but known, and an error in a small region would count for too much. What
is exactly known counts as predicted, since predictions put it back.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from dipp.models.books import Books
from dipp.models.config import LARGEST_SNR, Config
from dipp.models.evidence import Evidence, levels
from dipp.training.bank import Bank
from dipp.training.chains import Chains
from dipp.training.told import evidence
from dipp.training.worded import Worded

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


class Shares(NamedTuple):
    """How a batch is divided."""

    cohorts: int
    """Cohorts of chains."""
    cohort: int
    """Pictures in each of them."""
    gaussian: int
    """Pictures with Gaussian noise."""
    told: int
    """Pictures with evidence of other kinds."""
    worded: tuple[int, int] = (0, 0)
    """Cohorts of pictures that answer by words, and pictures in each."""


class Stream:
    """Batches of tiles of one size: cohorts of chains, Gaussian states, evidence of other kinds, answers by words."""

    def __init__(self, bank: Bank, config: Config, shares: Shares, books: Books | None = None) -> None:
        self.bank, self.config, self.gaussian, self.told = bank, config, shares.gaussian, shares.told
        self.weights, self.told_weights, self.worded_weights = (Weights(bank.tiles.device) for _ in range(3))
        self.chains = Chains(shares.cohorts, bank.draw(shares.cohorts * shares.cohort))
        cohorts, cohort = shares.worded
        self.worded = Worded(books, cohorts, bank.draw(cohorts * cohort)) if books is not None and cohorts else None

    def loss(self, predict: Predict) -> Tensor:
        """The loss on a batch; chains and cohorts of words take their next step."""
        chains, worded, (count, plain, told) = self.chains, self.worded, self._ends
        fresh = self.bank.draw(told if worded is None else told + len(worded.x0))
        snr = torch.cat([chains.snrs, log_uniform(*SNRS, self.gaussian, fresh.device)])
        y = torch.cat([chains.state, gaussian(fresh[count:plain], snr[count:])])
        answers = [torch.cat([own, torch.zeros_like(y[count:])]) for own in chains.told]
        known = [Evidence(y, snr.view(-1, 1, 1, 1), None, 0.0, *answers)]
        known += [evidence(fresh[plain:told])] if self.told else []
        known += [] if worded is None else [worded.evidence]
        planes = torch.cat([one.stacked(self.config.planes, LARGEST_SNR) for one in known])
        snr = torch.cat([snr, *(levels(torch.as_tensor(one.merged.precision)).to(snr) for one in known[1:])])
        x0 = torch.cat([chains.x0, fresh[count:told], *([] if worded is None else [worded.x0])])
        inside = torch.ones_like(x0[:, :1])
        inside[count:plain] = self._inside()
        x_hat = predict(planes, snr, inside)
        errors = [x_hat[:plain] - x0[:plain]]
        errors += [known[1].restored(x_hat[plain:told]) - x0[plain:told]] if self.told else []
        errors += [] if worded is None else [x_hat[told:] - x0[told:]]
        squares = (torch.cat(errors).square() * inside).mean((1, 2, 3)) / inside.mean((1, 2, 3))
        found = x_hat.detach().clamp(-1, 1)
        chains.advance(found[:count], fresh[:count])
        if worded is not None:
            worded.advance(found[told:], fresh[told:])
        parts = ((0, plain, self.weights), (plain, told, self.told_weights), (told, len(x0), self.worded_weights))
        most = (math.inf, TOLD_LEVEL, math.inf)
        losses = [
            (end - begin) / len(x0) * weights.loss(squares[begin:end], snr[begin:end].clamp(max=level))
            for (begin, end, weights), level in zip(parts, most, strict=True)
            if end > begin
        ]
        return torch.stack(losses).sum()

    @property
    def _ends(self) -> tuple[int, int, int]:
        """Where the chains end in a batch, the Gaussian states, and the evidence of other kinds."""
        count = len(self.chains.x0)
        return count, count + self.gaussian, count + self.gaussian + self.told

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
