"""The store: shards are published once and whole, whatever dies.

    DST/shard-000000.parquet …   published shards, each the one release of its positions of the source
    DST/manifest.json            written last: a store that has it is finished
    DST/.run/                    while a run lasts: its public seed and options, listings, unpublished attempts

**One release an image.** Shard k answers for positions k·S … (k + 1)·S − 1 of the source, and no other shard does. An
attempt at it writes a file of a name of its own into `.run/attempts-TOKEN/`, syncs it, and publishes it by link(2) to
the shard's name. A link is made whole or not at all, and never in the place of another file: of any number of
attempts (retries, workers thought dead, a second run beside the first) one is published, and the others are deleted,
never released. Which one is decided by the clock, not by what they hold. An attempt that was not published told
nothing to anybody, so it costs no ε. Crashes leave unpublished attempts behind; nothing reads them, and the folder
goes at the end.

To overwrite, `.run` is renamed before a shard is removed: what still runs for the old release finds its folder gone,
and cannot link any more, neither a shard nor the manifest. So no two releases mix.

It rests on a file system that all workers share, with hard links and atomic, exclusive link and rename: every local
one of Linux or macOS, and NFS, do. One without hard links is refused at the start, before an image is read.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from dipp.errors import DippError

MANIFEST = "manifest.json"
FORMAT = "dipp dataset"
RUN = ".run"
RUN_FILE = "run.json"
NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EXDEV}
SHARD = re.compile(r"shard-\d{6,}\.parquet")
ENDED = "dst: the run was ended or overwritten by another"
RELEASED_TWICE = "a second release of the same images adds its ε to that of the first"


def shard_name(number: int) -> str:
    """The name of a shard."""
    return f"shard-{number:06d}.parquet"


@dataclass(frozen=True)
class Store:
    """A folder of shards."""

    folder: Path

    @property
    def run_folder(self) -> Path:
        """Where a run keeps what is not released."""
        return self.folder / RUN

    @property
    def finished(self) -> bool:
        """Whether all was released and the manifest says so."""
        return (self.folder / MANIFEST).is_file()

    def prepare(self) -> None:
        """Make the folder, or refuse one with strange files; a finished or broken release is told from an open one."""
        if self.finished:
            with contextlib.suppress(OSError):
                self._forget()  # what a run that died while it cleaned up has left
            raise DippError(f"dst: {self.folder} is finished; {RELEASED_TWICE}: --overwrite starts another")
        if self.folder.exists() and not self.folder.is_dir():
            raise DippError(f"dst: {self.folder} is not a folder")
        if self.folder.is_dir() and not (self.run_folder / RUN_FILE).is_file():
            others = [path.name for path in self.folder.iterdir() if not path.name.startswith(RUN)]
            if any(map(SHARD.fullmatch, others)):
                raise DippError(f"dst: {self.folder} holds shards of no run; {RELEASED_TWICE}: --overwrite starts one")
            if others:
                raise DippError(f"dst: {self.folder} holds other files; give a new folder")
        try:
            # Unpublished attempts and the names of files are nobody else's business.
            self.run_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise DippError(f"dst: {self.folder} cannot be made ({error.strerror})") from None

    def begin(self, facts: dict[str, Any]) -> dict[str, Any]:
        """Start a run, or take part in the one that is there: its facts, with the token of its attempts."""
        token = secrets.token_hex(8)
        attempts = self._attempts(token)
        mine = json.dumps({**facts, "token": token}, indent=1).encode()
        try:
            attempts.mkdir()
            publish(attempts, self.run_folder / RUN_FILE, lambda file: file.write(mine))
            found = self.begun()
            if found is None:
                raise FileNotFoundError
            if found["token"] != token:
                attempts.rmdir()
        except FileNotFoundError:
            raise DippError(ENDED) from None
        except OSError as error:
            linkless = error.errno in NO_LINKS
            why = "has no hard links, choose another disk" if linkless else f"cannot be written ({error.strerror})"
            raise DippError(f"dst: {self.folder} {why}") from None
        return found

    def begun(self) -> dict[str, Any] | None:
        """The facts of a run that was begun and is not finished, if there is one."""
        try:
            found: dict[str, Any] = json.loads((self.run_folder / RUN_FILE).read_text())
        except (FileNotFoundError, NotADirectoryError):
            return None
        return None if self.finished else found

    def overwrite(self) -> None:
        """Remove a release and everything of its run, and nothing else."""
        if self.finished:
            read_manifest(self.folder)  # a manifest of something else is not ours to remove
        try:
            self._forget()
            (self.folder / MANIFEST).unlink(missing_ok=True)  # first: what has lost a shard is not finished
            for path in self.shards():
                path.unlink()
        except NotADirectoryError:
            raise DippError(f"dst: {self.folder} is not a folder") from None
        except OSError as error:
            raise DippError(f"dst: {self.folder} cannot be overwritten ({error.strerror})") from None

    def _attempts(self, token: str) -> Path:
        return self.run_folder / f"attempts-{token}"

    def _forget(self) -> None:
        """Take the run's folder away at once, so that nothing can be published from it, and then remove it."""
        if self.run_folder.is_dir():
            with contextlib.suppress(FileNotFoundError):
                self.run_folder.rename(self.folder / f"{RUN}-{secrets.token_hex(8)}")
        for dead in self.folder.glob(f"{RUN}-*"):
            shutil.rmtree(dead, ignore_errors=True)

    def shards(self) -> list[Path]:
        """Published shards, in order."""
        if not self.folder.is_dir():
            return []
        found = (path for path in self.folder.iterdir() if SHARD.fullmatch(path.name))
        return sorted(found, key=lambda path: (len(path.name), path.name))

    def published(self, number: int) -> bool:
        """Whether a shard is out."""
        return (self.folder / shard_name(number)).exists()

    def publish(self, token: str, number: int, write: Callable[[BinaryIO], object]) -> None:
        """Publish a shard, unless another attempt did."""
        try:
            publish(self._attempts(token), self.folder / shard_name(number), write)
        except FileNotFoundError:
            if not self.published(number):
                raise DippError(ENDED) from None
        except OSError as error:
            raise DippError(
                f"dst: {shard_name(number)} cannot be written ({error.strerror}); what was published is safe, "
                "run the same command again to go on"
            ) from None

    def finish(self, token: str, manifest: dict[str, Any]) -> None:
        """Publish the manifest, then forget the run."""
        text = json.dumps(manifest, indent=1, ensure_ascii=False).encode()
        try:
            publish(self._attempts(token), self.folder / MANIFEST, lambda file: file.write(text))
        except FileNotFoundError:
            if not self.finished:
                raise DippError(ENDED) from None
        except OSError as error:
            raise DippError(f"dst: {MANIFEST} cannot be written ({error.strerror}); run the command again") from None
        if self._attempts(token).is_dir():  # or it is another's by now
            self._forget()

    def publish_whole(self, token: str, place: Path, content: bytes) -> None:
        """Publish everything as one file outside of the store, then remove the store."""
        try:
            publish(self._attempts(token), place, lambda file: file.write(content))
        except FileNotFoundError:
            if not place.is_file():
                raise DippError(ENDED) from None
        except OSError as error:
            raise DippError(f"dst: {place} cannot be written ({error.strerror}); run the command again") from None
        if place.read_bytes() != content:
            raise DippError(f"dst: {place} was made by another run meanwhile; nothing of this one was released")
        self.remove()

    def remove(self) -> None:
        """Remove the store, released or not."""
        shutil.rmtree(self.folder, ignore_errors=True)


