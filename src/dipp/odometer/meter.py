"""An odometer as a command uses it: with its limit, and in words."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from dipp.odometer.accounts import Charge, Odometer
from dipp.privacy.printing import counted


@dataclass(frozen=True)
class Meter:
    """An odometer, and what a command was told about it."""

    odometer: Odometer
    limit: float | None = None
    """Most ε that the releases of a picture may add up to; None for no limit."""
    delta: float | None = None
    """δ at which ε is meant; None for pure ε."""
    names: bool = False
    """Whether names of pictures are kept."""

    def mark(self, pixels: NDArray[Any]) -> bytes:
        """The mark by which a picture is known again."""
        return self.odometer.mark(pixels)

    def item(self, image: int, mark: bytes, losses: tuple[float, float], name: str) -> Charge:
        """What a picture is charged, with its name if names are kept."""
        return Charge(image, mark, *losses, name if self.names else None)

    def charge(self, release: str, command: str, charges: Iterable[Charge]) -> str:
        """Charge a release, before anything of it is released; what is to be said of it, or "".

        Whatever is said depends on the pixels: it is for the terminal of the sender, and for nothing that is released.
        """
        reading = self.odometer.charge(release, command, charges, self.limit, self.delta)
        if not reading.again or reading.worst is None:
            return ""
        return (
            f"odometer: {reading.again} of {counted(reading.pictures, 'picture')} "
            f"{'was' if reading.pictures == 1 else 'were'} released more than once by now; "
            f"the most of one, {counted(reading.worst.releases, 'release')} together: "
            f"{reading.worst.statement(self.delta)}"
        )
