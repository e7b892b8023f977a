"""Writing files: each is written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
from collections.abc import Iterator
from pathlib import Path

from dipp.errors import DippError

PART = re.compile(r"\.[0-9a-f]{16}\.part")
"""Pattern of the temporary names that `atomic` writes under; a killed process may leave such a file behind."""


def is_part(name: str) -> bool:
    """Whether a file name is one of those that `atomic` writes under: such a file was never finished."""
    return bool(PART.fullmatch(name))


@contextlib.contextmanager
def atomic(path: Path) -> Iterator[Path]:
    """Yield a temporary path in the same folder; after the block, what was written there replaces `path` atomically.

    If the block raises, or the process is killed, `path` stays as it was.
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
    """Refuse an output that cannot be written before work is spent on it: a file or (`folder`) a folder of files."""
    parent = path if folder and path.is_dir() else path.parent
    if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        raise DippError(f"output: the folder {parent} does not exist or cannot be written to")
    if folder and path.exists() and not path.is_dir():
        raise DippError(f"output: a folder is needed, {path} is a file; a single picture goes to a name in .png")
    if not folder and path.is_dir():
        raise DippError(f"output: the name of a file is needed, {path} is a folder")
