"""`dipp privatize`: release every picture of a private source once.

The codec brings a plan that was made within the budget. The public seed is drawn, the source is listed and the run is
recorded (or its record is found, and compared) before a picture is read, so that nothing public depends on one. An
interrupted run goes on with the same seed and plan, and encodes the shards that were not published. Overwriting
replaces a finished release, or a run of another command, but never a run that the same command has begun: to repeat the
command must not release a picture twice.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dipp import files
from dipp.core import randomness
from dipp.core.beacon import Beacon
from dipp.core.geometry import Geometry
from dipp.core.window import Window
from dipp.data import manifest
from dipp.data.engines import Engine
from dipp.data.sources import Columns, Source, open_source
from dipp.data.store import RELEASED_TWICE, RUN_FILE, Store
from dipp.data.worker import Job, Outcome, Worker
from dipp.errors import DippError, MiscomputedError
from dipp.format import archive as archives
from dipp.format.header import release_from_bytes, release_to_bytes
from dipp.models.hub import HUB_ID
from dipp.odometer import Charge, LimitError, Meter

if TYPE_CHECKING:
    from dipp.codec.codec import Codec

SHARD_SIZE = 1024
"""Images in a shard, by default: the 3 KB of a Parquet file's own data are then a few bytes an image."""


@dataclass(frozen=True)
class Choices:
    """Choices that, like the source and the plan, must be the same when a run is resumed."""

    columns: Columns = field(default_factory=Columns)
    shard_size: int = SHARD_SIZE
    """Positions of the source in each shard."""
    drop_labels: bool = False
    seed: bytes | None = None
    """Public seed, for tests only; None draws a fresh one. With a beacon, the sender's own part of it."""
    beacon: Beacon | None = None
    """Public beacon that is mixed into the seed; None for none."""
    window: Window | None = None
    """Which values of pictures of more than eight bits become black and white; None skips such pictures."""


@dataclass(frozen=True)
class Summary:
    """The result of a run."""

    facts: dict[str, Any]
    """Facts about the release, as `dipp info --json` gives them."""
    skipped: tuple[tuple[int, str, str], ...]
    """Position, reason and name of each skipped picture; names are for the terminal only."""
    encoded: int
    """Images that this run encoded, without those that were published before."""
    seconds: float
    """Duration of this run."""
    labels_left_out: bool = False
    """Whether the source has labels that were not asked to be dropped, and a single file has no place for them."""


class Watcher:
    """Is told how a run goes. This class ignores it; subclasses show it."""

    def overwriting(self) -> None:
        """A release, or an unfinished run, is about to be removed."""

    def surveying(self, images: int) -> None:
        """So many pictures are about to be read, to be charged to the odometer."""

    def start(self, images: int, published: int) -> None:
        """The run starts: the number of pictures, and of those in shards that were published before."""

    def encoded(self, images: float) -> None:
        """About so many more images were encoded, whole or in parts."""

    def released(self, outcome: Outcome) -> None:
        """A shard was published."""

    def finished(self, summary: Summary) -> None:
        """The run is over."""


QUIET = Watcher()


def privatize(
    source: str,
    destination: Path,
    codec: Codec,
    model: str,
    engine: Engine,
    choices: Choices,
    *,
    strict: bool = False,
    overwrite: bool = False,
    watcher: Watcher = QUIET,
    meter: Meter | None = None,
) -> Summary:
    """Release every picture of the source once, to a folder of shards or, if its name ends in .dipp, to one archive.

    `model` is the folder or hub id from which other processes load the codec's denoiser. With `strict` the first bad
    picture ends the run; otherwise bad pictures are skipped. `overwrite` is explained in the module's text. `meter` is
    the odometer that every picture is charged to before the first is encoded; None counts nothing.
    """
    began = time.monotonic()
    seed = randomness.fresh_seed() if choices.seed is None else choices.seed
    single = destination.suffix == ".dipp"
    store = Store(destination.with_name(f".{destination.name}.work") if single else destination)
    _refuse_places(source, destination, single)
    if meter is not None:
        meter.prepare()

    def listed(scratch: Path) -> Job:
        """The job for the source, whose listing goes into `scratch`; it has no token yet."""
        pictures = _listed(source, choices, single, scratch)
        return Job(
            pictures,
            store,
            "",
            codec.release(seed, given=choices.seed is not None, beacon=choices.beacon, window=choices.window),
            codec.budget,
            model,
            str(codec.denoiser.device),
            choices.shard_size,
            labelled=pictures.labels is not None and not choices.drop_labels and not single,
            strict=strict,
        )

    if overwrite and (destination.exists() or store.folder.exists()):
        # A source that cannot be read must not cost a release; its listing has names of files.
        with tempfile.TemporaryDirectory() as scratch, files.vanishing(Path(scratch)):
            wanted, found = listed(Path(scratch)), store.begun()
            if found is None or _changed(found, wanted, codec, choices):
                watcher.overwriting()
                _remove(store, destination, single)
    if single and destination.exists():
        store.remove()  # remains of a run that was killed while it cleaned up
        raise DippError(f"dst: {destination} is finished; {RELEASED_TWICE}: --overwrite starts another")
    store.prepare(private=single)
    try:
        job = listed(store.run_folder)
        found = _begin(store, codec, engine, job, choices, single)
    finally:
        if not (store.run_folder / RUN_FILE).is_file():  # no run was begun, so nothing may stay behind
            shutil.rmtree(store.run_folder, ignore_errors=True)
            with contextlib.suppress(OSError):
                store.folder.rmdir()
    job = dataclasses.replace(
        job,
        token=found["token"],
        release=release_from_bytes(base64.b64decode(found["archive"])),
        bad=tuple(position for position, _ in found["bad"]) if single else None,
    )
    if meter is not None:
        job = dataclasses.replace(job, uncharged=_charge(job, codec, meter, watcher))
    try:
        encoded = _run(Worker(job, codec), engine, watcher)
    except MiscomputedError as error:
        raise _stopped(store, single, error) from None
    facts, skipped = _finish(store, job, destination, found["bad"] if single else None)
    left_out = single and job.source.labels is not None and not choices.drop_labels
    return Summary(facts, skipped, encoded, time.monotonic() - began, left_out)


