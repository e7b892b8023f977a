"""Sources that are tables: Parquet files, local or on the hub, and folders that Hugging Face's `save_to_disk` wrote.

Only the requested rows are read, and only the columns of pictures and labels: all other columns are left alone.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import itertools
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dipp.data.repeats import refuse_twice
from dipp.data.sources import (
    CHANGED,
    MAX_FILE_BYTES,
    ROWS_PER_READ,
    Columns,
    Label,
    Labels,
    Record,
    Source,
    files_of,
    fingerprint,
    ranges,
)
from dipp.data.states import State, machine, same, state_at
from dipp.errors import DippError

HUB = "hf://"
"""Beginning of the address of a file on the hub."""
DAMAGED_TABLE = "its part of the table is damaged"
VALUES_PER_READ = 4096
"""Values of a single column that are read at a time."""
HUB_PARQUET = "refs/convert/parquet"
"""Branch on which the hub keeps a dataset of any format converted to Parquet."""


@dataclass(frozen=True)
class Rows(Source):
    """A source that is a table, with a column of picture files: bytes, or {bytes, path}."""

    image: str
    """Column of the pictures."""
    label: str | None
    """Column of the labels; None if labels are not used."""
    labels: Labels | None
    fingerprint: str
    files: tuple[str, ...]
    """The files of the table: paths, addresses on the hub, or names in a folder."""
    states: tuple[State | None, ...]
    """State of each local file when the source was opened; the address of a file on the hub contains its commit."""
    machine: str = field(default_factory=machine, kw_only=True)
    """Where the states were taken."""

    @property
    def columns(self) -> list[str]:
        """The columns that are read."""
        return [self.image, self.label] if self.label else [self.image]

    def record(self, position: int, row: dict[str, Any]) -> Record:
        """Return the record of a row."""
        return _record(position, row[self.image], row.get(self.label or ""))


@dataclass(frozen=True)
class Tables(Rows):
    """Parquet files, local or on the hub."""

    counts: tuple[int, ...]
    """Number of rows of each file."""

    @classmethod
    def open(cls, paths: Sequence[Path], columns: Columns) -> Tables:
        """Open local files; only their footers are read."""
        return cls.of([str(path) for path in paths], columns, fingerprint(paths))

    @classmethod
    def of(cls, places: Sequence[str], columns: Columns, chosen: str) -> Tables:
        """Open files or hf:// addresses, reading only their footers; `chosen` is the fingerprint of them all."""
        _refuse_twice(places)
        counts, states = [], tuple(map(_state, places))
        for place, state in zip(places, states, strict=True):
            file = _table(place, state)
            counts.append(file.metadata.num_rows)
            if place == places[0]:
                schema = file.schema_arrow
            elif not file.schema_arrow.equals(schema, check_metadata=False):
                raise DippError(f"src: the columns of {Path(place).name} differ from those of {Path(places[0]).name}")
        return cls(*choose_columns(schema, columns, chosen), tuple(places), states, tuple(counts))

    def __len__(self) -> int:
        return sum(self.counts)

    def read(self, start: int, stop: int) -> Iterator[Record]:
        """Yield records, reading only the row groups that are needed, a few rows at a time."""
        for number, low, high, first in ranges(self.counts, start, stop):
            done, place = low, self.files[number]
            if not place.startswith(HUB) and not same(self.states[number], _state(place), self.machine):
                yield from (Record(first + row, None, None, CHANGED) for row in range(low, high))
                continue
            try:
                for done, row in self._rows(_table(place, self.states[number]), low, high):
                    yield self.record(first + done, row)
                    done += 1
            except (OSError, pa.ArrowException) as error:
                if isinstance(error, OSError) and (error.errno or place.startswith(HUB)):
                    raise DippError(f"src: {Path(place).name} cannot be read ({error})") from None
                yield from (Record(first + row, None, None, DAMAGED_TABLE) for row in range(done, high))

    def _rows(self, file: pq.ParquetFile, low: int, high: int) -> Iterator[tuple[int, dict[str, Any]]]:
        """Rows low … high − 1 of a file, with their numbers."""
        sizes = [file.metadata.row_group(group).num_rows for group in range(file.metadata.num_row_groups)]
        starts = [0, *itertools.accumulate(sizes)]
        wanted = [group for group, size in enumerate(sizes) if starts[group] < high and starts[group] + size > low]
        at = starts[wanted[0]]
        for batch in file.iter_batches(ROWS_PER_READ, row_groups=wanted, columns=self.columns, use_threads=False):
            inside = range(max(low - at, 0), min(high - at, len(batch)))
            if inside:
                yield from enumerate(batch.slice(inside.start, len(inside)).to_pylist(), at + inside.start)
            at += len(batch)

    def values(self, column: str) -> Iterator[Label]:
        """Yield a column of text or whole numbers, row by row."""
        for place, state in zip(self.files, self.states, strict=True):
            file = _table(place, state)
            _labels(file.schema_arrow, column, "subject")
            try:
                for batch in file.iter_batches(columns=[column], use_threads=False):
                    yield from batch.column(0).to_pylist()
            except (OSError, pa.ArrowException) as error:
                raise DippError(f"subject: {column} of {Path(place).name} cannot be read ({error})") from None

    def name(self, position: int) -> str:
        """File and row of a picture."""
        number, row, _, _ = next(ranges(self.counts, position, position + 1))
        return f"{Path(self.files[number]).name} row {row}"


