"""Progress of pictures, step by step and tile by tile, for a program that waits for them.

    with watching(bar):
        codec.encode(pictures)

What is told are public numbers: how many pictures go together, their sizes, steps, and pixels that the network has
predicted. Without a `with` nobody is told, and nothing is printed by the library in either case.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Protocol


class Watch(Protocol):
    """Is told how pictures get on. Whatever it raises ends the work."""

    def begin(self, images: int, pixels: int, steps: int) -> None:
        """Called when images begin together, with `pixels` in all; each of the steps asks for every pixel once."""

    def step(self, number: int) -> None:
        """Called when step `number`, counted from 0, begins."""

    def predicted(self, pixels: int) -> None:
        """Called when the network has predicted `pixels` more pixels of the step: a tile, or a batch."""


_watch: ContextVar[Watch | None] = ContextVar("dipp_watch", default=None)


@contextlib.contextmanager
def watching(watch: Watch) -> Iterator[None]:
    """Tell `watch` of all pictures that are encoded or decoded within a `with` block, in this thread."""
    token = _watch.set(watch)
    try:
        yield
    finally:
        _watch.reset(token)


def begin(images: int, pixels: int, steps: int) -> None:
    """Tell that images are begun."""
    if (watch := _watch.get()) is not None:
        watch.begin(images, pixels, steps)


def step(number: int) -> None:
    """Tell that a step begins."""
    if (watch := _watch.get()) is not None:
        watch.step(number)


def predicted(pixels: int) -> None:
    """Tell that pixels were predicted."""
    if (watch := _watch.get()) is not None:
        watch.predicted(pixels)


class ShareWatch:
    """A watch that adds up the share of each batch of images that is done."""

    def __init__(self) -> None:
        self.images = self.pixels = 0
        self.steps, self.number, self._predicted = 1, 0, 0

    def begin(self, images: int, pixels: int, steps: int) -> None:
        """Start at nothing."""
        self.images, self.pixels, self.steps, self.number, self._predicted = images, pixels, max(1, steps), 0, 0

    def step(self, number: int) -> None:
        """Forget what was predicted in the step before."""
        self.number, self._predicted = number, 0

    def predicted(self, pixels: int) -> None:
        """Count it."""
        self._predicted += pixels

    @property
    def done(self) -> float:
        """The share of the batch's work that is done, from 0 to 1."""
        within = self._predicted / self.pixels if self.pixels else 0.0
        return min(1.0, (self.number + min(1.0, within)) / self.steps)  # padding is predicted as well
