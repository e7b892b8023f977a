"""Runs that encode: each worker holds the model, encodes a range of the source, and publishes a shard of indices."""

from __future__ import annotations

import base64
import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from dipp.core.beacon import Beacon
from dipp.core.geometry import Geometry
from dipp.core.window import Window
from dipp.data.purpose import Purpose
from dipp.data.sources import Content, Source, SourcePicture
from dipp.data.subjects import BySubject
from dipp.data.worker import Job, Progress, SeenPicture, Task, Worker, quiet
from dipp.errors import DippError, MiscomputedError
from dipp.format.header import parameters_from_bytes, parameters_to_bytes
from dipp.format.parameters import PublicParameters
from dipp.models import watch
from dipp.odometer import Charge, Meter
from dipp.privacy.budget import Budget

if TYPE_CHECKING:
    from dipp.codec.codec import Codec
    from dipp.codec.pictures import CodecPicture
    from dipp.data.contents import Contents, SkippedPosition
    from dipp.data.shard_writing import Image
    from dipp.privacy.ledger import Ledger

HELD_PIXELS = 1 << 25
"""Largest number of pixels of all pictures that wait for others of their size to fill a batch. Beyond this, the largest
group is encoded before it is full."""


@dataclass(frozen=True)
class EncodeTask(Task):
    """Everything that a worker must know to encode pictures."""

    parameters: PublicParameters
    """Public parameters of the encoding: plan, identity of the model, and public seed."""
    budget: Budget | None
    """Budget that the certificate of every picture must keep; None if no budget is set."""
    model: str
    """Folder or hub id of the denoiser."""

    def worker(self, job: Job, progress: Progress = quiet) -> Encoder:
        """Return a worker that loads the model when it first encodes."""
        return Encoder(job, self, progress=progress)


class _ProgressWatch(watch.ShareWatch):
    """A watch over an encoding that reports fractions of encoded images to a callback."""

    def __init__(self, report: Callable[[float], None]) -> None:
        super().__init__()
        self._report, self._reported = report, 0.0

    def step(self, number: int) -> None:
        """Report the images done before a step begins."""
        super().step(number)
        self._update()

    def predicted(self, pixels: int) -> None:
        """Report that a prediction was made."""
        super().predicted(pixels)
        self._update()

    def _update(self) -> None:
        """Report the images done since the last report."""
        before, self._reported = self._reported, self.images * self.done
        self._report(self._reported - before)


class Encoder(Worker["CodecPicture"]):
    """A worker that encodes. It loads the codec when it first encodes.

    Args:
        job: What the worker must know of its run.
        task: The public parameters of the encoding, its budget and its model.
        codec: The codec of this process; None loads it when it is needed.
        progress: Callback that receives the number of images done since its last call.
    """

    def __init__(self, job: Job, task: EncodeTask, codec: Codec | None = None, progress: Progress = quiet) -> None:
        super().__init__(job, progress)
        self.task, self._codec = task, codec

    def release(self, shard: int) -> Contents:
        """Encode and publish a shard, unless it is published already; return what the published file holds."""
        from dipp.data import shard_writing, shards
        from dipp.data.contents import Contents

        job = self.job
        if not job.store.published(shard):
            try:
                images, skipped, recorded = self._encode(shard)
            except MiscomputedError:
                # The draws are thrown away for a reason that may depend on them. So nobody may draw again for this run,
                # neither an engine that has lost this worker's answer nor the same command: another run is charged.
                job.store.stop()
                raise
            labels = job.source.labels if job.labelled else None
            positions = job.positions(shard)
            first, count = job.number(positions.start), len(images) + len(skipped)
            if job.number(positions.stop) != first + count:
                raise DippError("src", "has fewer pictures than when the run began", "restore it to go on")
            content = (self.task.parameters, labels, images, first, count, skipped, recorded)
            job.store.publish(job.token, shard, lambda file: shard_writing.write(file, *content))
        path = job.store.shard(shard)
        return Contents.of(path, shards.Shard.read(path))

    @property
    def codec(self) -> Codec:
        """The codec with the plan of the run; a worker never makes a new plan."""
        from dipp.codec.codec import Codec

        if self._codec is None:
            task = self.task
            self._codec = Codec.for_parameters(task.parameters, task.model, device=self.job.device, budget=task.budget)
        return self._codec

    def _encode(self, shard: int) -> tuple[list[Image], list[SkippedPosition], Ledger | None]:
        """Encode a shard in batches of one size.

        Returns:
            The images, the skipped positions, and the encoder's own ledger.
        """
        from dipp.codec.batches import batch_size
        from dipp.codec.chain import Chain
        from dipp.codec.encoder import encode_batch
        from dipp.data.contents import SkippedPosition
        from dipp.data.shard_writing import Image
        from dipp.privacy.recorder import Recorder

        job, codec, recorder = self.job, self.codec, Recorder()
        images: list[Image] = []
        skipped: list[SkippedPosition] = []
        waiting: dict[Geometry, list[tuple[SourcePicture, CodecPicture]]] = {}
        bad = frozenset(job.bad or ())

        def flush(geometry: Geometry) -> None:
            """Encode all waiting pictures of a geometry."""
            batch = waiting.pop(geometry)
            numbers = [job.number(record.position) for record, _ in batch]
            with watch.watching(_ProgressWatch(self.progress)):
                chain = Chain.of_pictures(codec.plan, codec.denoiser, self.task.parameters.seed, geometry)
                rows, _ = encode_batch(chain, [picture for _, picture in batch], numbers, recorder)
            for (record, picture), number, row in zip(batch, numbers, rows, strict=True):
                label = record.label if job.labelled else None
                images.append(Image(number, geometry, label, row, picture.grey))

        for record, picture, problem, _ in self.pictures(shard):
            if picture is None:
                if job.bad is not None and record.position in bad:
                    continue
                if job.strict or job.bad is not None:
                    raise self.bad_picture(record.position, problem)
                skipped.append(SkippedPosition(record.position, problem))
                continue
            geometry = Geometry.of(picture.pixels.shape)
            group = waiting.setdefault(geometry, [])
            group.append((record, picture))
            if len(group) == batch_size(codec.denoiser.device.type, geometry):
                flush(geometry)
            elif sum(len(pictures) * size.pixels for size, pictures in waiting.items()) > HELD_PIXELS:
                flush(max(waiting, key=lambda size: len(waiting[size]) * size.pixels))
        for geometry in list(waiting):
            flush(geometry)
        return images, skipped, recorder.ledger(codec.plan, len(images))

    def decoded(self, _: int, content: Content) -> tuple[CodecPicture | None, str]:
        """Return the picture and empty text if the codec accepts it; otherwise None and the problem."""
        from dipp.codec import pictures

        channels, window = self.codec.denoiser.colours, self.task.parameters.window
        try:
            picture = (
                pictures.read_picture(content, channels, window)
                if isinstance(content, bytes)
                else pictures.of_colour(content, channels, window)
            )
        except DippError as error:
            return None, str(error.without("image"))
        problem = self._refusal(Geometry.of(picture.pixels.shape))
        return (None, problem) if problem else (picture, "")

    @functools.cached_property
    def _refusal(self) -> Callable[[Geometry], str]:
        """A function that returns why the codec refuses a geometry, or empty text. It caches its results."""
        from dipp.codec.charging import require_within

        def refusal(geometry: Geometry) -> str:
            try:
                require_within(self.codec.plan, self.codec.budget, geometry)
                self.codec.denoiser.require_size(geometry)
            except DippError as error:
                return str(error.without("image"))
            return ""

        return functools.lru_cache(maxsize=4096)(refusal)


