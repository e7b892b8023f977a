"""Sources that are tables: Parquet files, local or on the hub, and what other tables share (`saved`).

Only the requested rows are read, and only the columns of pictures and labels.
"""

from __future__ import annotations

import functools
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
    Source,
    SourcePicture,
    files_of,
    fingerprint,
    ranges,
)
from dipp.data.states import State, machine, same, state_at
from dipp.errors import DippError

HUB = "hf://"
"""Beginning of the address of a file on the hub."""
DAMAGED_TABLE = "lies in a damaged part of the table"
"""Problem of a picture in a damaged part of a table."""
PATH = "path"
"""Field of a picture's struct that holds the name of its file."""
SIZE = ("width", "height")
"""Columns that hold the size of a picture, if a table has them."""
VALUES_PER_READ = 512
"""Number of values of a single column that are read at a time."""


@dataclass(frozen=True)
class Rows(Source):
    """A source that is a table, with a column of picture files: bytes, or structs {bytes, path}."""

    image: str
    """Name of the column of pictures."""
    label: str | None
    """Column of the labels; None if labels are not used."""
    labels: Labels | None
    fingerprint: str
    files: tuple[str, ...]
    """The files of the table: paths, addresses on the hub, or names in a folder."""
    states: tuple[State | None, ...]
    """State of each local file when the source was opened; the address of a file on the hub contains its commit."""
    machine: str = field(default_factory=machine, kw_only=True)
    """The machine on which the states were taken, with its boot."""

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
        """Yield the values of a column row by row; for structs, one field of them if `part` names it."""

    def column_values(self, column: str, part: str | None = None) -> Iterator[Any]:
        """Yield the values of a column, row by row."""
        if self.schema.names.count(column) != 1:
            raise DippError("src", f"must have the column {column}, got {', '.join(self.schema.names)}")
        return self._column(column, part)

    def record(self, position: int, row: dict[str, Any]) -> SourcePicture:
        """Return the picture in a row.

        Args:
            position: Position of the picture.
            row: The values of the row by column.
        """
        return _record(position, row[self.image], row.get(self.label or ""))

    def values(self, column: str) -> Iterator[Label]:
        """Yield the values of a column of text or whole numbers, row by row."""
        labels_of(self.schema, column, "subject")
        return self.column_values(column)

    def file(self, position: int) -> str:
        """Return a name for the file of a picture: the number of its row, because names in tables may repeat."""
        return f"{position:08d}"

    def places(self, column: str | None = None) -> Iterator[Path]:
        """Yield the name of the picture in each row."""
        if column is not None:
            labels_of(self.schema, column, "name-column")
            for position, name in enumerate(self.column_values(column)):
                if name is None or not str(name).strip():
                    raise DippError(
                        "name-column", f"must name every picture, got none for {self.name(position)}", "choose another"
                    )
                yield Path(str(name))
            return
        kind = self.schema.field(self.image).type
        known = pa.types.is_struct(kind) and kind.get_field_index(PATH) >= 0
        names = self.column_values(self.image, PATH) if known else itertools.repeat(None, len(self))
        for position, name in enumerate(names):
            yield Path(name or str(position))

    def sizes(self) -> Iterator[tuple[int | None, int | None]]:
        """Yield width and height of each picture, or None without columns of whole numbers with these names."""
        for side in SIZE:
            if self.schema.names.count(side) != 1 or not pa.types.is_integer(self.schema.field(side).type):
                return super().sizes()
        width, height = map(self.column_values, SIZE)
        return zip(width, height, strict=True)

    def kinds(self, column: str) -> tuple[str, ...]:
        """Return the class names in a column of annotated objects, from the metadata of Hugging Face's `datasets`."""
        return class_names(self.schema, column)


