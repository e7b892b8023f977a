"""The database of an odometer, an SQLite file and its key: opened, checked and locked. `accounts` is what it holds."""

from __future__ import annotations

import contextlib
import hmac
import math
import sqlite3
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

from dipp.core.unit import Size
from dipp.errors import DippError
from dipp.odometer import place
from dipp.odometer.prices import PIXEL, of_row

DATABASE = "odometer.sqlite"
KEY = "key"
VERSION = 3
PATIENCE = 600.0
"""Seconds to wait for another process's transaction, which takes a few for a million pictures."""
SCHEMA = (
    "CREATE TABLE keys (proof BLOB NOT NULL)",
    "CREATE TABLE releases (number INTEGER PRIMARY KEY, id TEXT UNIQUE, made TEXT NOT NULL, command TEXT NOT NULL)",
    """CREATE TABLE charges (
        release TEXT NOT NULL REFERENCES releases (id), image INTEGER NOT NULL, picture BLOB NOT NULL,
        epsilon REAL NOT NULL, rho REAL NOT NULL, name TEXT, unit TEXT NOT NULL,
        hidden BLOB, PRIMARY KEY (release, image)
    ) WITHOUT ROWID""",
    "CREATE INDEX charges_of_picture ON charges (picture)",
    f"PRAGMA user_version = {VERSION}",
)


class _Losses:
    """SQL's sum of losses: the smallest float that is not below their exact sum."""

    def __init__(self) -> None:
        self._losses: list[float] = []

    def step(self, loss: float) -> None:
        """Take one more."""
        self._losses.append(loss)

    def finalize(self) -> float:
        """The sum."""
        found = math.fsum(self._losses)
        if math.isinf(found) or Fraction(found) >= sum(map(Fraction, self._losses)):
            return found
        return math.nextafter(found, math.inf)


@contextlib.contextmanager
def connected(folder: Path, size: Size = PIXEL) -> Iterator[sqlite3.Connection]:
    """The database of an odometer, whose sums are those of a size; whatever goes wrong with it ends in one line."""
    try:
        database = sqlite3.connect(folder / DATABASE, PATIENCE, isolation_level=None)
        try:
            database.execute("PRAGMA synchronous = EXTRA")  # a transaction is on the disk when it ends
            database.create_aggregate("losses", 1, _Losses)  # type: ignore[arg-type]
            database.create_function("pure", 3, lambda e, r, unit: of_row(e, r, unit, size).epsilon, deterministic=True)
            database.create_function("zcdp", 3, lambda e, r, unit: of_row(e, r, unit, size).rho, deterministic=True)
            yield database
        finally:
            database.close()
    except sqlite3.Error as error:
        raise unusable(folder, str(error)) from None


@contextlib.contextmanager
def transaction(database: sqlite3.Connection, kind: str = "IMMEDIATE") -> Iterator[None]:
    """A transaction, which excludes all other writers if it is immediate; whatever is raised undoes it."""
    database.execute(f"BEGIN {kind}")
    try:
        yield
    except BaseException:
        database.rollback()
        raise
    database.commit()


def require_sound(database: sqlite3.Connection, folder: Path) -> None:
    """Raise if pages of the database are damaged: what a lost page held would count as no release.

    `integrity_check` reads every page and compares the index with its table, row by row, in 1.5 s for a million rows.
    `quick_check` would not see an index that lacks a row, or has another's: that row would be left out of the sums.
    """
    try:
        sound = database.execute("PRAGMA integrity_check(1)").fetchall() == [("ok",)]
    except sqlite3.DatabaseError as error:
        if isinstance(error, sqlite3.OperationalError):  # such as a lock that another process holds for too long
            raise
        sound = False
    if not sound:
        raise DippError(
            "odometer",
            f"{folder / DATABASE} is damaged, and would count too little",
            "restore it from a backup, or move the folder away to start anew",
        )


def require_tables(database: sqlite3.Connection, folder: Path) -> bool:
    """Give a new database its tables, and return whether it is new. The caller holds the lock.

    The key is made after they are on the disk: so a key beside a database without tables tells that one with rows was
    lost: to go on would be to count from nothing.
    """
    (version,) = database.execute("PRAGMA user_version").fetchone()
    if version > VERSION:
        raise DippError("odometer", f"{folder} was written by a newer dipp", "upgrade")
    if 0 < version < VERSION:
        raise DippError("odometer", f"{folder} was written by an earlier dipp", "move the folder away to start anew")
    if not version:
        if (folder / KEY).exists():
            raise DippError(
                "odometer", f"{folder / DATABASE} is lost", "restore it, or move the folder away to start anew"
            )
        for line in SCHEMA:
            database.execute(line)
    return not version


def unlocked(database: sqlite3.Connection, key_file: Path) -> bytes:
    """The key of a database, which is made before its first release. The caller holds the lock."""
    key, stored = place.read_key(key_file), database.execute("SELECT proof FROM keys").fetchone()
    if stored is not None and hmac.compare_digest(place.proof(key), stored[0]):
        return key
    if database.execute("SELECT 1 FROM releases").fetchone() is not None:
        fault = "is not the key of its database" if key_file.exists() else "is missing"
        raise DippError("odometer", f"{key_file} {fault}", "restore it, or move the folder away")
    # Nothing was ever charged: what is there was left by a process that was killed here.
    key = place.make_key(key_file)
    database.execute("DELETE FROM keys")
    database.execute("INSERT INTO keys VALUES (?)", (place.proof(key),))
    return key


def unusable(folder: Path, why: str) -> DippError:
    """Return the error about an odometer that cannot be opened, read or written."""
    return DippError("odometer", f"{folder} cannot be used ({why})", "mend that, or count nothing with --no-odometer")
