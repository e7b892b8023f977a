"""The exact audit: P[K | Z] is computable, so the loss of a real encoding can be computed and compared with the claim.

Two images x and x' that differ in one pixel go through the encoder's own code, up to the integer scores. These give the
exact law of every index under each image, and so the loss ln P[k | x]/P[k | x'] of every outcome k, given everything
that was released before. The largest losses of the selections must not exceed ε in sum; their Rényi divergences of
order a must not exceed ρ·a in sum. It is also checked that the encoder draws by these laws: its bin sums must be those
of the scores, and with known bytes in place of the operating system's, its index must be where the exact cumulative
weights reach the number in the bytes. (The module `law` shows by counting that unknown bytes are used alike.)

**Why adversarial pairs reach the claim.** ln P[k | x]/P[k | x'] is the change of u_k less the change of ln Σ exp u. If
the other pixels favour one candidate j so much that it has nearly all the mass, the sum changes as u_j does. Let the
pixel change u_j by −s and u_k by +s: the loss is nearly 2s, all that is claimed. An audit that finds less than 0.99 of
the claim here is broken.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import special

from dipp import scoring
from dipp.audit.setting import replaced
from dipp.codec.chain import Chain, Indices, StepLayout
from dipp.codec.encoder import Selector
from dipp.core import randomness, selection
from dipp.core.signal import to_levels

Floats = NDArray[np.float64]
Pixels = NDArray[np.uint8]
Law = Callable[[selection.Scores, int], Floats]
"""(scores of one chunk, S) → ln P[K = k]."""

ORDERS = (1.5, 2.0, 4.0, 16.0)
"""Orders of the Rényi divergences."""
SPARE = 9.0
"""Nats by which an adversarial image favours its candidate beyond need, so that the others keep e^−9 of the mass."""
UNCERTAIN, DOUBT = 0.3, 0.1
"""Possible error of a guess of x̂0, which is not known when an adversarial image is made: without predictions of an
earlier encoding, and with them."""


def log_law(scores: selection.Scores, fraction_bits: int) -> Floats:
    """ln P[K = k] of the selection, from its exact integer weights; only the logarithms are rounded, by some 10^−15."""
    whole, fraction = selection.exponents(scores, fraction_bits)
    sums = selection.bin_sums(scores[None], fraction_bits)[0]
    total = sum(weight << (selection.RANGE_BITS - j) for j, weight in enumerate(sums.tolist()))
    logs = np.log(selection.fraction_weights(fraction_bits)[fraction].astype(np.float64))
    return np.asarray(logs + (selection.RANGE_BITS - whole) * math.log(2) - math.log(total), np.float64)


def renyi(first: Floats, second: Floats, order: float) -> float:
    """The Rényi divergence of two laws that are given as ln P: the larger one of the two directions."""
    pairs = ((first, second), (second, first))
    return max(float(special.logsumexp(order * p + (1 - order) * q)) for p, q in pairs) / (order - 1)


def inverse(scores: selection.Scores, fraction_bits: int, target: int) -> int:
    """The index at which the running sum of the exact weights, bin after bin, exceeds the target."""
    whole, fraction = selection.exponents(scores, fraction_bits)
    order = np.argsort(whole, kind="stable")
    table = selection.fraction_weights(fraction_bits)[fraction[order]].tolist()
    weights = (weight << (selection.RANGE_BITS - j) for weight, j in zip(table, whole[order].tolist(), strict=True))
    place = next(at for at, running in enumerate(itertools.accumulate(weights)) if running > target)
    return int(order[place])


class KnownBytes:
    """Replaces `os` in `core.randomness`: hands out known 128-bit integers, high limb first, and counts the bytes."""

    def __init__(self, values: Sequence[int]) -> None:
        limbs = [(value >> 64, value & ((1 << 64) - 1)) for value in values]
        self._rest = np.array(limbs, np.uint64).tobytes()
        self._beyond = np.random.default_rng(0)
        self.asked_for_more = False

    def urandom(self, count: int) -> bytes:
        """The next known bytes, and noise if the encoder asks for more than the exact draws take."""
        found, self._rest = self._rest[:count], self._rest[count:]
        self.asked_for_more |= len(found) < count
        return found + self._beyond.bytes(count - len(found))

    @property
    def used_up(self) -> bool:
        """Whether exactly the known bytes were asked for, neither fewer nor more."""
        return not self._rest and not self.asked_for_more


@dataclass(eq=False)
class Comparison:
    """A `chain.Choose` that encodes the image x and compares it, in every selection, with its neighbour x'."""

    first: Selector
    second: Selector
    follow: bool = False
    """Whether to go on with the outcome of largest loss instead of the one that was drawn."""
    law: Law = log_law
    bound: float = 0.0
    """Sum over the selections of the largest |loss| of any outcome."""
    attained: float = 0.0
    """Sum over the selections of the loss of the outcome that was released."""
    divergences: Floats = field(default_factory=lambda: np.zeros(len(ORDERS)))
    """Sum over the selections of the Rényi divergence, for each of `ORDERS`."""
    draws: int = 0
    """Number of selections that were made with known bytes."""
    wrong: int = 0
    """How many of those had wrong bin sums, used the bytes wrongly, or gave a wrong index."""
    predictions: list[NDArray[np.float32]] = field(default_factory=list)
    """x̂0 of the coordinates that each step touches, which the adversary sees as well."""

    def __call__(self, layout: StepLayout, x_hat: torch.Tensor) -> Indices:
        """Indices of x by the encoder's own code; adds up the losses of the chunks in which the two images differ."""
        self.predictions.append(x_hat[0].numpy())
        indices = self.first(layout, x_hat)
        if not layout.chunks.count:
            return indices
        first, second = self.first.task(layout, x_hat), self.second.task(layout, x_hat)
        on = scoring.backend(self.first.device)
        differ = np.add.reduceat((first.shifts != second.shifts).astype(np.int64), first.offsets[:-1])
        scores: dict[int, selection.Scores] = {}
        for chunk in np.flatnonzero(differ).tolist():
            both = [np.asarray(on.scores(task.part(chunk, chunk + 1)))[0] for task in (first, second)]
            scores[chunk], laws = both[0], [self.law(one, first.fraction_bits) for one in both]
            # Outcomes that are impossible for both images reveal nothing.
            possible = np.isfinite(laws[0]) | np.isfinite(laws[1])
            losses = np.where(possible, laws[0], 0.0) - np.where(possible, laws[1], 0.0)
            if self.follow:
                indices[0, chunk] = np.argmax(losses)
            self.bound += float(np.abs(losses).max())
            self.attained += float(losses[indices[0, chunk]])
            self.divergences += [renyi(laws[0][possible], laws[1][possible], order) for order in ORDERS]
        self._draw(layout, x_hat, scores, on)
        return indices

    def _draw(
        self, layout: StepLayout, x_hat: torch.Tensor, scores: dict[int, selection.Scores], on: scoring.Backend
    ) -> None:
        """Encode x again with known bytes, and compare bin sums and indices of the given chunks with the exact ones."""
        generator, targets, wrong = np.random.default_rng(self.draws), [0] * layout.chunks.count, set()
        bits = layout.arithmetic.fraction_bits
        for chunk, one in scores.items():
            sums = selection.bin_sums(one[None], bits)
            total = sum(weight << (selection.RANGE_BITS - j) for j, weight in enumerate(sums[0].tolist()))
            targets[chunk] = int.from_bytes(generator.bytes(24), "little") % total
            if not np.array_equal(on.bin_sums(one[None], bits), sums):
                wrong.add(chunk)
        known = KnownBytes(targets)
        with replaced(randomness, "os", known):
            indices = self.first(layout, x_hat)
        for chunk, one in scores.items():
            if not known.used_up or indices[0, chunk] != inverse(one, bits, targets[chunk]):
                wrong.add(chunk)
        self.draws += len(scores)
        self.wrong += len(wrong)


