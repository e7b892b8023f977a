"""A source in an unpacked folder of CIFAR-10 or CIFAR-100."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dipp.data import cifar
from dipp.data.repeats import refuse_twice
from dipp.data.sources import CHANGED, Columns, Label, Labels, Source, SourcePicture, fingerprint, ranges
from dipp.data.states import State, machine, same, state_at
from dipp.errors import DippError


@dataclass(frozen=True)
class Cifar(Source):
    """A source in the Python version of CIFAR-10 or CIFAR-100."""

    title: str
    """Name of the dataset."""
    folder: Path
    batches: tuple[str, ...]
    """Names of the batch files."""
    counts: tuple[int, ...]
    """Number of pictures in each batch."""
    states: tuple[State | None, ...]
    """State of each batch file when the source was opened."""
    labels: Labels
    fingerprint: str
    machine: str = field(default_factory=machine)
    """The machine on which the states were taken, with its boot."""

    @classmethod
    def open(cls, folder: Path, split: str, kind: cifar.CifarVersion = cifar.TEN) -> Cifar:
        """Open a split of CIFAR-10 or CIFAR-100.

        Args:
            folder: The unpacked folder.
            split: "train" or "test".
            kind: The dataset; CIFAR-10 by default.

        Raises:
            DippError: There is no such split, or a file is missing or damaged.
        """
        if split not in kind.batches:
            raise DippError("split", f"must be train or test for {kind.title}, got {split}")
        batches = kind.batches[split]
        paths = [folder / name for name in batches]
        refuse_twice(paths)
        states = tuple(map(state_at, paths))
        labels = Labels(names=cifar.class_names(folder / kind.meta, kind))
        batches_read = (_cifar_batch(path, state, kind.title) for path, state in zip(paths, states, strict=True))
        counts = tuple(len(batch_labels) for _, batch_labels in batches_read)
        return cls(kind.title, folder, batches, counts, states, labels, fingerprint([folder / kind.meta, *paths]))

    def __len__(self) -> int:
        return sum(self.counts)

    def read(self, start: int, stop: int) -> Iterator[SourcePicture]:
        """Yield the pictures as pixels."""
        for number, low, high, first in ranges(self.counts, start, stop):
            path = self.folder / self.batches[number]
            if not same(self.states[number], state_at(path), self.machine):
                yield from (SourcePicture(first + row, None, None, CHANGED) for row in range(low, high))
                continue
            rows, labels = _cifar_batch(path, self.states[number], self.title)
            for row in range(low, high):
                yield SourcePicture(first + row, np.ascontiguousarray(rows[row]), labels[row])

    def _labels(self) -> Iterator[Label]:
        """Yield the labels, batch by batch."""
        for name, state in zip(self.batches, self.states, strict=True):
            yield from _cifar_batch(self.folder / name, state, self.title)[1]

    def name(self, position: int) -> str:
        """Return the name of a picture: its batch file and its row there."""
        number, row, _, _ = next(ranges(self.counts, position, position + 1))
        return f"{self.batches[number]} row {row}"


def cifar_folder(location: str, columns: Columns, _: Path) -> Cifar | None:
    """Open CIFAR-10 or CIFAR-100: its folder, or the folder above it.

    Args:
        location: Path of the folder.
        columns: The columns and the split to use.
    """
    path = Path(location).resolve()
    for kind in cifar.KINDS:
        for folder in (path, path / kind.folder):
            if kind.is_in(folder):
                columns.refuse_columns(location)
                return Cifar.open(folder, columns.part, kind)
    return None


@functools.lru_cache(maxsize=1)
def _cifar_batch(path: Path, state: State | None, title: str) -> tuple[NDArray[np.uint8], Sequence[int]]:  # noqa: ARG001
    """Return the pictures and labels of a batch file; the last result is cached while the file's state is the same."""
    (kind,) = (kind for kind in cifar.KINDS if kind.title == title)
    return cifar.read(path, kind)
