"""Use an odometer in an encoder: with a limit, opened when it is needed, and with warnings in words."""

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
    """Settings for counting releases by an odometer, whose database is made by the first charge.

    Example::

        dipp.encode("street.jpg", epsilon=1, odometer=Meter(limit=4, begin=True))
    """

    limit: float | None = None
    """Largest sum of ε over all releases of a picture. By default there is no limit."""
    delta: float | None = None
    """δ at which ε is meant. By default ε is pure."""
    names: bool = False
    """Whether the database keeps the names of the pictures."""
    begin: bool = False
    """Whether a meter with a limit may make a missing database, which then knows no earlier releases.

    By default, a limit needs an existing database."""
    folder: Path | None = None
    """Folder of the database. By default this user's (`place.folder`)."""
    size: Size | None = None
    """Width and height in pixels of the objects that the limit and the warnings are about.

    By default those that the release is planned to hide, or otherwise a single pixel.
    """

    def __post_init__(self) -> None:
        if self.limit is not None and not self.limit > 0:
            raise DippError("odometer-limit", f"must be a positive ε, got {self.limit}")
        if self.size is not None:
            within(*self.size, None)

    @classmethod
    def of(cls, odometer: bool | Meter, delta: float | None = None, hidden: Size | None = None) -> Meter | None:
        """Return the meter that the argument `odometer` of functions such as `dipp.encode` stands for.

        Args:
            odometer: A meter, True for this user's odometer, or False to count nothing. Other values are refused, such
                as None.
            delta: δ of this user's odometer. By default ε is pure.
            hidden: Width and height in pixels of the objects that the release is planned to hide, which limit and
                warnings are about if the meter has no size.

        Returns:
            The meter; None to count nothing.

        Raises:
            DippError: The argument is something else.
        """
        if isinstance(odometer, Meter):
            return odometer if odometer.size is not None or hidden is None else replace(odometer, size=hidden)
        if not isinstance(odometer, bool):
            raise DippError("odometer", f"must be True, False or a Meter, got {odometer!r:.40}")
        return cls(delta=delta, size=hidden) if odometer else None

    def prepare(self) -> None:
        """Raise if the odometer cannot be used, before any work is done. No file is made."""
        if Odometer.exists(self.folder):
            self.odometer  # noqa: B018 - opens it, and raises if it is damaged
        elif self.limit is not None and not self.begin:
            raise DippError(
                "odometer-limit",
                "needs an odometer that knows earlier releases, and this machine has none yet",
                "name its folder in DIPP_ODOMETER, or begin one with --odometer-begin (in Python: Meter(begin=True))",
            )

    @functools.cached_property
    def odometer(self) -> Odometer:
        """The odometer, whose database is made if it is missing."""
        return Odometer.open(self.folder)

    def mark(self, pixels: NDArray[Any]) -> bytes:
        """Return the mark of a picture (H, W, C): a keyed digest of its pixels, by which the odometer recognises it."""
        return self.odometer.mark(pixels)

    def item(self, image: int, mark: bytes, losses: tuple[float, float], name: str | None, unit: Unit) -> Charge:
        """Return the charge of a picture, with its name if names are kept.

        Args:
            image: Number of the image in the release.
            mark: Mark of the picture (`mark`).
            losses: ε and ρ of any one unit.
            name: Name of the picture.
            unit: The unit of the release's certificate.
        """
        return Charge(image, mark, *losses, name if self.names else None, unit)

    def charge(self, release: str, command: str, charges: Iterable[Charge]) -> None:
        """Charge a release before anything of it is released, and warn of pictures that were released before.

        The warning depends on the pixels. It goes to the log of the sender, and into no released file.

        Args:
            release: Name of the release, from `fresh_release`.
            command: The command that makes it, for people.
            charges: The cost of each picture in the release.

        Raises:
            LimitError: A picture would exceed the limit, so nothing was charged.
        """
        reading = self.odometer.charge(release, command, charges, self.limit, self.delta, self.size or PIXEL)
        if reading.again and reading.worst is not None:
            LOGGER.warning(
                f"odometer: {reading.again} of {counted(reading.pictures, 'picture')} "
                f"{'was' if reading.pictures == 1 else 'were'} released more than once by now; "
                f"the most of one, {counted(reading.worst.releases, 'release')} together: "
                f"{reading.worst.statement(self.delta)}"
            )
