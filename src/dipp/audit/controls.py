"""Negative controls: encoders that are broken on purpose, each by one of the mistakes that void a certificate.

An audit that does not catch them would not catch a mistake in the real encoder either. None of this can be reached from
the codec. Some controls take what the real encoder scores and do something else with it; the planted ones are the real
encoder with one function replaced while the control runs.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import torch

from dipp import scoring
from dipp.audit.blackbox import Encoder, Releases
from dipp.audit.likelihood import Floats, Law, Pixels, grey_pair, log_law
from dipp.codec.chain import Chain, Indices, StepLayout
from dipp.codec.encoder import Selector
from dipp.core import randomness, selection

Broken = Callable[[StepLayout, scoring.ScoringTask], Releases]
"""(public layout, scoring task) → what is released, a row for each image: the indices of its chunks, perhaps more."""

FLOAT_BITS = 24
"""Random bits of a uniform number in float32."""


def _encoder(broken: Broken) -> Encoder:
    """An encoder that releases in each step what the broken rule makes of the scoring task."""

    def encode(chain: Chain, rows: Pixels) -> Releases:
        selector, released = Selector(chain.plan, chain.seed, rows, "cpu"), []

        def choose(layout: StepLayout, x_hat: torch.Tensor) -> Indices:
            released.append(broken(layout, selector.task(layout, x_hat)))
            return released[-1][:, : layout.chunks.count]

        chain.run([0] * len(rows), choose)
        return np.concatenate(released, axis=1)

    return encode


def _scores(task: scoring.ScoringTask) -> selection.Scores:
    """Chunks × n scores of a task."""
    return np.asarray(scoring.backend("cpu").scores(task))


def _draw(scores: selection.Scores, task: scoring.ScoringTask, uniforms: Floats) -> Indices:
    """Draw an index for each chunk by inverting the cumulative weights, in floats, at the given uniforms."""
    logs = scores.astype(np.float64) * math.log(2) * 2.0**-task.fraction_bits
    weights = np.exp(logs - logs.max(axis=1, keepdims=True))
    running = np.cumsum(weights, axis=1)
    found: Indices = np.argmax(running > uniforms[:, None] * running[:, -1:], axis=1)
    return found


def _shared_seed(layout: StepLayout, task: scoring.ScoringTask) -> Releases:
    """The private draw comes from the public seed, so that the index is a function of the image."""
    source = randomness.Stream(*(int(word) for word in layout.sources[0]))
    public = randomness.uniforms(source, layout.chunks.count)
    images = len(layout.sources)
    return _draw(_scores(task), task, np.tile(public, images)).reshape(images, -1)


def _infinite_alpha(layout: StepLayout, task: scoring.ScoringTask) -> Releases:
    """The best score wins, and an ε is claimed nevertheless."""
    return scoring.best(task, scoring.backend("cpu")).reshape(len(layout.sources), -1)


def _realised_kl(layout: StepLayout, task: scoring.ScoringTask) -> Releases:
    """The number of candidates follows the image's own divergence: a small shift is sent in fewer bits."""
    images, scores = len(layout.sources), _scores(task)
    nats = np.add.reduceat(_divergence(layout, task), task.offsets[:-1])
    bits = np.clip(np.ceil(nats / math.log(2)), 1, math.log2(task.candidates)).astype(np.int64)
    allowed = np.arange(task.candidates) < (1 << bits)[:, None]
    limited = np.where(allowed, scores, np.iinfo(np.int32).min // 2).astype(np.int32)
    indices = _draw(limited, task, randomness.private_uniforms(len(scores)))
    return np.concatenate([indices.reshape(images, -1), bits.reshape(images, -1)], axis=1)


def _realised_chunks(layout: StepLayout, task: scoring.ScoringTask) -> Releases:
    """The number of chunks follows the image's own divergence, and is released beside an index."""
    images = len(layout.sources)
    nats = _divergence(layout, task).reshape(images, -1).sum(axis=1)
    cuts = np.ceil(nats / math.log(2)).astype(np.int64)
    indices = scoring.select(task, scoring.backend("cpu"))
    return np.concatenate([indices.reshape(images, -1), cuts[:, None]], axis=1)


def _divergence(layout: StepLayout, task: scoring.ScoringTask) -> Floats:
    """Divergence of each coordinate in nats, for small shifts: half of the squared shift, without α."""
    scale = math.log(2) * 2.0**-layout.arithmetic.fraction_bits / float(layout.arithmetic.alpha)
    return np.asarray(np.square(task.shifts * scale) / 2, np.float64)


def crossing_pair(encode: Encoder, chain: Chain, number: int) -> tuple[Pixels, Pixels]:
    """A grey pair for which the last number that `encode` releases (of bits or of chunks) differs, if there is one.

    Such a number is an integer function of the image: at a grey level where it jumps, a single pixel decides it.
    """
    pairs = [grey_pair(chain, np.random.default_rng(number), level) for level in np.arange(0, 255, 0.25).tolist()]
    first, second = (encode(chain, np.stack(images))[:, -1] for images in zip(*pairs, strict=True))
    return pairs[int(np.argmax(first != second))]


RELEASES: dict[str, Encoder] = {
    "private randomness from the shared seed": _encoder(_shared_seed),
    "infinite alpha with an epsilon": _encoder(_infinite_alpha),
    "candidates from the realised divergence": _encoder(_realised_kl),
    "chunks from the realised divergence": _encoder(_realised_chunks),
}
"""Broken encoders that the black-box audit must catch."""


def float32_law(scores: selection.Scores, fraction_bits: int) -> Floats:
    """ln P of the exact selection for outcomes that are possible with Gumbel noise in float32; −∞ for all others.

    Uniforms of 24 bits have Gumbel values from −ln ln 2^25 to ln 2^25, and no others. A candidate can win if, with the
    largest of these, it beats the best of the others with the smallest. Which candidates can win depends on the image:
    an outcome that is possible for only one of two neighbours has an infinite loss.
    """
    nats = (scores * (math.log(2) * 2.0**-fraction_bits)).astype(np.float32)
    ends = (np.array([0.5, (1 << FLOAT_BITS) - 0.5]) / (1 << FLOAT_BITS)).astype(np.float64)
    least, most = (-np.log(-np.log(ends))).astype(np.float32)
    second, first = np.partition(nats, -2)[-2:]
    rival = np.where((nats == first) & ((nats == first).sum() == 1), second, first)
    return np.where(nats + most >= rival + least, log_law(scores, fraction_bits), -math.inf)


@dataclass(frozen=True, eq=False)
class Unclamped(Selector):
    """The encoder on pixels that are standardised, as is usual for classifiers, and not clamped to [−1, 1]."""

    def task(self, layout: StepLayout, x_hat: torch.Tensor) -> scoring.ScoringTask:
        """The scoring task, with a law that is wide enough for such shifts."""
        arithmetic = layout.arithmetic
        table = np.trunc(arithmetic.unit * (np.arange(256) / 255 - 0.45) / 0.22).astype(np.int32)
        shifts = table[self.pixels[:, layout.chunks.order]] - arithmetic.centres(x_hat.numpy())
        wide = arithmetic.channel.law(arithmetic.alpha, arithmetic.fraction_bits, 4 * arithmetic.level_of_one)
        return dataclasses.replace(super().task(layout, x_hat), law=wide, shifts=shifts.reshape(-1))


COMPARISONS: dict[str, tuple[type[Selector], Law]] = {
    "noise in float32": (Selector, float32_law),
    "pixels not clamped": (Unclamped, log_law),
}
"""Broken encoders (a selector, and the law of its indices) that the exact audit must catch."""


def _constant_below(high: Any, low: Any) -> tuple[Any, Any]:
    """Half of the total (two limbs), whatever the private bytes are."""
    one = np.uint64(1)
    return high >> one, (low >> one) | ((high & one) << np.uint64(63))


def _scaled(task: scoring.ScoringTask, on: scoring.Backend) -> Indices:
    """The exact draw from scores that are 15 % too large."""
    scores = np.rint(1.15 * np.asarray(on.scores(task))).astype(np.int32)
    return selection.select(scores, task.fraction_bits)


def _gumbel(task: scoring.ScoringTask, on: scoring.Backend) -> Indices:
    """The index of the largest score plus Gumbel noise, all in float32."""
    scores = np.asarray(on.scores(task))
    words = np.frombuffer(randomness.private_bytes(4 * scores.size), np.uint32).reshape(scores.shape)
    uniforms = ((words >> np.uint32(32 - FLOAT_BITS)) + 0.5) / (1 << FLOAT_BITS)
    noise = (-np.log(-np.log(uniforms))).astype(np.float32)
    nats = (scores * (math.log(2) * 2.0**-task.fraction_bits)).astype(np.float32)
    found: Indices = np.argmax(nats + noise, axis=1)
    return found


PLANTED: dict[str, tuple[ModuleType, str, Callable[..., Any]]] = {
    "a constant private draw": (selection, "_uniform_below", _constant_below),
    "private bytes from a known seed": (randomness, "private_bytes", np.random.default_rng(0).bytes),
    "scores times 1.15": (scoring, "select", _scaled),
    "Gumbel noise in float32": (scoring, "select", _gumbel),
}
"""A function of the real encoder (module and name) and its replacement, for each mistake that the law audit must
catch."""
