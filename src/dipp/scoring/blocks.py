"""Blocks: the private content of the blocks of a question, and the search for the nearest candidates.

A certificate depends neither on the measure of nearness nor on its precision (`core.closest`). Two things do matter:

- *Locality.* Each block is one row of an array. Its scores are products of its row with public vectors; no row is
  normalised by others, and no number of a row enters another. NaN and infinities stay in their row.
- *Exactly m distinct indices* for each block: `core.closest.best_of` chooses them, on the host.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dipp.core.closest import Tally, Weights, best_of

Floats = NDArray[np.float32]
Integers = NDArray[np.int64]

SCORES_PER_BATCH = 1 << 22
"""Number of scores that are held at a time."""


@dataclass(frozen=True, eq=False)
class Blocks:
    """The private content of many blocks, with their public candidates."""

    content: Any = field(repr=False)
    """Private floats, blocks × dimensions; 0 where a block has no coarse pixel."""
    candidates: Floats
    """Public candidates, candidates × dimensions."""
    present: Floats
    """Public mask, blocks × dimensions: 1 where a block has the coordinate, 0 beyond the edge of the picture."""
    flips: Floats | None
    """Public signs ±1, blocks × dimensions, by which the candidates of each block are multiplied; None for no flips."""
    terms: Weights
    """The law by which the indices are drawn."""
    tally: Tally
    """The record to which draws are added."""

    def nearest(self, count: int) -> Integers:
        """Return the `count` nearest candidates of each block, ascending.

        Distances are Euclidean, over the coordinates that a block has: ‖x − c‖² = ‖x‖² − 2⟨x, c⟩ + ‖c‖². The first
        term is the same for all candidates, so it is left out.

        Returns:
            Blocks × count distinct indices, int64.
        """
        batch = max(1, SCORES_PER_BATCH // len(self.candidates))
        rows = range(0, len(self.present), batch)
        return np.concatenate([self._nearest(slice(first, first + batch), count) for first in rows])

    def _nearest(self, rows: slice, count: int) -> Integers:
        # Scores may overflow and still rank; a warning that is raised as an error would end the encoding.
        with np.errstate(over="ignore", invalid="ignore"):
            private = self.content[rows] if self.flips is None else self.content[rows] * self.flips[rows]
            squares = self.present[rows] @ np.square(self.candidates).T
            return best_of(np.asarray(2 * (private @ self.candidates.T) - squares), count)