def compare(
    chain: Chain,
    pair: tuple[Pixels, Pixels],
    *,
    follow: bool = False,
    law: Law = log_law,
    selector: type[Selector] = Selector,
) -> Comparison:
    """Encode the first of two images, given as rows of coordinates, and compare it with the second in every step."""
    first, second = (selector(chain.plan, chain.seed, image[None], "cpu") for image in pair)
    comparison = Comparison(first, second, follow, law)
    chain.run([0], comparison)
    return comparison


def first_law(chain: Chain, image: Pixels) -> Floats:
    """ln P of a chain's first index, for an image given as a row of coordinates."""
    selector, found = Selector(chain.plan, chain.seed, image[None], "cpu"), []

    def choose(layout: StepLayout, x_hat: torch.Tensor) -> Indices:
        task = selector.task(layout, x_hat).part(0, 1)
        found.append(log_law(np.asarray(scoring.backend("cpu").scores(task))[0], task.fraction_bits))
        return np.zeros((1, layout.chunks.count), np.int64)

    chain.run([0], choose, 1)
    return found[0]


def random_pair(chain: Chain, generator: np.random.Generator) -> tuple[Pixels, Pixels]:
    """An image of noise, and the same image with another value of one pixel."""
    height, width, channels = chain.shape
    x = generator.integers(0, 256, height * width * channels, np.uint8)
    y = x.copy()
    y[_pixel(chain, generator)] = generator.integers(0, 256, channels, np.uint8)
    return x, y


