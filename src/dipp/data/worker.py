"""A worker holds the model, encodes a range of the source, and publishes it as a shard. Every engine runs workers.

Private pixels exist in the worker's process alone, from the file that they are read from to the selection: no queue,
object store or driver ever sees them. Threads decode pictures a little ahead, while the codec is busy.

A picture is encoded only if its content has the digest that it had when all pictures were surveyed (`survey`).
"""

from __future__ import annotations

import functools
import os
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from dipp.core.geometry import Geometry
from dipp.data import survey
from dipp.data.sources import CHANGED, Content, Record, Source
from dipp.data.store import Store
from dipp.data.survey import Sight, Survey
from dipp.errors import DippError, MiscomputedError
from dipp.format.release import Release
from dipp.models import watch
from dipp.privacy.budget import Budget

if TYPE_CHECKING:
    from dipp.codec.codec import Codec
    from dipp.codec.pictures import Picture
    from dipp.data.shards import Contents, Image, Skipped
    from dipp.privacy.ledger import Ledger

READERS = {"cpu": 1, "mps": 1, "cuda": 4}
"""Threads that decode pictures ahead of the codec, for each kind of device."""
READ_TOGETHER = 8
"""Pictures that a thread decodes in one task."""
HELD_PIXELS = 1 << 25
"""Pixels of all pictures that wait for others of their size to fill a batch. Beyond this, the largest group is encoded
as it is."""


@dataclass(frozen=True)
class Job:
    """Everything that a worker must know; it pickles to a few kilobytes."""

    source: Source
    store: Store
    token: str
    """Token of the run, which names the folder of its unpublished attempts (`store`)."""
    release: Release
    """Plan, identity of the model, and public seed."""
    budget: Budget | None
    """Budget that the certificate of every picture must keep; None if there is none."""
    model: str
    """Folder or hub id of the denoiser."""
    device: str
    shard_size: int
    """Positions of the source that a shard answers for; the last shard may have fewer."""
    labelled: bool
    """Whether labels are released."""
    strict: bool
    """Whether a bad picture ends the run instead of being skipped."""
    survey: Survey
    """What was seen of each picture before the first was encoded, once that is done."""
    skip_changed: bool = False
    """Whether a picture that is no longer what was surveyed is skipped; otherwise it ends the run."""
    bad: tuple[int, ...] | None = None
    """Positions of all bad pictures, if images must be numbered without gaps: any other bad picture then ends the run.
    None if numbers are positions."""

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


class Seen(NamedTuple):
    """A picture of the source as a worker has read it."""

    record: Record
    """Position and label; the content is left out."""
    picture: Picture | None
    """The picture; None if there is a problem, or if it was not decoded."""
    problem: str
    digest: bytes | None
    """Digest of the content; None if there is a problem."""


