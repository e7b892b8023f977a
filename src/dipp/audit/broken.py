"""Broken encoders and broken claims: each makes a mistake that voids a certificate. `controls` says which apply.

Nothing here can be reached from the codec. Some functions take the scores of the real encoder and draw or release
something else; others replace one function of the real encoder, or of the accounting, while a control runs.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from dipp import scoring
from dipp.audit.blackbox import Encoder, Releases
from dipp.audit.likelihood import log_law
from dipp.audit.neighbours import Pixels
from dipp.codec.chain import Chain, Indices, StepLayout
from dipp.codec.encoder import Selector
from dipp.codes import Pairs
from dipp.codes.exponential import SearchOutcomes
from dipp.core import randomness, selection
from dipp.core.arrays import host
from dipp.core.code import Code, ScoredCandidates
from dipp.core.outcomes import Floats, Outcomes
from dipp.core.price import LEVELS, Cost, Reach, Sensitivity
from dipp.core.signal import SIGNAL_OF_PIXEL

Broken = Callable[[Code, StepLayout, Any], Releases]
"""A broken rule: a function of the code, the public layout of a step, and the scored candidates or the blocks of its
images. It returns a row for each image: its indices, and perhaps more."""

FLOAT_BITS = 24
"""Number of random bits in a uniform number in float32."""
TOO_STEEP = 1.15
"""Factor by which scores are made too large before the draw."""


def encoder(broken: Broken) -> Encoder:
    """Return an encoder that releases in each step what a broken rule returns.

    Args:
        broken: The rule.
    """

    def encode(chain: Chain, rows: Pixels) -> Releases:
        selector, released = Selector(chain.plan, chain.seed, rows, "cpu"), []

        def choose(layout: StepLayout, x_hat: torch.Tensor) -> Indices:
            released.append(broken(chain.plan.code, layout, selector.read(layout, x_hat)))
            return released[-1][:, : layout.chunks.count]

        chain.run([0] * len(rows), choose)
        return np.concatenate(released, axis=1)

    return encode


# What is released. In the row of an image, the indices come first and what must not be released comes last.


def _nat(task: scoring.ScoringTask) -> float:
    """Return the nats by which a score that is larger by 1 raises the logarithm of a weight."""
    return math.log(2) * 2.0**-task.fraction_bits


def _draw(scores: Floats, uniforms: Floats) -> Indices:
    """Draw an index for each chunk by inverting its cumulative weights, in floats.

    Args:
        scores: ln of the weight of each candidate (chunks, candidates).
        uniforms: A number from 0 to 1 for each chunk.
    """
    running = np.cumsum(np.exp(scores - scores.max(axis=1, keepdims=True)), axis=1)
    indices: Indices = np.argmax(running > uniforms[:, None] * running[:, -1:], axis=1)
    return indices


def _honest(code: Code, layout: StepLayout, scored: Any) -> Indices:
    """Return the indices that the real encoder draws, a row for each image."""
    return code.draw(scored).reshape(len(layout.sources), -1)


def shared_seed(code: Code, layout: StepLayout, scored: Any) -> Releases:
    """Return indices that are drawn with the public seed, not with private randomness: a function of the image."""
    source = randomness.Stream(*(int(word) for word in layout.sources[0]))
    public, images = randomness.uniforms(source, layout.chunks.count), len(layout.sources)
    return _draw(code.log_weights(scored), np.tile(public, images)).reshape(images, -1)


def infinite_alpha(code: Code, layout: StepLayout, scored: Any) -> Releases:
    """Return the index of the best score each time (as if α were infinite), although an ε is claimed."""
    best: Releases = np.argmax(code.log_weights(scored), axis=1).astype(np.int64)
    return best.reshape(len(layout.sources), -1)


def realised_kl(code: Code, layout: StepLayout, scored: Any) -> Releases:
    """Draw among fewer candidates if the image differs little from its prediction, and release their number too."""
    task, images = scored.task, len(layout.sources)
    nats = np.add.reduceat(_divergence(layout, task), task.offsets[:-1])
    bits = np.clip(np.ceil(nats / math.log(2)), 1, math.log2(task.candidates)).astype(np.int64)
    allowed = np.arange(task.candidates) < (1 << bits)[:, None]
    limited = np.where(allowed, code.log_weights(scored), -math.inf)
    indices = _draw(limited, randomness.private_uniforms(task.chunks))
    return np.concatenate([indices.reshape(images, -1), bits.reshape(images, -1)], axis=1)


def realised_chunks(code: Code, layout: StepLayout, scored: Any) -> Releases:
    """Release, beside the indices, a number of chunks that depends on how far the image is from its prediction."""
    nats = _divergence(layout, scored.task).reshape(len(layout.sources), -1).sum(axis=1)
    cuts = np.ceil(nats / math.log(2)).astype(np.int64)
    return np.column_stack([_honest(code, layout, scored), cuts])


def _divergence(layout: StepLayout, task: scoring.ScoringTask) -> Floats:
    """Return how far each coordinate is from its prediction: a divergence in nats, half of the squared shift."""
    return np.asarray(np.square(task.shifts * _nat(task) / float(layout.arithmetic.alpha)) / 2, np.float64)


def own_group(code: Code, layout: StepLayout, scored: Any) -> Releases:
    """Release, beside the indices, the coordinate of the image's largest residual, as if the image chose its group."""
    sizes = np.abs(scored.task.shifts).reshape(len(layout.sources), -1)
    return np.column_stack([_honest(code, layout, scored), np.argmax(sizes, axis=1)])


