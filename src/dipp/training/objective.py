"""Draw the batches of a training step, and compute its loss.

**States.** Part of a batch are states of sensing chains (`chains`). A share of the rest are states that are known
better at some pixels than at others, with estimates (`told`), and answers by words (`worded`). The others have
Gaussian noise at log-uniform SNRs.

**Borders.** A share of the Gaussian states are smaller than their tile, by less than the network's stride. So the
network learns to continue pictures beyond their borders.

**Loss.** The mean square of x0 − x̂0, divided by its running mean at that SNR. Between SNR 10⁻³ and 10³ the mean falls
by a factor of a thousand, and all SNRs have the same weight. Each bin of ln SNR has a running mean, for each size of
tiles. Evidence of other kinds and answers by words have running means of their own. Evidence of other kinds goes by
its level, up to `TOLD_LEVEL`: above it nearly all of a picture is known, and an error in a small region would weigh
too much. Pixels that are known exactly have no error, since predictions restore them.
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
from dipp.training.worded import WordCohorts

SNRS = (1e-3, 1e3)
BINS = 48
BIN_RANGE = (1e-4, 2e3)
MEMORY = 0.99
"""Weight of the old value when a picture updates a running mean."""

ODD = 0.15
"""Share of the Gaussian states that are smaller than their tile."""
TOLD_LEVEL = 30.0
"""Upper limit of the SNR by which the loss of a picture with evidence of other kinds is weighted."""

Predict = Callable[[Tensor, Tensor, Tensor], Tensor]
"""(stacked planes, SNR of each picture, mask of what is inside) → x̂0."""


class RunningErrors:
    """Running means of the squared error, in bins of ln SNR."""

    def __init__(self, device: torch.device) -> None:
        self.low, high = (math.log(snr) for snr in BIN_RANGE)
        self.width = (high - self.low) / (BINS - 1)
        snr = (self.low + self.width * torch.arange(BINS, device=device)).exp()
        self.means = 0.2 / (1 + 20 * snr) ** 0.7
        """Running means by bin, which start as a guess."""

    def loss(self, errors: Tensor, snr: Tensor) -> Tensor:
        """Return the mean of squared errors (N,) divided by their running means, and update these.

        Args:
            errors: Mean squared error of each picture.
            snr: SNR of each picture's state.
        """
        index = ((snr.clamp(*BIN_RANGE).log() - self.low) / self.width).round().long().clamp(0, BINS - 1)
        loss = (errors / self.means[index]).mean()
        count = torch.zeros_like(self.means).index_add_(0, index, torch.ones_like(snr))
        total = torch.zeros_like(self.means).index_add_(0, index, errors.detach())
        keep = MEMORY**count  # a bin that many pictures fall into follows them faster
        self.means.copy_(keep * self.means + (1 - keep) * total / count.clamp(min=1))
        return loss


class Shares(NamedTuple):
    """Numbers of pictures in a batch, by the kind of their states."""

    cohorts: int
    """Number of cohorts of sensing chains."""
    cohort: int
    """Number of pictures in each cohort."""
    gaussian: int
    """Number of pictures with Gaussian noise."""
    told: int
    """Number of pictures with evidence of other kinds."""
    worded: tuple[int, int] = (0, 0)
    """Number of cohorts that answer by words, and number of pictures in each."""


class BatchStream:
    """The batches of one size of tiles, whose states come from sensing chains, Gaussian noise and other evidence."""

    def __init__(self, bank: Bank, config: Config, shares: Shares, books: Books | None = None) -> None:
        self.bank, self.config, self.gaussian, self.told = bank, config, shares.gaussian, shares.told
        self.weights, self.told_weights, self.worded_weights = (RunningErrors(bank.tiles.device) for _ in range(3))
        self.chains = Chains(shares.cohorts, bank.draw(shares.cohorts * shares.cohort))
        cohorts, cohort = shares.worded
        self.worded = (
            WordCohorts(books, cohorts, bank.draw(cohorts * cohort)) if books is not None and cohorts else None
        )

    def loss(self, predict: Predict) -> Tensor:
        """Draw a batch, return its loss, and move sensing chains and asked pictures to their next step.

        Args:
            predict: The network.
        """
        chains, worded, (count, plain, told) = self.chains, self.worded, self._ends
        fresh = self.bank.draw(told if worded is None else told + len(worded.x0))
        snr = torch.cat([chains.snrs, log_uniform(*SNRS, self.gaussian, fresh.device)])
        y = torch.cat([chains.state, gaussian(fresh[count:plain], snr[count:])])
        answers = [torch.cat([answered, torch.zeros_like(y[count:])]) for answered in chains.told]
        known = [Evidence(y, snr.view(-1, 1, 1, 1), None, 0.0, *answers)]
        known += [evidence(fresh[plain:told])] if self.told else []
        known += [] if worded is None else [worded.evidence]
        planes = torch.cat([part.stacked(self.config.planes, LARGEST_SNR) for part in known])
        snr = torch.cat([snr, *(levels(torch.as_tensor(part.merged.precision)).to(snr) for part in known[1:])])
        x0 = torch.cat([chains.x0, fresh[count:told], *([] if worded is None else [worded.x0])])
        inside = torch.ones_like(x0[:, :1])
        inside[count:plain] = self._inside()
        x_hat = predict(planes, snr, inside)
        errors = [x_hat[:plain] - x0[:plain]]
        errors += [known[1].restored(x_hat[plain:told]) - x0[plain:told]] if self.told else []
        errors += [] if worded is None else [x_hat[told:] - x0[told:]]
        squares = (torch.cat(errors).square() * inside).mean((1, 2, 3)) / inside.mean((1, 2, 3))
        clamped = x_hat.detach().clamp(-1, 1)
        chains.advance(clamped[:count], fresh[:count])
        if worded is not None:
            worded.advance(clamped[told:], fresh[told:])
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
        """Positions in a batch after its last chain, its last Gaussian state and its last evidence of other kinds."""
        count = len(self.chains.x0)
        return count, count + self.gaussian, count + self.gaussian + self.told

    def _inside(self) -> Tensor:
        """Return masks (N, 1, side, side): 1, and 0 in random last rows and columns of some tiles."""
        device, side = self.bank.tiles.device, self.bank.tiles.shape[1]
        odd = torch.rand(self.gaussian, 1, device=device) < ODD
        most = min(self.config.stride, side)
        cut = torch.where(odd, (torch.rand(self.gaussian, 2, device=device) * most).floor(), 0.0)
        lines = torch.arange(side, device=device).float()
        down, across = ((lines < side - missing[:, None]).float() for missing in cut.unbind(1))
        return (down[:, :, None] * across[:, None, :])[:, None]


def gaussian(x0: Tensor, snr: Tensor) -> Tensor:
    """Return pictures with Gaussian noise of power 1/SNR."""
    return x0 + torch.randn_like(x0) / snr.sqrt().view(-1, 1, 1, 1)


def log_uniform(low: float, high: float, count: int, device: torch.device) -> Tensor:
    """Return `count` random numbers between `low` and `high`, whose logarithms are uniform."""
    return torch.empty(count, device=device).uniform_(math.log(low), math.log(high)).exp()
