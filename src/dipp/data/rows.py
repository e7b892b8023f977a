"""Arrow files of many rows in a run's own folder: written once, and read by position in parts.

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
"""A function that adds a row, given as a dictionary by column."""


def fresh(folder: Path, name: str) -> Path:
    """Return a path for a new file of a run, with a random name that no other run uses.

    Args:
        folder: The run's own folder.
        name: First part of the file's name.
    """
    return folder / f"{name}-{secrets.token_hex(8)}.arrow"


@contextlib.contextmanager
def writing(path: Path, schema: pa.Schema) -> Iterator[Add]:
    """Yield a function that adds a row. At the end of the block, the file replaces any earlier one as a whole.

    Args:
        path: The file.
        schema: Its columns.

    Raises:
        DippError: The file cannot be written.
    """
    batch: list[dict[str, Any]] = []
    try:
        with files.atomic(path) as draft, pa.OSFile(str(draft), "wb") as file, pa.ipc.new_file(file, schema) as writer:

            def flush() -> None:
                """Write the waiting rows."""
                writer.write_batch(pa.RecordBatch.from_pylist(batch, schema))
                batch.clear()

            def add(row: dict[str, Any]) -> None:
                """Add a row to those that wait to be written."""
                batch.append(row)
                if len(batch) == ROWS_PER_BATCH:
                    flush()

            yield add
            if batch:
                flush()
    except OSError as error:
        raise DippError("dst", f"cannot be written at {path.parent} ({os.strerror(error.errno or 0)})") from None


def read(path: Path, start: int, stop: int) -> Iterator[dict[str, Any]]:
    """Yield rows `start` … `stop` − 1 of a file, each as a dictionary by column.

    Args:
        path: The file.
        start: First row.
        stop: Row after the last.

    Raises:
        DippError: The file is gone.
    """
    try:
        file = pa.memory_map(str(path))
    except OSError:
        raise DippError(
            "dst", "has lost the records of its run", "another run has ended or overwritten it, so start again"
        ) from None
    with file, pa.ipc.open_file(file) as reader:
        for number in range(start // ROWS_PER_BATCH, -(-stop // ROWS_PER_BATCH)):
            first = number * ROWS_PER_BATCH
            batch = reader.get_batch(number)
            rows = batch.slice(max(start - first, 0), min(stop - first, len(batch)) - max(start - first, 0))
            yield from rows.to_pylist()
