"""What `dipp encode` and `dipp decode` show while they work: pictures, steps and tiles, and the time that is left."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from dipp.cli.console import console
from dipp.models.watch import Share, watching


class Bar(Share):
    """A progress bar over the pixels of all pictures; every step of a picture moves it on, and every tile of a step."""

    def __init__(self, name: str, sizes: Sequence[int]) -> None:
        super().__init__()
        columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
        self.bars = Progress(*columns, TextColumn("{task.fields[state]}"), console=console())
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
        which = f"{first}" if self.images == 1 else f"{first} to {self._begun}"
        picture = "" if self._pictures == 1 else f"picture {which} of {self._pictures}, "
        state = f"{picture}step {min(self.number + 1, self.steps)} of {self.steps}"
        self.bars.update(self._task, completed=self._before + self.pixels * self.done, state=state)


@contextlib.contextmanager
def shown(name: str, sizes: Sequence[int]) -> Iterator[None]:
    """Show a bar while pictures of so many pixels are encoded or decoded within a `with` block; on a terminal only."""
    if not console().is_terminal:
        yield
        return
    bar = Bar(name, sizes)
    with bar.bars, watching(bar):
        yield
        bar.finish()