@dataclass(frozen=True, eq=False)
class EncodingPurpose(Purpose):
    """The purpose of a run that encodes pictures."""

    codec: Codec
    """The codec, with a plan within the budget."""
    model: str
    """Folder or hub id from which other processes load the codec's denoiser."""
    seed: bytes
    """Public seed of a new run; with a beacon, the sender's own part of it."""
    seed_given: bool
    """Whether the caller chose the seed."""
    beacon: Beacon | None
    """Public beacon that is mixed into the seed; None if no beacon is used."""
    window: Window | None
    """Which values of pictures with more than eight bits become black and white; None skips such pictures."""
    suffix: ClassVar[str] = ".parquet"
    surveys: ClassVar[bool] = False

    @property
    def device(self) -> str:
        """Device of the codec."""
        return str(self.codec.denoiser.device)

    def begun(self, source: Source, scratch: Path) -> dict[str, Any]:  # noqa: ARG002
        """Return the public parameters of the encoding, for the record of the run."""
        parameters = self.codec.parameters(self.seed, given=self.seed_given, beacon=self.beacon, window=self.window)
        return {"archive": base64.b64encode(parameters_to_bytes(parameters)).decode()}

    def same(self, begun: dict[str, Any], wanted: dict[str, Any]) -> dict[str, bool]:  # noqa: ARG002
        """Return whether seed, beacon, plan and window are unchanged. A seed counts only if the caller chose it."""
        parameters = _public_parameters(begun)
        part = parameters.seed if parameters.beacon is None else parameters.beacon.own
        again = self.codec.parameters(
            part, given=parameters.seed_given, beacon=parameters.beacon, window=parameters.window
        )
        return {
            "seed": not self.seed_given or self.seed == part,
            "beacon": parameters.beacon == (None if self.beacon is None else self.beacon.mixed_with(part)),
            "model or budget": parameters == again,
            "window": parameters.window == self.window,
        }

    def task(self, begun: dict[str, Any]) -> EncodeTask:
        """Return what workers do, with the public parameters in the record of the run."""
        return EncodeTask(_public_parameters(begun), self.codec.budget, self.model)

    def worker(self, job: Job) -> Encoder:
        """Return a worker with the codec of this process."""
        task = job.task
        assert isinstance(task, EncodeTask)  # noqa: S101 - `task` made it
        return Encoder(job, task, self.codec)

    def charge(self, meter: Meter, surveyed: SeenPicture[CodecPicture], name: str) -> Charge:
        """Return the row of the odometer for a picture: its mark, and the price of its file."""
        from dipp.codec.charging import losses

        picture = surveyed.picture
        assert picture is not None  # noqa: S101 - the caller has looked
        cost = losses(self.codec.plan, Geometry.of(picture.pixels.shape))
        return meter.item(surveyed.record.position, meter.mark(picture.known_by), cost, name, self.codec.plan.unit)

    def surveyed(self) -> None:
        """Log nothing, because the odometer logs what it charged."""

    def manifest(self, job: Job, contents: Iterable[Contents]) -> dict[str, Any]:
        """Return the manifest of the published shards."""
        from dipp.data import manifest

        subjects = job.source if isinstance(job.source, BySubject) else None
        return manifest.manifest(job.store, job.source.labels if job.labelled else None, contents, subjects)


def _public_parameters(begun: dict[str, Any]) -> PublicParameters:
    """Return the public parameters in the record of a run."""
    return parameters_from_bytes(base64.b64decode(begun["archive"]))
