"""An odometer as an encoder uses it: with a limit, opened when it is needed, and in words."""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from dipp.core.unit import Size, Unit, within
from dipp.core.words import counted
from dipp.errors import DippError
from dipp.odometer.accounts import Charge, Odometer
from dipp.odometer.prices import PIXEL

LOGGER = logging.getLogger("dipp.odometer")


@dataclass(frozen=True)
class Meter:
    """How releases are counted. The database is begun with the first charge, and not before."""

    limit: float | None = None
    """Most ε that all releases of a picture may add up to; None for no limit."""
    delta: float | None = None
    """δ at which ε is meant; None for pure ε."""
    names: bool = False
    """Whether the database keeps the names of the pictures."""
    begin: bool = False
    """Whether a limit may begin a new database. Otherwise it needs one that exists: a new one knows no release."""
    folder: Path | None = None
    """Folder of the database; None for this user's (`place.folder`)."""
    size: Size | None = None
    """Width and height of the objects that the limit and the warnings are about; by default those that the release is
    to hide, or a single pixel."""

    def __post_init__(self) -> None:
        if self.limit is not None and not self.limit > 0:
            raise DippError("odometer-limit", f"an ε above 0 is needed, got {self.limit}")
        if self.size is not None:
            within(*self.size, None)

    @classmethod
    def of(cls, odometer: bool | Meter, delta: float | None = None, hidden: Size | None = None) -> Meter | None:
        """Return the odometer that an argument means: True is this user's, at δ; False is none.

        Only False counts nothing: a value that merely counts as false in Python, such as None, is refused.

        Args:
            odometer: The argument.
            delta: δ of this user's odometer.
            hidden: Width and height of the objects that the release is to hide: limit and warnings are about them,
                unless the argument names a size.
        """
        if isinstance(odometer, Meter):
            return odometer if odometer.size is not None or hidden is None else replace(odometer, size=hidden)
        if not isinstance(odometer, bool):
            raise DippError("odometer", f"True, False or a Meter is needed, got {odometer!r:.40}")
        return cls(delta=delta, size=hidden) if odometer else None

    def prepare(self) -> None:
        """Raise if the odometer cannot be used, before any work is done. Nothing is made here."""
        if Odometer.exists(self.folder):
            self.odometer  # noqa: B018 - opens it, and raises if it is damaged
        elif self.limit is not None and not self.begin:
            raise DippError(
                "odometer-limit",
                "there is no odometer yet, so earlier releases are not known",
                "name its folder in DIPP_ODOMETER, or begin one with --odometer-begin (in Python: Meter(begin=True))",
            )

    @functools.cached_property
    def odometer(self) -> Odometer:
        """The database, which is made if it is missing."""
        return Odometer.open(self.folder)

    def mark(self, pixels: NDArray[Any]) -> bytes:
        """Return the mark by which a picture is recognised."""
        return self.odometer.mark(pixels)

    def item(self, image: int, mark: bytes, losses: tuple[float, float], name: str | None, unit: Unit) -> Charge:
        """Return the row of a picture, with its name if names are kept."""
        return Charge(image, mark, *losses, name if self.names else None, unit)

    def charge(self, release: str, command: str, charges: Iterable[Charge]) -> None:
        """Charge a release, before anything of it is released, and warn of pictures that were released before.

        The warning depends on the pixels: it goes to the log of the sender, and into nothing that is released.
        """
        reading = self.odometer.charge(release, command, charges, self.limit, self.delta, self.size or PIXEL)
        if reading.again and reading.worst is not None:
            LOGGER.warning(
                f"odometer: {reading.again} of {counted(reading.pictures, 'picture')} "
                f"{'was' if reading.pictures == 1 else 'were'} released more than once by now; "
                f"the most of one, {counted(reading.worst.releases, 'release')} together: "
                f"{reading.worst.statement(self.delta)}"
            )
