"""The law audit: the indices that the encoder really draws have the law that the exact audit takes them to have.

The encoder encodes one image many times, with a public seed that is fixed and the private randomness that it has; how
often each index came is compared with its exact probability (χ²). The image is chosen so that the mass lies on many
candidates, and on some more than on others: ln P has a large mean and a large variance under P. Then a draw that is
constant or reused stands out, and so do scores that are scaled before the draw. What no count can show (a generator
with a known seed, noise with 24 bits), the draws with known bytes show (`exact.Comparison`), which are made here too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from dipp.audit import blackbox
from dipp.audit.likelihood import Floats, Pixels, adversarial_pair, compare, first_law
from dipp.audit.setting import chain_of, single_step
from dipp.codec.chain import Chain
from dipp.core.plan import Coding

FALSE_ALARM = 1e-7
"""How often the audit of a right encoder fails, all its images together. (χ² is a limit: with cells as large as these
its tail is right to a small factor, which leaves the promised one in a million.)"""
LEAST_EXPECTED = 50.0
"""Indices that are expected less often than this are counted together."""
AMPLITUDES = tuple(2.0**-power for power in range(7))
"""Of the noise around grey, among which the image is chosen."""
FAVOURS = (-6.0, -4.0, -2.0, 0.0, 2.0)
"""Nats by which other images favour a candidate, which may stand against the Poisson order."""
SEEDS = 4
"""Public seeds, each with an image of its own."""


@dataclass(frozen=True)
class Law:
    """What the counts and the known draws show."""

    p: float
    """The least tail probability of the images' χ²."""
    images: int
    runs: int
    """Encodings of each image."""
    draws: int
    wrong: int
    """Draws with known bytes, and how many of them were not the exact ones."""

    @property
    def passed(self) -> bool:
        """Whether the encoder draws as it should."""
        return self.p >= FALSE_ALARM / self.images and not self.wrong


def tail(counts: Floats, probabilities: Floats) -> float:
    """The probability of a χ² as large as that of these counts, or larger, if these are the probabilities."""
    expected = probabilities * counts.sum()
    rare = expected < LEAST_EXPECTED
    # The rare ones, together, join the smallest of the others: no cell is small.
    cells = [np.append(values[~rare], values[rare].sum()) for values in (counts, expected)]
    if len(cells[1]) > 1 and cells[1][-1] < LEAST_EXPECTED:
        smallest = int(np.argmin(cells[1][:-1]))
        for one in cells:
            one[smallest] += one[-1]
        cells = [one[:-1] for one in cells]
    seen, due = cells
    return float(special.chdtrc(len(due) - 1, np.sum((seen - due) ** 2 / due))) if len(due) > 1 else 1.0


def telling_image(chain: Chain, generator: np.random.Generator) -> Pixels:
    """Noise around grey or an image that favours a candidate: where mean and variance of −ln P are both largest."""
    height, width, channels = chain.shape
    noise = generator.uniform(-127.5, 127.5, height * width * channels)
    images = [np.rint(127.5 + amplitude * noise).astype(np.uint8) for amplitude in AMPLITUDES]
    images += [adversarial_pair(chain, np.random.default_rng(0), favour)[0] for favour in FAVOURS]

    def spread(image: Pixels) -> float:
        law = first_law(chain, image)
        mean = -np.sum(np.exp(law) * law)
        return float(min(mean, np.sum(np.exp(law) * (law + mean) ** 2)))

    return max(images, key=spread)


def audit(coding: Coding, epsilon: float, runs: int) -> Law:
    """Count the indices of some images at about ε, each encoded so many times, and draw with known bytes."""
    plan, shape = single_step(coding, epsilon)
    tails, draws, wrong = [], 0, 0
    for number in range(SEEDS):
        chain, generator = chain_of(plan, shape, number), np.random.default_rng(number)
        image = telling_image(chain, generator)
        law = np.exp(first_law(chain, image))
        indices = blackbox.repeat(blackbox.encoder, chain, image, runs)[:, 0]
        tails.append(tail(np.bincount(indices, minlength=len(law)).astype(np.float64), law))
        other = image.copy()
        other[: shape[2]] = 255 - other[: shape[2]]
        met = compare(chain, (image, other))
        draws, wrong = draws + met.draws, wrong + met.wrong
    return Law(min(tails), SEEDS, runs, draws, wrong)
