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
"""Pixels that the network predicts before the time is estimated."""
LONG = 30.0
"""Seconds that are worth a line."""
SMALLER = "--preset swift asks the network at most four times"
"""What takes less time to encode."""
PREVIEW = "--noisy leaves out the last and largest call, and --steps shows a preview"
"""What takes less time to decode."""


@functools.cache
def console() -> Console:
    """Return the second stream: bars and log records share it, so that neither tears the other."""
    return Console(stderr=True)


def _bars() -> Progress:
    """A name, the bar, a percentage, the time that is left and a state, on a terminal."""
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    state = TextColumn("{task.fields[state]}")
    return Progress(*columns, state, console=console(), disable=not console().is_terminal)


class PictureBar(ShareWatch):
    """A progress bar over the pixels of all pictures; every step of a picture moves it on, and every tile of a step."""

    def __init__(self, name: str, sizes: Sequence[int]) -> None:
        super().__init__()
        self.bars = _bars()
        self._task = self.bars.add_task(name, total=sum(sizes), state="")
        self._pictures, self._begun, self._before = len(sizes), 0, 0

    def begin(self, images: int, pixels: int, steps: int) -> None:
        """The pictures before are done."""
        self._before += self.pixels
        self._begun += images
        super().begin(images, pixels, steps)
        self._show()

    def step(self, number: int) -> None:
        """Show it."""
        super().step(number)
        self._show()

    def predicted(self, pixels: int) -> None:
        """Show it."""
        super().predicted(pixels)
        self._show()

    def finish(self) -> None:
        """All is done, whatever was told."""
        self.number = self.steps
        self._show()

    def _show(self) -> None:
        first = self._begun - self.images + 1
        which = f"picture {first}" if self.images == 1 else f"pictures {first} to {self._begun}"
        picture = "" if self._pictures == 1 else f"{which} of {self._pictures}, "
        state = f"{picture}step {min(self.number + 1, self.steps)} of {self.steps}"
        self.bars.update(self._task, completed=self._before + self.pixels * self.done, state=state)


class Forecast:
    """A watch that says how long the work will take, once its first predictions were timed, if that is long."""

    def __init__(self, name: str, pixels: float, faster: str, bar: PictureBar | None) -> None:
        self.name, self.pixels, self.faster, self.bar = name, pixels, faster, bar
        self._done, self._timed = 0, 0
        self._began: float | None = None  # when the first prediction was there: before that, the network is loaded

    def begin(self, images: int, pixels: int, steps: int) -> None:
        """Pass it on to the bar."""
        if self.bar is not None:
            self.bar.begin(images, pixels, steps)

    def step(self, number: int) -> None:
        """Pass it on to the bar."""
        if self.bar is not None:
            self.bar.step(number)

    def predicted(self, pixels: int) -> None:
        """Pass it on to the bar, and say how long the rest takes as soon as enough was timed."""
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
    """Return a time in words, rounded up."""
    return f"{math.ceil(seconds / 10) * 10} seconds" if seconds <= 110 else f"{math.ceil(seconds / 60)} minutes"


@contextlib.contextmanager
def shown(
    name: str, sizes: Sequence[int], calls: float = 0.0, faster: str = "", *, wanted: bool = True
) -> Iterator[None]:
    """Show a bar while pictures are encoded or decoded within a `with` block, if this is a terminal.

    Where the work takes long, a line says how long, on a terminal and elsewhere.

    Args:
        name: What is being done.
        sizes: Number of pixels of each picture.
        calls: Network calls for each picture, in calls at its full resolution; 0 if nothing is known of them.
        faster: What would take less time.
        wanted: False shows and says nothing.
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
    """A progress bar over the pixels that the network predicts; where there is no terminal, a line for each part."""

    def __init__(self, name: str, pixels: int) -> None:
        super().__init__()
        self.bars = _bars()
        self._all, self._done, self._task = pixels, 0, self.bars.add_task(name, total=pixels, state="")

    def predicted(self, pixels: int) -> None:
        """Show it: no more than 99 %, because how many there are is an estimate."""
        self._done = min(self._done + pixels, self._all * 99 // 100)
        self.bars.update(self._task, completed=self._done)

    def say(self, part: str) -> None:
        """What is done now."""
        self.bars.update(self._task, state=part)
        if not console().is_terminal:
            LOGGER.info(f"{self._done / self._all:4.0%}  {part}")

    def finish(self) -> None:
        """All is done, whatever was estimated."""
        self.bars.update(self._task, completed=self._all, state="")


@contextlib.contextmanager
def counting(name: str, pixels: int) -> Iterator[Counter]:
    """Show how many of `pixels` pixels the network has predicted within a `with` block."""
    counter = Counter(name, pixels)
    with counter.bars, watching(counter):
        yield counter
        counter.finish()
