"""Decoded pictures: a second epoch reads them instead of decoding them again.

By default they stay in memory, up to a limit (`Memory`). If the user names a folder, they are on disk (`Cache`), for
any number of pictures and for other processes.

A cache on disk is a folder with an SQLite file for each release, model and way of decoding (`Key`). Its content is
public, as the release is, but every picture that is read from it is checked:

- The name of the file is a digest of all that a decoded picture depends on: the bytes of the release, the identity of
  the model, expected, sampled or noisy, and the version of dipp. Another model or choice has another file. Devices
  differ by rounding alone, and share one file: a GPU may fill a cache that other machines read.
- Each row has a digest of its pixels, its number and the key. A row with a wrong digest or size counts as missing, and
  its picture is decoded again. A damaged file is replaced by an empty one.
- The file belongs to its owner alone. A file that somebody else owns, or could write to, is refused.

Rows are written in transactions, so that any number of processes may share a cache. A process that is killed leaves
whole rows or none. A picture takes as many bytes as it has values.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import logging
import os
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dipp import __version__
from dipp.core.geometry import Geometry
from dipp.errors import DippError

DIGEST_BYTES = 16
"""Bytes of the digest in a row."""
PATIENCE = 60.0
"""Seconds to wait for another process that writes."""
ASKED = 512
"""Largest number of rows that one query asks for."""
OPEN_TO_OTHERS = 0o022
"""Permissions that would let others than the owner write to the file."""

DAMAGED = (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
"""Errors of a file that holds no table of pictures, in contrast to a full disk or a busy file."""

KEPT_BYTES = 1 << 29
"""Largest memory, in bytes, of the decoded pictures of one release."""
LOGGER = logging.getLogger("dipp")

Pixels = NDArray[np.uint8]
"""uint8: a picture (H, W, C), or pictures (N, H, W, C)."""
Result = TypeVar("Result")
"""The result of a piece of work with the SQLite file."""


@dataclass(frozen=True)
class Key:
    """The key of a cache on disk: everything that its decoded pictures depend on, except their numbers."""

    release: tuple[str, ...]
    """SHA-256 of the archive, or of each shard."""
    model: str
    """Identity of the denoiser."""
    choice: tuple[Any, ...]
    """The requested kind of picture: the fields of `codec.decoding.Decoding` that matter."""

    def digest(self) -> str:
        """Return a hex digest of the key, 32 characters long."""
        content = json.dumps([__version__, self.release, self.model, self.choice])
        return hashlib.sha256(content.encode()).hexdigest()[:32]


class Memory:
    """A cache of decoded pictures in memory. It keeps the first that fit; others are decoded again in every epoch."""

    def __init__(self) -> None:
        self._kept: dict[int, Pixels] = {}
        self._bytes, self._full = 0, False

    def get(self, geometries: Mapping[int, Geometry]) -> dict[int, Pixels]:
        """Return the cached pictures (H, W, C) among the given numbers.

        Args:
            geometries: The geometry of each requested picture, by its number.
        """
        return {number: self._kept[number] for number in geometries if number in self._kept}

    def put(self, numbers: Sequence[int], pictures: Pixels) -> None:
        """Keep pictures until the memory limit is reached, and then log a warning once.

        Args:
            numbers: Numbers of the pictures.
            pictures: uint8 (N, H, W, C).
        """
        for number, picture in zip(numbers, pictures, strict=True):
            if self._bytes + picture.nbytes > KEPT_BYTES:
                self._warn()
                return
            self._kept[number] = picture.copy()
            self._bytes += picture.nbytes

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle an empty cache: another process has its own memory."""
        return Memory, ()

    def _warn(self) -> None:
        """Log once that the memory limit is reached."""
        if not self._full:
            self._full = True
            LOGGER.warning(
                f"decoded pictures take more than {KEPT_BYTES >> 20} MiB of memory, so some are decoded again in every "
                "epoch; dipp.load(…, cache=FOLDER) keeps all of them on the disk"
            )


