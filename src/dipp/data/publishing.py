"""Publish a file whole and durably, unless another attempt has published it; `store` says why that is safe."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from dipp import files


def publish(attempts: Path, path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Write a file completely to disk, then link it to a path unless that path exists (`store` says why).

    Args:
        attempts: Folder of the run's unpublished attempts.
        path: The path.
        write: Function that writes the content into an open file.

    Raises:
        OSError: The file cannot be written or linked; FileNotFoundError if the run was ended.
    """
    with files.draft(attempts) as draft:
        with draft.path.open("wb") as file:
            write(file)
        draft.finish()
        # The file first gets a name in the folder of this run: if that folder is gone, the run has ended.
        with draft.named() as attempt, contextlib.suppress(FileExistsError):
            os.link(attempt, path)
    sync(path.parent)


def sync(folder: Path) -> None:
    """Make new names of files in a folder durable: they survive a loss of power.

    Args:
        folder: The folder.
    """
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
