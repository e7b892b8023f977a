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
TIMED = 3.0
"""Time in seconds that is measured before the remaining time is estimated."""
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


class Forecast:
    """Logs once how much longer some work takes, if that is more than `LONG` seconds.

    Args:
        name: What is being done.
        faster: Advice on how to make the work faster, which is logged with the time.
    """

    def __init__(self, name: str, faster: str) -> None:
        self.name, self.faster = name, faster
        self._began: tuple[float, float] | None = None  # time and share of the first report; a network is loaded before
        self._estimated = False

    def reached(self, share: float) -> None:
        """Receive the finished share of the work, from 0 to 1."""
        now = time.monotonic()
        if self._began is None:
            self._began = now, share
        timed, done = now - self._began[0], share - self._began[1]
        if self._estimated or timed < TIMED or done <= 0:
            return
        self._estimated = True
        left = timed / done * (1 - share)
        if left > LONG:
            LOGGER.info(f"{self.name}: about {_duration(left)} to go{self.faster and '; ' + self.faster}")


class PictureWatch(ShareWatch):
    """A receiver of progress (`watch.Watch`), which forecasts when all pictures are done.

    Args:
        forecast: Receives the finished share of all pictures.
        sizes: Number of pixels of each picture.
        calls: Network calls for each picture, in calls at its full resolution; 0 if the number is unknown. Then all
            steps of a picture count alike.
    """

    def __init__(self, forecast: Forecast, sizes: Sequence[int], calls: float) -> None:
        super().__init__()
        self.forecast, self.total, self.calls = forecast, sum(sizes), calls
        self.before = self.all_predicted = 0

    def begin(self, images: int, pixels: int, steps: int) -> None:
        """Start a batch of pictures, after adding the pixels of the previous batch to those that are done."""
        self.before += self.pixels
        super().begin(images, pixels, steps)

    def predicted(self, pixels: int) -> None:
        """Count predicted pixels, and tell the forecast which share of all work is finished."""
        super().predicted(pixels)
        self.all_predicted += pixels
        done, total = self.all_predicted, self.total * self.calls
        self.forecast.reached(done / total if total else (self.before + self.pixels * self.done) / self.total)


class PictureBar(PictureWatch):
    """A progress bar over the pixels of all pictures, which moves after each step and each predicted band or tile.

    Args:
        name: What is being done, at the left of the bar.
        forecast: Receives the finished share of all pictures.
        sizes: Number of pixels of each picture.
        calls: Network calls for each picture.
    """

    def __init__(self, name: str, forecast: Forecast, sizes: Sequence[int], calls: float) -> None:
        super().__init__(forecast, sizes, calls)
        self.bars = _bars()
        self._task = self.bars.add_task(name, total=sum(sizes), state="")
        self._pictures, self._begun = len(sizes), 0

    def begin(self, images: int, pixels: int, steps: int) -> None:
        """Start a batch of pictures, and show its numbers on the bar."""
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
        self.bars.update(self._task, completed=self.before + self.pixels * self.done, state=state)


def _duration(seconds: float) -> str:
    """Return a time as text such as "40 seconds", rounded up to tens of seconds or to minutes."""
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
        faster: Advice on how to make the work faster, which is logged with the time.
        wanted: Whether to show and log anything.
    """
    if not wanted:
        yield
        return
    forecast = Forecast(name, faster)
    if not console().is_terminal:
        with watching(PictureWatch(forecast, sizes, calls)):
            yield
        return
    bar = PictureBar(name, forecast, sizes, calls)
    with bar.bars, watching(bar):
        yield
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
