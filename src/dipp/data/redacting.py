"""Runs that redact: regions of every picture are replaced unread, and the results are ordinary pictures.

    DST/pictures/cat/1.jpg               the picture at cat/1.jpg of the source, without what its regions hide
    DST/pictures/00000017.jpg            the picture in row 17 of a table
    DST/pictures/cat/1.jpg.record.json   its record, for `dipp check`
    DST/shard-000000.json …              lists of the published pictures, in order (`redacted`)

A worker publishes a picture, then its record, and after all of them the list of its shard. Each file is published by a
link (`store`): it is whole or missing, and a second attempt at it changes nothing. So a run that was killed can go on:
published files stay, whichever run made them, and each record is made for the published file. A second attempt loses no
privacy, because the painted pixels follow from the surroundings, and those are released.
"""

from __future__ import annotations

import dataclasses
import hashlib
import logging
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar

import pyarrow as pa

from dipp.core.words import counted
from dipp.data import redacted, rows
from dipp.data.contents import Contents, SkippedPosition
from dipp.data.listing import Files
from dipp.data.purpose import Purpose
from dipp.data.redacted import ListedPicture, Listing
from dipp.data.sources import Content, Source
from dipp.data.worker import Job, Progress, SeenPicture, Task, Worker, quiet
from dipp.errors import DippError
from dipp.odometer import Charge, Meter
from dipp.redaction import charging, formats, paint, tracks
from dipp.redaction.formats import column, own
from dipp.redaction.output import ENDINGS, named
from dipp.redaction.record import SUFFIX
from dipp.redaction.redact import OpenedPicture, Redactor, left_visible
from dipp.redaction.regions import DeclaredRegions

LOGGER = logging.getLogger("dipp.odometer")
SCHEMA = pa.schema({"regions": pa.string()})
"""Columns of the file with the regions of each position."""
NO_FILE = "is not a file"
"""Problem of a picture that is not a file, or has no name."""
OUTSIDE = "has a name that leads out of the folder"
"""Problem of a picture whose path leads out of the folder of pictures."""
SAME_NAME = "has the name of another picture of the release"
"""Problem of a picture whose name is taken by an earlier one."""


@dataclass(frozen=True)
class RedactTask(Task):
    """Everything that a worker must know to redact pictures."""

    redactor: Redactor
    """The options of the redaction, without an odometer."""
    regions: Path
    """Arrow file in the run's own folder with the regions of each position."""

    def worker(self, job: Job, progress: Progress = quiet) -> RedactWorker:
        """Return a worker that loads the denoiser when it first paints."""
        return RedactWorker(job, self, progress)


@dataclass(frozen=True, eq=False)
class PreparedPicture:
    """A picture that can be released, with the regions to hide."""

    name: str
    """Path below the folder of pictures."""
    content: bytes
    """Bytes of the source's file."""
    opened: OpenedPicture
    """The decoded picture with its regions."""