def _refuse_places(source: str, destination: Path, single: bool) -> None:
    """Refuse a source that is none, and a destination that lies in it or is a folder where a file is meant."""
    if Path(source).is_dir() and destination.is_relative_to(Path(source).resolve()):
        raise DippError(f"dst: {destination} lies inside the source; choose a place outside")
    if not Path(source).exists() and not HUB_ID.fullmatch(source):
        raise DippError(f"src: {source} is neither a file nor a folder, nor a hub id")
    if single and destination.is_dir():
        raise DippError(f"dst: {destination} is a folder, where a name in .dipp means a file")


def _listed(source: str, choices: Choices, single: bool, scratch: Path) -> Source:
    """The pictures of the source; no picture is read."""
    columns = dataclasses.replace(choices.columns, labelled=not (choices.drop_labels or single))
    pictures = open_source(source, columns, scratch)
    if not len(pictures):
        raise DippError("src: a picture is needed, there is none")
    return pictures


def _run(worker: Worker, engine: Engine, watcher: Watcher) -> int:
    """Encode and publish what is not published yet; the number of images that were encoded."""
    job = worker.job
    before = {shard for shard in range(job.shards) if job.store.published(shard)}
    watcher.start(len(job.source), sum(len(job.positions(shard)) for shard in before))
    encoded = 0
    left = (shard for shard in range(job.shards) if shard not in before)
    for result in engine.run(worker, "release", left, watcher.encoded):
        outcome = Outcome(*result)
        encoded += outcome.images
        watcher.released(outcome)
    return encoded


def _remove(store: Store, destination: Path, single: bool) -> None:
    """Remove a finished release or an unfinished run."""
    if single and destination.exists():
        archives.open(destination, verify=False)  # raises, so that no other kind of file is removed
    store.overwrite()
    if single:
        store.remove()
        try:
            destination.unlink(missing_ok=True)
        except OSError as error:
            raise DippError(f"dst: {destination} cannot be overwritten ({error.strerror})") from None


def _stopped(store: Store, single: bool, error: MiscomputedError) -> MiscomputedError:
    """A run that a mismatch has ended (`Worker.release`): what is left of it, and what to say."""
    published = 0 if single else len(store.shards())
    if single:
        store.remove()  # its shards were for a file that is not written
    elif not published:
        store.abandon()
    before = f"; {published} shards that were published before stay, and are as doubtful" if published else ""
    return MiscomputedError(f"{error}. The run is ended{before}")


def _begin(store: Store, codec: Codec, engine: Engine, job: Job, choices: Choices, single: bool) -> dict[str, Any]:
    """Record the run before a picture is encoded, or find its record and check that it is the same run."""
    facts = {
        "version": 1,
        "archive": base64.b64encode(release_to_bytes(job.release)).decode(),
        "source": job.source.fingerprint,
        "positions": len(job.source),
        "shard_size": job.shard_size,
        "labelled": job.labelled,
        "bad": [],
    }
    if single and store.begun() is None:
        # An archive numbers its images without gaps, so all bad pictures must be known before the first is encoded.
        checks = engine.run(Worker(job, codec), "check", range(job.shards), QUIET.encoded)
        facts["bad"] = bad = sorted(one for some in checks for one in some)
        if job.strict and bad:
            raise DippError(f"src: {job.source.name(bad[0][0])}: {bad[0][1]}")
    found = store.begin(facts)
    if changed := _changed(found, job, codec, choices):
        told = RELEASED_TWICE if store.shards() else "nothing of it was published, but the odometer may have charged it"
        raise DippError(
            f"dst: {store.folder} holds an unfinished run with another {' and '.join(changed)}; go on with the same, "
            f"or --overwrite ({told})"
        )
    return found


