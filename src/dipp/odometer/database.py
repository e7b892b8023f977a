"""Open, check and lock the database of an odometer: an SQLite file and its key. `accounts` describes its rows."""

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
"""Seconds to wait for the transaction of another process, which takes a few seconds for a million pictures."""
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
    """An SQL aggregate function: the sum of privacy losses, rounded up to a float."""

    def __init__(self) -> None:
        self._losses: list[float] = []

    def step(self, loss: float) -> None:
        """Add a loss."""
        self._losses.append(loss)

    def finalize(self) -> float:
        """Return the sum, rounded up."""
        total = math.fsum(self._losses)
        if math.isinf(total) or Fraction(total) >= sum(map(Fraction, self._losses)):
            return total
        return math.nextafter(total, math.inf)


@contextlib.contextmanager
def connected(folder: Path, size: Size = PIXEL) -> Iterator[sqlite3.Connection]:
    """Yield a connection to the database of an odometer, whose sums are about objects of a size.

    Args:
        folder: Folder of the odometer.
        size: Width and height of the objects in pixels.

    Raises:
        DippError: The database cannot be used. It replaces each error of SQLite inside the block.
    """
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
    """Run a block in a transaction, which any exception undoes. By default it excludes all other writers.

    Args:
        database: The connection.
        kind: Kind of the transaction in SQLite.
    """
    database.execute(f"BEGIN {kind}")
    try:
        yield
    except BaseException:
        database.rollback()
        raise
    database.commit()


def require_sound(database: sqlite3.Connection, folder: Path) -> None:
    """Raise if pages of the database are damaged, because the releases in lost pages would not be counted.

    `integrity_check` reads every page and compares the index with its table, row by row, in 1.5 s for a million rows.
    `quick_check` would not notice an index with a missing or wrong entry, whose row would be left out of the sums.

    Args:
        database: The connection.
        folder: Folder of the odometer, for the error.

    Raises:
        DippError: The database is damaged.
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
            f"{folder / DATABASE} is damaged and would count too little",
            "restore it from a backup, or move the folder away to start again",
        )


def require_tables(database: sqlite3.Connection, folder: Path) -> bool:
    """Give a new database its tables, and return whether it is new. The caller holds the lock.

    The key is made after the tables are on the disk. So a key beside a database without tables means that a database
    with rows was lost. That is an error, because counting would start from nothing.

    Args:
        database: The connection.
        folder: Folder of the odometer, for errors.

    Returns:
        Whether the database is new.

    Raises:
        DippError: The database is lost, or another version of dipp wrote it.
    """
    (version,) = database.execute("PRAGMA user_version").fetchone()
    if version > VERSION:
        raise DippError("odometer", f"{folder} was written by a newer dipp", "upgrade dipp")
    if 0 < version < VERSION:
        raise DippError("odometer", f"{folder} was written by an earlier dipp", "move the folder away to start again")
    if not version:
        if (folder / KEY).exists():
            raise DippError(
                "odometer", f"{folder / DATABASE} is lost", "restore it, or move the folder away to start again"
            )
        for line in SCHEMA:
            database.execute(line)
    return not version


def key_of(database: sqlite3.Connection, key_file: Path) -> bytes:
    """Return the secret key of a database; it is made before the first release. The caller holds the lock.

    Args:
        database: The connection.
        key_file: File of the key.

    Raises:
        DippError: The key is missing or does not fit, although the database has releases.
    """
    key, stored = place.read_key(key_file), database.execute("SELECT proof FROM keys").fetchone()
    if stored is not None and hmac.compare_digest(place.proof(key), stored[0]):
        return key
    if database.execute("SELECT 1 FROM releases").fetchone() is not None:
        fault = "is not the key of its database" if key_file.exists() else "is missing"
        raise DippError("odometer", f"{key_file} {fault}", "restore it, or move the folder away")
    # Nothing was ever charged, so any key was left by a process that was killed here.
    key = place.make_key(key_file)
    database.execute("DELETE FROM keys")
    database.execute("INSERT INTO keys VALUES (?)", (place.proof(key),))
    return key


def unusable(folder: Path, why: str) -> DippError:
    """Return the error about an odometer that cannot be opened, read or written.

    Args:
        folder: Folder of the odometer.
        why: What went wrong.
    """
    return DippError(
        "odometer", f"{folder} cannot be used ({why})", "repair it, or pass --no-odometer to count nothing"
    )