def publish(attempts: Path, place: Path, write: Callable[[BinaryIO], object]) -> None:
    """Write a file whole and durably, and give it its place unless that is taken: see the module's text."""
    attempt = attempts / f"{secrets.token_hex(8)}.part"
    try:
        with attempt.open("xb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(attempt, place)
        sync(place.parent)
    finally:
        with contextlib.suppress(OSError):
            attempt.unlink()


def sync(folder: Path) -> None:
    """Make the names in a folder last."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sha256(path: Path) -> str:
    """Checksum of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a finished release."""
    try:
        found = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        if not isinstance(found, dict) or found["format"] != FORMAT or not isinstance(found["version"], int):
            raise DippError(f"{folder}: {MANIFEST} is not one of dipp's")
    except FileNotFoundError:
        hint = "the run is not finished: run the same command again" if (folder / RUN).exists() else "no dataset"
        raise DippError(f"{folder}: there is no {MANIFEST}; {hint}") from None
    except (OSError, ValueError, KeyError) as error:
        if isinstance(error, DippError):
            raise
        raise DippError(f"{folder}: {MANIFEST} cannot be read; get it again") from None
    if found["version"] > 1:
        raise DippError(f"{folder}: written by a newer dipp (manifest {found['version']}); upgrade")
    return found


def remains(folder: Path) -> list[str]:
    """What a run that was killed at its very end has left in a finished release: it tells the names of files."""
    return sorted(path.name for path in folder.iterdir() if path.name == RUN or path.name.startswith(f"{RUN}-"))


def shard_entries(manifest: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Names and facts of the shards; a name that leads elsewhere is refused."""
    shards: Iterable[dict[str, Any]] = manifest["shards"]
    for entry in shards:
        name = entry["name"]
        if not isinstance(name, str) or not SHARD.fullmatch(name):
            raise DippError(f"{MANIFEST}: {name!r} is no name of a shard")
        yield name, entry
