"""Negative controls: encoders that are broken on purpose, each by one of the mistakes that void a certificate.

An audit that does not catch them would not catch a mistake in the real encoder. None of this can be reached from the
codec. Some controls take what the encoder would score and then do something else with it; the planted ones are the real
encoder, of which one function is replaced for as long as the control runs.
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
"""(public layout, what is scored) → what is released of each image: a row of the chunk's index and more."""

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
    nats = np.add.reduceat(_divergence(layout, task), task.offsets[:-1])
    bits = np.clip(np.ceil(nats / math.log(2)), 1, math.log2(task.candidates)).astype(np.int64)
    allowed = np.arange(task.candidates) < (1 << bits)[:, None]
    limited = np.where(allowed, scores, np.iinfo(np.int32).min // 2).astype(np.int32)
    indices = _draw(limited, task, randomness.private_uniforms(len(scores)))
    return np.concatenate([indices.reshape(images, -1), bits.reshape(images, -1)], axis=1)


def _realised_chunks(layout: StepLayout, task: scoring.ScoringTask) -> Releases:
    """Chunks are cut where the image's own divergence fills one; their number is released, beside an index."""
    images = len(layout.sources)
    nats = _divergence(layout, task).reshape(images, -1).sum(axis=1)
    cuts = np.ceil(nats / math.log(2)).astype(np.int64)
    indices = scoring.select(task, scoring.backend("cpu"))
    return np.concatenate([indices.reshape(images, -1), cuts[:, None]], axis=1)


def _divergence(layout: StepLayout, task: scoring.ScoringTask) -> Floats:
    """The divergence in nats that each coordinate's shift has, if it is small: half its square, without α."""
    scale = math.log(2) * 2.0**-layout.arithmetic.fraction_bits / float(layout.arithmetic.alpha)
    return np.asarray(np.square(task.shifts * scale) / 2, np.float64)


def crossing_pair(encode: Encoder, chain: Chain, number: int) -> tuple[Pixels, Pixels]:
    """A grey pair at a level where what is released last (a number of bits, of cuts) differs, if there is one.

    Such numbers are functions of the image, in whole steps: across the edge of one, a single pixel shows.
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
        wide = arithmetic.channel.law(arithmetic.alpha, arithmetic.fraction_bits, 4 * arithmetic.level_of_one)
        return dataclasses.replace(super().task(layout, x_hat), law=wide, shifts=shifts.reshape(-1))


COMPARISONS: dict[str, tuple[type[Selector], Law]] = {
    "noise in float32": (Selector, float32_law),
    "pixels not clamped": (Unclamped, log_law),
}
"""Caught by the exact audit."""


def _constant_below(high: Any, low: Any) -> tuple[Any, Any]:
    """Half of the total, whatever the private bytes are."""
    one = np.uint64(1)
    return high >> one, (low >> one) | ((high & one) << np.uint64(63))


def _scaled(task: scoring.ScoringTask, on: scoring.Backend) -> Indices:
    """The exact draw, from scores that are 15 % too large."""
    scores = np.rint(1.15 * np.asarray(on.scores(task))).astype(np.int32)
    return selection.select(scores, task.fraction_bits)


def _gumbel(task: scoring.ScoringTask, on: scoring.Backend) -> Indices:
    """The largest of the scores with Gumbel noise, all in float32."""
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
"""What is replaced in the real encoder, and by what. Caught by the law audit."""
