"""Geometries of pictures for tests in which only the number of pixels matters."""

from __future__ import annotations

from dipp.core.geometry import Geometry


def of_pixels(pixels: int, channels: int = 3) -> Geometry:
    """Return the geometry of a picture that is a single row of pixels."""
    return Geometry(1, pixels, channels)