def own_gain(code: Code, layout: StepLayout, scored: Any) -> Releases:
    """Release, beside the indices, a gain that is fitted to the image itself, as a 32-bit float.

    With residuals r and their tilts θ, it is (Σ|r|·tanh θ/Σr²)².
    """
    task = scored.task
    residuals = np.abs(task.shifts).reshape(len(layout.sources), -1) / layout.arithmetic.unit
    told = np.sum(residuals * np.tanh(residuals * layout.arithmetic.unit * _nat(task)), axis=1)
    gains = np.square(told / np.maximum(np.sum(np.square(residuals), axis=1), 1e-12))
    return np.column_stack([_honest(code, layout, scored), gains.astype(np.float32).view(np.int32)])


# What the indices are drawn from, and how they are drawn.


def float32_law(chunk: Outcomes) -> Floats:
    """Return ln P of each outcome that Gumbel noise in float32 can draw, by the exact selection; −∞ for all others.

    Uniforms of 24 bits have Gumbel values from −ln ln 2^25 to ln 2^25, and no others. A candidate can win if, with the
    largest of these, it beats the best of the others with the smallest. Which candidates can win depends on the image:
    an outcome that is possible for only one of two neighbours has an infinite loss.
    """
    assert isinstance(chunk, SearchOutcomes)  # noqa: S101 - for the type checker
    nats = (chunk.scores * (math.log(2) * 2.0**-chunk.fraction_bits)).astype(np.float32)
    ends = (np.array([0.5, (1 << FLOAT_BITS) - 0.5]) / (1 << FLOAT_BITS)).astype(np.float64)
    least, most = (-np.log(-np.log(ends))).astype(np.float32)
    second, first = np.partition(nats, -2)[-2:]
    rival = np.where((nats == first) & ((nats == first).sum() == 1), second, first)
    return np.where(nats + most >= rival + least, log_law(chunk), -math.inf)


@dataclass(frozen=True, eq=False)
class UnclampedSelector(Selector):
    """A broken encoder of pixels that are standardised, as is usual for classifiers, and not clamped to [−1, 1]."""

    def task(self, layout: StepLayout, x_hat: torch.Tensor) -> scoring.ScoringTask:
        """Return the scoring task of standardised pixels, with scores for shifts beyond the usual range."""
        arithmetic = layout.arithmetic
        table = np.trunc(arithmetic.unit * (np.arange(256) / 255 - 0.45) / 0.22).astype(np.int32)
        shifts = table[self.pixels[:, layout.chunks.order]] - arithmetic.centres(host(x_hat))
        wide = arithmetic.channel.law(arithmetic.alpha, arithmetic.fraction_bits, 4 * arithmetic.level_of_one)
        return dataclasses.replace(super().task(layout, x_hat), law=wide, shifts=shifts.reshape(-1))


