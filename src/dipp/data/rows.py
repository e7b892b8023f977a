"""Arrow files of many rows in a run's own folder: written once, and read by position without the rest.

Workers map such a file, so that the memory of a run does not grow with the number of pictures.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from dipp import files
from dipp.errors import DippError

ROWS_PER_BATCH = 1024
"""Rows in each batch of a file."""

Add = Callable[[dict[str, Any]], None]


def fresh(folder: Path, name: str) -> Path:
    """Return a path for a new file of a run, which no other run takes."""
    return folder / f"{name}-{secrets.token_hex(8)}.arrow"


@contextlib.contextmanager
def writing(path: Path, schema: pa.Schema) -> Iterator[Add]:
    """Yield a function that adds a row; after the block the file is there as a whole, in the place of any other."""
    batch: list[dict[str, Any]] = []
    try:
        with files.atomic(path) as part, pa.OSFile(str(part), "wb") as file, pa.ipc.new_file(file, schema) as writer:

            def flush() -> None:
                writer.write_batch(pa.RecordBatch.from_pylist(batch, schema))
                batch.clear()

            def add(row: dict[str, Any]) -> None:
                batch.append(row)
                if len(batch) == ROWS_PER_BATCH:
                    flush()

            yield add
            if batch:
                flush()
    except OSError as error:
        raise DippError("dst", f"{path.parent} cannot be written ({os.strerror(error.errno or 0)})") from None


def read(path: Path, start: int, stop: int) -> Iterator[dict[str, Any]]:
    """Yield rows start … stop − 1."""
    try:
        file = pa.memory_map(str(path))
    except OSError:
        raise DippError(
            "dst", "what the run knew of its source is gone", "another run has ended or overwritten it"
        ) from None
    with file, pa.ipc.open_file(file) as reader:
        for number in range(start // ROWS_PER_BATCH, -(-stop // ROWS_PER_BATCH)):
            first = number * ROWS_PER_BATCH
            batch = reader.get_batch(number)
            rows = batch.slice(max(start - first, 0), min(stop - first, len(batch)) - max(start - first, 0))
            yield from rows.to_pylist()
