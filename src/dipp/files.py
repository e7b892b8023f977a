"""Write files whole or not at all; an unfinished file vanishes with the process that writes it.

A second encoding of a picture costs its ε a second time, if anybody finds it. So a file that is being written has no
name if the system allows that (O_TMPFILE of Linux). Nobody else can open it, and the kernel frees it when the process
ends for any reason. Once it is whole and on the disk, one system call (linkat) gives it its name. If the system does
not allow that, or if it replaces another file, the file has a temporary name and can be opened by its owner only.
Another process then waits for the end of this one to remove it (`vanishing`).
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dipp.errors import DippError

PART = re.compile(r"\.[0-9a-f]{16}\.part")
"""Pattern of the names of unfinished files. One may stay behind if the whole machine stops."""
HANDLES = Path("/proc/self/fd")
"""Folder in which a process finds its open files by their numbers, also those without a name."""
NO_UNNAMED = {errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOSYS}
"""Error numbers of O_TMPFILE on file systems and kernels that do not support it."""


def is_part(name: str) -> bool:
    """Return whether a file name is that of an unfinished file."""
    return bool(PART.fullmatch(name))


@dataclass(frozen=True)
class Draft:
    """An unfinished file, which `draft` made."""

    path: Path
    """Path to write its content to, in this process only."""
    part: Path
    """Its temporary name. A file without a name gets this one only if it has to replace another file."""
    handle: int | None
    """Number of the open file if it has no name; None if it has the name `part`."""

    def finish(self) -> None:
        """Write everything to the disk, and give the file the permissions of a new file."""
        with self.path.open("rb+") as written:
            os.fsync(written.fileno())
        if self.handle is None:
            mask = os.umask(0o077)
            os.umask(mask)
            self.path.chmod(0o666 & ~mask)

    def replace(self, path: Path) -> None:
        """Give the file its final name, and replace a file that has this name."""
        if self.handle is not None:
            with contextlib.suppress(FileExistsError):
                _link(self.handle, path)
                return
        with self.named() as part:
            part.replace(path)

    @contextlib.contextmanager
    def named(self) -> Iterator[Path]:
        """Yield the name `part`, which the file has inside the `with` block."""
        if self.handle is None:
            yield self.part
        else:
            with vanishing(self.part):
                _link(self.handle, self.part)
                yield self.part


@contextlib.contextmanager
def draft(folder: Path) -> Iterator[Draft]:
    """Yield a new file in a folder, without a name if the system allows that.

    After the block, only names that `Draft.replace` gave it are left.
    """
    part = folder / f".{secrets.token_hex(8)}.part"
    handle = _unnamed(folder)
    if handle is not None:
        try:
            yield Draft(HANDLES / str(handle), part, handle)
        finally:
            os.close(handle)
        return
    with vanishing(part):
        os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        yield Draft(part, part, None)


def _unnamed(folder: Path) -> int | None:
    """Return the number of a new file without a name; None if the system or the folder does not support it."""
    if not hasattr(os, "O_TMPFILE") or not HANDLES.is_dir():
        return None
    try:
        return os.open(folder, os.O_RDWR | os.O_TMPFILE, 0o666)
    except OSError as error:
        if error.errno in NO_UNNAMED:
            return None
        raise


def _link(handle: int, path: Path) -> None:
    """Give an open file without a name a new name, and raise if another file has it."""
    folder = os.open(HANDLES, os.O_RDONLY)
    try:
        os.link(str(handle), path, src_dir_fd=folder, follow_symlinks=True)
    finally:
        os.close(folder)


@contextlib.contextmanager
def vanishing(path: Path) -> Iterator[None]:
    """Remove a file or folder after the block, even if this process is killed inside it.

    A shell waits at a pipe whose other end only this process holds. When the block or the kernel closes that end, the
    shell removes the path. It runs in a session of its own, so that keys typed at the terminal do not end it.
    """
    command = ("sh", "-c", 'read _; rm -rf -- "$0"', os.path.abspath(path))  # noqa: PTH100 - a link is not followed
    try:
        guard = subprocess.Popen(  # noqa: S603
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:  # there is no shell, so only the end of the block removes the path
        guard = None
    try:
        yield
    finally:
        if guard is not None:
            guard.communicate()
        if path.is_dir() and not path.is_symlink():  # there is no guard, or somebody killed it
            shutil.rmtree(path, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                path.unlink()


@contextlib.contextmanager
def atomic(path: Path) -> Iterator[Path]:
    """Yield a temporary path; after the block, the file written there replaces `path` atomically.

    If the block raises or the process is killed, `path` stays as it was, and no other file is left.

    Args:
        path: Final path of the file. Its folder must exist.

    Raises:
        DippError: The file cannot be written.
    """
    try:
        with draft(path.parent) as unfinished:
            yield unfinished.path
            unfinished.finish()
            unfinished.replace(path)
    except OSError as error:
        raise DippError(str(path), f"cannot be written ({error.strerror or error})") from None


def require_writable(path: Path, *, folder: bool = False) -> None:
    """Raise if an output cannot be written, before work is spent on it.

    Args:
        path: Path of the output.
        folder: Whether the output is a folder of files. By default it is a file.

    Raises:
        DippError: The path is "-", is of the other kind, or lies in a folder that does not exist or is read-only.
    """
    if str(path) == "-":
        raise DippError("output", "cannot be the standard output", "name a file")
    parent = path if folder and path.is_dir() else path.parent
    if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        raise DippError(
            "output", f"lies in {parent}, which does not exist or cannot be written to", "name another folder"
        )
    if folder and path.exists() and not path.is_dir():
        raise DippError("output", f"must be a folder, and {path} is a file", "name a file in .png for a single picture")
    if not folder and path.is_dir():
        raise DippError("output", f"must be a file, and {path} is a folder", "name a file in it")


def require_new(path: Path, *, overwrite: bool) -> None:
    """Raise if an output exists already, except if it is an empty folder.

    Args:
        path: Path of the output.
        overwrite: Whether the output may be replaced, in which case nothing is raised.

    Raises:
        DippError: The output exists and may not be overwritten.
    """
    if overwrite or not os.path.lexists(path):
        return
    if not path.is_dir():
        raise DippError("output", f"exists already: {path}", "name another, or replace it with --overwrite")
    if any(path.iterdir()):
        raise DippError(
            "output",
            f"must be an empty folder, and {path} is not",
            "name another folder, or write into it with --overwrite",
        )
