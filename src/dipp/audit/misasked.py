"""Questions that are asked wrongly: each makes a mistake that voids a certificate. `controls` says which apply.

Nothing here can be reached from the codec. The broken encoders read the private pixels as the real encoder does, and
then let a block depend on more than its unit, or a public number on the picture; other functions draw or charge
wrongly.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from dipp.audit.blackbox import Releases
from dipp.codec.chain import Indices, StepLayout
from dipp.codec.encoder import Selector
from dipp.codes import Closest
from dipp.core import randomness
from dipp.core.closest import Tally, Weights, best_of
from dipp.core.code import Code
from dipp.core.price import Cost
from dipp.scoring.blocks import Blocks

MORE = 3
"""Number of additional candidates that count as the nearest ones if the picture is light."""
STEEP = 1.15
"""Factor by which the weight of the nearest candidates is too large."""
LEVELS = 4
"""Scale at which scores are rounded, so coarsely that many are equal."""


@dataclass(frozen=True, eq=False)
class UnrecordedSelector(Selector):
    """A broken encoder that does not record its draws: the recorder would refuse most of these mistakes."""

    def blocks(self, layout: StepLayout, x_hat: torch.Tensor) -> Blocks:
        """Return the blocks of a question, with a count of draws (`Tally`) that nobody reads."""
        return replace(super().blocks(layout, x_hat), tally=Tally())

    def _record_draws(self, layout: StepLayout) -> None:
        """Do nothing: the draws of this step are not recorded."""


@dataclass(frozen=True, eq=False)
class OwnCountSelector(UnrecordedSelector):
    """A broken encoder whose number of nearest candidates (m), which is public, depends on the private picture."""

    def blocks(self, layout: StepLayout, x_hat: torch.Tensor) -> Blocks:
        """Return the blocks of a question, with more nearest candidates if the picture is light."""
        asked = super().blocks(layout, x_hat)
        return replace(asked, terms=replace(asked.terms, best=asked.terms.best + MORE * _light(asked)))


@dataclass(frozen=True, eq=False)
class OwnEpsilonSelector(UnrecordedSelector):
    """A broken encoder whose ε of a draw, which is public, depends on the private picture."""

    def blocks(self, layout: StepLayout, x_hat: torch.Tensor) -> Blocks:
        """Return the blocks of a question; the weight of the nearest candidates is larger if the picture is light."""
        asked = super().blocks(layout, x_hat)
        return replace(asked, terms=replace(asked.terms, heavy=asked.terms.heavy << _light(asked)))


@dataclass(frozen=True, eq=False)
class NextCellSelector(UnrecordedSelector):
    """A broken encoder in which the score of a block also reads the next block."""

    def blocks(self, layout: StepLayout, x_hat: torch.Tensor) -> Blocks:
        """Return the blocks of a question, each with the values of the next one added."""
        asked = super().blocks(layout, x_hat)
        return replace(asked, content=asked.content + np.roll(asked.content, -1, axis=0))


@dataclass(frozen=True, eq=False)
class NormalisingSelector(UnrecordedSelector):
    """A broken encoder that standardises the values of all blocks by the mean and deviation of the private picture."""

    def blocks(self, layout: StepLayout, x_hat: torch.Tensor) -> Blocks:
        """Return the blocks of a question, less the mean of all their values, divided by the deviation."""
        asked = super().blocks(layout, x_hat)
        standard = (asked.content - asked.content.mean()) / max(float(asked.content.std()), 1e-6)
        return replace(asked, content=standard.astype(np.float32))


@dataclass(frozen=True, eq=False)
class TiedBlocks(Blocks):
    """Blocks of a question in which candidates with equal scores are ranked by the values of the next block."""

    def nearest(self, count: int) -> Indices:
        """Return the `count` best candidates of each block by coarse scores.

        Of equal scores, the first candidates win, or the last if the next block is light.
        """
        sizes = np.abs(self.content).sum(axis=1, keepdims=True)
        scores = np.rint(LEVELS * (self.content @ self.candidates.T) / np.maximum(sizes, 1e-6))
        firsts, lasts = best_of(scores, count), scores.shape[1] - 1 - best_of(scores[:, ::-1], count)[:, ::-1]
        light = np.roll(self.content.sum(axis=1) > 0, -1)
        return np.where(light[:, None], firsts, lasts)


@dataclass(frozen=True, eq=False)
class NextCellTiesSelector(UnrecordedSelector):
    """A broken encoder that breaks ties between the candidates of a cell by the values of another cell."""

    def blocks(self, layout: StepLayout, x_hat: torch.Tensor) -> Blocks:
        """Return the blocks of a question, with ties broken by the next block."""
        return TiedBlocks(**vars(super().blocks(layout, x_hat)))


def _light(asked: Blocks) -> bool:
    """Return whether the picture is lighter than predicted, from the blocks of a question."""
    return bool(asked.content.sum() > 0)


def own_candidates(code: Code, layout: StepLayout, asked: Any) -> Releases:
    """Return indices that are drawn among only half of the candidates if the picture is dark."""
    images = len(layout.sources)
    halved = replace(asked, candidates=asked.candidates[: len(asked.candidates) // 2], tally=Tally())
    every, half = (code.draw(blocks).reshape(images, -1) for blocks in (asked, halved))
    light = asked.content.reshape(images, -1).sum(axis=1) > 0
    return np.where(light[:, None], every, half)


def shared_integer(code: Code, layout: StepLayout, asked: Any) -> Releases:  # noqa: ARG001
    """Return indices that are drawn with one private integer for all blocks of a picture."""
    law: Weights = asked.terms
    images = len(layout.sources)
    drawn = np.frombuffer(randomness.private_bytes(8 * images), np.uint64) % np.uint64(law.total)
    integers = np.repeat(drawn, layout.chunks.count)
    return law.index_at(integers, asked.nearest(law.best)).reshape(images, -1)


_draw = Closest.draw


def steep_draw(code: Closest, asked: Any) -> Indices:
    """Return indices that are drawn with a weight of the nearest candidates that is 15 % too large."""
    steeper = replace(asked.terms, heavy=round(STEEP * asked.terms.heavy))
    return _draw(code, replace(asked, terms=steeper))


def one_draw(code: Closest, terms: Weights, *arguments: Any, **options: Any) -> Cost:  # noqa: ARG001
    """Return the price of one draw, although the unit may take part in several."""
    return Cost(terms.epsilon, terms.rho)
