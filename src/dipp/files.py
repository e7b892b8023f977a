"""Writing files: each is written whole or not at all, and what was begun vanishes with the process that began it.

A second encoding of a picture costs its ε a second time, if anybody finds it. So a file that is being written has no
name where the system allows that (O_TMPFILE of Linux). Nobody else can open it, and the kernel frees it when the
process ends, however it ends. It gets its name, whole and on the disk, by one system call (linkat). Where there is no
such thing, or where another file is to be replaced, it has a name of its own for a while, which only its owner can
open. Another process then waits for the end of this one to remove it (`vanishing`).
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
"""Pattern of the names of files that are not finished. When the whole machine stops, one may stay behind."""
HANDLES = Path("/proc/self/fd")
"""Where a process finds its open files by their numbers, with or without a name."""
NO_UNNAMED = {errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOSYS}
"""Errors of O_TMPFILE where a file system, or an old kernel, has none."""


def is_part(name: str) -> bool:
    """Whether a file name is one of those that unfinished files have."""
    return bool(PART.fullmatch(name))


@dataclass(frozen=True)
class Draft:
    """A file that is not finished."""

    place: Path
    """Where it is written to, by this process alone."""
    part: Path
    """The name that it has, or may get before it is finished."""
    handle: int | None
    """Number of the open file, as long as it has no name."""

    def finish(self) -> None:
        """Write everything to the disk; from here on, all users who may read new files may read it."""
        with self.place.open("rb+") as written:
            os.fsync(written.fileno())
        if self.handle is None:
            mask = os.umask(0o077)
            os.umask(mask)
            self.place.chmod(0o666 & ~mask)

    def replace(self, path: Path) -> None:
        """Give it its name, which another file may have had."""
        if self.handle is not None:
            with contextlib.suppress(FileExistsError):
                _link(self.handle, path)
                return
        with self.named() as part:
            part.replace(path)

    @contextlib.contextmanager
    def named(self) -> Iterator[Path]:
        """The name `part` within a `with` block: from there it can replace another file, or be linked again."""
        if self.handle is None:
            yield self.part
        else:
            with vanishing(self.part):
                _link(self.handle, self.part)
                yield self.part


@contextlib.contextmanager
def draft(folder: Path) -> Iterator[Draft]:
    """A new file in a folder, without a name if that can be; it is gone after the block, but for names it was given."""
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
    """The number of a new file without a name, in a folder; None if there is no such thing here."""
    if not hasattr(os, "O_TMPFILE") or not HANDLES.is_dir():
        return None
    try:
        return os.open(folder, os.O_RDWR | os.O_TMPFILE, 0o666)
    except OSError as error:
        if error.errno in NO_UNNAMED:
            return None
        raise


def _link(handle: int, path: Path) -> None:
    """Give an open file a name that no other file has."""
    folder = os.open(HANDLES, os.O_RDONLY)
    try:
        os.link(str(handle), path, src_dir_fd=folder, follow_symlinks=True)
    finally:
        os.close(folder)


@contextlib.contextmanager
def vanishing(path: Path) -> Iterator[None]:
    """Remove a file or folder after the block, even if this process is killed in it.

    A shell waits at a pipe whose other end is held by this process alone: it reads on when that is closed, by the block
    or by the kernel. It has a session of its own, so that what is typed at the terminal does not end it.
    """
    waits = ("sh", "-c", 'read _; rm -rf -- "$0"', os.path.abspath(path))  # noqa: PTH100 - a link is not followed
    try:
        guard = subprocess.Popen(  # noqa: S603
            waits,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:  # there is no shell: then only the end of the block is met
        guard = None
    try:
        yield
    finally:
        if guard is not None:
            guard.communicate()
        if path.is_dir() and not path.is_symlink():  # there is no guard, or it was killed
            shutil.rmtree(path, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                path.unlink()


@contextlib.contextmanager
def atomic(path: Path) -> Iterator[Path]:
    """Yield a place to write to; after the block, what was written there replaces `path` atomically.

    If the block raises, or the process is killed, `path` stays as it was, and nothing else is left.
    """
    try:
        with draft(path.parent) as made:
            yield made.place
            made.finish()
            made.replace(path)
    except OSError as error:
        raise DippError(str(path), f"cannot be written ({error.strerror or error})") from None


def require_writable(path: Path, *, folder: bool = False) -> None:
    """Refuse an output that cannot be written before work is spent on it: a file or (`folder`) a folder of files."""
    if str(path) == "-":
        raise DippError("output", "nothing is written to the standard output", "name a file")
    parent = path if folder and path.is_dir() else path.parent
    if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        raise DippError("output", f"the folder {parent} does not exist or cannot be written to")
    if folder and path.exists() and not path.is_dir():
        raise DippError("output", f"a folder is needed, {path} is a file", "a single picture goes to a name in .png")
    if not folder and path.is_dir():
        raise DippError("output", f"the name of a file is needed, {path} is a folder")


def require_new(path: Path, *, overwrite: bool) -> None:
    """Refuse an output that is there already, unless it may be overwritten; an empty folder is as good as none."""
    if overwrite or not os.path.lexists(path):
        return
    if not path.is_dir():
        raise DippError("output", f"{path} is there already", "name another, or replace it with --overwrite")
    if any(path.iterdir()):
        raise DippError("output", f"the folder {path} is not empty", "name another, or write into it with --overwrite")
