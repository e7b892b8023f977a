"""A run of the experiment, or a part of it: the pictures, the stages, and a note of each stage."""

from __future__ import annotations

import itertools
import math
import signal
import subprocess
import time
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from dipp.codec.pictures import Pixels
from dipp.core import randomness
from dipp.data import cifar
from dipp.data.cifar_source import Cifar
from dipp.errors import DippError
from dipp.models.denoiser import torch_device
from experiments.cifar10.config import SPLITS, Config
from experiments.cifar10.options import Options
from experiments.cifar10.releases import Maker
from experiments.cifar10.stages import STAGES, Run, Say, UnfinishedError
from experiments.cifar10.store import Store


def load(folder: Path, count: int, split: str = SPLITS[0]) -> tuple[Pixels, NDArray[np.int64]]:
    """Return the first pictures and labels of a split of CIFAR-10, from the folder of its Python version."""
    if not folder.is_dir():
        raise DippError("data", f"must be a folder, got {folder}", "give the folder of CIFAR-10's Python version")
    inner = folder / cifar.TEN.folder
    place = inner if inner.is_dir() else folder
    if not cifar.TEN.is_in(place):
        raise DippError(
            "data", f"must hold CIFAR-10, but {folder} does not", "give the folder that holds cifar-10-batches-py"
        )
    sources = [Cifar.open(place, name) for name in split.split(" and ")]
    if sum(map(len, sources)) < count:
        raise DippError("data", f"must hold {count} pictures of {split}, but {folder} has {sum(map(len, sources))}")
    rows = list(itertools.islice((row for source in sources for row in source.read(0, len(source))), count))
    pixels = np.stack([row.content for row in rows])  # type: ignore[misc]
    return pixels, np.array([row.label for row in rows], np.int64)


def run(options: Options, *, command: str, say: Say) -> bool:
    """Run a stage, or all of them, and note how long each took, and where; whether there was time for all of it."""
    stage, minutes = options.stage, options.minutes
    if stage is not None and stage not in STAGES:
        raise DippError("stage", f"must be one of {', '.join(STAGES)}, got {stage}")
    if minutes is not None and not minutes > 0:
        raise DippError("minutes", f"must be above 0, got {minutes}")
    chosen, place = Config.load(options.config), torch_device(options.device)
    releases = chosen.matching(options.only)
    seeds = {release.name: randomness.fresh_seed() for release in releases if release.coded}
    # After the seeds were drawn, so that nobody can choose a seed that suits a picture.
    pixels, labels = load(options.data, chosen.images, chosen.split)
    store = Store(options.output)
    deadline = math.inf if minutes is None else time.monotonic() + 60 * minutes
    maker = Maker(chosen, store, pixels, options.model, options.calibration, str(place), seeds)
    part = Run(maker, labels, releases, deadline, say)
    part.check()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a run that is terminated still records how long it took
    facts = {"command": command, "commit": options.commit or commit()}
    facts |= {"device": torch.cuda.get_device_name() if place.type == "cuda" else "CPU"}
    for name in [stage] if stage else STAGES:
        with store.alone(name):
            started, begin, ended = datetime.now(UTC), time.monotonic(), "by an error or from outside"
            try:
                STAGES[name](part)
                ended = "finished"
                if name != "report":  # it prints where the report is
                    say(f"the stage {name} is finished")
            except UnfinishedError as stop:
                ended = stop.why
                say(f"the stage {name} is not finished ({stop.why}): {stop.how}")
                return False
            finally:
                took = {
                    "stage": name,
                    "seconds": time.monotonic() - begin,
                    "started": f"{started:%FT%TZ}",
                    "ended": ended,
                }
                if name != "report":
                    store.write_record(f"run.{started:%Y%m%dT%H%M%S%f}.{name}", took | facts)
    return True


def commit() -> str | None:
    """Return the commit of the checkout, and whether files differ from it; None if git does not know."""
    folder = Path(__file__).parent
    try:
        done = subprocess.run(  # noqa: S603
            ["git", "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],  # noqa: S607
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        return None
    return done.stdout.strip() or None