@dataclass(frozen=True)
class Cache:
    """A cache on disk: the pictures of one release, decoded by one model in one way (expected, sampled or noisy)."""

    folder: Path
    """Folder of the SQLite file."""
    name: str
    """Digest of the `Key`."""

    def get(self, geometries: Mapping[int, Geometry]) -> dict[int, Pixels]:
        """Return the cached pictures (H, W, C) among the given numbers, leaving out damaged rows.

        Args:
            geometries: The geometry of each requested picture, by its number.

        Raises:
            DippError: The file cannot be used, or others could write to it.
        """
        numbers, pictures = list(geometries), dict[int, Pixels]()
        for low in range(0, len(numbers), ASKED):
            some = numbers[low : low + ASKED]
            for number, digest, pixels in self._do(functools.partial(_rows, numbers=some)):
                shape = geometries[number].shape
                whole = isinstance(pixels, bytes) and len(pixels) == geometries[number].coordinates
                if whole and digest == self._digest(number, shape, pixels):
                    pictures[number] = np.frombuffer(pixels, np.uint8).reshape(shape)
        return pictures

    def numbers(self) -> set[int]:
        """Return the numbers of all cached pictures, including those whose rows are damaged.

        Raises:
            DippError: The file cannot be used, or others could write to it.
        """
        return {number for (number,) in self._do(lambda file: file.execute("SELECT number FROM pictures").fetchall())}

    def put(self, numbers: Sequence[int], pictures: Pixels) -> None:
        """Keep pictures, in one transaction.

        Args:
            numbers: Numbers of the pictures.
            pictures: uint8 (N, H, W, C).

        Raises:
            DippError: The file cannot be used, or others could write to it.
        """
        rows = []
        for number, picture in zip(numbers, pictures, strict=True):
            pixels = picture.tobytes()
            rows.append((number, self._digest(number, picture.shape, pixels), pixels))

        def insert(file: sqlite3.Connection) -> None:
            with file:
                file.executemany("INSERT OR REPLACE INTO pictures VALUES (?, ?, ?)", rows)

        self._do(insert)

    @property
    def path(self) -> Path:
        """The SQLite file."""
        return self.folder / f"{self.name}.sqlite"

    def _digest(self, number: int, shape: tuple[int, ...], pixels: bytes) -> bytes:
        """Return the digest that a row stores, over the key and the picture's number, shape and pixels."""
        front = json.dumps([self.name, number, shape]).encode()
        return hashlib.blake2b(front + pixels, digest_size=DIGEST_BYTES).digest()

    def _do(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        """Return the result of `work` on the file. If the file is damaged, replace it by an empty one and try again."""
        try:
            try:
                return self._once(work)
            except sqlite3.DatabaseError as error:
                if getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF not in DAMAGED:
                    raise
                self.path.unlink(missing_ok=True)
                Path(f"{self.path}-journal").unlink(missing_ok=True)
                return self._once(work)
        except (sqlite3.Error, OSError) as error:
            why = getattr(error, "strerror", None) or error
            raise DippError(
                "cache", f"cannot be used at {self.path} ({why})", "name another folder, or remove it"
            ) from None

    def _once(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        """Return the result of `work` on the file, which is opened and closed: connections do not survive a fork."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        facts = self.path.stat()
        if hasattr(os, "getuid") and (facts.st_uid != os.getuid() or facts.st_mode & OPEN_TO_OTHERS):
            raise DippError("cache", f"must not be writable by others, got {self.path}", "name another folder")
        with contextlib.closing(sqlite3.connect(self.path, PATIENCE)) as file:
            # Rows that a failing machine loses are decoded again, and garbled rows do not match their digest.
            file.execute("PRAGMA synchronous = OFF")
            file.execute("CREATE TABLE IF NOT EXISTS pictures (number INTEGER PRIMARY KEY, digest BLOB, pixels BLOB)")
            return work(file)


def _rows(file: sqlite3.Connection, numbers: list[int]) -> list[tuple[int, Any, Any]]:
    """Return number, digest and pixels of each cached picture; a damaged file may give values of any type."""
    placeholders = ",".join("?" * len(numbers))
    query = f"SELECT number, digest, pixels FROM pictures WHERE number IN ({placeholders})"  # noqa: S608 - placeholders alone
    return file.execute(query, numbers).fetchall()
