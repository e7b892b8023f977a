"""The folder of a run. Each file is written as a whole or not at all, so that a run can continue on any machine.

    archives/   the releases as .dipp files, which is all that a receiver needs
    records/    measurements, one JSON file each
    previews/   the first pictures of each reconstruction
    weights/    the clean classifier, whose features the Fréchet distance compares
    pictures/   reconstructions; missing ones are decoded again from the archives
    checkpoints/  unfinished classifiers, one file each

The last two are large and may be deleted; folders of several machines may be merged by copying.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dipp import files
from dipp.codec.pictures import Pixels
from dipp.errors import DippError

MADE_WITH = ("model", "calibration", "judge")
"""Keys by which records name what they were made with: the denoiser, the cost table, the classifier that measures."""
FOLDERS = ("archives", "records", "previews", "weights", "pictures", "checkpoints")


@dataclass(frozen=True)
class Store:
    """The folder of a run."""

    folder: Path

    def __post_init__(self) -> None:
        try:
            for name in FOLDERS:
                (self.folder / name).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DippError(
                "output", f"must be a folder that can be written to, got {self.folder} ({error.strerror})"
            ) from None

    def archive(self, release: str) -> Path:
        """Return the path of the archive of a release."""
        return self.folder / "archives" / f"{release}.dipp"

    def record(self, name: str) -> dict[str, Any] | None:
        """Return the record with a name; None if there is no such record."""
        path = self.folder / "records" / f"{name}.json"
        return _read(path) if path.exists() else None

    def write_record(self, name: str, content: dict[str, Any]) -> None:
        """Write a record."""
        with files.atomic(self.folder / "records" / f"{name}.json") as part:
            part.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")

    def records(self, prefix: str) -> list[dict[str, Any]]:
        """Return all records whose names have a prefix, in the order of their names."""
        return [_read(path) for path in sorted((self.folder / "records").glob(f"{prefix}*.json"))]

    def made_with(self, what: str) -> list[str]:
        """Return all values that records have for one of `MADE_WITH`."""
        return sorted({record[what] for record in self.records("") if what in record})

    def require(self, what: str, identity: str) -> None:
        """Raise if records were made with another value of one of `MADE_WITH`, because they could not be compared."""
        if others := [other for other in self.made_with(what) if other != identity]:
            raise DippError(
                what,
                f"must be {others[0]}, as in the records of the folder, got {identity}",
                "take that, or name another folder",
            )

    def forget(self, release: str) -> None:
        """Delete files of an earlier archive of a release, which could be mistaken for those of the new archive."""
        for place in ("pictures", "previews"):
            for path in (self.folder / place).glob(f"{release}.*"):
                path.unlink(missing_ok=True)
        for path in (self.folder / "checkpoints").glob(f"train.{release}.*"):
            path.unlink(missing_ok=True)

    @contextlib.contextmanager
    def alone(self, stage: str) -> Iterator[None]:
        """Allow one process at a time in a stage. Two could release the same pictures twice, and keep half of each."""
        with contextlib.ExitStack() as held:
            try:
                lock = held.enter_context((self.folder / f".{stage}.lock").open("w"))
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise DippError(
                    "output", f"is in use by another process in the stage {stage}", "wait, or name another folder"
                ) from None
            except OSError as error:
                raise DippError(
                    "output", f"must be a folder that can be locked, got {self.folder} ({error.strerror})"
                ) from None
            yield

    def pictures(self, release: str, output: str, folder: str = "pictures") -> Pixels | None:
        """Return reconstructions (N, H, W, C), or their previews; None if there are none."""
        path = self.folder / folder / f"{release}.{output}.npy"
        with _whole(path):
            return np.load(path, allow_pickle=False) if path.exists() else None

    def has_pictures(self, release: str, output: str) -> bool:
        """Return whether there are reconstructions."""
        return (self.folder / "pictures" / f"{release}.{output}.npy").exists()

    def write_pictures(self, release: str, output: str, pixels: Pixels, folder: str = "pictures") -> None:
        """Write reconstructions."""
        with files.atomic(self.folder / folder / f"{release}.{output}.npy") as part, part.open("wb") as file:
            np.save(file, pixels, allow_pickle=False)

    def tensors(self, folder: str, name: str) -> dict[str, Any] | None:
        """Return weights or a checkpoint; None if there are none."""
        path = self.folder / folder / f"{name}.pt"
        if not path.exists():
            return None
        with _whole(path):
            found: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
        return found

    def write_tensors(self, folder: str, contents: dict[str, dict[str, Any]]) -> None:
        """Write weights or checkpoints by their names. All are written before the first gets its name."""
        with contextlib.ExitStack() as begun:
            for name, content in contents.items():
                torch.save(content, begun.enter_context(files.atomic(self.folder / folder / f"{name}.pt")))

    def delete_tensors(self, folder: str, name: str) -> None:
        """Delete a checkpoint that is not needed any more."""
        (self.folder / folder / f"{name}.pt").unlink(missing_ok=True)


def _read(path: Path) -> dict[str, Any]:
    with _whole(path):
        facts: dict[str, Any] = json.loads(path.read_text())
    return facts


@contextlib.contextmanager
def _whole(path: Path) -> Iterator[None]:
    """Raise `DippError` if the file that is read here is cut, which can happen on its way from another machine."""
    try:
        yield
    except (ValueError, EOFError, RuntimeError, pickle.UnpicklingError):
        raise DippError(str(path), "is not a whole file", "bring it here again, or delete it") from None
