"""`dipp privatize`: release every picture of a private source once.

A run has a purpose: it encodes pictures, by a codec with a plan within the budget, or it redacts them. It has four
stages, in this order:

1. *Begin.* The public seed of an encoding is drawn, the source is listed, and the run is recorded (`run`), or its
  record is found and compared. No picture is read before that, so nothing public depends on a picture.
2. *Survey.* Every picture is read once. Its digest is kept (`survey`), and all pictures are charged to the odometer, in
  one transaction. A refusal depends on the pixels, so it comes before any shard is published, and stops all shards.
3. *Release.* An engine runs workers, which publish each shard once. A picture whose content differs from the surveyed
  content is not released.
4. *Finish.* The manifest, or one archive, is made from the published shards.

An interrupted run goes on with the same choices, and makes the shards that were not published. Overwriting replaces a
finished release, or a run of another command, but never a run that the same command has begun: repeating the command
must not release a picture twice.
"""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dipp import files
from dipp.core import randomness
from dipp.data import manifest
from dipp.data.choices import DEFAULT, Choices, Conduct, Summary
from dipp.data.contents import Contents
from dipp.data.encoding import EncodingPurpose
from dipp.data.engines import Engine
from dipp.data.purpose import Purpose
from dipp.data.run import Run
from dipp.data.sources import Source, open_source
from dipp.data.store import RELEASED_TWICE, RUN_FILE, Store
from dipp.data.subjects import BySubject
from dipp.data.survey import FILE, Survey, SurveyEntry
from dipp.data.worker import Job, SeenPicture
from dipp.errors import DippError, MiscomputedError
from dipp.format import archive as archives
from dipp.models.hub import HUB_ID
from dipp.odometer import Charge, LimitError, Meter

if TYPE_CHECKING:
    from dipp.codec.codec import Codec


def privatize(
    source: str,
    destination: Path,
    codec: Codec,
    model: str,
    engine: Engine,
    choices: Choices,
    conduct: Conduct = DEFAULT,
) -> Summary:
    """Encode and release every picture of a source once: `carry_out` with the purpose `encoding`."""
    return carry_out(source, destination, encoding(codec, model, choices), engine, choices, conduct)


def encoding(codec: Codec, model: str, choices: Choices) -> EncodingPurpose:
    """Return the purpose of a run that encodes. This draws the public seed, before the source is read.

    Args:
        codec: The codec, with a plan within the budget.
        model: Folder or hub id from which other processes load the codec's denoiser.
        choices: Options, which may give the seed.
    """
    seed = randomness.fresh_seed() if choices.seed is None else choices.seed
    codec.denoiser.prepare()
    return EncodingPurpose(codec, model, seed, choices.seed is not None, choices.beacon, choices.window)


def carry_out(
    source: str, destination: Path, purpose: Purpose, engine: Engine, choices: Choices, conduct: Conduct = DEFAULT
) -> Summary:
    """Release every picture of a source once, for any purpose.

    Args:
        source: Path or hub id of the source.
        destination: A folder of shards or, if its name ends in .dipp, one archive.
        purpose: What the run makes of each picture.
        engine: The engine that runs the workers.
        choices: Options that must be the same when the run is resumed.
        conduct: Options that a resumed run may change.

    Returns:
        Facts about the release, and which pictures were skipped.

    Raises:
        DippError: The source cannot be read, the destination cannot be written or holds another run, a limit of the
            odometer would be exceeded, or a picture has changed since the run began.
    """
    single = destination.suffix == ".dipp"
    folder = destination.with_name(f".{destination.name}.work") if single else destination
    return _Call(source, destination, purpose, engine, choices, conduct, Store(folder, purpose.suffix), single).run()


