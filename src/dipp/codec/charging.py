"""Pictures are charged to the odometer before the first of them is encoded, and each is encoded as it was charged."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from dipp.codec import batches
from dipp.codec.pictures import Picture
from dipp.core.units import Unit
from dipp.errors import DippError
from dipp.odometer import Charge, Meter, Odometer, fresh_release

COMMAND = "encode"
"""What the rows of the odometer say of these releases, from Python and from the command line."""


def charged(
    images: Sequence[Any],
    read: Callable[[Any], Picture],
    losses: Callable[[Picture], tuple[float, float]],
    meter: Meter,
    unit: Unit,
) -> Iterator[Picture]:
    """Charge all pictures in one transaction, then yield them.

    Args:
        images: Pictures as they were given. Each is read twice, and once more before an odometer is begun.
        read: Returns a picture that can be encoded, and raises for any other.
        losses: Returns the pure ε and ρ of a picture.
        meter: The odometer.
        unit: The unit that ε and ρ are of.

    Raises:
        LimitError: A picture would exceed the limit; nothing was charged.
        DippError: A picture cannot be encoded, or changed after it was charged.
    """
    meter.prepare()
    if not Odometer.exists(meter.folder):
        for image in images:  # a picture that is refused must not begin an odometer
            read(image)
    marks: list[bytes] = []

    def charges() -> Iterator[Charge]:
        for number, image in enumerate(images):
            picture = read(image)
            marks.append(meter.mark(picture.known_by))
            yield meter.item(number, marks[-1], losses(picture), batches.name(image), unit)

    if images:
        meter.charge(fresh_release(), COMMAND, charges())
    for number, image in enumerate(images):
        picture = read(image)
        if meter.mark(picture.known_by) != marks[number]:
            name = batches.name(image) or f"image {number}"
            raise DippError(f"{name}: it was changed while it was read; nothing was released, try again")
        yield picture
