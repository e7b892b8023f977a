"""The black-box audit: encode two neighbouring images many times, count what comes out, and bound ε from below.

The common randomness Z is fixed, as an adversary knows it: averaging over it would hide leakage. Half of the runs
choose a set of outcomes that tells the images apart; on the other half, Clopper-Pearson bounds of its two probabilities
give an ε that is really there, but for one false alarm in a million. N runs show ln(N/30) at most.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dipp.audit.likelihood import Pixels, first_law
from dipp.codec.chain import Chain
from dipp.codec.encoder import Selector

FALSE_ALARM = 1e-6
"""How often the bound may exceed the true ε."""
BATCH = 2000

Releases = NDArray[np.int64]
"""A row for each run: all that was released."""
Encoder = Callable[[Chain, Pixels], Releases]
"""Encode rows of coordinates, all with the same common randomness."""


def encoder(chain: Chain, rows: Pixels) -> Releases:
    """The encoder itself: the chain of the codec, the private randomness of the operating system."""
    _, chosen = chain.run([0] * len(rows), Selector(chain.plan, chain.seed, rows, "cpu"))
    return np.concatenate(chosen, axis=1)


def clopper_pearson(successes: int, runs: int, error: float) -> tuple[float, float]:
    """Bounds of a probability; each is wrong with probability `error` at most."""
    low = float(special.betaincinv(successes, runs - successes + 1, error)) if successes else 0.0
    high = float(special.betaincinv(successes + 1, runs - successes, 1 - error)) if successes < runs else 1.0
    return low, high


@dataclass(frozen=True)
class BlackBox:
    """What the counts show."""

    epsilon: float
    """A lower bound of the ε that the encoder really has, between these two images."""
    runs: int
    """Encodings of each image."""


def promise(chain: Chain, pair: tuple[Pixels, Pixels], runs: int, bad_luck: float = 0.0) -> float:
    """The ε that so many runs of a chain of one selection show by its exact laws: on average, or with bad luck.

    Bad luck is counts that are so many standard deviations from their means, both to the wrong side.
    """
    tested = runs - runs // 2
    counts = [np.rint(np.exp(first_law(chain, image)) * tested).astype(np.int64) for image in pair]
    told = _telling(counts[0], counts[1], tested)
    yes, no = (int(one[told].sum()) for one in counts)
    yes, no = (math.floor(yes - bad_luck * math.sqrt(yes)), math.ceil(no + bad_luck * math.sqrt(max(no, 1))))
    return _bound(max(yes, 0), min(no, tested), tested)


def repeat(encode: Encoder, chain: Chain, image: Pixels, runs: int) -> Releases:
    """Encode an image so many times."""
    sizes = (min(BATCH, runs - first) for first in range(0, runs, BATCH))
    return np.concatenate([encode(chain, np.tile(image, (size, 1))) for size in sizes])


def audit(encode: Encoder, chain: Chain, pair: tuple[Pixels, Pixels], runs: int) -> BlackBox:
    """Encode each of two images so many times, and bound ε from below."""
    samples = [repeat(encode, chain, image, runs) for image in pair]
    _, labels = np.unique(np.concatenate(samples), axis=0, return_inverse=True)
    labels = labels.reshape(-1)
    outcomes, half = int(labels.max()) + 1, runs // 2
    counts = [
        [np.bincount(part, minlength=outcomes) for part in (one[:half], one[half:])]
        for one in (labels[:runs], labels[runs:])
    ]
    found = 0.0
    for (chosen, tested), (chosen_against, tested_against) in (counts, counts[::-1]):
        told = _telling(chosen, chosen_against, half)
        found = max(found, _bound(int(tested[told].sum()), int(tested_against[told].sum()), runs - half))
    return BlackBox(found, runs)


def _telling(counts: Releases, against: Releases, runs: int) -> Releases:
    """Outcomes, from the most telling one on, whose bounds are furthest apart on the half that chooses."""
    order = np.argsort(-(np.log(counts + 0.5) - np.log(against + 0.5)), kind="stable")
    best, size = -math.inf, 1
    for count, (yes, no) in enumerate(zip(np.cumsum(counts[order]), np.cumsum(against[order]), strict=True), 1):
        if (bound := _bound(int(yes), int(no), runs)) > best:
            best, size = bound, count
    return order[:size]


def _bound(yes: int, no: int, runs: int) -> float:
    """ln of the least probability over the largest that such counts allow: two of the four bounds that are made."""
    (low, _), (_, high) = (clopper_pearson(count, runs, FALSE_ALARM / 4) for count in (yes, no))
    return math.log(low / high) if low else -math.inf
