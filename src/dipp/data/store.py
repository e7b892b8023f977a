"""The store: shards are published exactly once and whole, even if processes or machines fail.

    DST/shard-000000.parquet …   published shards, each the one release of its positions of the source
    DST/shard-000000.json …      the same of a redaction: lists of the pictures that were published
    DST/pictures/                redacted pictures and their records
    DST/manifest.json            written last: a store that has it is finished
    DST/.run/                    while a run lasts: its public seed and options, listings, unpublished attempts

**One release of each image.** Shard k answers for positions k·S … (k + 1)·S − 1 of the source, and no other shard does.
An attempt at shard k writes a file without a name (`files.draft`), syncs it, gives it a name of its own in
`.run/attempts-TOKEN/`, and publishes it by link(2) from there to the shard's name. A link is made whole or not at all,
and never replaces another file: of any number of attempts (retries, workers thought dead, a second run beside the
first) one is published, and the others are deleted, never released. Which one is decided by the clock, and not by what
they hold. An attempt that was not published has told nothing to anybody, so it costs no ε; it vanishes with its
process, and its folder is removed at the end.

To overwrite, `.run` is renamed before a shard is removed: a worker that still runs for the old release finds its folder
gone, and can no longer link a shard or the manifest. So no two releases mix.

All this needs a file system that all workers share, with hard links and atomic, exclusive link and rename, such as
every local one of Linux or macOS, and NFS. One without hard links is refused at the start, before an image is read.
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

from dipp import files
from dipp.errors import DippError

MANIFEST = "manifest.json"
PAPERS = ("README.md", "croissant.json", "deployment.yaml")
"""What `dipp.papers` writes into a release: card, metadata, and a draft for a registry."""
ATTESTATION = "attestation.json"
"""What `dipp.attest` writes into a release."""
FORMAT, REDACTED = "dipp dataset", "dipp redacted dataset"
RUN = ".run"
RUN_FILE = "run.json"
NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EXDEV}
"""Errors of link(2) on file systems without hard links."""
SHARD = re.compile(r"shard-\d{6,}\.(parquet|json)")
PICTURES = "pictures"
"""Folder of the redacted pictures of a release, which belongs to it alone."""
ENDED = ("dst", "the run was ended or overwritten by another")
RELEASED_TWICE = "a second release of the same images adds its ε to that of the first"


def shard_name(number: int, suffix: str = ".parquet") -> str:
    """File name of a shard."""
    return f"shard-{number:06d}{suffix}"


@dataclass(frozen=True)
class Store:
    """A folder of shards, of a release that is finished or under way."""

    folder: Path
    suffix: str = ".parquet"
    """Ending of the names of shards: .parquet for indices, .json for redacted pictures."""

    @property
    def run_folder(self) -> Path:
        """Folder of what a run keeps and does not release."""
        return self.folder / RUN

    @property
    def finished(self) -> bool:
        """Whether the release is complete: the manifest is there."""
        return (self.folder / MANIFEST).is_file()

    def prepare(self, *, private: bool = False) -> None:
        """Make the folder for a run; a finished release, shards without a run and other files are each refused.

        If `private`, its shards are not to be released themselves, and are for their owner only.
        """
        if self.finished:
            with contextlib.suppress(OSError):
                self._forget()  # remains of a run that was killed while it cleaned up
            raise DippError("dst", f"{self.folder} is finished", f"{RELEASED_TWICE}: --overwrite starts another")
        if self.folder.exists() and not self.folder.is_dir():
            raise DippError("dst", f"{self.folder} is not a folder")
        if self.folder.is_dir() and not (self.run_folder / RUN_FILE).is_file():
            others = [path.name for path in self.folder.iterdir() if not path.name.startswith(RUN)]
            if any(map(SHARD.fullmatch, others)):
                raise DippError(
                    "dst", f"{self.folder} holds shards of no run", f"{RELEASED_TWICE}: --overwrite starts one"
                )
            if others:
                raise DippError("dst", f"{self.folder} holds other files", "give a new folder")
        try:
            self.folder.mkdir(mode=0o700 if private else 0o777, parents=True, exist_ok=True)
            # For the owner only: it will hold unpublished attempts and the names of files.
            self.run_folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise DippError("dst", f"{self.folder} cannot be made ({error.strerror})") from None

    def begin(self, facts: dict[str, Any]) -> dict[str, Any]:
        """Start a run with these facts, or join the run that is there: return its facts, with its token."""
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
            raise DippError(*ENDED) from None
        except OSError as error:
            linkless = error.errno in NO_LINKS
            why = "has no hard links, choose another disk" if linkless else f"cannot be written ({error.strerror})"
            raise DippError("dst", f"{self.folder} {why}") from None
        return found

    def begun(self) -> dict[str, Any] | None:
        """The facts of a run that was begun and is not finished; None if there is none."""
        try:
            found: dict[str, Any] = json.loads((self.run_folder / RUN_FILE).read_text())
            if not re.fullmatch("[0-9a-f]+", found["token"]):
                raise self.damaged()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            raise self.damaged() from None
        return None if self.finished else found

    def damaged(self) -> DippError:
        """What is said where the record of a run cannot be read: only who removes it may mean another run."""
        return DippError(
            "dst",
            f"{self.run_folder / RUN_FILE} is damaged, so its run cannot go on",
            f"remove {self.run_folder}, then --overwrite starts another ({RELEASED_TWICE})",
        )

    def overwrite(self) -> None:
        """Remove a release and everything of its run, and nothing else."""
        if self.finished:
            manifest_of(self.folder)  # raises, so that the manifest of something else is never removed
        try:
            self._forget()
            (self.folder / MANIFEST).unlink(missing_ok=True)  # first: an incomplete release must not look finished
            for name in (*PAPERS, ATTESTATION):
                (self.folder / name).unlink(missing_ok=True)
            for path in self.shards():
                path.unlink()
            if (self.folder / PICTURES).is_dir():
                (self.folder / PICTURES).rename(self.folder / f"{RUN}-{secrets.token_hex(8)}")
                self._forget()
        except NotADirectoryError:
            raise DippError("dst", f"{self.folder} is not a folder") from None
        except OSError as error:
            raise DippError("dst", f"{self.folder} cannot be overwritten ({error.strerror})") from None

    def abandon(self) -> None:
        """Give up a run that has published nothing, and leave nothing behind; one that has published stays."""
        if not self.has_published:
            self._forget()
            with contextlib.suppress(OSError):
                self.folder.rmdir()

    def stop(self) -> None:
        """End a run for good: from here on nobody can publish a shard of it, and no command goes on with it."""
        self._forget()

    def _attempts(self, token: str) -> Path:
        """Folder of the unpublished attempts of the run with this token."""
        return self.run_folder / f"attempts-{token}"

    def _forget(self) -> None:
        """Rename the run's folder, so that from this moment nothing can be published from it, and then remove it."""
        if self.run_folder.is_dir():
            with contextlib.suppress(FileNotFoundError):
                self.run_folder.rename(self.folder / f"{RUN}-{secrets.token_hex(8)}")
        for dead in self.folder.glob(f"{RUN}-*"):
            shutil.rmtree(dead, ignore_errors=True)

    def shards(self) -> list[Path]:
        """Paths of the published shards, in the order of their numbers."""
        if not self.folder.is_dir():
            return []
        found = (path for path in self.folder.iterdir() if SHARD.fullmatch(path.name))
        return sorted(found, key=lambda path: (len(path.name), path.name))

    @property
    def has_published(self) -> bool:
        """Whether anything was published."""
        return bool(self.shards()) or (self.folder / PICTURES).exists()

    def shard(self, number: int) -> Path:
        """Where a shard is published."""
        return self.folder / shard_name(number, self.suffix)

    def published(self, number: int) -> bool:
        """Whether a shard is published."""
        return self.shard(number).exists()

    def publish(self, token: str, number: int, write: Callable[[BinaryIO], object]) -> None:
        """Publish a shard, unless another attempt has done so; `write` writes its content."""
        self._publish(token, self.shard(number), write)

    def publish_picture(self, token: str, name: str, content: bytes) -> bytes:
        """Publish a file among the redacted pictures, unless another attempt has done so; return what was published.

        Args:
            token: Token of the run.
            name: Path of the file below the folder of pictures.
            content: What the file is to hold.
        """
        place = self.folder / PICTURES / name
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            self._publish(token, place, lambda file: file.write(content))
            return place.read_bytes()
        except OSError as error:
            raise DippError("dst", f"{name} cannot be written ({error.strerror})", "see what is there") from None

    def _publish(self, token: str, place: Path, write: Callable[[BinaryIO], object]) -> None:
        """Publish a file, unless another attempt has done so; `write` writes its content."""
        try:
            publish(self._attempts(token), place, write)
        except FileNotFoundError:
            if not place.exists():
                raise DippError(*ENDED) from None
        except OSError as error:
            raise DippError(
                "dst",
                f"{place.name} cannot be written ({error.strerror})",
                "what was published is safe, run the same command again to go on",
            ) from None

    def finish(self, token: str, manifest: dict[str, Any]) -> None:
        """Publish the manifest, then remove the run's folder."""
        text = json.dumps(manifest, indent=1, ensure_ascii=False).encode()
        try:
            publish(self._attempts(token), self.folder / MANIFEST, lambda file: file.write(text))
        except FileNotFoundError:
            if not self.finished:
                raise DippError(*ENDED) from None
        except OSError as error:
            raise DippError(
                "dst", f"{MANIFEST} cannot be written ({error.strerror})", "run the command again"
            ) from None
        if self._attempts(token).is_dir():  # otherwise it belongs to another run by now
            self._forget()

    def publish_whole(self, token: str, place: Path, content: bytes) -> None:
        """Publish everything as one file outside of the store, then remove the store."""
        try:
            publish(self._attempts(token), place, lambda file: file.write(content))
        except FileNotFoundError:
            if not place.is_file():
                raise DippError(*ENDED) from None
        except OSError as error:
            raise DippError("dst", f"{place} cannot be written ({error.strerror})", "run the command again") from None
        if place.read_bytes() != content:
            raise DippError("dst", f"{place} was made by another run meanwhile", "nothing of this one was released")
        self.remove()

    def remove(self) -> None:
        """Remove the store with everything in it."""
        shutil.rmtree(self.folder, ignore_errors=True)