def extreme_pair(chain: Chain, generator: np.random.Generator) -> tuple[Pixels, Pixels]:
    """A black, a white or a randomly mixed image, of which one pixel goes from black to white."""
    height, width, channels = chain.shape
    light = generator.choice([0.0, 0.5, 1.0])
    x = np.where(generator.random(height * width * channels) < light, 255, 0).astype(np.uint8)
    y, place = x.copy(), _pixel(chain, generator)
    x[place], y[place] = 0, 255
    return x, y


def grey_pair(chain: Chain, generator: np.random.Generator, level: float = 128) -> tuple[Pixels, Pixels]:
    """A grey image, and the same with one white pixel, whose divergence is larger.

    If `level` is not whole, a share of the coordinates has the level below it, and the others the level above.
    """
    height, width, channels = chain.shape
    dims = height * width * channels
    x = np.floor(level + np.arange(dims) / dims).astype(np.uint8)
    y = x.copy()
    y[_pixel(chain, generator)] = 255
    return x, y


def _pixel(chain: Chain, generator: np.random.Generator) -> slice:
    """Coordinates of a random pixel."""
    height, width, channels = chain.shape
    first = channels * int(generator.integers(height * width))
    return slice(first, first + channels)


def adversarial_pair(
    chain: Chain,
    generator: np.random.Generator,
    spare: float | None = None,
    predictions: Sequence[NDArray[np.float32]] | None = None,
) -> tuple[Pixels, Pixels]:
    """Images that differ, black or white, in the pixel that costs most; the others favour a candidate in its chunks.

    The adversary knows everything that is public: masks, chunks, candidates and the denoiser, whose `predictions` an
    earlier encoding may have shown (None: grey is assumed). Every coordinate serves one step only, so that a single
    image suits all steps; coordinates that are not needed have their predicted value, which favours no candidate.
    `spare` is the nats by which the candidate is favoured beyond its rivals' chances (None: as reaches the claim).
    """
    height, width, channels = chain.shape
    dims, on = height * width * channels, scoring.backend("cpu")
    layouts = [chain.layout(number, [0]) for number in range(len(chain.plan.steps))]
    touched = [np.bincount(one.chunks.order // channels, minlength=height * width) for one in layouts]
    spent = np.sum([count * one.arithmetic.epsilon() for count, one in zip(touched, layouts, strict=True)], axis=0)
    pixel = generator.choice(np.flatnonzero(spent > spent.max() * (1 - 1e-12)))
    own = np.arange(channels * pixel, channels * (pixel + 1))
    guesses = predictions or [np.zeros(len(one.chunks.order), np.float32) for one in layouts]
    doubt = DOUBT if predictions else UNCERTAIN
    black = np.full(dims, 128, np.uint8)
    for layout, guess in zip(layouts, guesses, strict=True):
        black[layout.chunks.order] = to_levels(guess)
    white = black.copy()
    black[own], white[own] = 0, 255
    free = np.ones(dims, np.bool_)
    free[own] = False
    for layout, guess in zip(layouts, guesses, strict=True):
        if not layout.chunks.count:
            continue
        tasks = [_uncertain(chain, layout, image, guess, doubt) for image in (black, white)]
        mine = np.add.reduceat(np.isin(layout.chunks.order, own).astype(np.int64), layout.offsets[:-1])
        for chunk in np.flatnonzero(mine).tolist():
            # The candidate that black favours least against white; the first of several, as in the Poisson order.
            scores = [[_scores(on, task, chunk) for task in pair] for pair in tasks]
            favoured = int(np.argmin(np.sum(scores[0], axis=0) - np.sum(scores[1], axis=0)))
            nat = math.log(2) * 2.0**-layout.arithmetic.fraction_bits
            order = tasks[0][0].order
            rivals = math.log(tasks[0][0].candidates)
            if order is not None:
                rivals += (int(order.max()) - int(order[favoured])) * nat
            need = 2 * layout.arithmetic.epsilon(int(mine[chunk])) + SPARE if spare is None else spare
            coordinates, values = _favouring(layout, guess, chunk, favoured, free, (rivals + need) / nat)
            black[coordinates] = white[coordinates] = values
            free[coordinates] = False
    return black, white


def _uncertain(
    chain: Chain, layout: StepLayout, image: Pixels, guess: NDArray[np.float32], doubt: float
) -> list[scoring.ScoringTask]:
    """The scoring tasks if x̂0 were darker than guessed by `doubt`, and if it were lighter."""
    selector = Selector(chain.plan, chain.seed, image[None], "cpu")
    guesses = (np.clip(guess[None] + side, -1, 1).astype(np.float32) for side in (-doubt, doubt))
    return [selector.task(layout, torch.from_numpy(x_hat)) for x_hat in guesses]


def _scores(on: scoring.Backend, task: scoring.ScoringTask, chunk: int) -> NDArray[np.int64]:
    """Scores of one chunk of a task."""
    scores: NDArray[np.int64] = np.asarray(on.scores(task.part(chunk, chunk + 1)))[0].astype(np.int64)
    return scores


def _favouring(
    layout: StepLayout,
    guess: NDArray[np.float32],
    chunk: int,
    candidate: int,
    free: NDArray[np.bool_],
    units: float,
) -> tuple[NDArray[np.int64], Pixels]:
    """Free coordinates of a chunk that raise a candidate's score by `units` together, and the pixel values for that."""
    arithmetic, part = layout.arithmetic, slice(*layout.chunks.offsets[chunk : chunk + 2])
    coordinates = layout.chunks.order[part]
    streams, offsets = layout.streams[chunk : chunk + 1], np.array([0, len(coordinates)])
    drawn = scoring.backend("cpu").winners(arithmetic.law, streams, offsets, np.array([candidate]))
    light = arithmetic.channel.sample(drawn) > 0
    level = np.where(light, arithmetic.level_of_one, -arithmetic.level_of_one).astype(np.int32)
    gains = np.where(free[coordinates], arithmetic.law.score(drawn, level - arithmetic.centres(guess[part])), 0)
    best = np.argsort(-gains, kind="stable")
    used = best[: int(np.searchsorted(np.cumsum(gains[best]), units)) + 1]
    used = used[gains[used] > 0]
    return coordinates[used], np.where(light[used], 255, 0).astype(np.uint8)