def _charge(job: Job, codec: Codec, meter: Meter, watcher: Watcher) -> tuple[int, ...]:
    """Charge the odometer for every picture, in one transaction; the positions that were not charged.

    All pictures are read once for that, in this process, before the first is encoded. A refusal depends on the pixels:
    so it must come before any shard is published, and stop all of them. A run that goes on was charged before. What is
    left of it is read again: a picture that is another than was charged at its position, although name, size and time
    of its file are the same, counts as not charged. It may be out already, from another position.
    """
    begun = True

    def charges() -> Iterator[Charge]:
        nonlocal begun
        begun = False
        watcher.surveying(len(job.source))
        try:
            for position, picture in Worker(job, codec).survey(range(job.shards)):
                mark = meter.mark(picture.known_by)
                losses = codec.losses(Geometry.of(picture.pixels.shape))
                yield meter.item(position, mark, losses, job.source.name(position), codec.plan.unit)
        except DippError:  # before anything was charged: a source that is mended is another, and begins anew
            job.store.abandon()
            raise

    try:
        meter.charge(job.token, "privatize", charges())
    except LimitError:
        job.store.abandon()
        raise
    uncharged = meter.odometer.uncharged(job.token, len(job.source))
    if begun:
        left = [shard for shard in range(job.shards) if not job.store.published(shard)]
        watcher.surveying(sum(len(job.positions(shard)) for shard in left))
        found = Worker(job, codec).survey(left)
        marks = ((position, meter.mark(picture.known_by)) for position, picture in found)
        uncharged += meter.odometer.unlike(job.token, marks)
    return uncharged


def _changed(found: dict[str, Any], job: Job, codec: Codec, choices: Choices) -> list[str]:
    """Names of the choices in which a run that was begun differs from this one; only without any may it go on."""
    _require_whole(found, job.store)
    if found["version"] != 1:
        return ["version of dipp"]
    begun = release_from_bytes(base64.b64decode(found["archive"]))
    own = begun.seed if begun.beacon is None else begun.beacon.own
    same = {
        "seed": choices.seed in (None, own),
        "beacon": begun.beacon == (None if choices.beacon is None else choices.beacon.mixed_with(own)),
        "model or budget": begun
        == codec.release(own, given=begun.seed_given, beacon=begun.beacon, window=begun.window),
        "window": begun.window == choices.window,
        "source": (found["source"], found["positions"]) == (job.source.fingerprint, len(job.source)),
        "shard-size": found["shard_size"] == job.shard_size,
        "labels": found["labelled"] == job.labelled,
    }
    return [name for name, is_same in same.items() if not is_same]


def _require_whole(found: dict[str, Any], store: Store) -> None:
    """Refuse the record of a run in which something is missing or damaged; what a newer dipp writes is not known."""
    try:
        if found["version"] == 1:
            release_from_bytes(base64.b64decode(found["archive"]))
            [found[name] for name in ("source", "positions", "shard_size", "labelled")]
            [position + 0 for position, _ in found["bad"]]
    except (KeyError, TypeError, ValueError):
        raise store.damaged() from None


def _finish(
    store: Store, job: Job, destination: Path, bad: list[tuple[int, str]] | None
) -> tuple[dict[str, Any], tuple[tuple[int, str, str], ...]]:
    """Publish the manifest or, if `bad` is not None, one archive; return its facts and the skipped pictures."""
    if len(store.shards()) != job.shards:
        raise DippError(
            "dst: shards are missing; see that all workers write to the same disk, and run the command again"
        )
    whole = None if bad is None else manifest.archive(store)
    labels = job.source.labels if job.labelled else None
    facts = manifest.manifest(store, labels) if whole is None else whole.facts()
    skipped = [(one["position"], one["reason"]) for one in facts["skipped"]] if bad is None else bad
    # Names must be looked up before the listing is removed.
    named = tuple((position, reason, job.source.name(position)) for position, reason in skipped)
    if whole is None:
        store.finish(job.token, facts)
    else:
        store.publish_whole(job.token, destination, whole.to_bytes())
    return facts, named
