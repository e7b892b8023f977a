"""The store: shards are published exactly once and whole, even if processes or machines fail.

    DST/shard-000000.parquet …   published shards, each the only release of its positions of the source
    DST/shard-000000.json …      the same of a redaction: lists of the published pictures
    DST/pictures/                redacted pictures and their records
    DST/manifest.json            written last: a store that has it is finished
    DST/.run/                    while a run lasts: its public seed and options, listings, unpublished attempts

**Claim.** Each image is released at most once.

Shard k covers positions k·S … (k + 1)·S − 1 of the source, and no other shard does. An attempt at shard k writes a file
without a name (`files.draft`), syncs it, gives it a name of its own in `.run/attempts-TOKEN/`, and publishes it by
link(2) from there to the shard's name. A link is made whole or not at all, and never replaces another file: of any
number of attempts (retries, workers thought dead, a second run beside the first) one is published, and the others are
deleted, never released. Which attempt is published depends on the clock, and not on its content. An attempt that was
not published has told nothing to anybody, so it costs no ε; it vanishes with its process, and its folder is removed at
the end.

To overwrite, `.run` is renamed before a shard is removed: a worker that still runs for the old release finds its folder
gone, and can no longer link a shard or the manifest. So two releases never mix.

**Assumption.** All workers share a file system with hard links and with atomic, exclusive link and rename, such as
every local file system of Linux or macOS, and NFS. A file system without hard links is refused at the start, before an
image is read.
"""

from __future__ import annotations

import contextlib
import errno
import json
import re
import secrets
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from dipp.data.folder import ATTESTATION, MANIFEST, PAPERS, PICTURES, RUN, SHARD, manifest_of, shard_name
from dipp.data.publishing import publish
from dipp.errors import DippError

RUN_FILE = "run.json"
"""Name of the record of a run."""
NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EXDEV}
"""Errors of link(2) on file systems without hard links."""
ENDED = ("dst", "was ended or overwritten by another run")
"""Argument, problem and remedy of the error about a run that was ended from outside."""
RELEASED_TWICE = "a second release of the same images adds its ε to that of the first"
"""What a second release costs, in words."""