@dataclass(frozen=True, eq=False)
class OwnClipSelector(Selector):
    """A broken encoder whose clip is the root mean square of the image's own residuals."""

    def task(self, layout: StepLayout, x_hat: torch.Tensor) -> scoring.ScoringTask:
        """Return the scoring task, in which residuals are cut to the image's own clip."""
        arithmetic = layout.arithmetic
        private = arithmetic.levels(SIGNAL_OF_PIXEL)[self.pixels[:, layout.chunks.order]] - arithmetic.centres(
            host(x_hat)
        )
        clip = np.sqrt(np.mean(np.square(private.astype(np.float64)), axis=1, keepdims=True))
        shifts = np.rint(arithmetic.limit * np.clip(private / np.maximum(clip, 1.0), -1, 1)).astype(np.int32)
        return dataclasses.replace(super().task(layout, x_hat), shifts=shifts.reshape(-1))


def constant_below(high: Any, low: Any) -> tuple[Any, Any]:
    """Return half of a total, given as its high and low 64 bits, instead of a random integer below it."""
    one = np.uint64(1)
    return high >> one, (low >> one) | ((high & one) << np.uint64(63))


def constant_bytes(count: int) -> bytes:
    """Return the integer 2^63 again and again instead of private bytes."""
    return np.full(-(-count // 8), 1 << 63, np.uint64).tobytes()[:count]


def scaled_scores(task: scoring.ScoringTask, on: scoring.Backend) -> Indices:
    """Return indices that the exact selection draws from scores that are 15 % too large."""
    scores = np.rint(TOO_STEEP * np.asarray(on.scores(task))).astype(np.int32)
    return selection.select(scores, task.fraction_bits)


_draw_pairs = Pairs.draw


def scaled_shifts(code: Pairs, scored: scoring.Candidates) -> Indices:
    """Return the bits that the code of pairs draws from shifts that are 15 % too large."""
    steep = np.rint(TOO_STEEP * np.asarray(scored.task.shifts)).astype(np.int32)
    task = dataclasses.replace(scored.task, shifts=np.clip(steep, -scored.limit, scored.limit))
    return _draw_pairs(code, dataclasses.replace(scored, task=task))


def _uniform24(count: int) -> Floats:
    """Return private random numbers between 0 and 1, of 24 bits each."""
    words = np.frombuffer(randomness.private_bytes(4 * count), np.uint32)
    return ((words >> np.uint32(32 - FLOAT_BITS)) + 0.5) / (1 << FLOAT_BITS)


def gumbel(task: scoring.ScoringTask, on: scoring.Backend) -> Indices:
    """Return indices of the largest score plus Gumbel noise, computed in float32."""
    scores = np.asarray(on.scores(task))
    noise = (-np.log(-np.log(_uniform24(scores.size)))).astype(np.float32).reshape(scores.shape)
    indices: Indices = np.argmax((scores * _nat(task)).astype(np.float32) + noise, axis=1)
    return indices


def logistic(code: Pairs, scored: ScoredCandidates) -> Indices:  # noqa: ARG001
    """Return the bits of the code of pairs, drawn as the sign of twice the tilt plus logistic noise, in float32."""
    shifts, nat = scored.shifts(), math.log(2) * 2.0**-scored.fraction_bits
    uniforms = _uniform24(len(shifts))
    noise = np.log(uniforms / (1 - uniforms)).astype(np.float32)
    return ((2 * nat * shifts).astype(np.float32) + noise > 0).astype(np.int64)


# What is claimed.

_charge = Pairs.charge


def bounded_range(code: Pairs, moved: Reach, touched: int = 1, apart: bool = True) -> Cost:
    """Return a price of the code of pairs with too small a ρ: ε²/8 would need losses within a range of length ε."""
    pure = _charge(code, moved, touched, apart).epsilon
    return Cost(pure, touched * (pure / touched) ** 2 / 8)


def slope_of_clip(record: Sensitivity, change: int) -> int:
    """Return how far a small change of a pixel can move a shift, computed as a share of the sensitivity.

    Where shifts are clipped, this is too little: all of the change counts.

    Args:
        record: The step's sensitivity, as the ledger records it.
        change: Grey levels by which the pixel changes.
    """
    return min(record.sensitivity, -(-(record.sensitivity + 2) * change // LEVELS))
