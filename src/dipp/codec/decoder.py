"""The decoder's part of the chain: the indices of a file, step by step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dipp.codec.chain import Indices, StepLayout

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, eq=False)
class IndexReader:
    """The decoder's `Choose`: the indices of the file, step by step."""

    indices: Indices
    """Images × chunks of all steps, in order."""
    counts: tuple[int, ...]
    """Chunks of each step."""

    def __call__(self, layout: StepLayout, x_hat: torch.Tensor) -> Indices:  # noqa: ARG002
        """The columns of this step."""
        first = sum(self.counts[: layout.number])
        return self.indices[:, first : first + self.counts[layout.number]]
