"""What real files say of two candidates for their picture, by the exact likelihoods of the indices in them."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field

import numpy as np
import torch

from dipp import scoring
from dipp.codec.chain import Indices, StepLayout
from dipp.codec.encoder import Selector
from dipp.core import selection
from dipp.core.code import Code
from dipp.core.outcomes import Floats


def log_likelihoods(code: Code, task: scoring.ScoringTask, indices: Indices, on: scoring.Backend) -> Floats:
    """Return ln P of one index for each chunk of a task: `Outcomes.log_law` for many chunks at once."""
    if not code.searches:
        weights = code.log_weights(scoring.Candidates(task, lambda: on))
        return np.asarray(weights[np.arange(len(indices)), indices] - np.logaddexp.reduce(weights, axis=1), np.float64)
    found, size = [], max(1, on.scores_per_batch // task.candidates)
    for first in range(0, task.chunks, size):
        part, drawn = task.part(first, min(first + size, task.chunks)), indices[first : first + size]
        scores, rows = on.scores(part), np.arange(len(drawn))
        best, own = (on.host(scores[rows, which]).astype(np.int64) for which in (on.best(scores), drawn))
        short = np.minimum(best - own, selection.RANGE_BITS << task.fraction_bits)
        whole, fraction = short >> task.fraction_bits, short & ((1 << task.fraction_bits) - 1)
        weights = np.log(selection.fraction_weights(task.fraction_bits)[fraction]) - whole * math.log(2)
        sums = on.bin_sums(scores, task.fraction_bits).astype(np.float64)
        found.append(weights - np.log(sums @ 2.0 ** -np.arange(selection.BINS)))
    return np.concatenate(found)


@dataclass(eq=False)
class Witness:
    """A `chain.Choose` that encodes pictures, and keeps what each file says of two candidates for its picture."""

    encoder: Selector
    first: Selector
    second: Selector
    ratios: Floats = field(init=False)
    """ln P[file | first candidate]/P[file | second], of each picture."""

    def __post_init__(self) -> None:
        self.ratios = np.zeros(len(self.encoder.pixels))

    def __call__(self, layout: StepLayout, x_hat: torch.Tensor) -> Indices:
        """Return indices drawn by the encoder's own code."""
        indices = self.encoder(layout, x_hat)
        if layout.chunks.count:
            self.hear(layout, x_hat, indices)
        return indices

    def hear(self, layout: StepLayout, x_hat: torch.Tensor, indices: Indices) -> None:
        """Add what a step tells; only chunks in which the candidates differ can tell them apart."""
        tasks, on = [one.task(layout, x_hat) for one in (self.first, self.second)], scoring.backend(self.encoder.device)
        shifts = [on.host(task.shifts) for task in tasks]
        moved = np.add.reduceat((shifts[0] != shifts[1]).astype(np.int64), layout.offsets[:-1])
        chunks = np.flatnonzero(moved)
        if len(chunks):
            code, drawn = self.encoder.plan.code, indices.reshape(-1)[chunks]
            first, second = (log_likelihoods(code, _only(task, chunks), drawn, on) for task in tasks)
            np.add.at(self.ratios, chunks // layout.chunks.count, first - second)


def _only(task: scoring.ScoringTask, chunks: Indices) -> scoring.ScoringTask:
    """Return the task of some of its chunks; the shifts stay in the same memory."""
    sizes = np.diff(task.offsets)[chunks]
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], sizes)
    places = np.repeat(task.offsets[:-1][chunks], sizes) + within
    return dataclasses.replace(task, streams=task.streams[chunks], offsets=offsets, shifts=task.shifts[places])
