"""The accounts: one row for each picture of each release, in an SQLite database, and their sums.

A row says that a picture, known by its mark (`place`), was image `image` of a release, at pure ε and ρ (both infinite
if the coding has no certificate). A release has a random name, which an interrupted run over a dataset keeps when it
continues.

**What is promised.**

1. *Charged before released.* A program calls `charge` before it releases. That returns when the rows are on the disk.
   It writes the rows of a release in one transaction: all of them, or none. So a process that is killed at any moment
   has released nothing that is not charged. What was charged and then not released stays charged: an encoder that fails
   and is run again has drawn twice from the same pixels, and whether it failed may depend on what it drew.
2. *Charged once.* The first process that charges a release writes its rows, and no later one does. So a run that is
   continued, or two processes that work on one release, charge it once. (Such a release publishes each picture once:
   `data.store`.)
3. *A limit holds.* The sums are taken inside the same transaction, which excludes all others. If processes charge one
   picture at the same time, each succeeds only if its sum is within the limit.

**Composition.** ε's add up, and so do ρ's (`privacy.conversions`, 2); (ε, δ) follows from the sums. Every row has the
unit of its release, and sums are those of any object of a size: each release counts with its cost to that object
(`prices`), for any unit of the release. By default the object is a pixel, which lies in one unit of each release. A
release without a known ρ counts with the ρ that follows from its ε (`conversions.zcdp_of_pure`). A release that holds
the picture twice counts twice.

*If budgets are chosen by what was seen.* The sum of pure ε's still bounds the loss, since each outcome's loss is at
most the sum of those that led to it. A sum of ρ's that is itself random bounds nothing by its realised value; but a
limit that was fixed beforehand, and holds for every release, does: L at δ. *Proof sketch.* `TotalCost.at` allows a
history if Σε ≤ L, or if Σρ ≤ ρ*, the most that converts to (L, δ). Stop the releases just before Σρ would pass ρ*: that
is ρ*-zCDP [Feldman & Zrnic, 2021, at every order], so (L, δ). A history that is not stopped so has Σε ≤ L, hence a loss
of at most L, and adds nothing to δ.

*Redactions* release everything outside their regions as it is: ε is infinite there, and so is the ε of the row. The row
keeps which pixels were hidden. A pixel is still hidden if every such release of its picture has hidden it; the sum of
the finite ε's holds for it.

Other pixels are another picture: a crop, a resized or a recompressed copy is not recognised.
"""

from __future__ import annotations

import functools
import json
import logging
import math
import os
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from numpy.typing import NDArray

from dipp.core import randomness, units
from dipp.core.unit import Size, Unit
from dipp.core.units import Pixel
from dipp.errors import DippError
from dipp.odometer import place
from dipp.odometer.database import (
    DATABASE,
    KEY,
    connected,
    key_of,
    require_sound,
    require_tables,
    transaction,
    unusable,
)
from dipp.odometer.prices import PIXEL, spelt
from dipp.privacy import conversions
from dipp.privacy.advice import objects
from dipp.privacy.printing import upper

LOGGER = logging.getLogger("dipp.odometer")
BEGUN = (
    "odometer: begun in {folder}; it adds up what this user releases on this machine from now on, and knows of no "
    "other release (dipp odometer explains)"
)
SUMS = (
    """SELECT picture, SUM(unit NOT LIKE '{"kind": "region"%'), """
    "losses(pure(epsilon, rho, unit)), losses(zcdp(epsilon, rho, unit)), MAX(name) FROM charges"
)
"""Query for the cost of releases to an object of the connection's size, by picture.

Answers about regions have a row of their own, beside that of the picture around them. The two count as one release.
"""


class Charge(NamedTuple):
    """The cost of one picture in a release."""

    image: int
    """Number of the image in the release."""
    picture: bytes
    """The keyed digest of the picture (`Odometer.mark`)."""
    epsilon: float
    """Pure ε of any one unit; infinite without a certificate."""
    rho: float
    name: str | None = None
    """Name of the picture, which the database keeps; None to keep no name."""
    unit: Unit = Pixel()
    """The unit of the release's certificate."""
    hidden: bytes | None = None
    """The pixels that a redaction has hidden (`redaction.charging`), if all others were released unchanged."""


class PastRelease(NamedTuple):
    """An earlier release of a picture."""

    release: str
    made: str
    """Time of the charge, in UTC and ISO format."""
    command: str
    epsilon: float
    rho: float
    unit: Unit


