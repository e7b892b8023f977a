"""The folder of a run: records as JSON, and pictures to keep for a later stage. Only records may be published."""

from __future__ import annotations

import fnmatch
import json
import os
import platform
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dipp import files
from dipp.codec.pictures import Pixels
from dipp.format import archive as archives
from dipp.format.archive import Archive


@dataclass(frozen=True)
class Store:
    """The folder, and the facts about their origin that its records state."""

    folder: Path
    command: str
    commit: str | None
    only: str = "*"
    """Patterns of the names of records to make, separated by commas."""

    def __post_init__(self) -> None:
        for name in ("records", "pictures"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)

    def record(self, name: str) -> dict[str, Any] | None:
        """Return a record; None if there is none."""
        path = self.folder / "records" / f"{name}.json"
        found: dict[str, Any] | None = json.loads(path.read_text()) if path.exists() else None
        return found

    def wanted(self, name: str) -> bool:
        """Return whether a record is requested and missing."""
        asked = any(fnmatch.fnmatch(name, pattern.strip()) for pattern in self.only.split(","))
        return asked and self.record(name) is None

    def write(self, name: str, content: dict[str, Any], began: float) -> None:
        """Write a record with command, commit, device, and the CPU seconds of this process since `began`."""
        facts = {"command": self.command, "commit": self.commit, "device": _device()}
        facts["CPU seconds"] = round(time.process_time() - began, 1)  # type: ignore[assignment]
        with files.atomic(self.folder / "records" / f"{name}.json") as part:
            part.write_text(json.dumps(facts | content, indent=1, ensure_ascii=False) + "\n")
        print(name, {key: value for key, value in content.items() if isinstance(value, float | int | str)}, flush=True)

    def pictures(self, name: str) -> Pixels | None:
        """Return the kept pictures with a name; None if there are none."""
        path = self.folder / "pictures" / f"{name}.npy"
        return np.load(path, allow_pickle=False) if path.exists() else None

    def keep_pictures(self, name: str, pictures: Pixels) -> None:
        """Keep pictures."""
        with files.atomic(self.folder / "pictures" / f"{name}.npy") as part, part.open("wb") as file:
            np.save(file, pictures, allow_pickle=False)

    def archive(self, name: str) -> Archive | None:
        """Return the kept archive with a name; None if there is none."""
        path = self.folder / "pictures" / f"{name}.dipp"
        return archives.open(path) if path.exists() else None

    def keep_archive(self, name: str, archive: Archive) -> None:
        """Keep an archive."""
        archive.save(self.folder / "pictures" / f"{name}.dipp")


def commit() -> str | None:
    """Return the environment variable COMMIT, or the commit of the checkout; None if git does not know it."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    return os.environ.get("COMMIT") or done.stdout.strip() or None


def _device() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return f"1 of {os.cpu_count()} cores of {next(names, platform.processor() or platform.machine())}, shared"
