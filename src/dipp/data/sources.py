"""Sources: where the private pictures of a dataset come from, read by position and never all at once.

A source is a numbered sequence. It pickles to a few bytes and reads any range by itself, in any process on any machine
that sees the same files, so that pixels never pass through a driver, a queue or an object store. What a source says
of a picture is its content, its label and, for the terminal alone, its name. What is wrong with one picture is said
instead of its content; only a source that cannot be read at all raises. What was changed after the source was opened is
not read: a picture that has moved to another position meanwhile would be released twice.

| source | how it is recognised |
|---|---|
| folder of images, class sub-folders are labels | any other folder (`files`) |
| CIFAR-10 | folder with `data_batch_1` and `batches.meta` |
| Parquet with an image column | `.parquet`, or a folder of them (`tables`) |
| Hugging Face `datasets` | folder of `save_to_disk`; or a hub id, read where it is (`tables`) |
| WebDataset | `.tar`, or a folder of them (`files`) |
"""

from __future__ import annotations

import functools
import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dipp.data import cifar
from dipp.errors import DippError

Label = int | str | None
Content = bytes | NDArray[np.uint8]

MAX_FILE_BYTES = 1 << 28
"""Larger files are no pictures: they are not even read."""
ROWS_PER_READ = 64
CHANGED = "its file was changed after the run began"
HUB_ID = re.compile(r"\w[\w.-]*/\w[\w.-]*")


class Record(NamedTuple):
    """One picture of a source."""

    position: int
    content: Content | None
    """The bytes of a picture file, or pixels (H, W, C); None if there are none."""
    label: Label = None
    problem: str = ""
    """Why it cannot be used. It goes into the manifest, so it tells no name."""


@dataclass(frozen=True)
class Labels:
    """What the labels of a source are: whole numbers, perhaps with the names of the classes, or text."""

    text: bool = False
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Columns:
    """Which columns of a table are used, and which part of a dataset; None is for what there is one of."""

    image: str | None = None
    label: str | None = None
    split: str = "train"
    labelled: bool = True
    """Whether labels are wanted: otherwise their column may be of any kind."""


class Source(ABC):
    """A numbered sequence of pictures."""

    labels: Labels | None
    fingerprint: str
    """Hex SHA-256 over the names, sizes and times of the files: a resumed run must find the same. It is kept while a
    run lasts, and never released: names can be guessed from it."""

    @abstractmethod
    def __len__(self) -> int:
        """Number of pictures, good and bad."""

    @abstractmethod
    def read(self, start: int, stop: int) -> Iterator[Record]:
        """Pictures start … stop − 1, in order, one after the other."""

    @abstractmethod
    def name(self, position: int) -> str:
        """What a picture is called, for the terminal only."""


def open_source(place: str, columns: Columns, scratch: Path) -> Source:
    """Recognise a source. A listing of its files, where one is needed, goes into the folder `scratch`."""
    from dipp.data import listing as files
    from dipp.data import tables

    path = Path(place)
    if path.is_dir():
        path = path.resolve()
        if any((path / name).is_file() for name in ("dataset_dict.json", "state.json")):
            return tables.Saved.open(path, columns)
        for folder in (path, path / "cifar-10-batches-py"):
            if (folder / cifar.META).is_file():
                return Cifar.open(folder, columns.split)
        for suffix, kind in ((".parquet", tables.Tables.open), (".tar", files.open_tars)):
            if found := sorted(p for p in path.iterdir() if p.suffix == suffix and not p.name.startswith(".")):
                return kind(found, columns, scratch)
        return files.open_folder(path, scratch)
    if path.is_file():
        if path.suffix == ".parquet":
            return tables.Tables.open([path.resolve()], columns, scratch)
        if path.suffix == ".tar":
            return files.open_tars([path.resolve()], columns, scratch)
        raise DippError(f"src: a folder, .parquet, .tar or hub id is needed, got {path.name}")
    return tables.open_hub(place, columns)


def fingerprint(paths: Iterable[Path], *more: str) -> str:
    """SHA-256 over names, sizes and times of files; `more` are options that choose among their pictures."""
    digest = hashlib.sha256()
    for path in paths:
        digest.update(f"{path.name}\0{mark(path)}\n".encode(errors="surrogateescape"))
    digest.update("\0".join(more).encode())
    return digest.hexdigest()


def mark(path: Path) -> str:
    """Size and time of a file; empty, if it is gone."""
    try:
        facts = path.stat()
    except OSError:
        return ""
    return f"{facts.st_size}\0{facts.st_mtime_ns}"


@dataclass(frozen=True)
class Cifar(Source):
    """The Python version of CIFAR-10."""

    folder: Path
    batches: tuple[str, ...]
    counts: tuple[int, ...]
    marks: tuple[str, ...]
    labels: Labels
    fingerprint: str

    @classmethod
    def open(cls, folder: Path, split: str) -> Cifar:
        """Look at the batches of a split: train or test."""
        if split not in cifar.BATCHES:
            raise DippError(f"split: train or test is needed for CIFAR-10, got {split}")
        batches = cifar.BATCHES[split]
        paths = [folder / name for name in batches]
        marks = tuple(map(mark, paths))
        try:
            labels = Labels(names=cifar.class_names(folder / cifar.META))
            counts = tuple(len(_cifar_batch(*one)[1]) for one in zip(paths, marks, strict=True))
        except DippError as error:
            raise DippError(f"src: {error}") from None
        return cls(folder, batches, counts, marks, labels, fingerprint([folder / cifar.META, *paths]))

    def __len__(self) -> int:
        return sum(self.counts)

    def read(self, start: int, stop: int) -> Iterator[Record]:
        """The pictures as pixels."""
        for number, low, high, first in ranges(self.counts, start, stop):
            path = self.folder / self.batches[number]
            if mark(path) != self.marks[number]:
                yield from (Record(first + row, None, None, CHANGED) for row in range(low, high))
                continue
            rows, labels = _cifar_batch(path, self.marks[number])
            for row in range(low, high):
                yield Record(first + row, np.ascontiguousarray(rows[row]), labels[row])

    def name(self, position: int) -> str:
        """Batch and row."""
        number, row, _, _ = next(ranges(self.counts, position, position + 1))
        return f"{self.batches[number]} row {row}"


@functools.lru_cache(maxsize=1)
def _cifar_batch(path: Path, mark: str) -> tuple[NDArray[np.uint8], Sequence[int]]:  # noqa: ARG001 - of the cache
    return cifar.read(path)


def ranges(counts: Sequence[int], start: int, stop: int) -> Iterator[tuple[int, int, int, int]]:
    """(file, first row, end, position of its row 0) of the files that hold positions start … stop − 1."""
    first = 0
    for number, count in enumerate(counts):
        low, high = max(start - first, 0), min(stop - first, count)
        if low < high:
            yield number, low, high, first
        first += count
