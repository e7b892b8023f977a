"""Sources: where the private pictures of a dataset come from, read by position and never all at once.

A source is a numbered sequence. It pickles to a few bytes and reads any range by itself, in any process on any machine
that sees the same files, so that pixels never pass through a driver, a queue or an object store. What a source says
of a picture is its content, its label and, for the terminal alone, its name. What is wrong with one picture is said
instead of its content; only a source that cannot be read at all raises.

| source | how it is recognised |
|---|---|
| folder of images, class sub-folders are labels | any other folder (`files`) |
| CIFAR-10 | folder with `data_batch_1` and `batches.meta` |
| Parquet with an image column | `.parquet`, or a folder of them |
| Hugging Face `datasets` | folder of `save_to_disk`; or a hub id, whose Parquet files are read where they are |
| WebDataset | `.tar`, or a folder of them (`files`) |
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import itertools
import json
import pickle
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy._core.multiarray import _reconstruct
from numpy.typing import NDArray

from dipp.errors import DippError

Label = int | str | None
Content = bytes | NDArray[np.uint8]

MAX_FILE_BYTES = 1 << 28
"""Larger files are no pictures: they are not even read."""
CIFAR_BATCHES = {"train": tuple(f"data_batch_{i}" for i in range(1, 6)), "test": ("test_batch",)}
CIFAR_META = "batches.meta"
ROWS_PER_READ = 64
DAMAGED_TABLE = "its part of the table is damaged"
HUB_ID = re.compile(r"\w[\w.-]*/\w[\w.-]*")
HUB_PARQUET = "refs/convert/parquet"
"""The branch on which the hub keeps a dataset of any format as Parquet."""


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
    from dipp.data import files

    path = Path(place)
    if path.is_dir():
        path = path.resolve()
        if any((path / name).is_file() for name in ("dataset_dict.json", "state.json")):
            return Saved.open(path, columns)
        for folder in (path, path / "cifar-10-batches-py"):
            if (folder / CIFAR_META).is_file():
                return Cifar.open(folder, columns.split)
        for suffix, kind in ((".parquet", Tables.open), (".tar", files.open_tars)):
            if found := sorted(p for p in path.iterdir() if p.suffix == suffix and not p.name.startswith(".")):
                return kind(found, columns, scratch)
        return files.open_folder(path, scratch)
    if path.is_file():
        if path.suffix == ".parquet":
            return Tables.open([path.resolve()], columns, scratch)
        if path.suffix == ".tar":
            return files.open_tars([path.resolve()], columns, scratch)
        raise DippError(f"src: a folder, .parquet, .tar or hub id is needed, got {path.name}")
    if HUB_ID.fullmatch(place):
        return open_hub(place, columns)
    raise DippError(f"src: {place} is neither a file nor a folder, nor a hub id")


def fingerprint(paths: Iterable[Path], *more: str) -> str:
    """SHA-256 over names, sizes and times of files; `more` are options that choose among their pictures."""
    digest = hashlib.sha256()
    for path in paths:
        facts = path.stat()
        digest.update(f"{path.name}\0{facts.st_size}\0{facts.st_mtime_ns}\n".encode(errors="surrogateescape"))
    digest.update("\0".join(more).encode())
    return digest.hexdigest()


@dataclass(frozen=True)
class Cifar(Source):
    """The Python version of CIFAR-10."""

    folder: Path
    batches: tuple[str, ...]
    counts: tuple[int, ...]
    labels: Labels
    fingerprint: str

    @classmethod
    def open(cls, folder: Path, split: str) -> Cifar:
        """Look at the batches of a split: train or test."""
        if split not in CIFAR_BATCHES:
            raise DippError(f"split: train or test is needed for CIFAR-10, got {split}")
        batches = CIFAR_BATCHES[split]
        for name in batches:
            if not (folder / name).is_file():
                raise DippError(f"src: {name} of CIFAR-10 is missing; unpack the archive again")
        names = tuple(name.decode() for name in _unpickled(folder / CIFAR_META)[b"label_names"])
        counts = tuple(len(_cifar_batch(folder / name)[1]) for name in batches)
        marks = fingerprint([folder / name for name in (CIFAR_META, *batches)])
        return cls(folder, batches, counts, Labels(names=names), marks)

    def __len__(self) -> int:
        return sum(self.counts)

    def read(self, start: int, stop: int) -> Iterator[Record]:
        """Rows of 3072 bytes, channel by channel, as pixels."""
        for number, low, high, first in _ranges(self.counts, start, stop):
            rows, labels = _cifar_batch(self.folder / self.batches[number])
            for row in range(low, high):
                pixels = np.ascontiguousarray(rows[row].reshape(3, 32, 32).transpose(1, 2, 0))
                yield Record(first + row, pixels, int(labels[row]))

    def name(self, position: int) -> str:
        """Batch and row."""
        number, row, _, _ = next(_ranges(self.counts, position, position + 1))
        return f"{self.batches[number]} row {row}"


class _Plain(pickle.Unpickler):
    """Makes plain Python values and NumPy arrays, and nothing that could run code."""

    def find_class(self, module: str, name: str) -> Any:
        """Only what a pickled array of numbers names."""
        allowed = {"_reconstruct": _reconstruct, "ndarray": np.ndarray, "dtype": np.dtype}
        if name in allowed and module in ("numpy", "numpy.core.multiarray", "numpy._core.multiarray"):
            return allowed[name]
        raise pickle.UnpicklingError(f"{module}.{name} is not allowed")


def _unpickled(path: Path) -> Any:
    try:
        with path.open("rb") as stream:
            return _Plain(stream, encoding="bytes").load()
    except Exception:  # a damaged pickle can raise almost anything
        raise DippError(f"src: {path.name} is not a file of CIFAR-10; unpack the archive again") from None


@functools.lru_cache(maxsize=1)
def _cifar_batch(path: Path) -> tuple[NDArray[np.uint8], Sequence[int]]:
    batch = _unpickled(path)
    try:
        rows, labels = np.asarray(batch[b"data"], np.uint8).reshape(-1, 3072), batch[b"labels"]
    except (KeyError, TypeError, ValueError):
        rows, labels = np.zeros((0, 3072), np.uint8), [0]
    if len(rows) != len(labels):
        raise DippError(f"src: {path.name} is not a batch of CIFAR-10; unpack the archive again")
    return rows, labels


@dataclass(frozen=True)
class Tables(Source):
    """Parquet files, local or on the hub, with a column of picture files: bytes, or {bytes, path}."""

    files: tuple[str, ...]
    counts: tuple[int, ...]
    image: str
    label: str | None
    labels: Labels | None
    fingerprint: str

    @classmethod
    def open(cls, paths: Sequence[Path], columns: Columns, scratch: Path | None = None) -> Tables:  # noqa: ARG003
        """Look at the footers of local files."""
        return cls.of([str(path) for path in paths], columns, fingerprint(paths))

    @classmethod
    def of(cls, places: Sequence[str], columns: Columns, mark: str) -> Tables:
        """Look at the footers of files or hf:// addresses."""
        counts = []
        for place in places:
            file = _table(place)
            counts.append(file.metadata.num_rows)
            if place == places[0]:
                schema = file.schema_arrow
            elif not file.schema_arrow.equals(schema, check_metadata=False):
                raise DippError(f"src: the columns of {Path(place).name} differ from those of {Path(places[0]).name}")
        image, label, labels = choose_columns(schema, columns)
        marks = hashlib.sha256("\0".join([mark, image, label or ""]).encode()).hexdigest()
        return cls(tuple(places), tuple(counts), image, label, labels, marks)

    def __len__(self) -> int:
        return sum(self.counts)

    def read(self, start: int, stop: int) -> Iterator[Record]:
        """Only the row groups that are asked for are read, a few rows at a time."""
        for number, low, high, first in _ranges(self.counts, start, stop):
            done = low
            try:
                for done, row in self._rows(_table(self.files[number]), low, high):
                    yield _record(first + done, row[self.image], row.get(self.label or ""))
                    done += 1
            except (OSError, pa.ArrowException) as error:
                if isinstance(error, OSError) and (error.errno or self.files[number].startswith("hf://")):
                    raise DippError(f"src: {Path(self.files[number]).name} cannot be read ({error})") from None
                yield from (Record(first + row, None, None, DAMAGED_TABLE) for row in range(done, high))

    def _rows(self, file: pq.ParquetFile, low: int, high: int) -> Iterator[tuple[int, dict[str, Any]]]:
        sizes = [file.metadata.row_group(group).num_rows for group in range(file.metadata.num_row_groups)]
        starts = [0, *itertools.accumulate(sizes)]
        wanted = [group for group, size in enumerate(sizes) if starts[group] < high and starts[group] + size > low]
        columns = [self.image] + ([self.label] if self.label else [])
        at = starts[wanted[0]]
        for batch in file.iter_batches(ROWS_PER_READ, row_groups=wanted, columns=columns, use_threads=False):
            inside = range(max(low - at, 0), min(high - at, len(batch)))
            if inside:
                yield from enumerate(batch.slice(inside.start, len(inside)).to_pylist(), at + inside.start)
            at += len(batch)

    def name(self, position: int) -> str:
        """File and row."""
        number, row, _, _ = next(_ranges(self.counts, position, position + 1))
        return f"{Path(self.files[number]).name} row {row}"