@dataclass(frozen=True, eq=False)
class _Call:
    """One call of `carry_out`."""

    source: str
    destination: Path
    purpose: Purpose
    engine: Engine
    choices: Choices
    conduct: Conduct
    store: Store
    """The folder of shards: the destination or, for one archive, a folder of the run's own."""
    single: bool
    """Whether the run makes one archive."""

    def run(self) -> Summary:
        """Carry out the run."""
        began = time.monotonic()
        self._require_places()
        if self.conduct.meter is not None:
            self.conduct.meter.prepare()
        if self.conduct.overwrite:
            self._overwrite()
        if self.single and self.destination.exists():
            self.store.remove()  # remains of a run that was killed while it cleaned up
            raise DippError("dst", f"is finished: {self.destination}", f"{RELEASED_TWICE}: --overwrite starts another")
        job = self._survey(self._begin())
        try:
            contents = list(self._release(job))
        except MiscomputedError as error:
            raise self._stopped(error) from None
        facts, skipped = self._finish(job, contents)
        left_out = self.single and job.source.labels is not None and not self.choices.drop_labels
        encoded = sum(shard.images for shard in contents)
        return Summary(facts, skipped, encoded, time.monotonic() - began, left_out)

    def _require_places(self) -> None:
        """Raise if source and destination do not fit together.

        Raises:
            DippError: The source does not exist or contains the destination, or one archive would replace a folder.
        """
        source, destination = self.source, self.destination
        if Path(source).is_dir() and destination.is_relative_to(Path(source).resolve()):
            raise DippError("dst", f"must be outside of the source, got {destination}", "choose another folder")
        if not Path(source).exists() and not HUB_ID.fullmatch(source):
            raise DippError("src", f"must be a file or folder that exists, or a hub id (owner/name), got {source}")
        if self.single and destination.is_dir():
            raise DippError("dst", f"must not be a folder if its name ends in .dipp, got {destination}")
        if self.single and self.choices.subject is not None:
            raise DippError("subject", "cannot be recorded in a single .dipp file", "release into a folder")

    def _overwrite(self) -> None:
        """Remove what is at the destination, unless it is a run that the same command has begun."""
        if not (self.destination.exists() or self.store.folder.exists()):
            return
        # Open the source first: if it cannot be read, the old release stays. The listing has names of files.
        with tempfile.TemporaryDirectory() as scratch, files.vanishing(Path(scratch)):
            wanted, record = self._wanted(Path(scratch)), self.store.begun()
            if record is not None and not self._differences(record, wanted):
                return
        self.conduct.watcher.overwriting()
        if self.single and self.destination.exists():
            archives.open(self.destination, verify=False)  # raises, so that no other kind of file is removed
        self.store.overwrite()
        if self.single:
            self.store.remove()
            try:
                self.destination.unlink(missing_ok=True)
            except OSError as error:
                raise DippError("dst", f"cannot be overwritten at {self.destination} ({error.strerror})") from None

    def _begin(self) -> Job:
        """Record the run before a picture is read, or find its record; return the job of its workers."""
        store, conduct = self.store, self.conduct
        store.prepare(private=self.single)
        try:
            record = store.begun()
            if record is not None and conduct.skip_changed:
                wanted = Run.from_json(record, store)
                if wanted.place != self._place:
                    raise DippError(
                        "skip-changed",
                        f"needs the source of the run at {store.folder}, {wanted.place}, got {self.source}",
                    )
            else:
                wanted = self._wanted(store.run_folder)
            record = store.begin(wanted.to_json())
            if different := self._differences(record, wanted):
                raise self._another(different)
        finally:
            if not (store.run_folder / RUN_FILE).is_file():  # no run was begun, so leave nothing behind
                shutil.rmtree(store.run_folder, ignore_errors=True)
                with contextlib.suppress(OSError):
                    store.folder.rmdir()
        return Job(
            wanted.source,
            store,
            record["token"],
            self.purpose.device,
            wanted.shard_size,
            labelled=wanted.labelled,
            strict=conduct.strict,
            survey=Survey(store.run_folder / FILE, len(wanted.source)),
            task=self.purpose.task(Run.from_json(record, store).purpose),
            skip_changed=conduct.skip_changed,
        )

    @property
    def _place(self) -> str:
        """Absolute path or hub id of the source, as a run records it."""
        return str(Path(self.source).resolve()) if Path(self.source).exists() else self.source

    def _wanted(self, scratch: Path) -> Run:
        """Return the run that this call requests. The source is listed into a folder, and no picture is read."""
        choices = self.choices
        columns = dataclasses.replace(choices.columns, labelled=not (choices.drop_labels or self.single))
        source: Source = open_source(self.source, columns, scratch)
        if not len(source):
            raise DippError("src", "must have a picture, got none")
        if choices.subject is not None:
            source = BySubject.of(source, choices.subject, choices.most_per_subject, scratch)
        labelled = source.labels is not None and not choices.drop_labels and not self.single
        return Run(self.purpose.begun(source, scratch), source, self._place, choices.shard_size, labelled)

    def _differences(self, record: dict[str, Any], wanted: Run) -> list[str]:
        """Return the names of the choices in which a recorded run differs from the requested run."""
        if not Run.known(record, self.store):
            return ["version of dipp"]
        begun = Run.from_json(record, self.store)
        try:
            same = self.purpose.same(begun.purpose, wanted.purpose)
        except (KeyError, TypeError, ValueError, AttributeError):
            raise self.store.damaged() from None
        same |= {
            "source": begun.source.fingerprint == wanted.source.fingerprint and len(begun.source) == len(wanted.source),
            "subject": _grouping(begun.source) == _grouping(wanted.source),
            "shard-size": begun.shard_size == self.choices.shard_size,
            "labels": begun.labelled == wanted.labelled,
        }
        return [name for name, is_same in same.items() if not is_same]

    def _another(self, different: list[str]) -> DippError:
        """Return the error about a run that was begun with other choices, or with another state of the source."""
        folder, published = self.store.folder, self.store.has_published
        cost = RELEASED_TWICE if published else "nothing of it was published, but the odometer may have charged it"
        if different == ["source"] and not self.single:
            return DippError(
                "dst",
                f"has an unfinished run whose source has changed since, at {folder}",
                "restore the source, finish without the changed pictures by --skip-changed, or start again with "
                f"--overwrite ({cost})",
            )
        return DippError(
            "dst",
            f"has an unfinished run with another {' and '.join(different)}, at {folder}",
            f"go on with the same choices, or start again with --overwrite ({cost})",
        )

    def _survey(self, job: Job) -> Job:
        """Read every picture once and charge it, unless an earlier attempt did; return the job with the survey."""
        conduct, worker = self.conduct, self.purpose.worker(job)
        decode = conduct.meter is not None or self.single or conduct.strict or self.purpose.surveys

        def seen() -> Iterator[SeenPicture[Any]]:
            """Yield every picture, and keep its digest."""
            conduct.watcher.surveying(len(job.source))
            try:
                with job.survey.writing() as add:
                    for picture in worker.survey(decode):
                        add(SurveyEntry(picture.digest, picture.problem))
                        yield picture
            except DippError:  # nothing was charged yet, so a repaired source may begin a new run
                self.store.abandon()
                raise

        def charges(meter: Meter) -> Iterator[Charge]:
            """Yield the row of the odometer for every good picture."""
            for picture in seen():
                if picture.picture is not None:
                    yield self.purpose.charge(meter, picture, job.source.name(picture.record.position))

        if conduct.meter is not None:
            try:
                conduct.meter.charge(job.token, "privatize", charges(conduct.meter))
            except LimitError:
                self.store.abandon()
                raise
            self.purpose.surveyed()
            if not job.survey.done:  # the survey is complete before pictures are charged, so its file is damaged
                raise self.store.damaged()
        elif not job.survey.done:
            for _ in seen():
                pass
        bad = tuple(position for position, _ in job.survey.bad()) if self.single else None
        return dataclasses.replace(job, bad=bad)

    def _release(self, job: Job) -> Iterator[Contents]:
        """Make and publish the shards that are not published yet, and yield the contents of each."""
        watcher = self.conduct.watcher
        before = {shard for shard in range(job.shards) if job.store.published(shard)}
        watcher.start(len(job.source), sum(len(job.positions(shard)) for shard in before))
        remaining = (shard for shard in range(job.shards) if shard not in before)
        for contents in self.engine.run(self.purpose.worker(job), remaining, watcher.encoded):
            watcher.released(contents)
            yield contents

    def _stopped(self, error: MiscomputedError) -> MiscomputedError:
        """End a run in which two computations differ (`Worker.release`), and return the error to raise."""
        published = 0 if self.single else len(self.store.shards())
        if self.single:
            self.store.remove()  # the shards were for a file that is not written
        elif not published:
            self.store.abandon()
        before = f"; {published} shards were published before, stay, and may be wrong as well" if published else ""
        return MiscomputedError(error.argument, error.problem, f"{error.remedy}. The run is ended{before}")

    def _finish(self, job: Job, contents: list[Contents]) -> tuple[dict[str, Any], tuple[tuple[int, str, str], ...]]:
        """Publish the manifest or the one archive; return its facts and the skipped pictures."""
        store = self.store
        if len(store.shards()) != job.shards:
            raise DippError(
                "dst", "has too few shards", "make all workers write to the same disk, and run the command again"
            )
        if self.single:
            whole = manifest.archive(store)
            facts, skipped = whole.facts(), job.survey.bad()
        else:
            facts = self.purpose.manifest(job, contents)
            skipped = [(entry["position"], entry["reason"]) for entry in facts["skipped"]]
        # Names must be looked up before the listing is removed.
        named = tuple((position, reason, job.source.name(position)) for position, reason in skipped)
        if self.single:
            store.publish_whole(job.token, self.destination, whole.to_bytes())
        else:
            store.finish(job.token, facts)
        return facts, named


def _grouping(source: Source) -> tuple[str, int | None] | None:
    """Return the column of the subjects and the largest number of pictures of each; None without subjects."""
    return (source.column, source.most) if isinstance(source, BySubject) else None