def publish(attempts: Path, place: Path, write: Callable[[BinaryIO], object]) -> None:
    """Write a file whole and durably, and link it to `place` unless that exists, as the module's text explains."""
    with files.draft(attempts) as made:
        with made.place.open("wb") as file:
            write(file)
        made.finish()
        # By a name in the folder of this run, and not at once: where the folder is gone, the run is over.
        with made.named() as attempt, contextlib.suppress(FileExistsError):
            os.link(attempt, place)
    sync(place.parent)


def sync(folder: Path) -> None:
    """Write the names in a folder to disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sha256(path: Path) -> str:
    """Hex SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a finished release of encoded pictures; any other is refused."""
    found = manifest_of(folder)
    if found["format"] == REDACTED:
        raise DippError(
            str(folder),
            f"its pictures are ordinary files in {folder / PICTURES}, with nothing to decode",
            f"open them with any program, and check them by dipp check {folder}",
        )
    return found


def manifest_of(folder: Path) -> dict[str, Any]:
    """The manifest of a finished release; refused if it is missing, damaged or of a newer version."""
    try:
        found = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        if (
            not isinstance(found, dict)
            or found["format"] not in (FORMAT, REDACTED)
            or not isinstance(found["version"], int)
        ):
            raise DippError(str(folder), f"{MANIFEST} is not one of dipp's")
    except FileNotFoundError:
        hint = "the run is not finished: run the same command again" if (folder / RUN).exists() else "no dataset"
        raise DippError(str(folder), f"there is no {MANIFEST}", hint) from None
    except (OSError, ValueError, KeyError, RecursionError) as error:
        if isinstance(error, DippError):
            raise
        raise DippError(str(folder), f"{MANIFEST} cannot be read", "get it again") from None
    if found["version"] > 1:
        raise DippError(str(folder), f"written by a newer dipp (manifest {found['version']})", "upgrade")
    return found


def remains(folder: Path) -> list[str]:
    """Remains in a finished release of a run that was killed at its very end; they contain names of source files."""
    return sorted(path.name for path in folder.iterdir() if path.name == RUN or path.name.startswith(f"{RUN}-"))


def shard_entries(manifest: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Names and facts of the shards in a manifest; a name that is no shard's, such as a path, is refused."""
    shards: Iterable[dict[str, Any]] = manifest["shards"]
    for entry in shards:
        name = entry["name"]
        if not isinstance(name, str) or not SHARD.fullmatch(name):
            raise DippError(MANIFEST, f"{name!r} is no name of a shard")
        yield name, entry
