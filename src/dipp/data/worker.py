"""A worker: holds the model, and makes of a range of the source a published shard. All engines run this and no more.

The private pixels exist in this process alone, from the file they are read from to the selection: no queue, object
store or driver ever sees them. Pictures are decoded a little ahead, in threads, while the codec is busy.
"""

from __future__ import annotations

import functools
import os
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from dipp.data.sources import Record, Source
from dipp.data.store import Store
from dipp.errors import DippError
from dipp.format.release import Release
from dipp.privacy.budget import Budget

if TYPE_CHECKING:
    from dipp.codec.codec import Codec
    from dipp.codec.pictures import Pixels
    from dipp.data.shards import Image, Skipped
    from dipp.privacy.ledger import Ledger

READERS = {"cpu": 1, "cuda": 4}
"""Threads that decode pictures ahead of the codec."""
READ_TOGETHER = 8
"""Pictures that a thread decodes at a time."""
HELD_PIXELS = 1 << 25
"""Pixels of pictures that wait for others of their size; more, and the largest group goes as it is."""


@dataclass(frozen=True)
class Job:
    """All that a worker must know; it pickles to a few kilobytes."""

    source: Source
    store: Store
    token: str
    """Of the run's attempts (`store`)."""
    release: Release
    """Plan, model and public seed."""
    budget: Budget | None
    model: str
    device: str
    shard_size: int
    labelled: bool
    strict: bool
    bad: tuple[int, ...] | None = None
    """Positions that are known to be bad, where numbers may have no gaps: any other bad one then ends the run."""

    @property
    def shards(self) -> int:
        """Number of shards."""
        return -(-len(self.source) // self.shard_size)

    def positions(self, shard: int) -> range:
        """Positions that a shard answers for."""
        return range(shard * self.shard_size, min((shard + 1) * self.shard_size, len(self.source)))

    def number(self, position: int) -> int:
        """The number of an image: its position or, without gaps, its place among the good ones."""
        return position if self.bad is None else position - bisect_left(self.bad, position)


class Outcome(NamedTuple):
    """What became of a shard: counts only."""

    shard: int
    images: int
    skipped: int
    payload_bits: int
    pixels: int


def limit_threads(threads: int) -> None:
    """Bound the threads of numba and PyTorch in this process; must come before either is loaded."""
    os.environ["NUMBA_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = str(threads)
    import torch

    torch.set_num_threads(threads)


@dataclass(eq=False)
class Worker:
    """A job and, once it is needed, the codec."""

    job: Job
    _codec: Codec | None = field(default=None)
    progress: Callable[[int], None] = field(default=lambda _: None)
    """Told how many more images are encoded."""

    def release(self, shard: int) -> Outcome:
        """Encode a shard and publish it, unless it is out already."""
        from dipp.data import shards

        job = self.job
        if not job.store.published(shard):
            images, skipped, recorded = self._encode(shard)
            labels = job.source.labels if job.labelled else None
            positions = job.positions(shard)
            first, count = job.number(positions.start), len(images) + len(skipped)
            if job.number(positions.stop) != first + count:
                raise DippError("src: it has fewer pictures than when the run began; restore it to go on")
            content = (job.release, labels, images, first, count, skipped, recorded)
            job.store.publish(job.token, shard, lambda file: shards.write(file, *content))
        return outcome(job.store, shard)

    @property
    def codec(self) -> Codec:
        """The codec, with the plan of the run and not one made anew."""
        from dipp.codec.codec import Codec

        if self._codec is None:
            job = self.job
            self._codec = Codec.for_release(job.release, job.model, device=job.device, budget=job.budget)
        return self._codec

    def check(self, shard: int) -> list[tuple[int, str]]:
        """Bad pictures of a shard and why, without encoding any."""
        return [(record.position, problem) for record, _, problem in self._pictures(shard) if problem]

    def _encode(self, shard: int) -> tuple[list[Image], list[Skipped], Ledger | None]:
        """All images of a shard, encoded in batches of one size, and the encoder's ledger."""
        from dipp.data.shards import Image, Skipped
        from dipp.privacy.ledger import Recorder

        job, codec, recorder = self.job, self.codec, Recorder()
        images: list[Image] = []
        skipped: list[Skipped] = []
        waiting: dict[tuple[int, ...], list[tuple[Record, Pixels]]] = {}

        def flush(shape: tuple[int, ...]) -> None:
            batch = waiting.pop(shape)
            numbers = [job.number(record.position) for record, _ in batch]
            rows = codec.select([pixels for _, pixels in batch], numbers, job.release.seed, recorder)
            for (record, _), number, row in zip(batch, numbers, rows, strict=True):
                height, width, channels = shape
                images.append(Image(number, (height, width, channels), record.label if job.labelled else None, row))
            self.progress(len(batch))

        for record, pixels, problem in self._pictures(shard):
            if pixels is None:
                if job.strict or job.bad is not None:
                    raise DippError(f"src: {job.source.name(record.position)}: {problem}")
                skipped.append(Skipped(record.position, problem))
                continue
            group = waiting.setdefault(pixels.shape, [])
            group.append((record, pixels))
            if len(group) == codec.batch_size(pixels.shape):
                flush(pixels.shape)
            elif sum(len(some) * shape[0] * shape[1] for shape, some in waiting.items()) > HELD_PIXELS:
                flush(max(waiting, key=lambda shape: len(waiting[shape]) * shape[0] * shape[1]))
        for shape in list(waiting):
            flush(shape)
        return images, skipped, recorder.ledger(codec.plan, len(images))

    def _pictures(self, shard: int) -> Iterator[tuple[Record, Pixels | None, str]]:
        """The pictures of a shard, or what is wrong with them, less those that are known to be bad."""
        positions, codec = self.job.positions(shard), self.codec
        known = frozenset(self.job.bad or ())
        records = (r for r in self.job.source.read(positions.start, positions.stop) if r.position not in known)

        def read(some: list[Record]) -> list[tuple[Record, Pixels | None, str]]:
            return [(record._replace(content=None), *self._picture(record)) for record in some]

        readers = READERS[codec.denoiser.device.type]
        with ThreadPoolExecutor(readers) as pool:
            for made in _ahead(pool, read, _lists(records, READ_TOGETHER), 2 * readers):
                yield from made

    def _picture(self, record: Record) -> tuple[Pixels | None, str]:
        from dipp.codec import pictures

        content, problem = record.content, record.problem
        if not problem and content is not None:
            try:
                pixels = pictures.read(content, self.codec.denoiser.channels) if isinstance(content, bytes) else content
                if not (problem := self._refusal(pixels.shape)):
                    return pixels, ""
            except DippError as error:
                problem = str(error)
        return None, problem.removeprefix("image: ") or "there is no picture"

    @functools.cached_property
    def _refusal(self) -> Callable[[tuple[int, ...]], str]:
        """Why the codec refuses a shape, once for each: its budget is not recomputed for every picture."""

        def refusal(shape: tuple[int, ...]) -> str:
            try:
                self.codec.check_shape(shape)
            except DippError as error:
                return str(error)
            return ""

        return functools.lru_cache(maxsize=4096)(refusal)


def _lists(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    iterator = iter(items)
    while some := list(islice(iterator, size)):
        yield some


def _ahead(pool: ThreadPoolExecutor, function: Callable[[Any], Any], items: Iterable[Any], count: int) -> Iterator[Any]:
    """The function of each item, in order, with at most `count` of them made in advance."""
    window: deque[Future[Any]] = deque()
    for item in items:
        window.append(pool.submit(function, item))
        if len(window) > count:
            yield window.popleft().result()
    while window:
        yield window.popleft().result()


def outcome(store: Store, shard: int) -> Outcome:
    """What a published shard holds."""
    from dipp.data.shards import Shard
    from dipp.data.store import shard_name

    found = Shard.read(Path(store.folder) / shard_name(shard))
    return Outcome(shard, len(found), len(found.skipped), found.payload_bits, int(found.sizes.sum()))