class RedactWorker(Worker[PreparedPicture]):
    """A worker that redacts pictures.

    Args:
        job: What the worker must know of its run.
        task: The options of the redaction, and the regions.
        progress: Callback that receives the number of images done since its last call.
    """

    together: ClassVar[int] = 1  # pictures are large

    def __init__(self, job: Job, task: RedactTask, progress: Progress = quiet) -> None:
        super().__init__(job, progress)
        self.task = task

    def survey(self, decode: bool) -> Iterator[SeenPicture[PreparedPicture]]:
        """Yield every picture. If several would be released under the same name, all but the first are bad."""
        names: set[bytes] = set()
        for surveyed in super().survey(decode):
            if surveyed.picture is not None:
                # Some file systems treat names as equal that differ in case alone.
                key = hashlib.blake2b(surveyed.picture.name.casefold().encode(), digest_size=16).digest()
                if key in names:
                    self.require_lenient(surveyed.record.position, SAME_NAME)
                    yield SeenPicture(surveyed.record, None, SAME_NAME, None)
                    continue
                names.add(key)
            yield surveyed

    def decoded(self, position: int, content: Content) -> tuple[PreparedPicture | None, str]:
        """Return the picture with the regions to hide and empty text; or None and the problem."""
        name = self.job.source.file(position)
        if name is None or not isinstance(content, bytes):
            return None, NO_FILE
        if name.startswith("/") or ".." in PurePosixPath(name).parts or "\0" in name:
            return None, OUTSIDE
        (row,) = rows.read(self.task.regions, position, position + 1)
        redactor = self.task.redactor
        try:
            chosen = redactor.chosen("it", own.unpacked(row["regions"]))
        except DippError as error:
            return None, str(error.without("it"))
        try:
            opened = redactor.opened("it", content, chosen)
        except DippError as error:
            return None, str(error.without("it").without(chosen.source))
        return PreparedPicture(named(name, opened.source.kind), content, opened), ""

    def release(self, shard: int) -> Contents:
        """Redact and publish the pictures of a shard, then their list, unless the list is published already."""
        job = self.job
        if not job.store.published(shard):
            pictures: list[ListedPicture] = []
            skipped: list[SkippedPosition] = []
            for picture_read in self.pictures(shard):
                position = picture_read.record.position
                if picture_read.picture is None:
                    self.require_lenient(position, picture_read.problem)
                    skipped.append(SkippedPosition(position, picture_read.problem))
                    continue
                pictures.append(
                    self._publish(position, picture_read.picture, picture_read.record.label if job.labelled else None)
                )
                self.progress(1)
            positions = job.positions(shard)
            if len(pictures) + len(skipped) != len(positions):
                raise DippError("src", "has fewer pictures than when the run began", "restore it to go on")
            text = Listing(positions.start, len(positions), tuple(pictures), tuple(skipped)).to_json().encode()
            job.store.publish(job.token, shard, lambda file: file.write(text))
        return Listing.read(job.store.shard(shard)).contents(job.store.shard(shard))

    def _publish(self, position: int, picture: PreparedPicture, label: int | str | None) -> ListedPicture:
        """Redact and publish one picture and its record; return what the list states of it."""
        store, token, name = self.job.store, self.job.token, picture.name
        redacted_picture = self.task.redactor.filled(PurePosixPath(name).name, picture.opened)
        content = store.publish_picture(token, name, redacted_picture.content)
        text = redacted_picture.record.about(content).to_json().encode()
        text = store.publish_picture(token, name + SUFFIX, text)
        return ListedPicture.of(position, name, label, content, text)


