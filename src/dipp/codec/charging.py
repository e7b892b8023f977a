"""What a picture may cost and what it is charged.

All pictures are charged to the odometer before the first of them is encoded, and each is encoded as it was charged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from dipp.codec import batches
from dipp.codec.pictures import Picture
from dipp.core.geometry import Geometry
from dipp.core.plan import Plan
from dipp.errors import DippError
from dipp.format.release import promised
from dipp.odometer import Charge, Meter, Odometer, fresh_release
from dipp.privacy import advice
from dipp.privacy.budget import Budget
from dipp.privacy.printing import lower, upper

COMMAND = "encode"
"""What the rows of the odometer say of these releases, from Python and from the command line."""


def losses(plan: Plan, geometry: Geometry) -> tuple[float, float]:
    """Return pure ε and ρ that a picture loses when it is released; both are infinite without a certificate."""
    if not plan.coding.certified:
        return math.inf, math.inf
    found = promised(plan, geometry, None)
    return found.epsilon, found.rho


def require_within(plan: Plan, budget: Budget | None, geometry: Geometry) -> None:
    """Raise if a picture of this geometry is too small for a plan to keep its budget, or too large for its δ."""
    if budget is None:
        return
    size = f"{geometry.height}×{geometry.width}"
    if not budget.allows(promised(plan, geometry, budget.delta)):
        raise DippError("image", f"{size} is too small for this plan to keep {budget}", "use a larger one")
    count = plan.unit.count(geometry)
    if budget.delta is not None and advice.too_large(budget.delta, count):
        raise DippError(
            "image",
            f"{size} has {count} {plan.unit.plural}, and that many times δ = {upper(budget.delta)} is 1 or more, "
            f"which allows a {plan.unit.short} to be published as it is",
            f"pass a delta far below {lower(1 / count, 1)}, or none",
        )


def charged(images: Sequence[Any], read: Callable[[Any], Picture], plan: Plan, meter: Meter) -> Iterator[Picture]:
    """Charge all pictures in one transaction, then yield them.

    Args:
        images: Pictures as they were given. Each is read twice, and once more before an odometer is begun.
        read: Returns a picture that can be encoded, and raises for any other.
        plan: The plan that they are encoded by.
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
            raise DippError(name, "it was changed while it was read, and nothing was released", "try again")
        yield picture
