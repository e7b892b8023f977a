"""The black-box audit: encode two neighbouring images many times, count what comes out, and bound ε from below.

The common randomness Z is fixed, because an adversary knows it: averaging over it would hide leakage. One half of the
runs chooses a set of outcomes that tells the two images apart. On the other half, Clopper-Pearson bounds on the
probabilities of that set under each image give a lower bound of ε, which is wrong at most once in a million audits.
With N runs the bound is at most about ln(N/30).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dipp.audit.likelihood import first_law
from dipp.audit.neighbours import Pixels
from dipp.codec.chain import Chain
from dipp.codec.encoder import Selector

FALSE_ALARM = 1e-6
"""Largest probability that the bound exceeds the true ε."""
BATCH = 2000
"""Number of encodings that are made together."""

Releases = NDArray[np.int64]
"""Everything that was released: int64, with a row for each run."""
Encoder = Callable[[Chain, Pixels], Releases]
"""A function that encodes images, given as rows of coordinates, all with the same common randomness."""


def encoder(chain: Chain, rows: Pixels) -> Releases:
    """Encode images by the real encoder, with private randomness from the operating system.

    Args:
        chain: The plan, public seed, denoiser and size of the images.
        rows: Images as rows of coordinates, uint8 (images, coordinates).

    Returns:
        The indices of all steps, int64 (images, chunks of all steps).
    """
    _, chosen = chain.run([0] * len(rows), Selector(chain.plan, chain.seed, rows, "cpu"))
    return np.concatenate(chosen, axis=1)


def clopper_pearson(successes: int, runs: int, error: float) -> tuple[float, float]:
    """Return a lower and an upper bound of a probability from counts.

    Args:
        successes: Number of successes.
        runs: Number of trials.
        error: Largest probability that the lower bound is wrong; the same holds for the upper bound.
    """
    low = float(special.betaincinv(successes, runs - successes + 1, error)) if successes else 0.0
    high = float(special.betaincinv(successes + 1, runs - successes, 1 - error)) if successes < runs else 1.0
    return low, high


@dataclass(frozen=True)
class BlackBox:
    """The result of a black-box audit."""

    epsilon: float
    """Lower bound of the ε that the encoder really has between the two images."""
    runs: int
    """Number of encodings of each image."""


def promise(chain: Chain, pair: tuple[Pixels, Pixels], runs: int, bad_luck: float = 0.0) -> float:
    """Return the ε that an audit would observe if counts followed the exact laws of a chain of one step.

    Each count is its mean by these laws, or is off by `bad_luck` standard deviations to the unfavourable side.

    Args:
        chain: A chain of one step.
        pair: Two images as rows of coordinates.
        runs: Number of encodings of each image.
        bad_luck: Standard deviations by which each count is off; 0 by default.
    """
    tested = runs - runs // 2
    counts = [np.rint(np.exp(first_law(chain, image)) * tested).astype(np.int64) for image in pair]
    told = _telling(counts[0], counts[1], tested)
    yes, no = (int(outcomes[told].sum()) for outcomes in counts)
    yes, no = (math.floor(yes - bad_luck * math.sqrt(yes)), math.ceil(no + bad_luck * math.sqrt(max(no, 1))))
    return _bound(max(yes, 0), min(no, tested), tested)


def repeat(encode: Encoder, chain: Chain, image: Pixels, runs: int) -> Releases:
    """Encode an image `runs` times.

    Args:
        encode: The encoder.
        chain: The chain to encode with.
        image: A row of coordinates, uint8.
        runs: Number of encodings.

    Returns:
        What was released, int64, with a row for each run.
    """
    sizes = (min(BATCH, runs - first) for first in range(0, runs, BATCH))
    return np.concatenate([encode(chain, np.tile(image, (size, 1))) for size in sizes])


def audit(encode: Encoder, chain: Chain, pair: tuple[Pixels, Pixels], runs: int) -> BlackBox:
    """Encode each of two images `runs` times, and bound ε from below.

    Args:
        encode: The encoder to audit.
        chain: The chain to encode with.
        pair: Two images that differ in one unit, as rows of coordinates.
        runs: Number of encodings of each image.

    Returns:
        A lower bound of ε, which exceeds the true ε with probability `FALSE_ALARM` at most.
    """
    samples = [repeat(encode, chain, image, runs) for image in pair]
    _, labels = np.unique(np.concatenate(samples), axis=0, return_inverse=True)
    labels = labels.reshape(-1)
    outcomes, half = int(labels.max()) + 1, runs // 2
    counts = [
        [np.bincount(part, minlength=outcomes) for part in (seen[:half], seen[half:])]
        for seen in (labels[:runs], labels[runs:])
    ]
    epsilon = 0.0
    for (chosen, tested), (chosen_against, tested_against) in (counts, counts[::-1]):
        told = _telling(chosen, chosen_against, half)
        epsilon = max(epsilon, _bound(int(tested[told].sum()), int(tested_against[told].sum()), runs - half))
    return BlackBox(epsilon, runs)


def _telling(counts: Releases, against: Releases, runs: int) -> Releases:
    """Return the outcomes of highest likelihood ratio, as many as make the bound on ε largest.

    Args:
        counts: How often each outcome was released for one image.
        against: How often each outcome was released for the other image.
        runs: Number of releases of each image.
    """
    order = np.argsort(-(np.log(counts + 0.5) - np.log(against + 0.5)), kind="stable")
    best, size = -math.inf, 1
    for count, (yes, no) in enumerate(zip(np.cumsum(counts[order]), np.cumsum(against[order]), strict=True), 1):
        if (bound := _bound(int(yes), int(no), runs)) > best:
            best, size = bound, count
    return order[:size]


def _bound(yes: int, no: int, runs: int) -> float:
    """Return `ratio_bound` at half of `FALSE_ALARM`: an audit takes two ratios, of each image against the other."""
    return ratio_bound(yes, no, runs, FALSE_ALARM / 2)


def ratio_bound(yes: int, no: int, runs: int, error: float) -> float:
    """Return a lower bound of ln(p/q) from counts of one set of outcomes under two laws.

    It is ln(p/q) for the smallest p that `yes` of `runs` allow and the largest q that `no` of `runs` allow.

    Args:
        yes: Runs under the first law whose outcome is in the set.
        no: Runs under the second law whose outcome is in the set.
        runs: Runs under each law.
        error: Largest probability that the bound exceeds the true value. The bounds of p and q have half of it each.

    Returns:
        Nats; −∞ if `yes` is 0.
    """
    (low, _), (_, high) = (clopper_pearson(count, runs, error / 2) for count in (yes, no))
    return math.log(low / high) if low else -math.inf
