"""Compute the cost of releases to an object of a size, so that releases of different units add up.

A release has the price (ε, ρ) for any one of its units. An object of w×h pixels meets at most k of them, wherever it
lies (`Unit.met`). So the release costs the object at most kε, and a ρ of at most

    kρ  if no two units share a draw, which holds for cells and pictures: every draw belongs to one of them,
    min(k²ρ, kε·tanh(kε/2))  for pixels, whose draws may be shared (`conversions`, 4 and 5).

Prices of one object add up over releases, whatever their units. The smallest object is a pixel: it meets one unit of
each release.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Iterable
from typing import Any, NamedTuple

from dipp.core import units
from dipp.core.geometry import Geometry
from dipp.core.unit import Size, Unit
from dipp.core.units import Pixel
from dipp.privacy import conversions

PIXEL: Size = (1, 1)
"""Width and height of the smallest object."""


class Price(NamedTuple):
    """The cost of releases to an object."""

    epsilon: float
    """Pure ε; infinite if a release has no certificate."""
    rho: float


class ReleasePrice(NamedTuple):
    """The price of one release for any one unit."""

    unit: Unit
    epsilon: float
    rho: float


def of_units(release: ReleasePrice, count: int) -> Price:
    """Return the cost of a release to any `count` of its units together, rounded up."""
    unit, epsilon, rho = release
    if count == 1 or math.isinf(epsilon):
        return Price(epsilon, rho)
    pure = conversions.group_epsilon(epsilon, count)
    if unit != Pixel():
        return Price(pure, conversions.group_epsilon(rho, count))
    return Price(pure, min(conversions.group_zcdp(rho, count), conversions.zcdp_of_pure(pure)))


def of_object(releases: Iterable[ReleasePrice], size: Size) -> Price:
    """Return the cost of all releases to any object of a size in pixels, rounded up.

    Args:
        releases: Price of each release for a unit.
        size: Width and height of the object.
    """
    return _total(of_units(release, release.unit.met(*size)) for release in releases)


def of_picture(releases: Iterable[ReleasePrice], geometry: Geometry) -> Price:
    """Return the cost of all releases to everything in a picture, rounded up.

    Args:
        releases: Price of each release for a unit.
        geometry: Geometry of the picture.
    """
    return _total(of_units(release, release.unit.count(geometry)) for release in releases)


def of_row(epsilon: float, rho: float, unit: str, size: Size) -> Price:
    """Return the cost of a release, as a row of the database states it, to an object of a size in pixels.

    Args:
        epsilon: ε of the release for a unit.
        rho: ρ of the release for a unit.
        unit: The unit, as the text that `spelt` returns.
        size: Width and height of the object in pixels.
    """
    return of_units(ReleasePrice(_unit(unit), epsilon, rho), _met(unit, size))


def spelt(unit: Unit) -> str:
    """Return a unit as text for the database."""
    return json.dumps(unit.to_dict(), sort_keys=True)


def _total(prices: Iterable[Price]) -> Price:
    columns: list[Any] = [*zip(*prices, strict=True)]
    return Price(*map(conversions.total, columns)) if columns else Price(0.0, 0.0)


@functools.lru_cache(maxsize=1024)
def _unit(text: str) -> Unit:
    return units.from_dict(json.loads(text))


@functools.lru_cache(maxsize=4096)
def _met(text: str, size: Size) -> int:
    return _unit(text).met(*size)
