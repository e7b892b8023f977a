"""Negative controls: encoders that are broken on purpose, each by one of the mistakes that void a certificate.

An audit that does not catch them would not catch a mistake in the real encoder. None of this can be reached from the
codec: a control takes what the encoder would score and then does something else with it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from dipp import randomness, scoring, selection
from dipp.chain import Chain, Indices, Selector, StepLayout
from dipp.privacy.audit.blackbox import Encoder, Releases
from dipp.privacy.audit.exact import Floats, Law, Pixels, log_law

Broken = Callable[[StepLayout, scoring.ScoringTask], Releases]
"""(public layout, what is scored) → what is released of each image: a row of the chunk's index and more."""

SCALE = 32
"""Bits of index for a bit of divergence: a mistake is a mistake at any price."""
FLOAT_BITS = 24
"""Bits of a uniform float32."""


def _encoder(broken: Broken) -> Encoder:
    """An encoder of one step that releases what the broken rule says."""

    def encode(chain: Chain, rows: Pixels) -> Releases:
        selector, released = Selector(chain.plan, chain.seed, rows, "cpu"), []

        def choose(layout: StepLayout, x_hat: torch.Tensor) -> Indices:
            released.append(broken(layout, selector.task(layout, x_hat)))
            return released[-1][:, : layout.chunks.count]

        chain.run([0] * len(rows), choose)
        return np.concatenate(released, axis=1)

    return encode


def _scores(task: scoring.ScoringTask) -> selection.Scores:
    return np.asarray(scoring.backend("cpu").scores(task))


def _draw(scores: selection.Scores, task: scoring.ScoringTask, uniforms: Floats) -> Indices:
    """Invert the cumulative weights at given uniforms."""
    logs = scores.astype(np.float64) * math.log(2) * 2.0**-task.fraction_bits
    weights = np.exp(logs - logs.max(axis=1, keepdims=True))
    running = np.cumsum(weights, axis=1)
    found: Indices = np.argmax(running > uniforms[:, None] * running[:, -1:], axis=1)
    return found


def _shared_seed(layout: StepLayout, task: scoring.ScoringTask) -> Releases:
    """The private draw comes from the public seed: the index is a function of the image."""
    source = randomness.Stream(*(int(word) for word in layout.sources[0]))
    public = randomness.uniforms(source, layout.chunks.count)
    images = len(layout.sources)
    return _draw(_scores(task), task, np.tile(public, images)).reshape(images, -1)


def _infinite_alpha(layout: StepLayout, task: scoring.ScoringTask) -> Releases:
    """The best score wins, and an ε is claimed all the same."""
    return scoring.best(task, scoring.backend("cpu")).reshape(len(layout.sources), -1)


def _realised_kl(layout: StepLayout, task: scoring.ScoringTask) -> Releases:
    """As many candidates as the image's own divergence asks for: a small shift is sent with fewer bits."""
    images, scores = len(layout.sources), _scores(task)
    nats = np.add.reduceat(_squares(layout, task), task.offsets[:-1]) / 2
    bits = np.clip(np.ceil(SCALE * nats / math.log(2)), 1, math.log2(task.candidates)).astype(np.int64)
    allowed = np.arange(task.candidates) < (1 << bits)[:, None]
    limited = np.where(allowed, scores, np.iinfo(np.int32).min // 2).astype(np.int32)
    indices = _draw(limited, task, randomness.private_uniforms(len(scores)))
    return np.concatenate([indices.reshape(images, -1), bits.reshape(images, -1)], axis=1)


def _realised_chunks(layout: StepLayout, task: scoring.ScoringTask) -> Releases:
    """Chunks are cut where the image's own divergence fills one; their number is released, beside an index."""
    images = len(layout.sources)
    nats = _squares(layout, task).reshape(images, -1).sum(axis=1) / 2
    cuts = np.ceil(SCALE * nats / math.log(2)).astype(np.int64)
    indices = scoring.select(task, scoring.backend("cpu"))
    return np.concatenate([indices.reshape(images, -1), cuts[:, None]], axis=1)


def _squares(layout: StepLayout, task: scoring.ScoringTask) -> Floats:
    """Squared shifts in nats: twice the divergence of small ones."""
    scale = math.log(2) * 2.0**-layout.arithmetic.fraction_bits
    return np.asarray(np.square(task.shifts * scale), np.float64)


RELEASES: dict[str, Encoder] = {
    "private randomness from the shared seed": _encoder(_shared_seed),
    "infinite alpha with an epsilon": _encoder(_infinite_alpha),
    "candidates from the realised divergence": _encoder(_realised_kl),
    "chunks from the realised divergence": _encoder(_realised_chunks),
}
"""Caught by the black-box audit."""


def float32_law(scores: selection.Scores, fraction_bits: int) -> Floats:
    """The outcomes that are possible when Gumbel noise in float32 decides, with the honest ln P where they are.

    Uniforms of 24 bits have Gumbel values from −ln ln 2^25 to ln 2^25, and no others. A candidate can win if, with
    the largest, it beats the best of the others with the least. Which ones can depends on the image: an outcome that is
    possible for one of two neighbours only has an infinite loss.
    """
    nats = (scores * (math.log(2) * 2.0**-fraction_bits)).astype(np.float32)
    ends = (np.array([0.5, (1 << FLOAT_BITS) - 0.5]) / (1 << FLOAT_BITS)).astype(np.float64)
    least, most = (-np.log(-np.log(ends))).astype(np.float32)
    second, first = np.partition(nats, -2)[-2:]
    rival = np.where((nats == first) & ((nats == first).sum() == 1), second, first)
    return np.where(nats + most >= rival + least, log_law(scores, fraction_bits), -math.inf)


@dataclass(frozen=True, eq=False)
class Unclamped(Selector):
    """Pixels standardised by a mean and a deviation, as classifiers like them, and not clamped to [−1, 1] again."""

    def task(self, layout: StepLayout, x_hat: torch.Tensor) -> scoring.ScoringTask:
        """What is scored, with a law that is widened until it takes such shifts."""
        arithmetic = layout.arithmetic
        table = np.trunc(arithmetic.unit * (np.arange(256) / 255 - 0.45) / 0.22).astype(np.int32)
        shifts = table[self.pixels[:, layout.chunks.order]] - arithmetic.centres(x_hat.numpy())
        return scoring.ScoringTask(
            arithmetic.channel.law(arithmetic.alpha, arithmetic.fraction_bits, 4 * arithmetic.level_of_one),
            arithmetic.fraction_bits,
            1 << layout.step.index_bits,
            layout.streams,
            layout.offsets,
            np.ascontiguousarray(shifts, np.int32).reshape(-1),
        )


COMPARISONS: dict[str, tuple[type[Selector], Law]] = {
    "noise in float32": (Selector, float32_law),
    "pixels not clamped": (Unclamped, log_law),
}
"""Caught by the exact audit."""
