"""Where a result comes from, as every JSON of a benchmark says: the command, the commit, the device."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path


def provenance(device: str = "cpu") -> dict[str, str]:
    """Command (places outside the checkout by their last name), commit (or what COMMIT says), name of the device."""
    words = [Path(word).name if Path(word).is_absolute() else word for word in sys.argv[1:]]
    return {
        "command": " ".join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *words]),
        "commit": os.environ.get("COMMIT") or _commit(),
        "device": _name(device),
    }


def _commit() -> str:
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()  # noqa: S603
    except (OSError, subprocess.CalledProcessError):
        raise SystemExit("commit: git does not know it here; name it in the environment variable COMMIT") from None


def _name(device: str) -> str:
    if device == "cpu":
        return f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores"
    import torch

    return str(torch.cuda.get_device_name())
