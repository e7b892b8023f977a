"""A run, or a part of it: the pictures it is about, the stages it goes through, and a note of each."""

from __future__ import annotations

import math
import subprocess
import time
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from cifar10.config import Config
from cifar10.releases import Maker
from cifar10.stages import STAGES, OutOfTimeError, Run, Say
from cifar10.store import Store
from dipp.data.sources import Cifar
from dipp.errors import DippError
from dipp.pictures import Pixels


def load(folder: Path, count: int) -> tuple[Pixels, NDArray[np.int64]]:
    """The first pictures and labels of CIFAR-10's test set, from the folder of its Python version."""
    inner = folder / "cifar-10-batches-py"
    source = Cifar.open(inner if inner.is_dir() else folder, "test")
    if len(source) < count:
        raise DippError(f"data: {count} test pictures are needed, {folder} has {len(source)}")
    rows = list(source.read(0, count))
    pixels = np.stack([row.content for row in rows])  # type: ignore[misc]
    return pixels, np.array([row.label for row in rows], np.int64)


def run(
    config: Path,
    data: Path,
    model: str,
    out: Path,
    *,
    stage: str | None,
    only: str,
    calibration: Path | None,
    device: str,
    minutes: float | None,
    command: str,
    commit: str | None,
    say: Say,
) -> None:
    """Run a stage, or all of them, and note how long each took, and where."""
    if stage is not None and stage not in STAGES:
        raise DippError(f"stage: one of {', '.join(STAGES)} is needed, got {stage}")
    chosen = Config.load(config)
    if not chosen.matching(only):
        raise DippError(
            f"only: no release is called like {only}; there are {', '.join(r.name for r in chosen.releases)}"
        )
    store = Store(out)
    pixels, labels = load(data, chosen.images)
    deadline = math.inf if minutes is None else time.monotonic() + 60 * minutes
    part = Run(Maker(chosen, store, pixels, model, calibration, device), labels, only, deadline, say)
    part.check()
    for name in [stage] if stage else STAGES:
        started, begin = datetime.now(UTC), time.monotonic()
        try:
            STAGES[name](part)
        except OutOfTimeError:
            say(f"out of time in the stage {name}: run it again to go on")
            break
        finally:
            if name != "report":
                facts = {"stage": name, "seconds": time.monotonic() - begin, "command": command}
                facts |= {"device": _device(device), "commit": commit or _commit(), "started": f"{started:%FT%TZ}"}
                store.write_record(f"run.{started:%Y%m%dT%H%M%S%f}.{name}", facts)


def _device(device: str) -> str:
    return torch.cuda.get_device_name() if device == "cuda" else "CPU"


def _commit() -> str | None:
    """The commit of the checkout; None where git does not know."""
    folder = Path(__file__).parent
    try:
        found = subprocess.run(  # noqa: S603
            ["git", "-C", str(folder), "rev-parse", "HEAD"],  # noqa: S607
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        return None
    return found.stdout.strip() or None
