"""The origin of a result, as the JSON of each benchmark states it: command, commit and device."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dipp import files


def provenance(device: str = "cpu") -> dict[str, str]:
    """Return command (paths outside the checkout by their last name), commit (or the variable COMMIT) and device."""
    words = [Path(word).name if Path(word).is_absolute() else word for word in sys.argv[1:]]
    return {
        "command": " ".join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *words]),
        "commit": os.environ.get("COMMIT") or commit_of(Path(__file__).parent),
        "device": _name(device),
    }


def write(path: Path, content: Mapping[str, Any]) -> None:
    """Write a result as JSON, atomically; long runs write it again after every row."""
    with files.atomic(path) as part:
        part.write_text(json.dumps(content, indent=1) + "\n")


def commit_of(folder: Path) -> str:
    """Return the commit of a checkout, followed by `-dirty` if files differ from it."""
    command = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()  # noqa: S603
    except (OSError, subprocess.CalledProcessError):
        raise SystemExit("commit: git does not know it here; name it in the environment variable COMMIT") from None


def _name(device: str) -> str:
    if device == "cpu":
        return f"{os.cpu_count()} cores of {_processor()}"
    import torch

    return str(torch.cuda.get_device_name())


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())
