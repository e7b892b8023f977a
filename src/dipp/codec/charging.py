"""Compute what releasing a picture costs, and charge it to the odometer.

All pictures are charged before the first is encoded, and each is checked to be the picture that was charged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from dipp.codec import batches
from dipp.codec.pictures import CodecPicture
from dipp.core.geometry import Geometry
from dipp.core.plan import Plan
from dipp.errors import DippError
from dipp.format.parameters import promised
from dipp.odometer import Charge, Meter, Odometer, fresh_release
from dipp.privacy import advice
from dipp.privacy.budget import Budget
from dipp.privacy.printing import lower, upper

COMMAND = "encode"
"""Name of the command in the odometer's rows for encodings, from Python and from the command line."""


def losses(plan: Plan, geometry: Geometry) -> tuple[float, float]:
    """Return pure ε and ρ of a picture that is released by a plan; both are infinite without a certificate.

    Args:
        plan: The plan.
        geometry: Geometry of the picture.
    """
    if not plan.coding.certified:
        return math.inf, math.inf
    certificate = promised(plan, geometry, None)
    return certificate.epsilon, certificate.rho


def require_within(plan: Plan, budget: Budget | None, geometry: Geometry) -> None:
    """Raise if pictures of a geometry are too small for a plan to keep its budget, or too large for its δ.

    Args:
        plan: The plan.
        budget: The budget that it was made for; None checks nothing.
        geometry: Geometry of the pictures.
    """
    if budget is None:
        return
    size = f"{geometry.height}×{geometry.width}"
    if not budget.allows(promised(plan, geometry, budget.delta)):
        raise DippError("image", f"of {size} is too small for this plan to keep {budget}", "use a larger one")
    count = plan.unit.count(geometry)
    if budget.delta is not None and advice.too_large(budget.delta, count):
        raise DippError(
            "image",
            f"of {size} has {count} {plan.unit.plural}, and that many times δ = {upper(budget.delta)} is 1 or more, "
            f"which allows a {plan.unit.short} to be published as it is",
            f"pass a delta far below {lower(1 / count, 1)}, or none",
        )


def charged(
    images: Sequence[Any], read: Callable[[Any], CodecPicture], plan: Plan, meter: Meter
) -> Iterator[CodecPicture]:
    """Charge all pictures in one transaction, then yield them.

    Args:
        images: Pictures as the caller gave them. Each is read twice, and once more if there is no odometer yet.
        read: Function that returns a picture that can be encoded, and raises for any other.
        plan: The plan of the encoding.
        meter: The odometer.

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
            cost = losses(plan, Geometry.of(picture.pixels.shape))
            yield meter.item(number, marks[-1], cost, batches.name(image), plan.unit)

    if images:
        meter.charge(fresh_release(), COMMAND, charges())
    for number, image in enumerate(images):
        picture = read(image)
        if meter.mark(picture.known_by) != marks[number]:
            name = batches.name(image) or f"image {number}"
            raise DippError(name, "has changed since it was charged, and nothing was released", "try again")
        yield picture
