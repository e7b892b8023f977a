"""The decoder's part: what is decoded, and the indices of a file, step by step."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dipp.codec.chain import Indices, StepLayout
from dipp.errors import DippError
from dipp.format import archive as archives
from dipp.format.archive import Archive

if TYPE_CHECKING:
    import torch

Sources = Archive | str | Path | Iterable[Archive | str | Path]
"""What is decoded: an archive, the path of a file, or an iterable of those."""


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


def each_archive(source: Sources) -> Iterator[Archive]:
    """The archives of a source, one by one."""
    if isinstance(source, Archive):
        yield source
    elif isinstance(source, str | os.PathLike):
        yield archives.open(source)
    elif isinstance(source, Iterable) and not isinstance(source, bytes) and not hasattr(source, "__array__"):
        for one in source:
            if not isinstance(one, Archive | str | os.PathLike):
                raise _no_archive(one)
            yield from each_archive(one)
    else:
        raise _no_archive(source)


def _no_archive(found: Any) -> DippError:
    return DippError(
        f"source: an archive, the path of a .dipp file, or an iterable of those is needed, got {type(found).__name__}"
    )
