"""`dipp privatize`: a source of private pictures in, one release of them out.

In this order: the public seed is drawn; the model is loaded and the plan made within the budget; the source is listed
and the run written down (or found, and compared); only then is a picture read. An interrupted run goes on with the same
seed and plan, from the first shard that was not published. To overwrite is to replace what is finished, or another
run, and never what the same command has begun: whoever repeats it must not release a picture twice.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import shutil
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dipp.core import randomness
from dipp.data import manifest
from dipp.data.engines import Engine
from dipp.data.sources import HUB_ID, Columns, open_source
from dipp.data.store import RELEASED_TWICE, RUN_FILE, Store
from dipp.data.worker import Job, Outcome, Worker
from dipp.errors import DippError
from dipp.format import archive as archives
from dipp.format.header import release_from_bytes, release_to_bytes

if TYPE_CHECKING:
    from dipp.codec.codec import Codec

SHARD_SIZE = 1024
"""Images of a shard: its frame, 3 KB, is then a few bytes an image."""


@dataclass(frozen=True)
class Choices:
    """What a resumed run must not change, beside the source and the plan."""

    columns: Columns = field(default_factory=Columns)
    shard_size: int = SHARD_SIZE
    drop_labels: bool = False
    seed: bytes | None = None
    """Public; for tests only."""


@dataclass(frozen=True)
class Summary:
    """What became of the pictures."""

    facts: dict[str, Any]
    """As `dipp info --json` gives them."""
    skipped: tuple[tuple[int, str, str], ...]
    """Position, reason and name: the name is for the terminal only."""
    encoded: int
    """Images of this run, without those that were published before."""
    seconds: float


class Watcher:
    """Told how a run goes; this one keeps quiet."""

    def overwriting(self) -> None:
        """A release, or what there is of one, is about to be removed."""

    def start(self, images: int, published: int) -> None:
        """So many pictures there are, and so many of them were dealt with before."""

    def encoded(self, images: int) -> None:
        """So many more were encoded (about)."""

    def released(self, outcome: Outcome) -> None:
        """A shard was published."""


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
) -> Summary:
    """Release every picture of the source once, to a folder of shards or, by its suffix, to one .dipp archive."""
    began = time.monotonic()
    seed = choices.seed or randomness.fresh_seed()
    single = destination.suffix == ".dipp"
    store = Store(destination.with_name(f".{destination.name}.work") if single else destination)
    if Path(source).is_dir() and destination.is_relative_to(Path(source).resolve()):
        raise DippError(f"dst: {destination} lies inside the source; choose a place outside")
    if not Path(source).exists() and not HUB_ID.fullmatch(source):
        raise DippError(f"src: {source} is neither a file nor a folder, nor a hub id")
    if single and destination.is_dir():
        raise DippError(f"dst: {destination} is a folder, where a name in .dipp means a file")

    def listed(scratch: Path) -> Job:
        columns = dataclasses.replace(choices.columns, labelled=not (choices.drop_labels or single))
        pictures = open_source(source, columns, scratch)
        if not len(pictures):
            raise DippError("src: a picture is needed, there is none")
        return Job(
            pictures,
            store,
            "",
            codec.release(seed),
            codec.budget,
            model,
            str(codec.denoiser.device),
            choices.shard_size,
            labelled=pictures.labels is not None and not choices.drop_labels and not single,
            strict=strict,
        )

    if overwrite and (destination.exists() or store.folder.exists()):
        with tempfile.TemporaryDirectory() as scratch:  # no release is removed for a source that cannot be read
            wanted, found = listed(Path(scratch)), store.begun()
            if found is None or _changed(found, wanted, codec, choices.seed):
                watcher.overwriting()
                _remove(store, destination, single)
    if single and destination.exists():
        store.remove()  # what a run that died while it cleaned up has left
        raise DippError(f"dst: {destination} is finished; {RELEASED_TWICE}: --overwrite starts another")
    store.prepare()
    try:
        job = listed(store.run_folder)
        found = _begin(store, codec, engine, job, choices.seed, single)
    finally:
        if not (store.run_folder / RUN_FILE).is_file():  # nothing was begun: leave nothing behind
            shutil.rmtree(store.run_folder, ignore_errors=True)
            with contextlib.suppress(OSError):
                store.folder.rmdir()
    job = dataclasses.replace(
        job,
        token=found["token"],
        release=release_from_bytes(base64.b64decode(found["archive"])),
        bad=tuple(position for position, _ in found["bad"]) if single else None,
    )
    worker = Worker(job, codec)
    before = {shard for shard in range(job.shards) if store.published(shard)}
    watcher.start(len(job.source), sum(len(job.positions(shard)) for shard in before))
    encoded = 0
    left = (shard for shard in range(job.shards) if shard not in before)
    for result in engine.run(worker, "release", left, watcher.encoded):
        outcome = Outcome(*result)
        encoded += outcome.images
        watcher.released(outcome)
    facts, skipped = _finish(store, job, destination, found["bad"] if single else None)
    return Summary(facts, skipped, encoded, time.monotonic() - began)


def _remove(store: Store, destination: Path, single: bool) -> None:
    if single and destination.exists():
        archives.open(destination, verify=False)  # another's file is not ours to remove
    store.overwrite()
    if single:
        store.remove()
        try:
            destination.unlink(missing_ok=True)
        except OSError as error:
            raise DippError(f"dst: {destination} cannot be overwritten ({error.strerror})") from None


def _begin(store: Store, codec: Codec, engine: Engine, job: Job, seed: bytes | None, single: bool) -> dict[str, Any]:
    """Write the run down before a picture is encoded, or find it and see that it is the same."""
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
        # An archive numbers its images without gaps, so bad ones must be known before the first is encoded.
        checks = engine.run(Worker(job, codec), "check", range(job.shards), QUIET.encoded)
        facts["bad"] = sorted(one for some in checks for one in some)
    found = store.begin(facts)
    if changed := _changed(found, job, codec, seed):
        raise DippError(
            f"dst: {store.folder} holds an unfinished run with another {' and '.join(changed)}; go on with the same, "
            f"or --overwrite ({RELEASED_TWICE})"
        )
    return found


def _changed(found: dict[str, Any], job: Job, codec: Codec, seed: bytes | None) -> list[str]:
    """What a run that was begun has otherwise than this one: it goes on only if there is nothing."""
    if found["version"] != 1:
        return ["version of dipp"]
    begun = release_from_bytes(base64.b64decode(found["archive"]))
    same = {
        "seed": seed in (None, begun.seed),
        "model or budget": begun == codec.release(begun.seed),
        "source": (found["source"], found["positions"]) == (job.source.fingerprint, len(job.source)),
        "shard-size": found["shard_size"] == job.shard_size,
        "labels": found["labelled"] == job.labelled,
    }
    return [name for name, is_same in same.items() if not is_same]


def _finish(
    store: Store, job: Job, destination: Path, bad: list[tuple[int, str]] | None
) -> tuple[dict[str, Any], tuple[tuple[int, str, str], ...]]:
    """Write down what was published: a manifest or, where bad ones were found before, all of it as one archive."""
    if len(store.shards()) != job.shards:
        raise DippError(
            "dst: shards are missing; see that all workers write to the same disk, and run the command again"
        )
    whole = None if bad is None else manifest.archive(store)
    labels = job.source.labels if job.labelled else None
    facts = manifest.manifest(store, labels) if whole is None else whole.facts()
    skipped = [(one["position"], one["reason"]) for one in facts["skipped"]] if bad is None else bad
    named = tuple((position, reason, job.source.name(position)) for position, reason in skipped)  # while it has them
    if whole is None:
        store.finish(job.token, facts)
    else:
        store.publish_whole(job.token, destination, whole.to_bytes())
    return facts, named
