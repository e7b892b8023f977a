"""A worker reads a range of the source, makes of it what the run is for, and publishes it as a shard.

Every engine runs workers. Those of an encoding are in `encoding`, those of a redaction in `redacting`; what they share
is here: a job, and reading pictures.

Private pixels exist in the worker's process alone, from the file that they are read from to what is released: no queue,
object store or driver ever sees them. Threads decode pictures a little ahead, while the worker is busy.

A picture is released only if its content has the digest that it had when all pictures were surveyed (`survey`).
"""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice, repeat
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar

from dipp.data import survey
from dipp.data.sources import CHANGED, Content, Record, Source
from dipp.data.store import Store
from dipp.data.survey import Sight, Survey
from dipp.errors import DippError

if TYPE_CHECKING:
    from dipp.data.contents import Contents

READERS = {"cpu": 1, "mps": 1, "cuda": 4}
"""Threads that decode pictures ahead of the worker, for each kind of device."""

Progress = Callable[[float], None]
"""Called with the number of images done since the last call, whole or in parts; for display only, because it is not
exact."""
Decoded = TypeVar("Decoded")
"""What a worker makes of the content of a picture."""


def quiet(_: float) -> None:
    """Ignore how many images are done."""


class Task(ABC):
    """What is made of each picture: the part of a job that depends on what a run is for."""

    @abstractmethod
    def worker(self, job: Job, progress: Progress) -> Worker[Any]:
        """Return a worker for a job, in whatever process this is."""


@dataclass(frozen=True)
class Job:
    """Everything that a worker must know; it pickles to a few kilobytes."""

    source: Source
    store: Store
    token: str
    """Token of the run, which names the folder of its unpublished attempts (`store`)."""
    device: str
    shard_size: int
    """Positions of the source that a shard answers for; the last shard may have fewer."""
    labelled: bool
    """Whether labels are released."""
    strict: bool
    """Whether a bad picture ends the run instead of being skipped."""
    survey: Survey
    """What was seen of each picture before the first was released, once that is done."""
    task: Task
    skip_changed: bool = False
    """Whether a picture that is no longer what was surveyed is skipped; otherwise it ends the run."""
    bad: tuple[int, ...] | None = None
    """Positions of all bad pictures, if images must be numbered without gaps: any other bad picture then ends the run.
    None if numbers are positions."""

    def worker(self, progress: Progress = quiet) -> Worker[Any]:
        """Return a worker for this job, in whatever process this is."""
        return self.task.worker(self, progress)

    @property
    def shards(self) -> int:
        """Number of shards."""
        return -(-len(self.source) // self.shard_size)

    def positions(self, shard: int) -> range:
        """Positions of the source that a shard answers for."""
        return range(shard * self.shard_size, min((shard + 1) * self.shard_size, len(self.source)))

    def number(self, position: int) -> int:
        """Number of the image at a position: the position or, without gaps, how many good pictures come before it."""
        return position if self.bad is None else position - bisect_left(self.bad, position)


class SeenPicture(NamedTuple, Generic[Decoded]):
    """A picture of the source as a worker has read it."""

    record: Record
    """Position and label; the content is left out."""
    picture: Decoded | None
    """The picture; None if there is a problem, or if it was not decoded."""
    problem: str
    digest: bytes | None
    """Digest of the content; None if there is a problem."""


def limit_threads(threads: int) -> None:
    """Limit the threads of numba, NumPy and PyTorch in this process; must be called before they are imported."""
    os.environ["NUMBA_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = str(threads)
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(threads)


class Worker(ABC, Generic[Decoded]):
    """Reads pictures of a job, and releases them shard by shard."""

    together: ClassVar[int] = 8
    """Pictures that a thread decodes in one task."""

    def __init__(self, job: Job, progress: Progress = quiet) -> None:
        self.job, self.progress = job, progress

    @abstractmethod
    def release(self, shard: int) -> Contents:
        """Make and publish a shard, unless it is published already; return what the published file holds."""

    @abstractmethod
    def decoded(self, position: int, content: Content) -> tuple[Decoded | None, str]:
        """Return a picture that can be released, or None and what is wrong with it."""

    def survey(self, decode: bool) -> Iterator[SeenPicture[Decoded]]:
        """Yield every picture of the source, in order; nothing is released.

        Args:
            decode: Whether pictures are decoded. Otherwise only problems with files are found.

        Raises:
            DippError: At the first bad picture, if the job is strict.
        """
        for shard in range(self.job.shards):
            for seen in self.pictures(shard, decode=decode):
                if seen.problem:
                    self.require_lenient(seen.record.position, seen.problem)
                yield seen

    def require_lenient(self, position: int, problem: str) -> None:
        """Raise for a bad picture if the job is strict."""
        if self.job.strict:
            raise DippError("src", f"{self.job.source.name(position)}: {problem}")

    def pictures(self, shard: int, *, decode: bool = True) -> Iterator[SeenPicture[Decoded]]:
        """Yield the pictures of a shard."""
        job, positions = self.job, self.job.positions(shard)
        sights = job.survey.read(positions.start, positions.stop) if job.survey.done else repeat(None)

        def read(some: list[tuple[Record, Sight | None]]) -> list[SeenPicture[Decoded]]:
            return [self._seen(record, sight, decode) for record, sight in some]

        records = zip(job.source.read(positions.start, positions.stop), sights, strict=False)
        readers = READERS[job.device.partition(":")[0]]
        with ThreadPoolExecutor(readers) as pool:
            for made in _ahead(pool, read, _lists(records, self.together), 2 * readers):
                yield from made

    def _seen(self, record: Record, sight: Sight | None, decode: bool) -> SeenPicture[Decoded]:
        """Return a picture, or the problem with it; raise if it has changed and these are not skipped."""
        content, problem = record.content, record.problem
        record = record._replace(content=None)
        if sight is not None and sight.problem:
            return SeenPicture(record, None, sight.problem, None)
        found = None if content is None else survey.digest(content)
        if problem == CHANGED or (sight is not None and found != sight.digest):
            if not self.job.skip_changed or self.job.bad is not None:
                raise self._changed(record.position)
            return SeenPicture(record, None, CHANGED, None)
        if content is None or problem:
            return SeenPicture(record, None, problem or "there is no picture", None)
        picture, problem = self.decoded(record.position, content) if decode else (None, "")
        return SeenPicture(record, picture, problem, None if problem else found)

    def _changed(self, position: int) -> DippError:
        """Return the error about a picture that has changed since the survey, or since the source was listed."""
        changed = f"{self.job.source.name(position)} was changed after the run began"
        if self.job.bad is not None:
            folder = self.job.store.folder
            return DippError(
                "src", changed, f"restore it and give the same command again, or remove {folder} and start anew"
            )
        return DippError(
            "src", changed, "restore it and give the same command again, or finish without it by --skip-changed"
        )


def _lists(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    """The items in lists of `size`; the last may be shorter."""
    iterator = iter(items)
    while some := list(islice(iterator, size)):
        yield some


def _ahead(pool: ThreadPoolExecutor, function: Callable[[Any], Any], items: Iterable[Any], count: int) -> Iterator[Any]:
    """Apply the function to each item in threads, and yield results in order; about `count` are computed in advance."""
    window: deque[Future[Any]] = deque()
    for item in items:
        window.append(pool.submit(function, item))
        if len(window) > count:
            yield window.popleft().result()
    while window:
        yield window.popleft().result()
