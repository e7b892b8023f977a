"""Pairs of neighbouring images, as audits make them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dipp.audit import neighbours
from dipp.audit.neighbours import Pixels
from dipp.codec.chain import Chain

MAKERS = (
    neighbours.random_pair,
    neighbours.extreme_pair,
    neighbours.grey_pair,
    neighbours.balanced_pair,
    neighbours.adversarial_pair,
)


def neighbouring(chain: Chain, generator: np.random.Generator) -> Iterator[tuple[Pixels, Pixels]]:
    """Yield three pairs of neighbouring images from each function in `MAKERS`."""
    for make in MAKERS:
        for _ in range(3):
            x, y = make(chain, generator)
            assert x.shape == y.shape == (chain.geometry.coordinates,)
            yield x, y
