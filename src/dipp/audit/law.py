"""The law audit: whether the indices that the encoder really draws have the law that the exact audit assumes.

The encoder encodes one image many times, with a fixed public seed and with its real private randomness; a χ² test
compares how often each outcome was drawn with its exact probability. An outcome is all that a step releases: an index
or, with pairs, the bits of a few coordinates. The image is chosen so that the mass lies on many outcomes, and on some
more than on others: −ln P has a large mean and a large variance under P. Then a draw that is constant or reused stands
out, and so do scores that are scaled before the draw. Counts cannot show everything, for example a generator with a
known seed, or noise of 24 bits. Draws with known bytes show these (`likelihood.Comparison`), and are made here as well.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from dipp.audit import blackbox
from dipp.audit.likelihood import compare, first_law, numbers
from dipp.audit.neighbours import Pixels, adversarial_pair
from dipp.audit.setting import AuditSubject, chain_of, single_step
from dipp.codec.chain import Chain
from dipp.core.outcomes import Floats
from dipp.core.signal import to_levels

FALSE_ALARM = 1e-7
"""Probability that the audit of a correct encoder fails, for all images together. (χ² is a limit law: with cells as
large as these its tail is right up to a small factor, so that fewer than one audit in a million fails.)"""
LEAST_EXPECTED = 50.0
"""Outcomes whose expected count is below this are counted together."""
AMPLITUDES = tuple(2.0**-power for power in range(7))
"""Amplitudes of noise around grey, relative to the full range: images of each are tried."""
FAVOURS = (-6.0, -4.0, -2.0, 0.0, 2.0)
"""Nats by which other tried images favour one candidate; below 0, its rivals in the Poisson order are favoured."""
SEEDS = 4
"""Number of public seeds, each with an image of its own."""


@dataclass(frozen=True)
class Law:
    """The result of a law audit."""

    p: float
    """Smallest tail probability of χ² over the images."""
    images: int
    """Number of images, each with a public seed of its own."""
    runs: int
    """Number of encodings of each image."""
    draws: int
    """Number of draws that were repeated with known bytes instead of random ones."""
    wrong: int
    """Number of those draws that differed from the exact ones."""

    @property
    def passed(self) -> bool:
        """Whether every count and every draw is consistent with the exact law."""
        return self.p >= FALSE_ALARM / self.images and not self.wrong


def tail(counts: Floats, probabilities: Floats) -> float:
    """Return the probability of a χ² at least as large as that of given counts, if the probabilities are true.

    Args:
        counts: How often each outcome was drawn, float64 (outcomes,).
        probabilities: The exact probability of each outcome, float64 (outcomes,).
    """
    expected = probabilities * counts.sum()
    rare = expected < LEAST_EXPECTED
    # All rare outcomes make one cell; if that is still too small, it joins the smallest of the others.
    cells = [np.append(values[~rare], values[rare].sum()) for values in (counts, expected)]
    if len(cells[1]) > 1 and cells[1][-1] < LEAST_EXPECTED:
        smallest = int(np.argmin(cells[1][:-1]))
        for values in cells:
            values[smallest] += values[-1]
        cells = [values[:-1] for values in cells]
    counted, due = cells
    return float(special.chdtrc(len(due) - 1, np.sum((counted - due) ** 2 / due))) if len(due) > 1 else 1.0


def telling_image(chain: Chain, generator: np.random.Generator) -> Pixels:
    """Return the image that shows a wrong draw best: its step has many likely outcomes, of unequal probabilities.

    It is the image with the largest spread: the smaller of the mean and the variance of −ln P of the outcome. Noise
    around grey is tried at several amplitudes, and images that favour a candidate.

    Args:
        chain: A chain of one step.
        generator: Generator of the noise.

    Returns:
        A row of coordinates, uint8.
    """
    noise = generator.uniform(-1, 1, chain.geometry.coordinates)
    images = [to_levels(amplitude * noise).astype(np.uint8) for amplitude in AMPLITUDES]
    images += [adversarial_pair(chain, np.random.default_rng(0), favour)[0] for favour in FAVOURS]

    def spread(image: Pixels) -> float:
        law = first_law(chain, image)
        mean = -np.sum(np.exp(law) * law)
        return float(min(mean, np.sum(np.exp(law) * (law + mean) ** 2)))

    return max(images, key=spread)


def audit(subject: AuditSubject, epsilon: float, runs: int) -> Law:
    """Audit a coding at about ε: count the outcomes of encodings, and make draws with known bytes.

    Args:
        subject: The audited coding, kind of steps and unit.
        epsilon: ε of the unit.
        runs: Number of encodings of each image.

    Returns:
        What the encodings showed, to compare with the exact law.
    """
    plan, geometry = single_step(subject, epsilon)
    tails, draws, wrong = [], 0, 0
    for number in range(SEEDS):
        chain, generator = chain_of(plan, geometry, number), np.random.default_rng(number)
        image = telling_image(chain, generator)
        law = np.exp(first_law(chain, image))
        outcomes = numbers(chain, blackbox.repeat(blackbox.encoder, chain, image, runs))
        tails.append(tail(np.bincount(outcomes, minlength=len(law)).astype(np.float64), law))
        # The other image differs in every pixel, so that every chunk is drawn with known bytes.
        met = compare(chain, (image, 255 - image))
        draws, wrong = draws + met.draws, wrong + met.wrong
    return Law(min(tails), SEEDS, runs, draws, wrong)