def _refuse_twice(places: Sequence[str]) -> None:
    """Refuse a table that is named twice, or is under two names. An address on the hub stands for its file."""
    if len({*places}) < len(places):
        raise DippError("src: a table is named twice, and its pictures would be released twice; name it once")
    refuse_twice(Path(place) for place in places if not place.startswith(HUB))


def _state(place: str) -> State | None:
    """Return the state of a local file; None for an address on the hub."""
    return None if place.startswith(HUB) else state_at(Path(place))


@functools.lru_cache(maxsize=2)
def _table(place: str, state: State | None) -> pq.ParquetFile:  # noqa: ARG001 - part of the cache key
    """The opened Parquet file, which is kept for later calls as long as its state is the same."""
    try:
        if place.startswith(HUB):
            from huggingface_hub import HfFileSystem

            return pq.ParquetFile(HfFileSystem().open(place, "rb"))
        return pq.ParquetFile(place)
    except (OSError, pa.ArrowException) as error:
        raise DippError(
            f"src: {Path(place).name} is not a Parquet file that can be read ({type(error).__name__})"
        ) from None


@dataclass(frozen=True)
class Saved(Rows):
    """A dataset that Hugging Face's `save_to_disk` wrote, with all files of its folder."""

    folder: Path
    count: int
    """Number of rows."""

    @classmethod
    def open(cls, folder: Path, columns: Columns) -> Saved:
        """Open a saved dataset, or one split of a saved DatasetDict."""
        if (folder / "dataset_dict.json").is_file():
            try:
                found = json.loads((folder / "dataset_dict.json").read_text())["splits"]
                splits = [name for name in found if (folder / name).is_dir()]
            except (OSError, ValueError, KeyError, TypeError, RecursionError):
                raise DippError("src: dataset_dict.json is damaged; save the dataset again") from None
            if columns.part not in splits:
                raise DippError(f"split: one of {', '.join(splits)} is needed, got {columns.part}")
            folder /= columns.part
        else:
            columns.refuse_split(str(folder))
        paths = sorted(folder.iterdir())
        names, states = tuple(path.name for path in paths), tuple(map(state_at, paths))
        data = _saved(folder, states)
        _refuse_twice([part["filename"] for part in data.cache_files])
        return cls(*choose_columns(data.data.schema, columns, fingerprint(paths)), names, states, folder, len(data))

    def __len__(self) -> int:
        return self.count

    def read(self, start: int, stop: int) -> Iterator[Record]:
        """Rows of the memory-mapped Arrow files; nothing is decoded here."""
        now = {path.name: state_at(path) for path in self.folder.glob("*")}
        unchanged = map(functools.partial(same, where=self.machine), self.states, map(now.get, self.files))
        if set(now) != set(self.files) or not all(unchanged):
            yield from (Record(position, None, None, CHANGED) for position in range(start, stop))
            return
        data = _saved(self.folder, self.states).with_format("arrow")
        for low in range(start, stop, ROWS_PER_READ):
            rows = data[low : min(low + ROWS_PER_READ, stop)].select(self.columns).to_pylist()
            for position, row in enumerate(rows, low):
                yield self.record(position, row)

    def values(self, column: str) -> Iterator[Label]:
        """Yield a column of text or whole numbers, row by row."""
        data = _saved(self.folder, self.states)
        _labels(data.data.schema, column, "subject")
        chosen = data.select_columns([column]).with_format("arrow")
        for low in range(0, self.count, VALUES_PER_READ):
            yield from chosen[low : low + VALUES_PER_READ].column(column).to_pylist()

    def name(self, position: int) -> str:
        """Row of a picture."""
        return f"row {position}"


@functools.lru_cache(maxsize=1)
def _saved(folder: Path, states: tuple[State | None, ...]) -> Any:  # noqa: ARG001 - part of the cache key
    """The dataset of a folder, which is kept for later calls as long as the states of its files are the same."""
    datasets = _datasets()
    try:
        return datasets.load_from_disk(str(folder))
    except Exception as error:  # its exceptions differ from release to release
        raise DippError(f"src: {folder.name} cannot be read by datasets ({type(error).__name__})") from None


