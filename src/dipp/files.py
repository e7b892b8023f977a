"""Files that are written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
from collections.abc import Iterator
from pathlib import Path

from dipp.errors import DippError

PART = re.compile(r"\.[0-9a-f]{16}\.part")
"""Names of files that are being written, or that a killed process has left."""


def is_part(name: str) -> bool:
    """Whether a file of that name was never finished."""
    return bool(PART.fullmatch(name))


@contextlib.contextmanager
def atomic(path: Path) -> Iterator[Path]:
    """Another name in the same folder to write to; what is there at the end takes the place of `path` at once.

    After an error, or if the process is killed, `path` is as it was.
    """
    part = path.parent / f".{secrets.token_hex(8)}.part"
    try:
        yield part
        with part.open("rb") as written:
            os.fsync(written.fileno())
        part.replace(path)
    except OSError as error:
        raise DippError(f"{path}: cannot be written ({error.strerror or error})") from None
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)


def require_writable(path: Path, *, folder: bool = False) -> None:
    """Refuse at the start what could not be written at the end: a file, or a folder of files."""
    parent = path if folder and path.is_dir() else path.parent
    if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        raise DippError(f"output: the folder {parent} does not exist or cannot be written to")
    if folder and path.exists() and not path.is_dir():
        raise DippError(f"output: a folder is needed, {path} is a file; a single picture goes to a name in .png")
    if not folder and path.is_dir():
        raise DippError(f"output: the name of a file is needed, {path} is a folder")
