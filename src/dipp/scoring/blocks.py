"""Blocks: the private content of a question, and which candidates are nearest to it.

Nothing of a certificate depends on how near is measured, nor on how exactly (`core.closest`). Two things do matter:

- *Locality.* A row depends on the content of one block alone. Scores are products of one row with public vectors; no
  row is normalised by others, and no number of a row enters another. NaN and infinities stay in their row.
- *Exactly m distinct indices*, fixed once: `core.closest.best_of`, on the host.
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
"""Scores that are held at a time."""


@dataclass(frozen=True, eq=False)
class Blocks:
    """The private content of many blocks, and their public candidates."""

    content: Any = field(repr=False)
    """Private: blocks × dimensions, an array of floats, 0 where a block has no coarse pixel."""
    candidates: Floats
    """Public: candidates × dimensions."""
    present: Floats
    """Public: blocks × dimensions, 1 where a block has the coordinate and 0 where the picture's edge cuts it off."""
    flips: Floats | None
    """Public: blocks × dimensions of ±1, by which the candidates of each block are multiplied; None for no flips."""
    terms: Weights
    """The law of the draw."""
    tally: Tally
    """Where the draws are written down."""

    def nearest(self, count: int) -> Integers:
        """Return the `count` nearest candidates of each block, ascending.

        Distances are Euclidean, over the coordinates that a block has: ‖x − c‖² = ‖x‖² − 2⟨x, c⟩ + ‖c‖², whose
        first term does not rank.

        Returns:
            Blocks × count distinct indices.
        """
        batch = max(1, SCORES_PER_BATCH // len(self.candidates))
        rows = range(0, len(self.present), batch)
        return np.concatenate([self._nearest(slice(first, first + batch), count) for first in rows])

    def _nearest(self, rows: slice, count: int) -> Integers:
        # Scores may overflow: they rank all the same, and a warning that becomes an error would end the encoding.
        with np.errstate(over="ignore", invalid="ignore"):
            private = self.content[rows] if self.flips is None else self.content[rows] * self.flips[rows]
            squares = self.present[rows] @ np.square(self.candidates).T
            return best_of(np.asarray(2 * (private @ self.candidates.T) - squares), count)