def open_hub(name: str, columns: Columns) -> Tables:
    """Open a dataset on the hub at its current revision: its Parquet files, or those that the hub made from it."""
    datasets = _datasets()
    reasons = []
    for revision in (None, HUB_PARQUET):
        try:
            builder = datasets.load_dataset_builder(name, revision=revision)
        except Exception as error:  # each transport raises exceptions of its own
            reasons.append(type(error).__name__)
            continue
        found = builder.config.data_files or {}
        if columns.part not in found:
            raise DippError(f"split: one of {', '.join(map(str, found))} is needed, got {columns.part}")
        places = [str(place) for place in found[columns.part]]
        if places and all(place.endswith(".parquet") for place in places):
            # An address on the hub contains its commit, so that a later state of the dataset has another fingerprint.
            return Tables.of(places, columns, hashlib.sha256("\0".join(places).encode()).hexdigest())
        reasons.append("no Parquet files")
    raise DippError(f"src: {name} is no file or folder here, nor to be had from the hub ({'; '.join(reasons)})")


def _datasets() -> Any:
    """The module datasets, which is an optional dependency."""
    try:
        datasets = importlib.import_module("datasets")
    except ImportError:
        raise DippError('src: datasets is missing; in a checkout of dipp, pip install ".[data]"') from None
    datasets.disable_progress_bars()
    return datasets


def parquet_files(place: str, columns: Columns, _: Path) -> Tables | None:
    """A Parquet file, or a folder of them; of those, a split is what Hugging Face's `datasets` name after it."""
    found = files_of(place, ".parquet")
    if found and columns.split is not None:
        named = re.compile(rf"{re.escape(columns.split)}(-\d+-of-\d+)?\.parquet")
        found = [path for path in found if named.fullmatch(path.name)]
        if not found:
            columns.refuse_split(place)
    return Tables.open(found, columns) if found else None


def saved_folder(place: str, columns: Columns, _: Path) -> Saved | None:
    """The folder of a dataset, or of a dictionary of them, that `save_to_disk` wrote."""
    folder = Path(place).resolve()
    known = any((folder / name).is_file() for name in ("dataset_dict.json", "state.json"))
    return Saved.open(folder, columns) if known else None


def hub_dataset(place: str, columns: Columns, _: Path) -> Tables | None:
    """What is no file and no folder here is looked for on the hub."""
    return None if Path(place).is_file() or Path(place).is_dir() else open_hub(place, columns)


def choose_columns(schema: Any, columns: Columns, files: str) -> tuple[str, str | None, Labels | None, str]:
    """Return the image column, the label column, the kind of the labels and the fingerprint of files and columns.

    The label column is None if labels are not wanted or not there, and their kind if they are not there.
    """
    images = [one.name for one in schema if _holds_files(one.type)]
    if not images:
        raise DippError(f"src: there is no column of pictures as bytes; there are {', '.join(schema.names)}")
    several = images[0] if len(images) == 1 else "image"
    image = several if columns.image is None else columns.image
    if image not in images:
        raise DippError(f"image-column: one of {', '.join(images)} is needed, got {columns.image or 'none'}")
    label = ("label" if "label" in schema.names else None) if columns.label is None else columns.label
    labels = None if label is None else Labels()
    label = label if columns.labelled else None
    for name in (image, label):
        if name is not None and schema.names.count(name) > 1:
            raise DippError(f"src: several columns are called {name}; rename all but one")
    if label is not None:
        labels = _labels(schema, label)
    return image, label, labels, hashlib.sha256("\0".join([files, image, label or ""]).encode()).hexdigest()


def _labels(schema: Any, label: str, option: str = "label-column") -> Labels:
    """Return the kind of the labels in a column that an option names."""
    if schema.names.count(label) != 1:
        raise DippError(f"{option}: one of {', '.join(schema.names)} is needed, got {label}")
    kind = schema.field(label).type
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_null(kind):
        return Labels(names=_class_names(schema, label))
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return Labels(text=True)
    other = ", or --drop-labels" if option == "label-column" else ""
    raise DippError(f"{option}: whole numbers or text are needed, {label} holds {kind}; choose another{other}")


def _class_names(schema: Any, label: str) -> tuple[str, ...]:
    """Class names that Hugging Face's datasets keep in a schema's metadata; empty if there are none."""
    try:
        features = json.loads(schema.metadata[b"huggingface"])["info"]["features"]
        names = features[label].get("names", [])
        return tuple(name for name in names if isinstance(name, str)) if isinstance(names, list) else ()
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        return ()


def _holds_files(kind: Any) -> bool:
    """Whether a column of this type can hold picture files: bytes, or a struct with a field `bytes` of them."""
    if pa.types.is_struct(kind):
        names = [kind.field(i).name for i in range(kind.num_fields)]
        return "bytes" in names and _holds_files(kind.field(names.index("bytes")).type)
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind))


def _record(position: int, value: Any, label: Label) -> Record:
    """The record of a table's row, with its problem if the value or the label cannot be used."""
    content = value.get("bytes") if isinstance(value, dict) else value
    if not content:
        return Record(position, None, label, "there are no bytes")
    if len(content) > MAX_FILE_BYTES:
        return Record(position, None, label, f"more than {MAX_FILE_BYTES >> 20} MiB")
    if isinstance(label, int) and label >= 1 << 63:
        return Record(position, None, None, "its label has more than 63 bits")
    return Record(position, content, int(label) if isinstance(label, bool) else label)
