"""The accounts: a row for each picture of each release, in an SQLite database, and their sums.

A row says that the picture with this mark was image `image` of a release, at pure ε and ρ (both infinite where the
coding has no certificate). A release has a random name of its own, which a run over a dataset keeps when it goes on.

**What is promised.**

1. *Charged before released.* A program calls `charge` before it releases. That returns when the rows are on the disk.
   It writes the rows of a release in one transaction: all of them, or none. So a process that is killed, at whatever
   moment, has released nothing that is not charged. What was charged and then not released stays charged: an encoder
   that fails and is run again has drawn twice from the same pixels, and whether it failed may depend on what it drew.
2. *Charged once.* The rows of a release are written by the first who charges it, and by nobody again: a run that goes
   on, or two that work on one release, charge it once. (Such a release publishes each picture once: `data.store`.)
3. *A limit holds.* The sums are taken inside the same transaction, which excludes all others. Of processes that charge
   one picture at the same time, those succeed whose sum is within the limit.

**Composition.** ε's add up, and so do ρ's (`privacy.conversions`, 2); (ε, δ) follows from the sums. Every row has the
unit of its release, and sums are those of any object of a size: each release counts with what it costs that object
(`prices`), whatever its unit. By default the object is a pixel, which lies in one unit of each release. A release of
which only ε is known counts with the ρ that follows from it (`conversions.zcdp_of_pure`). A release that holds the
picture twice counts twice.

*If budgets are chosen by what was seen.* The sum of pure ε's still bounds the loss, since each outcome's loss is at
most the sum of those that led to it. A sum of ρ's that is itself random bounds nothing by its realised value; but a
limit that was fixed beforehand, and holds for every release, does: L at δ. *Proof sketch.* `Spent.at` allows a history
if Σε ≤ L, or if Σρ ≤ ρ*, the most that converts to (L, δ). Stop the releases just before Σρ would pass ρ*: that is
ρ*-zCDP [Feldman & Zrnic, 2021, at every order], so (L, δ). A history that is not stopped so has Σε ≤ L, hence a loss of
at most L, and adds nothing to δ.

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
    require_sound,
    require_tables,
    transaction,
    unlocked,
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
"""What releases cost an object of the size that the connection was opened with, by picture. What was told of regions
stands in a row of its own, beside that of the picture around them, and is no other release."""


class Charge(NamedTuple):
    """One picture of a release."""

    image: int
    """Number of the image in the release."""
    picture: bytes
    """Its mark."""
    epsilon: float
    """Pure ε of any one unit; infinite, if there is no certificate."""
    rho: float
    name: str | None = None
    """Name of the picture, if it is to be kept."""
    unit: Unit = Pixel()
    """The unit of the release's certificate."""
    hidden: bytes | None = None
    """The pixels that a redaction has hidden (`redaction.charging`); everything else was released as it is."""


class PastRelease(NamedTuple):
    """A release of a picture."""

    release: str
    made: str
    """When it was charged, in UTC."""
    command: str
    epsilon: float
    rho: float
    unit: Unit


@dataclass(frozen=True)
class Spent:
    """What all releases of a picture add up to."""

    picture: bytes
    releases: int
    """How often it was released."""
    epsilon: float
    rho: float
    name: str | None = None
    """The name that was kept, if any."""
    size: Size = PIXEL
    """Width and height of the objects that the sums are about."""

    def at(self, delta: float | None) -> float:
        """ε of (ε, δ), or pure ε without a δ."""
        if delta is None or math.isinf(self.epsilon):
            return self.epsilon
        return min(self.epsilon, _converted(self.rho, delta))

    def statement(self, delta: float | None = None) -> str:
        """The composed certificate in words, rounded up."""
        if math.isinf(self.epsilon):
            return "none: a release of it shows pixels without a bound"
        pure = f"ε = {upper(self.epsilon)} pure, ρ = {upper(self.rho)} zCDP"
        whose = " for any one pixel" if self.size == PIXEL else f" for {objects(self.size)}"
        return f"{pure if delta is None else f'ε = {upper(self.at(delta))} at δ = {upper(delta)}; {pure}'}{whose}"


class Reading(NamedTuple):
    """What a release has done to the sums of its pictures."""

    pictures: int
    """Different pictures of the release."""
    again: int
    """The charged pictures that were released more than once by now."""
    worst: Spent | None
    """The picture with the largest ε at the given δ, and of those the one with the largest ρ; None without pictures."""


