"""Report the progress of encoding and decoding, step by step and tile by tile, to an object of the calling program.

    with watching(bar):
        codec.encode(pictures)

The reports hold public numbers alone: the number of pictures that are encoded together, their sizes, steps, and the
pixels that the network has predicted. Outside of a `with` block nothing is reported. The library itself prints nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Protocol


class Watch(Protocol):
    """An object that receives the progress of pictures. An exception that it raises ends the work."""

    def begin(self, images: int, pixels: int, steps: int) -> None:
        """Receive that a batch of images begins.

        Args:
            images: Number of images.
            pixels: Number of their pixels in all, each of which every step predicts once.
            steps: Number of steps.
        """

    def step(self, number: int) -> None:
        """Receive that step `number`, counted from 0, begins."""

    def predicted(self, pixels: int) -> None:
        """Receive that the network has predicted `pixels` more pixels of the step: those of a tile or a batch."""


_watch: ContextVar[Watch | None] = ContextVar("dipp_watch", default=None)


@contextlib.contextmanager
def watching(watch: Watch) -> Iterator[None]:
    """Report to `watch` all pictures that a `with` block encodes or decodes in this thread.

    Args:
        watch: Object that receives the progress.
    """
    token = _watch.set(watch)
    try:
        yield
    finally:
        _watch.reset(token)


def begin(images: int, pixels: int, steps: int) -> None:
    """Report to the watch of this thread that a batch of images begins (`Watch.begin`).

    Args:
        images: Number of images of the batch.
        pixels: Number of their pixels together.
        steps: Number of steps.
    """
    if (watch := _watch.get()) is not None:
        watch.begin(images, pixels, steps)


def step(number: int) -> None:
    """Report to the watch of this thread that a step begins (`Watch.step`)."""
    if (watch := _watch.get()) is not None:
        watch.step(number)


def predicted(pixels: int) -> None:
    """Report to the watch of this thread that pixels were predicted (`Watch.predicted`)."""
    if (watch := _watch.get()) is not None:
        watch.predicted(pixels)


class ShareWatch:
    """A watch that computes the finished share of the current batch of images."""

    def __init__(self) -> None:
        self.images = self.pixels = 0
        self.steps, self.number, self._predicted = 1, 0, 0

    def begin(self, images: int, pixels: int, steps: int) -> None:
        """Start a batch, with nothing done."""
        self.images, self.pixels, self.steps, self.number, self._predicted = images, pixels, max(1, steps), 0, 0

    def step(self, number: int) -> None:
        """Start a step, with no pixels predicted."""
        self.number, self._predicted = number, 0

    def predicted(self, pixels: int) -> None:
        """Add pixels to those that the step has predicted."""
        self._predicted += pixels

    @property
    def done(self) -> float:
        """The finished share of the batch's work, from 0 to 1."""
        within = self._predicted / self.pixels if self.pixels else 0.0
        return min(1.0, (self.number + min(1.0, within)) / self.steps)  # padding is predicted as well
