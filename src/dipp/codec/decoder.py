"""The decoder's part: what is decoded, the indices of a file, step by step, and where they lead."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dipp.codec.chain import Chain, Indices, StepLayout
from dipp.codec.finish import Finish
from dipp.core import randomness
from dipp.errors import DippError
from dipp.format import archive as archives
from dipp.format.archive import Archive
from dipp.models import diffusion, watch

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


class End(NamedTuple):
    """Where the chains of some images have got to."""

    chain: Chain
    steps: int
    state: torch.Tensor
    numbers: Sequence[int]
    """Of the images."""
    grey: NDArray[np.bool_]
    """Which of them are grey."""

    def noise(self, s: int) -> torch.Tensor:
        """Public normals of the images, for ancestral sampling to timestep s."""
        import torch

        seeds = (randomness.stream(self.chain.seed, number, s, "ancestral") for number in self.numbers)
        drawn = np.stack([diffusion.normals(stream, tuple(self.state.shape[1:])) for stream in seeds])
        return torch.from_numpy(drawn).to(self.state.device)


def walked(
    chain: Chain, rows: Indices, numbers: Sequence[int], grey: NDArray[np.bool_], steps: int, finish: Finish
) -> End:
    """The end of the first `steps` steps by the indices in `rows`; a watcher is told of the calls that follow, too."""
    watch.begin(len(rows), len(rows) * chain.geometry.pixels, steps + finish.network_calls(chain.trajectory, steps))
    state, _ = chain.run(numbers, IndexReader(rows, chain.plan.chunk_counts(chain.geometry)), steps)
    watch.step(steps)
    return End(chain, steps, state, numbers, grey)


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