@functools.lru_cache(maxsize=2)
def _table(place: str) -> pq.ParquetFile:
    try:
        if place.startswith("hf://"):
            from huggingface_hub import HfFileSystem

            return pq.ParquetFile(HfFileSystem().open(place, "rb"))
        return pq.ParquetFile(place)
    except (OSError, pa.ArrowException) as error:
        raise DippError(f"src: {Path(place).name} cannot be read as Parquet ({type(error).__name__})") from None


@dataclass(frozen=True)
class Saved(Source):
    """A dataset that Hugging Face's `save_to_disk` wrote."""

    folder: Path
    count: int
    image: str
    label: str | None
    labels: Labels | None
    fingerprint: str

    @classmethod
    def open(cls, folder: Path, columns: Columns) -> Saved:
        """Look at a folder; of a DatasetDict, at one split."""
        if (folder / "dataset_dict.json").is_file():
            splits = json.loads((folder / "dataset_dict.json").read_text()).get("splits", [])
            if columns.split not in splits:
                raise DippError(f"split: one of {', '.join(splits)} is needed, got {columns.split}")
            folder /= columns.split
        data = _saved(folder).with_format("arrow")
        image, label, labels = choose_columns(data.data.schema, columns)
        marks = fingerprint(sorted(folder.iterdir()), image, label or "")
        return cls(folder, len(data), image, label, labels, marks)

    def __len__(self) -> int:
        return self.count

    def read(self, start: int, stop: int) -> Iterator[Record]:
        """Rows of the memory-mapped Arrow files; nothing is decoded here."""
        data = _saved(self.folder).with_format("arrow")
        chosen = [self.image] + ([self.label] if self.label else [])
        for low in range(start, stop, ROWS_PER_READ):
            rows = data[low : min(low + ROWS_PER_READ, stop)].select(chosen).to_pylist()
            for position, row in enumerate(rows, low):
                yield _record(position, row[self.image], row.get(self.label or ""))

    def name(self, position: int) -> str:
        """The row."""
        return f"row {position}"


