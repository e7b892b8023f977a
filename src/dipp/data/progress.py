"""What a run shows: a progress bar while it lasts, and a table of skipped pictures at its end."""

from __future__ import annotations

import logging

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskProgressColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from dipp.core.words import counted
from dipp.data.choices import Summary, Watcher
from dipp.data.contents import Contents
from dipp.data.store import RELEASED_TWICE
from dipp.models.bars import Forecast

LOGGER = logging.getLogger("dipp")
FASTER = "a GPU is faster, and so is --engine ray on several machines"
"""Advice that is logged when a run takes long."""
TABLE_ROWS = 20
"""Largest number of skipped pictures that the table lists by name."""


class Bar(Watcher):
    """A progress bar, on a terminal only: images, images per second, bits per pixel so far, time left.

    It advances by parts of an image, as the network works through its steps. Without a terminal, the time that a long
    run takes is logged as well.
    """

    def __init__(self, console: Console) -> None:
        columns = (BarColumn(), TaskProgressColumn(), MofNCompleteColumn(), _Rate(), TimeRemainingColumn())
        self.bar = Progress(*columns, console=console, disable=not console.is_terminal)
        self._bits = self._pixels = 0
        self._ahead = self._done = 0.0
        self._forecast = Forecast("releasing", FASTER)

    def overwriting(self) -> None:
        """Print a warning that the ε of both releases add up."""
        LOGGER.info(f"overwriting: {RELEASED_TWICE}, for a reader who saw both")

    def surveying(self, images: int) -> None:
        """Say on a terminal that pictures are read before the bar appears."""
        if self.bar.console.is_terminal:
            LOGGER.info(f"reading {counted(images, 'picture')} before the first is encoded")

    def start(self, images: int, published: int) -> None:
        """Show the bar, starting where an interrupted run stopped."""
        if published:
            LOGGER.info(f"going on: {published} of {counted(images, 'picture')} were finished before")
        self._task = self.bar.add_task("", total=images, completed=published, bpp=None)
        self._left = images - published

    def encoded(self, images: float) -> None:
        """Advance the bar while a shard is still being encoded."""
        self._ahead += images
        self._advance(images)

    def released(self, contents: Contents) -> None:
        """Set the bar to what was published, and update the bits per pixel."""
        self._bits, self._pixels = self._bits + contents.payload_bits, self._pixels + contents.pixels
        ahead = min(contents.images, self._ahead)
        self._ahead -= ahead
        self._advance(contents.images + len(contents.skipped) - ahead)
        self.bar.update(self._task, bpp=self._bits / self._pixels if self._pixels else None)

    def _advance(self, images: float) -> None:
        """Advance the bar, and log how long the rest takes if that is long."""
        self.bar.advance(self._task, images)
        self._done += images
        self._forecast.reached(self._done / max(self._left, self._done, 1))

    def finished(self, summary: Summary) -> None:
        """Print the table of skipped pictures, on any stream."""
        if summary.skipped:
            self.bar.console.print(skipped_table(summary))


class _Rate(ProgressColumn):
    """A column of the bar with the speed and the bits per pixel."""

    def render(self, task: Task) -> Text:
        """Return the images per second and, once known, the bits per pixel."""
        speed = task.finished_speed or task.speed
        rate = "" if speed is None else f"{speed:.1f} images/s"
        bpp = task.fields["bpp"]
        return Text(rate if bpp is None else f"{rate}, {bpp:.4f} bpp")


def skipped_table(summary: Summary) -> Table:
    """Return a table of skipped pictures: position, reason and name of the first 20.

    Args:
        summary: The result of a run.
    """
    table = Table(title=f"{counted(len(summary.skipped), 'picture')} skipped (names are shown here only)")
    for heading in ("position", "reason", "name"):
        table.add_column(heading)
    for position, reason, name in summary.skipped[:TABLE_ROWS]:
        table.add_row(str(position), Text(reason), Text(name))
    if len(summary.skipped) > TABLE_ROWS:
        table.add_row("…", f"and {len(summary.skipped) - TABLE_ROWS} more", "")
    return table
