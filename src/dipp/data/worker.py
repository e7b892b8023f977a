"""Workers: each reads a range of the source, makes what the run is for, and publishes it as a shard.

Every engine runs workers. The workers of an encoding are in `encoding`, those of a redaction in `redacting`; what they
share is here: a job, and reading pictures.

Private pixels exist in the worker's process alone, from the file that they are read from to the release: no queue,
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
from dipp.data.sources import CHANGED, Content, Source, SourcePicture
from dipp.data.store import Store
from dipp.data.survey import Survey, SurveyEntry
from dipp.errors import DippError

if TYPE_CHECKING:
    from dipp.data.contents import Contents

READERS = {"cpu": 1, "mps": 1, "cuda": 4}
"""Number of threads that decode pictures ahead of the worker, for each kind of device."""

Progress = Callable[[float], None]
"""A callback that receives the number of images done since its last call, whole or in parts. It is for display only,
because the number is not exact."""
Decoded = TypeVar("Decoded")
"""The type of a decoded picture of a worker."""


def quiet(_: float) -> None:
    """Ignore the number of images done."""


class Task(ABC):
    """What is made of each picture: the part of a job that depends on the purpose of the run."""

    @abstractmethod
    def worker(self, job: Job, progress: Progress) -> Worker[Any]:
        """Return a worker for a job, in any process.

        Args:
            job: What the worker must know of its run.
            progress: Callback that receives the number of images done since its last call.
        """


@dataclass(frozen=True)
class Job:
    """Everything that a worker must know of its run; it pickles to a few kilobytes."""

    source: Source
    store: Store
    """The folder in which shards are published."""
    token: str
    """Token of the run, which names the folder of its unpublished attempts (`store`)."""
    device: str
    """Device of the worker, such as "cpu"."""
    shard_size: int
    """Number of positions of the source that a shard covers; the last shard may cover fewer."""
    labelled: bool
    """Whether labels are released."""
    strict: bool
    """Whether a bad picture ends the run instead of being skipped."""
    survey: Survey
    """The digest and the problem of each picture, once the survey is complete."""
    task: Task
    """What is made of each picture."""
    skip_changed: bool = False
    """Whether a picture that has changed since the survey is skipped; otherwise it ends the run."""
    bad: tuple[int, ...] | None = None
    """Positions of all bad pictures, if images must be numbered without gaps: any other bad picture then ends the run.
    None if the number of an image is its position."""

    def worker(self, progress: Progress = quiet) -> Worker[Any]:
        """Return a worker for this job, in any process.

        Args:
            progress: Callback that receives the number of images done since its last call; by default it is ignored.
        """
        return self.task.worker(self, progress)

    @property
    def shards(self) -> int:
        """Number of shards."""
        return -(-len(self.source) // self.shard_size)

    def positions(self, shard: int) -> range:
        """Return the positions of the source that a shard covers.

        Args:
            shard: Number of the shard.
        """
        return range(shard * self.shard_size, min((shard + 1) * self.shard_size, len(self.source)))

    def number(self, position: int) -> int:
        """Return the number of the image at a position.

        If images are numbered without gaps (`bad` is known), it is the number of good pictures before the position;
        otherwise it is the position itself.

        Args:
            position: Position of the source.
        """
        return position if self.bad is None else position - bisect_left(self.bad, position)


class SeenPicture(NamedTuple, Generic[Decoded]):
    """A picture of the source as a worker has read it."""

    record: SourcePicture
    """Position and label; the content is left out."""
    picture: Decoded | None
    """The decoded picture; None if there is a problem, or if it was not decoded."""
    problem: str
    """Why the picture cannot be used; empty if it can."""
    digest: bytes | None
    """Digest of the content; None if there is a problem."""


def limit_threads(threads: int) -> None:
    """Limit the threads of numba, NumPy and PyTorch in this process. Call it before they are imported.

    Args:
        threads: Largest number of threads.
    """
    os.environ["NUMBA_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = str(threads)
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(threads)


class Worker(ABC, Generic[Decoded]):
    """A program that reads the pictures of a job, and releases them shard by shard.

    Args:
        job: What the worker must know of its run.
        progress: Callback that receives the number of images done since its last call; by default it is ignored.
    """

    together: ClassVar[int] = 8
    """Number of pictures that a thread decodes in one task."""

    def __init__(self, job: Job, progress: Progress = quiet) -> None:
        self.job, self.progress = job, progress

    @abstractmethod
    def release(self, shard: int) -> Contents:
        """Make and publish a shard, unless it is published already.

        Args:
            shard: Number of the shard.

        Returns:
            What the published file holds.

        Raises:
            DippError: A picture cannot be used and the job is strict, a picture has changed, or the run was ended.
        """

    @abstractmethod
    def decoded(self, position: int, content: Content) -> tuple[Decoded | None, str]:
        """Return the picture and empty text if it can be released; otherwise None and the problem.

        Args:
            position: Position in the source.
            content: The picture as the source gives it.
        """

    def survey(self, decode: bool) -> Iterator[SeenPicture[Decoded]]:
        """Yield every picture of the source, in order. Nothing is released.

        Args:
            decode: Whether pictures are decoded. Otherwise only problems with files are noticed.

        Raises:
            DippError: A picture is bad and the job is strict, or a picture has changed.
        """
        for shard in range(self.job.shards):
            for surveyed in self.pictures(shard, decode=decode):
                if surveyed.problem:
                    self.require_lenient(surveyed.record.position, surveyed.problem)
                yield surveyed

    def require_lenient(self, position: int, problem: str) -> None:
        """Raise an error about a bad picture if the job is strict.

        Args:
            position: Position of the picture in the source.
            problem: Why the picture cannot be used.

        Raises:
            DippError: The job is strict.
        """
        if self.job.strict:
            raise self.bad_picture(position, problem)

    def bad_picture(self, position: int, problem: str) -> DippError:
        """Return the error about a picture that cannot be used.

        Args:
            position: Position of the picture in the source.
            problem: Why the picture cannot be used.
        """
        return DippError("src", f"has a bad picture: {self.job.source.name(position)} {problem}")

    def pictures(self, shard: int, *, decode: bool = True) -> Iterator[SeenPicture[Decoded]]:
        """Yield the pictures of a shard.

        Args:
            shard: Number of the shard.
            decode: Whether pictures are decoded; true by default.

        Raises:
            DippError: A picture has changed, and changed pictures are not skipped.
        """
        job, positions = self.job, self.job.positions(shard)
        sights = job.survey.read(positions.start, positions.stop) if job.survey.done else repeat(None)

        def read(group: list[tuple[SourcePicture, SurveyEntry | None]]) -> list[SeenPicture[Decoded]]:
            """Decode a group of pictures, in a thread."""
            return [self._seen(record, sight, decode) for record, sight in group]

        records = zip(job.source.read(positions.start, positions.stop), sights, strict=False)
        readers = READERS[job.device.partition(":")[0]]
        with ThreadPoolExecutor(readers) as pool:
            for decoded_group in _ahead(pool, read, _lists(records, self.together), 2 * readers):
                yield from decoded_group

    def _seen(self, record: SourcePicture, sight: SurveyEntry | None, decode: bool) -> SeenPicture[Decoded]:
        """Return a picture, or the problem with it; raise if it has changed and changed pictures are not skipped."""
        content, problem = record.content, record.problem
        record = record._replace(content=None)
        if sight is not None and sight.problem:
            return SeenPicture(record, None, sight.problem, None)
        digest = None if content is None else survey.digest(content)
        if problem == CHANGED or (sight is not None and digest != sight.digest):
            if not self.job.skip_changed or self.job.bad is not None:
                raise self._changed(record.position)
            return SeenPicture(record, None, CHANGED, None)
        if content is None or problem:
            return SeenPicture(record, None, problem or "is missing", None)
        picture, problem = self.decoded(record.position, content) if decode else (None, "")
        return SeenPicture(record, picture, problem, None if problem else digest)

    def _changed(self, position: int) -> DippError:
        """Return the error about a picture that has changed since the survey, or since the source was listed."""
        changed = f"has a picture, {self.job.source.name(position)}, that was changed after the run began"
        if self.job.bad is not None:
            folder = self.job.store.folder
            return DippError(
                "src", changed, f"restore it and give the same command again, or remove {folder} and start again"
            )
        return DippError(
            "src", changed, "restore it and give the same command again, or finish without it by --skip-changed"
        )


def _lists(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    """Yield items in lists of `size`; the last list may be shorter."""
    iterator = iter(items)
    while group := list(islice(iterator, size)):
        yield group


def _ahead(pool: ThreadPoolExecutor, function: Callable[[Any], Any], items: Iterable[Any], count: int) -> Iterator[Any]:
    """Apply a function to each item in threads, and yield results in order; about `count` are computed in advance."""
    waiting: deque[Future[Any]] = deque()
    for item in items:
        waiting.append(pool.submit(function, item))
        if len(waiting) > count:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()