@dataclass(frozen=True)
class Odometer:
    """An odometer in a folder."""

    folder: Path
    key: bytes = field(repr=False)

    @classmethod
    def exists(cls, folder: Path | None = None) -> bool:
        """Return whether there is an odometer of this user (`place.folder`), or in a folder, usable or not.

        An empty file without a key is none: it knows no release, and a process that was killed may have left it.
        """
        found = place.folder() if folder is None else folder
        database = found / DATABASE
        return (found / KEY).exists() or (database.exists() and database.stat().st_size > 0)

    @classmethod
    def open(cls, folder: Path | None = None, *, make: bool = True) -> Odometer:
        """Open the odometer of this user (`place.folder`) or of a folder, and check that its database is sound.

        A missing database is made, and the log says so; with make = False, it is an error.
        """
        found = place.folder() if folder is None else folder
        try:
            if not make and not (found / DATABASE).is_file():
                raise DippError(
                    "odometer",
                    f"there is none at {found}",
                    f"the first release makes one, or name another place in {place.VARIABLE}",
                )
            found.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(found / DATABASE, os.O_RDWR | os.O_CREAT, 0o600))
            with connected(found) as database:
                with transaction(database):
                    new = require_tables(database, found)
                require_sound(database, found)
                with transaction(database):
                    opened = cls(found, unlocked(database, found / KEY))
            if new:
                LOGGER.warning(BEGUN.format(folder=found))
            return opened
        except OSError as error:
            raise unusable(found, error.strerror or str(error)) from None

    def mark(self, pixels: NDArray[Any]) -> bytes:
        """The mark by which a picture (H, W, C) is known again."""
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
        """Charge a release, once: a second call with the same release changes nothing, and does not ask for `charges`.

        If an object of the size, in any of the pictures, would then have more than the limit (pure ε, or ε at δ),
        nothing is charged, and `LimitError` is raised. A release that was charged before has passed.
        """
        with connected(self.folder, size) as database:
            if _is_charged(database, release):
                return _reading(database, release, delta, size)
            # What streams in waits in a temporary table, which nobody sees, and keeps nobody waiting.
            database.execute("CREATE TEMP TABLE pending AS SELECT * FROM charges WHERE 0")
            with transaction(database, "DEFERRED"):
                rows = ((release, *charge[:5], spelt(charge.unit), charge.hidden) for charge in charges)
                database.executemany("INSERT INTO pending VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
            with transaction(database):
                if _is_charged(database, release):  # by another process, meanwhile
                    return _reading(database, release, delta, size)
                made = datetime.now(UTC).isoformat(timespec="seconds")
                database.execute("INSERT INTO releases VALUES (NULL, ?, ?, ?)", (release, made, command))
                database.execute("INSERT INTO charges SELECT * FROM pending")
                reading = _reading(database, release, delta, size)
                if limit is not None and reading.worst is not None and reading.worst.at(delta) > limit:
                    raise LimitError(
                        "odometer",
                        f"with this release, a picture would exceed the limit ε = {upper(limit)}; it would have "
                        f"{reading.worst.statement(delta)}",
                        "nothing was released, and `dipp odometer` explains",
                    )
                return reading

    def releases(self) -> list[tuple[str, str, str, int, float, float]]:
        """Name, time, command, images, and the largest ε and ρ of every release, in the order of time."""
        with connected(self.folder) as database:
            return database.execute(
                "SELECT id, made, command, COUNT(image), MAX(epsilon), MAX(rho) FROM releases "
                "LEFT JOIN charges ON release = id GROUP BY id ORDER BY number"
            ).fetchall()

    def pictures(self, most: int, size: Size = PIXEL) -> list[Spent]:
        """Return the sums of at most `most` pictures, for any object of a size: those with the largest first."""
        with connected(self.folder, size) as database:
            rows = database.execute(SUMS + " GROUP BY picture ORDER BY 3 DESC, picture LIMIT ?", (most,))
            return [replace(Spent(*row), size=size) for row in rows]

    def count(self) -> int:
        """Number of different pictures."""
        with connected(self.folder) as database:
            (found,) = database.execute("SELECT COUNT(DISTINCT picture) FROM charges").fetchone()
        return int(found)

    def spent(self, picture: bytes, size: Size = PIXEL) -> Spent:
        """Return what the releases of a picture add up to, for any object of a size."""
        with connected(self.folder, size) as database:
            row = database.execute(SUMS + " WHERE picture = ? GROUP BY picture", (picture,)).fetchone()
        return Spent(picture, 0, 0.0, 0.0, size=size) if row is None else replace(Spent(*row), size=size)

    def history(self, picture: bytes) -> list[PastRelease]:
        """The releases of a picture, in the order of time."""
        with connected(self.folder) as database:
            rows = database.execute(
                "SELECT id, made, command, epsilon, rho, unit FROM charges JOIN releases ON release = id "
                "WHERE picture = ? ORDER BY number, image",
                (picture,),
            )
            return [PastRelease(*row)._replace(unit=units.from_dict(json.loads(row[-1]))) for row in rows]

    def hidden(self, picture: bytes) -> list[bytes | None]:
        """Return what each release of a picture without a certificate has hidden; None is nothing."""
        with connected(self.folder) as database:
            infinite = "SELECT hidden FROM charges WHERE picture = ? AND epsilon = ?"
            return [row[0] for row in database.execute(infinite, (picture, math.inf))]


class LimitError(DippError):
    """A picture would exceed a limit; nothing is charged."""


def fresh_release() -> str:
    """A random name for a release."""
    return randomness.private_bytes(8).hex()


def _reading(database: sqlite3.Connection, release: str, delta: float | None, size: Size) -> Reading:
    of_release = "SELECT picture FROM charges WHERE release = ?"
    rows = database.execute(f"{SUMS} WHERE picture IN ({of_release}) GROUP BY picture", (release,))
    pictures, again, worst = 0, 0, None
    for one in (replace(Spent(*row), size=size) for row in rows):
        pictures, again = pictures + 1, again + (one.releases > 1)
        larger = worst is None or (one.at(delta), one.rho) > (worst.at(delta), worst.rho)
        worst = one if larger else worst
    return Reading(pictures, again, worst)


@functools.lru_cache(maxsize=4096)
def _converted(rho: float, delta: float) -> float:
    """ε of ρ at δ, kept: most pictures have the same sums."""
    return conversions.epsilon_of_zcdp(rho, delta)


def _is_charged(database: sqlite3.Connection, release: str) -> bool:
    row: Any = database.execute("SELECT 1 FROM releases WHERE id = ?", (release,)).fetchone()
    return row is not None