def limit_threads(threads: int) -> None:
    """Limit the threads of numba and PyTorch in this process; must be called before either is imported."""
    os.environ["NUMBA_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = str(threads)
    import torch

    torch.set_num_threads(threads)


class _Told(watch.Share):
    """Tells of images, in parts, as they are encoded."""

    def __init__(self, tell: Callable[[float], None]) -> None:
        super().__init__()
        self._tell, self._told = tell, 0.0

    def step(self, number: int) -> None:
        """Tell what was done before it."""
        super().step(number)
        self._update()

    def predicted(self, pixels: int) -> None:
        """Tell it."""
        super().predicted(pixels)
        self._update()

    def _update(self) -> None:
        told, self._told = self._told, self.images * self.done
        self._tell(self._told - told)


@dataclass(eq=False)
class Worker:
    """A job, and the codec once it is needed."""

    job: Job
    _codec: Codec | None = field(default=None)
    progress: Callable[[float], None] = field(default=lambda _: None)
    """Called with the number of images that were just encoded: of large ones, with the parts of an image."""

    def release(self, shard: int) -> Contents:
        """Encode and publish a shard, unless it is published already; return what the published file holds."""
        from dipp.data import shards
        from dipp.data.store import shard_name

        job = self.job
        if not job.store.published(shard):
            try:
                images, skipped, recorded = self._encode(shard)
            except MiscomputedError:
                # What was drawn is thrown away for a reason that may depend on it. So nobody may draw again for this
                # run, neither an engine that has lost this worker's answer nor the same command: another is charged.
                job.store.stop()
                raise
            labels = job.source.labels if job.labelled else None
            positions = job.positions(shard)
            first, count = job.number(positions.start), len(images) + len(skipped)
            if job.number(positions.stop) != first + count:
                raise DippError("src: it has fewer pictures than when the run began; restore it to go on")
            content = (job.release, labels, images, first, count, skipped, recorded)
            job.store.publish(job.token, shard, lambda file: shards.write(file, *content))
        path = Path(job.store.folder) / shard_name(shard)
        return shards.Contents.of(path, shards.Shard.read(path))

    @property
    def codec(self) -> Codec:
        """The codec with the plan of the run; a new plan is never made here."""
        from dipp.codec.codec import Codec

        if self._codec is None:
            job = self.job
            self._codec = Codec.for_release(job.release, job.model, device=job.device, budget=job.budget)
        return self._codec

    def survey(self, decode: bool) -> Iterator[Seen]:
        """Yield every picture of the source, in order; nothing is encoded.

        Args:
            decode: Whether pictures are decoded. Otherwise only problems with files are found.

        Raises:
            DippError: At the first bad picture, if the job is strict.
        """
        for shard in range(self.job.shards):
            for seen in self._pictures(shard, decode=decode):
                if seen.problem and self.job.strict:
                    raise DippError(f"src: {self.job.source.name(seen.record.position)}: {seen.problem}")
                yield seen

    def _encode(self, shard: int) -> tuple[list[Image], list[Skipped], Ledger | None]:
        """Encode a shard in batches of one size: its images, the skipped positions, and the encoder's own ledger."""
        from dipp.codec.batches import batch_size
        from dipp.codec.chain import Chain
        from dipp.codec.encoder import encode_batch
        from dipp.data.shards import Image, Skipped
        from dipp.privacy.ledger import Recorder

        job, codec, recorder = self.job, self.codec, Recorder()
        images: list[Image] = []
        skipped: list[Skipped] = []
        waiting: dict[Geometry, list[tuple[Record, Picture]]] = {}
        bad = frozenset(job.bad or ())

        def flush(geometry: Geometry) -> None:
            batch = waiting.pop(geometry)
            numbers = [job.number(record.position) for record, _ in batch]
            with watch.watching(_Told(self.progress)):
                chain = Chain(codec.plan, codec.denoiser, job.release.seed, geometry)
                rows, _ = encode_batch(chain, [picture for _, picture in batch], numbers, recorder)
            for (record, picture), number, row in zip(batch, numbers, rows, strict=True):
                label = record.label if job.labelled else None
                images.append(Image(number, geometry, label, row, picture.grey))

        for record, picture, problem, _ in self._pictures(shard):
            if picture is None:
                if job.bad is not None and record.position in bad:
                    continue
                if job.strict or job.bad is not None:
                    raise DippError(f"src: {job.source.name(record.position)}: {problem}")
                skipped.append(Skipped(record.position, problem))
                continue
            geometry = Geometry.of(picture.pixels.shape)
            group = waiting.setdefault(geometry, [])
            group.append((record, picture))
            if len(group) == batch_size(codec.denoiser.device.type, geometry):
                flush(geometry)
            elif sum(len(some) * size.pixels for size, some in waiting.items()) > HELD_PIXELS:
                flush(max(waiting, key=lambda size: len(waiting[size]) * size.pixels))
        for geometry in list(waiting):
            flush(geometry)
        return images, skipped, recorder.ledger(codec.plan, len(images))

    def _pictures(self, shard: int, *, decode: bool = True) -> Iterator[Seen]:
        """Yield the pictures of a shard."""
        job, positions = self.job, self.job.positions(shard)
        sights = job.survey.read(positions.start, positions.stop) if job.survey.done else repeat(None)

        def read(some: list[tuple[Record, Sight | None]]) -> list[Seen]:
            return [self._seen(record, sight, decode) for record, sight in some]

        records = zip(job.source.read(positions.start, positions.stop), sights, strict=False)
        readers = READERS[self.codec.denoiser.device.type]
        with ThreadPoolExecutor(readers) as pool:
            for made in _ahead(pool, read, _lists(records, READ_TOGETHER), 2 * readers):
                yield from made

    def _seen(self, record: Record, sight: Sight | None, decode: bool) -> Seen:
        """Return a picture, or the problem with it; raise if it has changed and these are not skipped."""
        content, problem = record.content, record.problem
        record = record._replace(content=None)
        if sight is not None and sight.problem:
            return Seen(record, None, sight.problem, None)
        found = None if content is None else survey.digest(content)
        if problem == CHANGED or (sight is not None and found != sight.digest):
            if not self.job.skip_changed or self.job.bad is not None:
                raise self._changed(record.position)
            return Seen(record, None, CHANGED, None)
        if content is None or problem:
            return Seen(record, None, problem or "there is no picture", None)
        picture, problem = self._picture(content) if decode else (None, "")
        return Seen(record, picture, problem, None if problem else found)

    def _changed(self, position: int) -> DippError:
        """Return the error about a picture that has changed since the survey, or since the source was listed."""
        told = f"src: {self.job.source.name(position)} was changed after the run began; "
        if self.job.bad is not None:
            folder = self.job.store.folder
            return DippError(f"{told}restore it and give the same command again, or remove {folder} and start anew")
        return DippError(f"{told}restore it and give the same command again, or finish without it by --skip-changed")

    def _picture(self, content: Content) -> tuple[Picture | None, str]:
        """Return a picture that the codec takes, or None and what is wrong with it."""
        from dipp.codec import pictures

        channels, window = self.codec.denoiser.channels, self.job.release.window
        try:
            picture = (
                pictures.read_picture(content, channels, window)
                if isinstance(content, bytes)
                else pictures.of_colour(content, channels, window)
            )
        except DippError as error:
            return None, str(error).removeprefix("image: ")
        problem = self._refusal(Geometry.of(picture.pixels.shape))
        return (None, problem.removeprefix("image: ")) if problem else (picture, "")

    @functools.cached_property
    def _refusal(self) -> Callable[[Geometry], str]:
        """Function that says why the codec refuses a size, or "". It remembers answers, because the check is slow."""
        from dipp.codec.charging import require_within

        def refusal(geometry: Geometry) -> str:
            try:
                require_within(self.codec.plan, self.codec.budget, geometry)
            except DippError as error:
                return str(error)
            return ""

        return functools.lru_cache(maxsize=4096)(refusal)


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