@dataclass(frozen=True)
class Store:
    """A folder of shards: a finished release, or the shards that an unfinished run has published."""

    folder: Path
    suffix: str = ".parquet"
    """Ending of the names of shards: .parquet for indices, .json for redacted pictures."""

    @property
    def run_folder(self) -> Path:
        """Folder of files that a run keeps and does not release."""
        return self.folder / RUN

    @property
    def finished(self) -> bool:
        """Whether the release is complete: the manifest is there."""
        return (self.folder / MANIFEST).is_file()

    def prepare(self, *, private: bool = False) -> None:
        """Make the folder for a run.

        Args:
            private: Whether the shards are not released themselves, so that the folder is for its owner only. False by
                default.

        Raises:
            DippError: The folder holds a finished release, shards without a run, or other files, or cannot be made.
        """
        if self.finished:
            with contextlib.suppress(OSError):
                self._forget()  # remains of a run that was killed while it cleaned up
            raise DippError("dst", f"is finished: {self.folder}", f"{RELEASED_TWICE}: --overwrite starts another")
        if self.folder.exists() and not self.folder.is_dir():
            raise DippError("dst", f"must be a folder, got {self.folder}")
        if self.folder.is_dir() and not (self.run_folder / RUN_FILE).is_file():
            others = [path.name for path in self.folder.iterdir() if not path.name.startswith(RUN)]
            if any(map(SHARD.fullmatch, others)):
                raise DippError(
                    "dst", f"has shards without a run: {self.folder}", f"{RELEASED_TWICE}: --overwrite starts one"
                )
            if others:
                raise DippError("dst", f"has other files: {self.folder}", "give a new folder")
        try:
            self.folder.mkdir(mode=0o700 if private else 0o777, parents=True, exist_ok=True)
            # For the owner only: it will hold unpublished attempts and the names of files.
            self.run_folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise DippError("dst", f"cannot be made at {self.folder} ({error.strerror})") from None

    def begin(self, facts: dict[str, Any]) -> dict[str, Any]:
        """Start a run, or join the run that has begun here.

        Args:
            facts: The record of the run.

        Returns:
            The record of the run that is under way, with its token.

        Raises:
            DippError: The folder cannot be written, has no hard links, or was overwritten by another run.
        """
        token = secrets.token_hex(8)
        attempts = self._attempts(token)
        mine = json.dumps({**facts, "token": token}, indent=1).encode()
        try:
            attempts.mkdir()
            publish(attempts, self.run_folder / RUN_FILE, lambda file: file.write(mine))
            record = self.begun()
            if record is None:
                raise FileNotFoundError
            if record["token"] != token:
                attempts.rmdir()
        except FileNotFoundError:
            raise DippError(*ENDED) from None
        except OSError as error:
            if error.errno in NO_LINKS:
                raise DippError("dst", f"has no hard links: {self.folder}", "choose another disk") from None
            raise DippError("dst", f"cannot be written at {self.folder} ({error.strerror})") from None
        return record

    def begun(self) -> dict[str, Any] | None:
        """Return the record of a run that has begun and is not finished; None if there is no such run.

        Raises:
            DippError: The record is damaged.
        """
        try:
            record: dict[str, Any] = json.loads((self.run_folder / RUN_FILE).read_text())
            if not re.fullmatch("[0-9a-f]+", record["token"]):
                raise self.damaged()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            raise self.damaged() from None
        return None if self.finished else record

    def damaged(self) -> DippError:
        """Return the error about a damaged record of a run: the user must decide to start another run."""
        return DippError(
            "dst",
            f"has a damaged record, so its run cannot go on: {self.run_folder / RUN_FILE}",
            f"remove {self.run_folder}, then --overwrite starts another ({RELEASED_TWICE})",
        )

    def overwrite(self) -> None:
        """Remove a release and all files of its run, and nothing else.

        Raises:
            DippError: The folder has the manifest of something else, is not a folder, or cannot be changed.
        """
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
            raise DippError("dst", f"must be a folder, got {self.folder}") from None
        except OSError as error:
            raise DippError("dst", f"cannot be overwritten at {self.folder} ({error.strerror})") from None

    def abandon(self) -> None:
        """Remove a run that has published nothing. A run that has published something stays."""
        if not self.has_published:
            self._forget()
            with contextlib.suppress(OSError):
                self.folder.rmdir()

    def stop(self) -> None:
        """End a run for good: from now on nobody can publish a shard of it, and no command resumes it."""
        self._forget()

    def _attempts(self, token: str) -> Path:
        """Return the folder of the unpublished attempts of a run."""
        return self.run_folder / f"attempts-{token}"

    def _forget(self) -> None:
        """Rename the run's folder, so that from this moment nothing can be published from it, and then remove it."""
        if self.run_folder.is_dir():
            with contextlib.suppress(FileNotFoundError):
                self.run_folder.rename(self.folder / f"{RUN}-{secrets.token_hex(8)}")
        for dead in self.folder.glob(f"{RUN}-*"):
            shutil.rmtree(dead, ignore_errors=True)

    def shards(self) -> list[Path]:
        """Return the paths of the published shards, in the order of their numbers."""
        if not self.folder.is_dir():
            return []
        paths = (path for path in self.folder.iterdir() if SHARD.fullmatch(path.name))
        return sorted(paths, key=lambda path: (len(path.name), path.name))

    @property
    def has_published(self) -> bool:
        """Whether anything was published."""
        return bool(self.shards()) or (self.folder / PICTURES).exists()

    def shard(self, number: int) -> Path:
        """Return the path of a shard, whether it is published or not.

        Args:
            number: Number of the shard.
        """
        return self.folder / shard_name(number, self.suffix)

    def published(self, number: int) -> bool:
        """Return whether a shard is published.

        Args:
            number: Number of the shard.
        """
        return self.shard(number).exists()

    def publish(self, token: str, number: int, write: Callable[[BinaryIO], object]) -> None:
        """Publish a shard, unless another attempt has done so.

        Args:
            token: Token of the run.
            number: Number of the shard.
            write: Function that writes the content into an open file.

        Raises:
            DippError: The run was ended, or the file cannot be written.
        """
        self._publish(token, self.shard(number), write)

    def publish_picture(self, token: str, name: str, content: bytes) -> bytes:
        """Publish a file among the redacted pictures, unless another attempt has done so.

        Args:
            token: Token of the run.
            name: Path of the file below the folder of pictures.
            content: Content of the file.

        Returns:
            The content of the published file, which may be that of another attempt.

        Raises:
            DippError: The run was ended, or the file cannot be written.
        """
        path = self.folder / PICTURES / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._publish(token, path, lambda file: file.write(content))
            return path.read_bytes()
        except OSError as error:
            problem = f"cannot be written, for {name} ({error.strerror})"
            raise DippError("dst", problem, "look for another file of this name") from None

    def _publish(self, token: str, path: Path, write: Callable[[BinaryIO], object]) -> None:
        """Publish a file, unless another attempt has done so; `write` writes its content."""
        try:
            publish(self._attempts(token), path, write)
        except FileNotFoundError:
            if not path.exists():
                raise DippError(*ENDED) from None
        except OSError as error:
            raise DippError(
                "dst",
                f"cannot be written, for {path.name} ({error.strerror})",
                "published shards are safe, run the same command again to go on",
            ) from None

    def finish(self, token: str, manifest: dict[str, Any]) -> None:
        """Publish the manifest, then remove the run's folder.

        Args:
            token: Token of the run.
            manifest: The manifest.

        Raises:
            DippError: The run was ended, or the manifest cannot be written.
        """
        text = json.dumps(manifest, indent=1, ensure_ascii=False).encode()
        try:
            publish(self._attempts(token), self.folder / MANIFEST, lambda file: file.write(text))
        except FileNotFoundError:
            if not self.finished:
                raise DippError(*ENDED) from None
        except OSError as error:
            raise DippError(
                "dst", f"cannot be written, for {MANIFEST} ({error.strerror})", "run the command again"
            ) from None
        if self._attempts(token).is_dir():  # otherwise it belongs to another run by now
            self._forget()

    def publish_whole(self, token: str, path: Path, content: bytes) -> None:
        """Publish everything as one file outside of the store, then remove the store.

        Args:
            token: Token of the run.
            path: Path of the file.
            content: Content of the file.

        Raises:
            DippError: The run was ended, the file cannot be written, or another run has made it meanwhile.
        """
        try:
            publish(self._attempts(token), path, lambda file: file.write(content))
        except FileNotFoundError:
            if not path.is_file():
                raise DippError(*ENDED) from None
        except OSError as error:
            raise DippError(
                "dst", f"cannot be written, for {path} ({error.strerror})", "run the command again"
            ) from None
        if path.read_bytes() != content:
            raise DippError("dst", f"was made by another run meanwhile: {path}", "nothing of this run was released")
        self.remove()

    def remove(self) -> None:
        """Remove the store with everything in it."""
        shutil.rmtree(self.folder, ignore_errors=True)
