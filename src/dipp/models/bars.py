"""Progress bars on a terminal: pictures, steps and tiles, or a percentage, and the time that is left."""

from __future__ import annotations

import contextlib
import functools
import logging
import math
import time
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from dipp.models.watch import ShareWatch, watching

LOGGER = logging.getLogger("dipp")
TIMED = 1 << 20
"""Number of pixels that the network predicts before the remaining time is estimated."""
LONG = 30.0
"""Smallest remaining time, in seconds, that is logged."""
SMALLER = "--preset swift asks the network at most four times"
"""Advice that is logged when encoding takes long."""
PREVIEW = "--noisy leaves out the last and largest call, and --steps shows a preview"
"""Advice that is logged when decoding takes long."""


@functools.cache
def console() -> Console:
    """Return the console on standard error, which bars and log records share so that their lines do not mix."""
    return Console(stderr=True)


def _bars() -> Progress:
    """Return a progress display with a name, a bar, a percentage, the time that is left and a state."""
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    state = TextColumn("{task.fields[state]}")
    return Progress(*columns, state, console=console(), disable=not console().is_terminal)


class PictureBar(ShareWatch):
    """A progress bar over the pixels of all pictures, which moves after each step and each predicted tile.

    Args:
        name: What is being done, at the left of the bar.
        sizes: Number of pixels of each picture.
    """

    def __init__(self, name: str, sizes: Sequence[int]) -> None:
        super().__init__()
        self.bars = _bars()
        self._task = self.bars.add_task(name, total=sum(sizes), state="")
        self._pictures, self._begun, self._before = len(sizes), 0, 0

    def begin(self, images: int, pixels: int, steps: int) -> None:
        """Count the previous batch of pictures as done, and show the new one."""
        self._before += self.pixels
        self._begun += images
        super().begin(images, pixels, steps)
        self._show()

    def step(self, number: int) -> None:
        """Show the number of the step."""
        super().step(number)
        self._show()

    def predicted(self, pixels: int) -> None:
        """Move the bar by the predicted pixels."""
        super().predicted(pixels)
        self._show()

    def finish(self) -> None:
        """Show that the batch is done, even if some of its progress was not reported."""
        self.number = self.steps
        self._show()

    def _show(self) -> None:
        first = self._begun - self.images + 1
        which = f"picture {first}" if self.images == 1 else f"pictures {first} to {self._begun}"
        picture = "" if self._pictures == 1 else f"{which} of {self._pictures}, "
        state = f"{picture}step {min(self.number + 1, self.steps)} of {self.steps}"
        self.bars.update(self._task, completed=self._before + self.pixels * self.done, state=state)


class Forecast:
    """A watch that logs how long the rest of the work takes, if that is longer than `LONG` seconds.

    Args:
        name: What is being done.
        pixels: Number of pixels that the network will predict in all.
        faster: Advice on what takes less time.
        bar: Progress bar that receives every call as well; None for no bar.
    """

    def __init__(self, name: str, pixels: float, faster: str, bar: PictureBar | None) -> None:
        self.name, self.pixels, self.faster, self.bar = name, pixels, faster, bar
        self._done, self._timed = 0, 0
        self._began: float | None = None  # time of the first prediction, before which the network is loaded

    def begin(self, images: int, pixels: int, steps: int) -> None:
        """Tell the bar that a batch of pictures begins."""
        if self.bar is not None:
            self.bar.begin(images, pixels, steps)

    def step(self, number: int) -> None:
        """Tell the bar that a step begins."""
        if self.bar is not None:
            self.bar.step(number)

    def predicted(self, pixels: int) -> None:
        """Tell the bar, and log how long the rest takes once `TIMED` pixels were timed."""
        if self.bar is not None:
            self.bar.predicted(pixels)
        self._done += pixels
        if self._began is None:
            self._began = time.monotonic()
            return
        self._timed += pixels
        if self._timed - pixels < TIMED <= self._timed:
            left = (time.monotonic() - self._began) / self._timed * (self.pixels - self._done)
            if left > LONG:
                LOGGER.info(f"{self.name}: about {_words(left)} to go; {self.faster}")


def _words(seconds: float) -> str:
    """Return a time in words, rounded up to ten seconds or to minutes."""
    return f"{math.ceil(seconds / 10) * 10} seconds" if seconds <= 110 else f"{math.ceil(seconds / 60)} minutes"


@contextlib.contextmanager
def shown(
    name: str, sizes: Sequence[int], calls: float = 0.0, faster: str = "", *, wanted: bool = True
) -> Iterator[None]:
    """Show a progress bar on the terminal while a `with` block encodes or decodes pictures.

    Without a terminal there is no bar. If the work takes long, the time that is left is logged in either case.

    Args:
        name: What is being done.
        sizes: Number of pixels of each picture.
        calls: Network calls for each picture, in calls at its full resolution; 0 if the number is unknown.
        faster: Advice on what takes less time, which is logged with the time.
        wanted: Whether to show and log anything.
    """
    if not wanted:
        yield
        return
    bar = PictureBar(name, sizes) if console().is_terminal else None
    with (
        bar.bars if bar is not None else contextlib.nullcontext(),
        watching(Forecast(name, calls * sum(sizes), faster, bar)),
    ):
        yield
        if bar is not None:
            bar.finish()


class Counter(ShareWatch):
    """A progress bar over the pixels that the network predicts. Without a terminal, each part of the work is logged.

    Args:
        name: What is being done, at the left of the bar.
        pixels: Estimated number of pixels that the network will predict.
    """

    def __init__(self, name: str, pixels: int) -> None:
        super().__init__()
        self.bars = _bars()
        self._all, self._done, self._task = pixels, 0, self.bars.add_task(name, total=pixels, state="")

    def predicted(self, pixels: int) -> None:
        """Move the bar by the predicted pixels, to at most 99 %, because the total is an estimate."""
        self._done = min(self._done + pixels, self._all * 99 // 100)
        self.bars.update(self._task, completed=self._done)

    def say(self, part: str) -> None:
        """Show which part of the work is done now; log it without a terminal."""
        self.bars.update(self._task, state=part)
        if not console().is_terminal:
            LOGGER.info(f"{self._done / self._all:4.0%}  {part}")

    def finish(self) -> None:
        """Fill the bar."""
        self.bars.update(self._task, completed=self._all, state="")


@contextlib.contextmanager
def counting(name: str, pixels: int) -> Iterator[Counter]:
    """Show how many pixels the network has predicted within a `with` block.

    Args:
        name: What is being done.
        pixels: Estimated number of pixels that the network will predict.

    Returns:
        A context manager that gives the bar, whose `say` names the part of the work that is done now.
    """
    counter = Counter(name, pixels)
    with counter.bars, watching(counter):
        yield counter
        counter.finish()