@dataclass(frozen=True)
class TotalCost:
    """The sums of the costs of all releases of a picture."""

    picture: bytes
    releases: int
    """Number of releases of the picture."""
    epsilon: float
    rho: float
    name: str | None = None
    """Name of the picture, if the database keeps it."""
    size: Size = PIXEL
    """Width and height in pixels of the objects that the sums are about."""

    def at(self, delta: float | None) -> float:
        """Return the ε of (ε, δ), or pure ε if `delta` is None."""
        if delta is None or math.isinf(self.epsilon):
            return self.epsilon
        return min(self.epsilon, _converted(self.rho, delta))

    def statement(self, delta: float | None = None) -> str:
        """Return the sums in words, rounded up, with (ε, δ) unless `delta` is None."""
        if math.isinf(self.epsilon):
            return "none: a release of it shows pixels without a bound"
        pure = f"ε = {upper(self.epsilon)} pure, ρ = {upper(self.rho)} zCDP"
        whose = " for any one pixel" if self.size == PIXEL else f" for {objects(self.size)}"
        return f"{pure if delta is None else f'ε = {upper(self.at(delta))} at δ = {upper(delta)}; {pure}'}{whose}"


class Reading(NamedTuple):
    """What the odometer says of the pictures of a release, after it was charged."""

    pictures: int
    """Number of different pictures in the release."""
    again: int
    """Number of these pictures that were released more than once by now."""
    worst: TotalCost | None
    """Sums of the picture with the largest ε at the given δ, then the largest ρ; None without pictures."""


