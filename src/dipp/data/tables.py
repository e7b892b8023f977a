"""Sources that are tables: Parquet files, local or on the hub, and what other tables share (`saved`).

Only the requested rows are read, and only the columns of pictures and labels: all other columns are left alone.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import itertools
import re
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dipp.data.columns import choose_columns, class_names, labels_of
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
PATH = "path"
"""Part of a picture's struct that holds the name of its file."""
SIZE = ("width", "height")
"""Columns that hold the size of a picture, where a table has them."""
VALUES_PER_READ = 512
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

    @property
    @abstractmethod
    def schema(self) -> Any:
        """The schema of the table."""

    @abstractmethod
    def _column(self, column: str, part: str | None) -> Iterator[Any]:
        """Yield a column row by row; of a struct, one part of it if that is named."""

    def cells(self, column: str, part: str | None = None) -> Iterator[Any]:
        """Yield whatever a column holds, row by row; of a struct, one part of it if that is named."""
        if self.schema.names.count(column) != 1:
            raise DippError("src", f"one of the columns {', '.join(self.schema.names)} is needed, got {column}")
        return self._column(column, part)

    def record(self, position: int, row: dict[str, Any]) -> Record:
        """Return the record of a row."""
        return _record(position, row[self.image], row.get(self.label or ""))

    def values(self, column: str) -> Iterator[Label]:
        """Yield a column of text or whole numbers, row by row."""
        labels_of(self.schema, column, "subject")
        return self.cells(column)

    def file(self, position: int) -> str:
        """Number of the row: names in tables need not be unique, nor be names that a file may have."""
        return f"{position:08d}"

    def places(self, column: str | None = None) -> Iterator[Path]:
        """Yield the name of each row."""
        if column is not None:
            labels_of(self.schema, column, "name-column")
            for position, name in enumerate(self.cells(column)):
                if name is None or not str(name).strip():
                    raise DippError("name-column", f"{column} of {self.name(position)} is empty", "choose another")
                yield Path(str(name))
            return
        kind = self.schema.field(self.image).type
        known = pa.types.is_struct(kind) and kind.get_field_index(PATH) >= 0
        names = self.cells(self.image, PATH) if known else itertools.repeat(None, len(self))
        for position, name in enumerate(names):
            yield Path(name or str(position))

    def sizes(self) -> Iterator[tuple[int | None, int | None]]:
        """Yield width and height of each picture where there are columns of whole numbers with these names."""
        for side in SIZE:
            if self.schema.names.count(side) != 1 or not pa.types.is_integer(self.schema.field(side).type):
                return super().sizes()
        width, height = map(self.cells, SIZE)
        return zip(width, height, strict=True)

    def kinds(self, column: str) -> tuple[str, ...]:
        """Return the names of the classes in a column of objects, from the metadata of Hugging Face's datasets."""
        return class_names(self.schema, column)


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
        refuse_named_twice(places)
        counts, states = [], tuple(map(_state, places))
        for place, state in zip(places, states, strict=True):
            file = _table(place, state)
            counts.append(file.metadata.num_rows)
            if place == places[0]:
                schema = file.schema_arrow
            elif not file.schema_arrow.equals(schema, check_metadata=False):
                raise DippError("src", f"the columns of {Path(place).name} differ from those of {Path(places[0]).name}")
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
                    raise DippError("src", f"{Path(place).name} cannot be read ({error})") from None
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

    @property
    def schema(self) -> Any:
        """The schema of the first file, which is that of all."""
        return _table(self.files[0], self.states[0]).schema_arrow

    def _column(self, column: str, part: str | None) -> Iterator[Any]:
        wanted = column if part is None else f"{column}.{part}"
        for place, state in zip(self.files, self.states, strict=True):
            file = _table(place, state)
            try:
                for batch in file.iter_batches(VALUES_PER_READ, columns=[wanted], use_threads=False):
                    yield from cells_of(batch.column(column), part)
            except (OSError, pa.ArrowException) as error:
                raise DippError("src", f"{column} of {Path(place).name} cannot be read ({error})") from None

    def name(self, position: int) -> str:
        """File and row of a picture."""
        number, row, _, _ = next(ranges(self.counts, position, position + 1))
        return f"{Path(self.files[number]).name} row {row}"


def refuse_named_twice(places: Sequence[str]) -> None:
    """Raise if a table is named twice, or is under two names. An address on the hub stands for its file."""
    if len({*places}) < len(places):
        raise DippError("src", "a table is named twice, and its pictures would be released twice", "name it once")
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
            "src", f"{Path(place).name} is not a Parquet file that can be read ({type(error).__name__})"
        ) from None


def open_hub(name: str, columns: Columns) -> Tables:
    """Open a dataset on the hub at its current revision: its Parquet files, or those that the hub made from it."""
    datasets = huggingface()
    reasons = []
    for revision in (None, HUB_PARQUET):
        try:
            builder = datasets.load_dataset_builder(name, revision=revision)
        except Exception as error:  # each transport raises exceptions of its own
            reasons.append(type(error).__name__)
            continue
        found = builder.config.data_files or {}
        if columns.part not in found:
            raise DippError("split", f"one of {', '.join(map(str, found))} is needed, got {columns.part}")
        places = [str(place) for place in found[columns.part]]
        if places and all(place.endswith(".parquet") for place in places):
            # An address on the hub contains its commit, so that a later state of the dataset has another fingerprint.
            return Tables.of(places, columns, hashlib.sha256("\0".join(places).encode()).hexdigest())
        reasons.append("no Parquet files")
    raise DippError("src", f"{name} is no file or folder here, nor to be had from the hub ({'; '.join(reasons)})")


def huggingface() -> Any:
    """Return the module datasets, which is an optional dependency."""
    try:
        datasets = importlib.import_module("datasets")
    except ImportError:
        raise DippError("src", "datasets is missing", 'in a checkout of dipp, pip install ".[data]"') from None
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


def hub_dataset(place: str, columns: Columns, _: Path) -> Tables | None:
    """What is no file and no folder here is looked for on the hub."""
    return None if Path(place).is_file() or Path(place).is_dir() else open_hub(place, columns)


def cells_of(values: Any, part: str | None) -> list[Any]:
    """Return the values of a column; of structs, one part of them if that is named."""
    found: list[Any] = (values if part is None else pc.struct_field(values, part)).to_pylist()
    return found


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
