"""Decoded pictures: a second epoch reads them instead of decoding them again.

Without a folder they stay in memory, up to a bound (`Memory`). With one they are on the disk (`Cache`), for any number
of pictures and for other processes.

A cache on the disk is a folder with an SQLite file for each release, model and choice of picture (`Key`). What is in it
is public, as the release is, but it is not believed blindly:

- The name of the file is a digest of all that a decoded picture depends on: the bytes of the release, the identity of
  the model, expected, sampled or noisy, and the version of dipp. Another model or choice has another file. Devices
  differ by rounding alone, and share one: a GPU may fill a cache that other machines read.
- Each entry has a digest of its pixels, its number and the key. One that does not match, or has another size, counts as
  missing, and is decoded again. A damaged file is begun anew.
- The file is the owner's alone. One that somebody else owns, or could write to, is refused.

Entries are written in transactions, so that any number of processes may share a cache, and a killed one leaves whole
entries or none. A picture takes as many bytes as it has values.
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
PATIENCE = 60.0
"""Seconds to wait for another process that writes."""
ASKED = 512
"""Entries that are asked for in one query, at most."""
OPEN_TO_OTHERS = 0o022
"""Permissions by which others than the owner could write."""

DAMAGED = (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
"""Errors of a file that holds no table of pictures, in contrast to a full disk or a busy file."""

KEPT_BYTES = 1 << 29
"""Most memory of the decoded pictures of one release."""
LOGGER = logging.getLogger("dipp")

Pixels = NDArray[np.uint8]
Found = TypeVar("Found")


@dataclass(frozen=True)
class Key:
    """All that a decoded picture depends on, but for its number."""

    release: tuple[str, ...]
    """SHA-256 of the archive, or of each shard."""
    model: str
    """Identity of the denoiser."""
    choice: tuple[Any, ...]
    """Which picture is wanted: the fields of `codec.decoding.Decoding` that matter."""

    def digest(self) -> str:
        """Hex digits that name it."""
        content = json.dumps([__version__, self.release, self.model, self.choice])
        return hashlib.sha256(content.encode()).hexdigest()[:32]


class Memory:
    """Decoded pictures in memory. The first that fit are kept; the others are decoded again in every epoch."""

    def __init__(self) -> None:
        self._kept: dict[int, Pixels] = {}
        self._bytes, self._full = 0, False

    def get(self, geometries: Mapping[int, Geometry]) -> dict[int, Pixels]:
        """Return the pictures (H, W, C) of these numbers that are kept."""
        return {number: self._kept[number] for number in geometries if number in self._kept}

    def put(self, numbers: Sequence[int], pictures: Pixels) -> None:
        """Keep pictures (N, H, W, C) as long as there is room, and say once that there is none."""
        for number, picture in zip(numbers, pictures, strict=True):
            if self._bytes + picture.nbytes > KEPT_BYTES:
                self._warn()
                return
            self._kept[number] = picture.copy()
            self._bytes += picture.nbytes

    def __reduce__(self) -> tuple[Any, ...]:
        """Leave the pictures behind: another process has room of its own."""
        return Memory, ()

    def _warn(self) -> None:
        if not self._full:
            self._full = True
            LOGGER.warning(
                f"decoded pictures take more than {KEPT_BYTES >> 20} MiB of memory, so some are decoded again in every "
                "epoch; dipp.load(…, cache=FOLDER) keeps all of them on the disk"
            )


@dataclass(frozen=True)
class Cache:
    """The cache of one release, one model and one choice."""

    folder: Path
    name: str
    """Digest of the `Key`."""

    def get(self, geometries: Mapping[int, Geometry]) -> dict[int, Pixels]:
        """Return the pictures (H, W, C) of these numbers and geometries that the cache holds."""
        numbers, found = list(geometries), dict[int, Pixels]()
        for low in range(0, len(numbers), ASKED):
            some = numbers[low : low + ASKED]
            for number, digest, pixels in self._do(functools.partial(_rows, numbers=some)):
                shape = geometries[number].shape
                whole = isinstance(pixels, bytes) and len(pixels) == geometries[number].coordinates
                if whole and digest == self._digest(number, shape, pixels):
                    found[number] = np.frombuffer(pixels, np.uint8).reshape(shape)
        return found

    def numbers(self) -> set[int]:
        """Return the numbers of all entries, whole or not."""
        return {number for (number,) in self._do(lambda file: file.execute("SELECT number FROM pictures").fetchall())}

    def put(self, numbers: Sequence[int], pictures: Pixels) -> None:
        """Keep pictures (N, H, W, C), in one transaction."""
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
        """The file."""
        return self.folder / f"{self.name}.sqlite"

    def _digest(self, number: int, shape: tuple[int, ...], pixels: bytes) -> bytes:
        front = json.dumps([self.name, number, shape]).encode()
        return hashlib.blake2b(front + pixels, digest_size=DIGEST_BYTES).digest()

    def _do(self, work: Callable[[sqlite3.Connection], Found]) -> Found:
        """Work with the file; one that is damaged is removed, and begun anew once."""
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
                "cache", f"{self.path} cannot be used ({why})", "name another folder, or remove it"
            ) from None

    def _once(self, work: Callable[[sqlite3.Connection], Found]) -> Found:
        """Open the file, work with it and close it: connections do not survive a fork."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        facts = self.path.stat()
        if hasattr(os, "getuid") and (facts.st_uid != os.getuid() or facts.st_mode & OPEN_TO_OTHERS):
            raise DippError("cache", f"{self.path} could have been written by others", "name another folder")
        with contextlib.closing(sqlite3.connect(self.path, PATIENCE)) as file:
            # What a failing machine loses is decoded again, and what it garbles does not match its digest.
            file.execute("PRAGMA synchronous = OFF")
            file.execute("CREATE TABLE IF NOT EXISTS pictures (number INTEGER PRIMARY KEY, digest BLOB, pixels BLOB)")
            return work(file)


def _rows(file: sqlite3.Connection, numbers: list[int]) -> list[tuple[int, Any, Any]]:
    """Number, digest and pixels of the entries that there are, of whatever type."""
    marks = ",".join("?" * len(numbers))
    query = f"SELECT number, digest, pixels FROM pictures WHERE number IN ({marks})"  # noqa: S608 - marks alone
    return file.execute(query, numbers).fetchall()
