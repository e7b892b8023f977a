"""The size of a picture: its height, width and number of channels. All three are public."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dipp.errors import DippError

MAX_PIXELS = (1 << 31) - 1
"""Largest number of pixels of a picture."""
MAX_CHANNELS = 16
"""Largest number of channels of a picture."""


@dataclass(frozen=True, order=True, slots=True)
class Geometry:
    """The height, width and number of channels of a picture.

    Coordinates are numbered row by row, pixel by pixel and channel by channel: the value at (row, column, channel) is
    coordinate (row·width + column)·channels + channel.

    Raises:
        DippError: A side is not a whole number from 1, there are more than `MAX_PIXELS` pixels, or `channels` is not a
            whole number from 1 to `MAX_CHANNELS`.

    """

    height: int
    width: int
    channels: int

    def __post_init__(self) -> None:
        if not all(type(side) is int and side >= 1 for side in (self.height, self.width)):
            raise DippError("size", f"must be a height and a width from 1, got {self.height}×{self.width}")
        if self.pixels > MAX_PIXELS:
            raise DippError("size", f"must be at most {MAX_PIXELS} pixels, got {self.height}×{self.width}")
        if type(self.channels) is not int or not 1 <= self.channels <= MAX_CHANNELS:
            raise DippError("channels", f"must be a whole number from 1 to {MAX_CHANNELS}, got {self.channels}")

    @classmethod
    def of(cls, shape: Sequence[int]) -> Geometry:
        """Return the geometry of an array of shape (H, W, C).

        Raises:
            DippError: The shape does not have three sides, or a side is out of its range.

        """
        if len(shape) != 3:
            raise DippError("shape", f"must be (height, width, channels), got {len(shape)} dimensions")
        return cls(*(int(side) for side in shape))

    @property
    def pixels(self) -> int:
        """Number of pixels."""
        return self.height * self.width

    @property
    def coordinates(self) -> int:
        """Number of coordinates: pixels times channels."""
        return self.pixels * self.channels

    @property
    def shape(self) -> tuple[int, int, int]:
        """Shape (H, W, C) of the picture's array."""
        return self.height, self.width, self.channels

    def __str__(self) -> str:
        return f"{self.height}×{self.width}×{self.channels}"