@dataclass(eq=False)
class RedactionPurpose(Purpose):
    """The purpose of a run that redacts pictures."""

    redactor: Redactor
    """The options of the redaction."""
    regions: str | Path
    """A file, or a folder of files, that declares regions; or `column:NAME` of a table that holds them."""
    gaps: str | None = None
    """For frames of a video: how a region that is missing between two frames is handled, `refuse` or `cover`."""
    names: str | None = None
    """Column of a table with the names by which regions are found; by default paths or numbers of rows."""
    unlabelled: bool = False
    """Whether labels are left out. Only tables allow it: for a folder, labels are in the names."""
    visible: dict[int, Counter[str]] = field(default_factory=dict, init=False)
    """Positions of the pictures with regions that `--kinds` leaves visible, and how many of each kind."""
    again: int = field(default=0, init=False)
    """Number of pictures that were released before with other regions, so that these regions hide less than they
    say."""
    suffix: ClassVar[str] = ".json"
    surveys: ClassVar[bool] = True

    @property
    def device(self) -> str:
        """Device of the denoiser."""
        from dipp.models.denoiser import torch_device

        return str(torch_device(self.redactor.device))

    def begun(self, source: Source, scratch: Path) -> dict[str, Any]:
        """Return the options of the redaction, and write the regions of each position into a file of the run."""
        path, digest = rows.fresh(scratch, "regions"), hashlib.sha256()
        with rows.writing(path, SCHEMA) as add:
            for position, declared in enumerate(self._declared(source)):
                if visible := self.redactor.visible(declared):
                    self.visible[position] = visible
                text = own.packed(declared)
                add({"regions": text})
                digest.update(repr(text).encode())
        return {**self._options(), "regions": os.fspath(path), "digest": digest.hexdigest()}

    def _declared(self, source: Source) -> Iterable[DeclaredRegions | None]:
        """Yield the regions of each position; None where nothing is declared."""
        if self.unlabelled and isinstance(source, Files):
            raise DippError(
                "drop-labels", "cannot drop the labels of a folder, whose names are released", "leave it out"
            )
        wanted = str(self.regions)
        if wanted.startswith(column.PREFIX):
            declared = list(self._in_column(source, wanted.removeprefix(column.PREFIX)))
            frames = [source.name(position) for position in range(len(source))] if self.gaps else []
            return declared if self.gaps is None else tracks.filled(declared, frames, self.gaps)
        pictures: list[Path] = []
        positions: list[int] = []
        for position, path in enumerate(source.places(self.names)):
            # For videos, files without the ending of a picture are left out of the frames.
            if self.gaps is None or not isinstance(source, Files) or path.suffix.lower() in ENDINGS:
                pictures.append(path)
                positions.append(position)
        by_name = tracks.declared(formats.load(Path(wanted)), pictures, self.gaps, allow_none=self.redactor.allow_none)
        by_position = dict(zip(positions, by_name, strict=True))
        return (by_position.get(position) for position in range(len(source)))

    def _in_column(self, source: Source, name: str) -> Iterator[DeclaredRegions | None]:
        """Yield the regions that a column of a table holds for each position."""
        if self.names is not None:
            raise DippError("name-column", f"must not be given with the regions {column.PREFIX}{name}", "leave it out")
        kinds = source.kinds(name)
        for position, (value, size) in enumerate(zip(source.column_values(name), source.sizes(), strict=True)):
            yield column.of(f"{name} of {source.name(position)}", value, size, kinds)

    def left_visible(self, skipped: Iterable[int]) -> str:
        """Return in words which regions of the released pictures `--kinds` leaves visible; empty without any.

        Args:
            skipped: Positions of pictures that were not released.
        """
        left_out = frozenset(skipped)
        total = sum((kinds for position, kinds in self.visible.items() if position not in left_out), Counter[str]())
        return left_visible(total)

    def _options(self) -> dict[str, Any]:
        """Return the options that must be the same when a run is resumed."""
        redactor = self.redactor
        fill = paint.fill(redactor.fill, redactor.model, redactor.device)
        return {
            "margin": [redactor.margin.pixels, redactor.margin.share],
            "kinds": None if redactor.kinds is None else list(redactor.kinds),
            "fill": redactor.fill,
            "boxes": redactor.oriented,
            "accept-lossy": redactor.accept_lossy,
            "allow-none": redactor.allow_none,
            "model": fill.denoiser.identity if isinstance(fill, paint.Painter) else None,
        }

    def same(self, begun: dict[str, Any], wanted: dict[str, Any]) -> dict[str, bool]:
        """Return whether each option, and all regions, are those of the recorded run."""
        options = {name: begun[name] == value for name, value in self._options().items()}
        return {**options, "regions": begun["digest"] == wanted["digest"]}

    def task(self, begun: dict[str, Any]) -> RedactTask:
        """Return what workers do, with the regions in the record of the run."""
        redactor = dataclasses.replace(self.redactor, meter=None, device=self.device)
        return RedactTask(redactor, Path(begun["regions"]))

    def worker(self, job: Job) -> Worker[Any]:
        """Return a worker of this process."""
        return job.worker()

    def charge(self, meter: Meter, surveyed: SeenPicture[PreparedPicture], name: str) -> Charge:
        """Return the row of the odometer for a picture, which is released unchanged except for its regions."""
        picture = surveyed.picture
        assert picture is not None  # noqa: S101 - the caller has looked
        source, hidden = picture.opened.source, picture.opened.hidden
        row = charging.row(meter, surveyed.record.position, name, picture.content, source, hidden)
        self.again += bool(charging.differs(meter.odometer, row.picture, hidden))
        return row

    def surveyed(self) -> None:
        """Log a warning if pictures were released before with other regions."""
        if self.again:
            LOGGER.warning(
                f"odometer: {counted(self.again, 'picture')} {'was' if self.again == 1 else 'were'} released before "
                "with other regions: only what was hidden each time stays hidden (dipp odometer PICTURE explains)"
            )

    def manifest(self, job: Job, contents: Iterable[Contents]) -> dict[str, Any]:  # noqa: ARG002
        """Return the manifest of the published shards, which are lists of redacted pictures."""
        return redacted.manifest(job.store, job.source.labels if job.labelled else None)