@dataclass(frozen=True)
class Tables(Rows):
    """A source of Parquet files, local or on the hub."""

    counts: tuple[int, ...]
    """Number of rows of each file."""

    @classmethod
    def open(cls, paths: Sequence[Path], columns: Columns) -> Tables:
        """Open local files; only their footers are read.

        Args:
            paths: The files.
            columns: The columns to use.

        Raises:
            DippError: A file is not Parquet, is given twice, has other columns than the first, or lacks a column.
        """
        return cls.of([str(path) for path in paths], columns, fingerprint(paths))

    @classmethod
    def of(cls, places: Sequence[str], columns: Columns, chosen: str) -> Tables:
        """Open files or hf:// addresses; only their footers are read.

        Args:
            places: Paths or addresses.
            columns: The columns to use.
            chosen: Fingerprint of all files.

        Raises:
            DippError: A file is not Parquet, is given twice, has other columns than the first, or lacks a column.
        """
        refuse_named_twice(places)
        counts, states = [], tuple(map(_state, places))
        for path, state in zip(places, states, strict=True):
            file = _table(path, state)
            counts.append(file.metadata.num_rows)
            if path == places[0]:
                schema = file.schema_arrow
            elif not file.schema_arrow.equals(schema, check_metadata=False):
                raise DippError(
                    "src",
                    f"must have equal columns in all files, got {Path(places[0]).name} and {Path(path).name}",
                )
        return cls(*choose_columns(schema, columns, chosen), tuple(places), states, tuple(counts))

    def __len__(self) -> int:
        return sum(self.counts)

    def read(self, start: int, stop: int) -> Iterator[SourcePicture]:
        """Yield pictures, reading only the row groups that are needed, a few rows at a time."""
        for number, low, high, first in ranges(self.counts, start, stop):
            done, path = low, self.files[number]
            if not path.startswith(HUB) and not same(self.states[number], _state(path), self.machine):
                yield from (SourcePicture(first + row, None, None, CHANGED) for row in range(low, high))
                continue
            try:
                for done, row in self._rows(_table(path, self.states[number]), low, high):
                    yield self.record(first + done, row)
                    done += 1
            except (OSError, pa.ArrowException) as error:
                if isinstance(error, OSError) and (error.errno or path.startswith(HUB)):
                    raise DippError("src", f"cannot be read in {Path(path).name} ({error})") from None
                yield from (SourcePicture(first + row, None, None, DAMAGED_TABLE) for row in range(done, high))

    def _rows(self, file: pq.ParquetFile, low: int, high: int) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield rows `low` … `high` − 1 of a file, each with its number."""
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
        """The schema of the first file, which equals that of all others."""
        return _table(self.files[0], self.states[0]).schema_arrow

    def _column(self, column: str, part: str | None) -> Iterator[Any]:
        wanted = column if part is None else f"{column}.{part}"
        for path, state in zip(self.files, self.states, strict=True):
            file = _table(path, state)
            try:
                for batch in file.iter_batches(VALUES_PER_READ, columns=[wanted], use_threads=False):
                    yield from values_of(batch.column(column), part)
            except (OSError, pa.ArrowException) as error:
                raise DippError("src", f"cannot be read in column {column} of {Path(path).name} ({error})") from None

    def name(self, position: int) -> str:
        """Return the name of a picture: its file and its row there."""
        number, row, _, _ = next(ranges(self.counts, position, position + 1))
        return f"{Path(self.files[number]).name} row {row}"


def refuse_named_twice(places: Sequence[str]) -> None:
    """Raise if a table is given twice, or under two names.

    Args:
        places: Paths, or addresses on the hub, each of which stands for its file.

    Raises:
        DippError: A table is given twice, and its pictures would be released twice.
    """
    if len({*places}) < len(places):
        raise DippError("src", "has a table that is named twice, to be released twice", "name it once")
    refuse_twice(Path(path) for path in places if not path.startswith(HUB))


def _state(path: str) -> State | None:
    """Return the state of a local file; None for an address on the hub."""
    return None if path.startswith(HUB) else state_at(Path(path))


@functools.lru_cache(maxsize=2)
def _table(path: str, state: State | None) -> pq.ParquetFile:  # noqa: ARG001 - part of the cache key
    """Return the opened Parquet file, cached as long as its state stays the same."""
    try:
        if path.startswith(HUB):
            from huggingface_hub import HfFileSystem

            return pq.ParquetFile(HfFileSystem().open(path, "rb"))
        return pq.ParquetFile(path)
    except (OSError, pa.ArrowException) as error:
        raise DippError(
            "src", f"has a file {Path(path).name} that is no readable Parquet file ({type(error).__name__})"
        ) from None


def parquet_files(location: str, columns: Columns, _: Path) -> Tables | None:
    """Open a Parquet file, or a folder of them. The files of a split are named after it, as `datasets` names them.

    Args:
        location: Path of the file or folder.
        columns: The columns and the split to use.
    """
    paths = files_of(location, ".parquet")
    if paths and columns.split is not None:
        named = re.compile(rf"{re.escape(columns.split)}(-\d+-of-\d+)?\.parquet")
        paths = [path for path in paths if named.fullmatch(path.name)]
        if not paths:
            columns.refuse_split(location)
    return Tables.open(paths, columns) if paths else None


def values_of(values: Any, part: str | None) -> list[Any]:
    """Return the values of an Arrow column as a list.

    Args:
        values: The column.
        part: For structs, the field to return; None returns whole values.
    """
    cells: list[Any] = (values if part is None else pc.struct_field(values, part)).to_pylist()
    return cells


def _record(position: int, value: Any, label: Label) -> SourcePicture:
    """Return the picture in a row of a table, with a problem if the value or the label cannot be used."""
    content = value.get("bytes") if isinstance(value, dict) else value
    if not content:
        return SourcePicture(position, None, label, "is missing in the table")
    if len(content) > MAX_FILE_BYTES:
        return SourcePicture(position, None, label, f"is larger than {MAX_FILE_BYTES >> 20} MiB")
    if isinstance(label, int) and label >= 1 << 63:
        return SourcePicture(position, None, None, "has a label of more than 63 bits")
    return SourcePicture(position, content, int(label) if isinstance(label, bool) else label)