@dataclass(frozen=True)
class Odometer:
    """The odometer in a folder."""

    folder: Path
    """Folder of the database and its key."""
    key: bytes = field(repr=False)

    @classmethod
    def exists(cls, folder: Path | None = None) -> bool:
        """Return whether a folder has an odometer, usable or not.

        An empty file without a key does not count: it has no release, and a killed process may have left it.

        Args:
            folder: The folder. By default that of this user (`place.folder`).
        """
        root = place.folder() if folder is None else folder
        database = root / DATABASE
        return (root / KEY).exists() or (database.exists() and database.stat().st_size > 0)

    @classmethod
    def open(cls, folder: Path | None = None, *, make: bool = True) -> Odometer:
        """Open an odometer, and check that its database is sound.

        Args:
            folder: Folder of the odometer. By default that of this user (`place.folder`).
            make: Whether to make a missing database, which is logged. Otherwise a missing one is an error.

        Raises:
            DippError: The odometer is missing, damaged, or cannot be written.
        """
        root = place.folder() if folder is None else folder
        try:
            if not make and not (root / DATABASE).is_file():
                raise DippError(
                    "odometer",
                    f"does not exist in {root}",
                    f"make a release, which begins one, or name another folder in {place.VARIABLE}",
                )
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(root / DATABASE, os.O_RDWR | os.O_CREAT, 0o600))
            with connected(root) as database:
                with transaction(database):
                    new = require_tables(database, root)
                require_sound(database, root)
                with transaction(database):
                    opened = cls(root, key_of(database, root / KEY))
            if new:
                LOGGER.warning(BEGUN.format(folder=root))
            return opened
        except OSError as error:
            raise unusable(root, error.strerror or str(error)) from None

    def mark(self, pixels: NDArray[Any]) -> bytes:
        """Return the mark of a picture (H, W, C): a keyed digest of its pixels, by which the odometer recognises it."""
        return place.mark(self.key, pixels)

    def charge(
        self,
        release: str,
        command: str,
        charges: Iterable[Charge],
        limit: float | None = None,
        delta: float | None = None,
        size: Size = PIXEL,
    ) -> Reading:
        """Charge a release once. A second call with the same release changes nothing, and does not read `charges`.

        Args:
            release: Name of the release, from `fresh_release`.
            command: The command that makes it, for people.
            charges: The cost of each picture in the release.
            limit: Largest sum of ε of any object, over all releases. By default there is no limit.
            delta: δ at which the limit is meant. By default the limit is a pure ε.
            size: Width and height in pixels of the objects that the sums are about. By default a pixel.

        Returns:
            The sums of the pictures after the charge.

        Raises:
            LimitError: An object would exceed the limit, so nothing was charged.
        """
        with connected(self.folder, size) as database:
            if _is_charged(database, release):
                return _reading(database, release, delta, size)
            # Charges are first collected in a temporary table, so that slow ones keep no other process waiting.
            database.execute("CREATE TEMP TABLE pending AS SELECT * FROM charges WHERE 0")
            with transaction(database, "DEFERRED"):
                rows = ((release, *charge[:5], spelt(charge.unit), charge.hidden) for charge in charges)
                database.executemany("INSERT INTO pending VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
            with transaction(database):
                if _is_charged(database, release):  # another process charged it meanwhile
                    return _reading(database, release, delta, size)
                time = datetime.now(UTC).isoformat(timespec="seconds")
                database.execute("INSERT INTO releases VALUES (NULL, ?, ?, ?)", (release, time, command))
                database.execute("INSERT INTO charges SELECT * FROM pending")
                reading = _reading(database, release, delta, size)
                if limit is not None and reading.worst is not None and reading.worst.at(delta) > limit:
                    raise LimitError(
                        "odometer",
                        f"limit ε = {upper(limit)} would be exceeded by a picture of this release, which would have "
                        f"{reading.worst.statement(delta)}",
                        "nothing was released; see `dipp odometer`",
                    )
                return reading

    def releases(self) -> list[tuple[str, str, str, int, float, float]]:
        """Return name, time, command, number of images, and the largest ε and ρ of every release, oldest first."""
        with connected(self.folder) as database:
            return database.execute(
                "SELECT id, made, command, COUNT(image), MAX(epsilon), MAX(rho) FROM releases "
                "LEFT JOIN charges ON release = id GROUP BY id ORDER BY number"
            ).fetchall()

    def pictures(self, most: int, size: Size = PIXEL) -> list[TotalCost]:
        """Return the total costs of the pictures with the largest ε, for any object of a size, the largest first.

        Args:
            most: Largest number of pictures.
            size: Width and height of the object in pixels. By default a pixel.
        """
        with connected(self.folder, size) as database:
            rows = database.execute(SUMS + " GROUP BY picture ORDER BY 3 DESC, picture LIMIT ?", (most,))
            return [replace(TotalCost(*row), size=size) for row in rows]

    def count(self) -> int:
        """Return the number of different pictures."""
        with connected(self.folder) as database:
            (count,) = database.execute("SELECT COUNT(DISTINCT picture) FROM charges").fetchone()
        return int(count)

    def spent(self, picture: bytes, size: Size = PIXEL) -> TotalCost:
        """Return the total cost of all releases of a picture, for any object of a size.

        Args:
            picture: The mark of the picture (`mark`).
            size: Width and height of the object in pixels. By default a pixel.
        """
        with connected(self.folder, size) as database:
            row = database.execute(SUMS + " WHERE picture = ? GROUP BY picture", (picture,)).fetchone()
        return TotalCost(picture, 0, 0.0, 0.0, size=size) if row is None else replace(TotalCost(*row), size=size)

    def history(self, picture: bytes) -> list[PastRelease]:
        """Return the releases of a picture, oldest first; `picture` is its mark (`mark`)."""
        with connected(self.folder) as database:
            rows = database.execute(
                "SELECT id, made, command, epsilon, rho, unit FROM charges JOIN releases ON release = id "
                "WHERE picture = ? ORDER BY number, image",
                (picture,),
            )
            return [PastRelease(*row)._replace(unit=units.from_dict(json.loads(row[-1]))) for row in rows]

    def hidden(self, picture: bytes) -> list[bytes | None]:
        """Return the hidden pixels of each release of a picture without a certificate; None for one that hid nothing.

        `picture` is the mark of the picture; `redaction.charging.unpacked` reads the pixels.
        """
        with connected(self.folder) as database:
            infinite = "SELECT hidden FROM charges WHERE picture = ? AND epsilon = ?"
            return [row[0] for row in database.execute(infinite, (picture, math.inf))]


class LimitError(DippError):
    """The error for a picture that would exceed a limit, after which nothing was charged."""


def fresh_release() -> str:
    """Return a random name for a release: 16 hex digits."""
    return randomness.private_bytes(8).hex()


def _reading(database: sqlite3.Connection, release: str, delta: float | None, size: Size) -> Reading:
    of_release = "SELECT picture FROM charges WHERE release = ?"
    rows = database.execute(f"{SUMS} WHERE picture IN ({of_release}) GROUP BY picture", (release,))
    pictures, again, worst = 0, 0, None
    for spent in (replace(TotalCost(*row), size=size) for row in rows):
        pictures, again = pictures + 1, again + (spent.releases > 1)
        larger = worst is None or (spent.at(delta), spent.rho) > (worst.at(delta), worst.rho)
        worst = spent if larger else worst
    return Reading(pictures, again, worst)


@functools.lru_cache(maxsize=4096)
def _converted(rho: float, delta: float) -> float:
    """Return ε of ρ at δ from a cache, because most pictures have the same sums."""
    return conversions.epsilon_of_zcdp(rho, delta)


def _is_charged(database: sqlite3.Connection, release: str) -> bool:
    row: Any = database.execute("SELECT 1 FROM releases WHERE id = ?", (release,)).fetchone()
    return row is not None