@functools.lru_cache(maxsize=1)
def _saved(folder: Path) -> Any:
    datasets = _datasets()
    try:
        return datasets.load_from_disk(str(folder))
    except Exception as error:  # each release of the library has its own
        raise DippError(f"src: {folder.name} cannot be read by datasets ({type(error).__name__})") from None


def open_hub(name: str, columns: Columns) -> Tables:
    """A dataset on the hub: its Parquet files, or those that the hub made of it, at the revision of now."""
    datasets = _datasets()
    reasons = []
    for revision in (None, HUB_PARQUET):
        try:
            builder = datasets.load_dataset_builder(name, revision=revision)
        except Exception as error:  # each transport has its own
            reasons.append(type(error).__name__)
            continue
        found = builder.config.data_files or {}
        if columns.split not in found:
            raise DippError(f"split: one of {', '.join(map(str, found))} is needed, got {columns.split}")
        places = [str(place) for place in found[columns.split]]
        if places and all(place.endswith(".parquet") for place in places):
            # A place on the hub names its commit, so that a later state of the dataset is another source.
            return Tables.of(places, columns, hashlib.sha256("\0".join(places).encode()).hexdigest())
        reasons.append("no Parquet files")
    raise DippError(f"src: {name} is no file or folder here, nor to be had from the hub ({'; '.join(reasons)})")


def _datasets() -> Any:
    try:
        datasets = importlib.import_module("datasets")
    except ImportError:
        raise DippError("src: datasets is missing; install dp-dipp[data]") from None
    datasets.disable_progress_bars()
    return datasets


def choose_columns(schema: Any, columns: Columns) -> tuple[str, str | None, Labels | None]:
    """The image column, the label column if there is one, and what the labels are."""
    images = [one.name for one in schema if _holds_files(one.type)]
    image = columns.image or (images[0] if len(images) == 1 else None)
    if image is None or image not in images:
        found = ", ".join(images) or "there is none"
        raise DippError(f"image-column: a column of bytes is needed ({found}), got {image}")
    label = columns.label or ("label" if "label" in schema.names else None)
    if label is None:
        return image, None, None
    if label not in schema.names:
        raise DippError(f"label-column: one of {', '.join(schema.names)} is needed, got {label}")
    kind = schema.field(label).type
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return image, label, Labels(names=_class_names(schema, label))
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return image, label, Labels(text=True)
    raise DippError(f"label-column: whole numbers or text are needed, {label} holds {kind}; choose another")


def _class_names(schema: Any, label: str) -> tuple[str, ...]:
    """Names that Hugging Face's datasets keep in the schema."""
    try:
        features = json.loads(schema.metadata[b"huggingface"])["info"]["features"]
        names = features[label].get("names", [])
        return tuple(name for name in names if isinstance(name, str)) if isinstance(names, list) else ()
    except (KeyError, TypeError, ValueError, AttributeError):
        return ()


def _holds_files(kind: Any) -> bool:
    if pa.types.is_struct(kind):
        names = [kind.field(i).name for i in range(kind.num_fields)]
        return "bytes" in names and _holds_files(kind.field(names.index("bytes")).type)
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _record(position: int, value: Any, label: Label) -> Record:
    content = value.get("bytes") if isinstance(value, dict) else value
    if not content:
        return Record(position, None, label, "there are no bytes")
    if len(content) > MAX_FILE_BYTES:
        return Record(position, None, label, f"more than {MAX_FILE_BYTES >> 20} MiB")
    return Record(position, content, int(label) if isinstance(label, bool) else label)


def _ranges(counts: Sequence[int], start: int, stop: int) -> Iterator[tuple[int, int, int, int]]:
    """(file, first row, end, position of its row 0) of the files that hold positions start … stop − 1."""
    first = 0
    for number, count in enumerate(counts):
        low, high = max(start - first, 0), min(stop - first, count)
        if low < high:
            yield number, low, high, first
        first += count
