"""The stages of a run, in order. What is on disk is not made again, so any of them can be stopped and run again.

| stage | what it makes |
|---|---|
| baseline | bytes of the lossless codecs, on the CPU |
| encode | archives of the codec, and the δ of appendix C |
| train | classifiers, wave after wave |
| metrics | PSNR, MS-SSIM and Fréchet distance of reconstructions |
| report | one JSON, tables and figures, on the CPU |
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import math
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from cifar10 import deviations, metrics, report
from cifar10.baseline import CODECS, file_bytes
from cifar10.config import CLEAN, Config, Release
from cifar10.releases import Maker
from cifar10.resnet import ResNet56
from cifar10.store import Store
from cifar10.training import Task, Wave, features
from dipp import archive as archives
from dipp.data.sources import Cifar
from dipp.errors import DippError
from dipp.pictures import Pixels

CHECKPOINT_SECONDS = 120
"""Time between checkpoints of a wave."""
JUDGE = f"{CLEAN}.0"
"""The classifier whose features the Fréchet distance is measured in: clean pictures, first seed."""

Say = Callable[[str], None]


class OutOfTimeError(Exception):
    """There is work, but no time for it."""


class Job(NamedTuple):
    """A classifier that is to be trained."""

    release: Release
    output: str
    seed: int

    @property
    def name(self) -> str:
        """The name of its record."""
        return f"train.{self.release.name}.{self.output}.{self.seed}"


@dataclass(frozen=True, eq=False)
class Run:
    """One run, or a part of it."""

    maker: Maker
    labels: NDArray[np.int64]
    only: str
    """Patterns of the names of releases that it is about, with commas between."""
    deadline: float
    """When no more work is begun, in seconds of `time.monotonic`."""
    say: Say

    @property
    def config(self) -> Config:
        """What is made."""
        return self.maker.config

    @property
    def store(self) -> Store:
        """Where it goes."""
        return self.maker.store

    @property
    def releases(self) -> list[Release]:
        """The releases that this part is about."""
        return self.config.matching(self.only)

    def _begin(self) -> None:
        """Ask before each piece of work whether there is time for it."""
        if time.monotonic() >= self.deadline:
            raise OutOfTimeError

    def _encoded(self) -> list[Release]:
        """Those of the releases whose pictures can be had; it says which cannot."""
        names = {r.name for r in self.releases if r.coded and self.store.record(f"encode.{r.name}") is None}
        if names:
            self.say(f"left out, since they are not encoded yet: {', '.join(sorted(names))}")
        return [release for release in self.releases if release.name not in names]

    def baseline(self) -> None:
        """What lossless codecs take for pictures as they are, and for pictures with Laplace noise."""
        for release in (release for release in self.releases if release.lossless):
            pixels = self.maker.pictures(release, release.method)
            for codec in CODECS:
                name = f"baseline.{release.name}.{codec}"
                if self.store.record(name) is None:
                    self._begin()
                    size = file_bytes(pixels, codec)
                    bpp = 8 * size / math.prod(pixels.shape[:3])
                    record = {"release": release.name, "codec": codec, "images": len(pixels)}
                    self.store.write_record(name, record | {"file_bytes": size, "file_bpp": bpp})
                    self.say(f"{release.name}, {codec}: {bpp:.3f} bits per pixel")

    def encode(self) -> None:
        """Archives, and how far their steps move a coordinate."""
        for release in (release for release in self.releases if release.coded):
            name = f"encode.{release.name}"
            if self.store.record(name) is None:
                self._begin()
                record = self.maker.encode(release)
                self.store.write_record(name, record)
                steps, seconds = record["steps"], record["encode_seconds"]
                self.say(f"{release.name}: {record['file_bpp']:.4f} bits per pixel, {steps} steps, {seconds:.0f} s")
        for release in (release for release in self.config.shown("paper") if release in self.releases):
            name = f"deviations.{release.name}"
            if self.store.record(name) is None:
                self._begin()
                pixels = self.maker.pixels[: self.config.deviations]
                source = archives.open(self.store.archive(release.name))
                self.store.write_record(name, deviations.measure(source, self.maker.denoiser, pixels))

    def train(self) -> None:
        """Classifiers that are not trained yet, in waves; those that were begun first, with others of their epoch."""
        waiting: dict[int, list[Job]] = defaultdict(list)
        known = [(release, output) for release in self._encoded() for output in release.train]
        known.sort(key=lambda pair: pair[1] == "noisy")  # these are beside the panels, and can wait
        for (release, output), seed in itertools.product(known, self.config.protocol.seeds):
            job = Job(release, output, seed)
            if self.store.record(job.name) is None:
                begun = self.store.tensors("checkpoints", self._checkpoint(job))
                waiting[begun["epoch"] if begun else 0].append(job)
        size = self.config.protocol.wave
        for _, jobs in sorted(waiting.items(), reverse=True):
            for start in range(0, len(jobs), size):
                self._begin()
                self._train_wave(jobs[start : start + size])

    def _checkpoint(self, job: Job) -> str:
        """Where the state of a classifier is kept: training goes on by the same protocol only."""
        protocol = dataclasses.replace(self.config.protocol, seeds=(), wave=0)
        return f"{job.name}.{hashlib.sha256(repr((protocol, job.release.clip)).encode()).hexdigest()[:8]}"

    def _train_wave(self, jobs: list[Job]) -> None:
        """Train a wave to its end, if there is time, and write down what came of it."""
        device, protocol = self.maker.device, self.config.protocol
        sets = {(job.release.name, job.output): self.maker.pictures(job.release, job.output) for job in jobs}
        tasks = [Task(job.name, sets[job.release.name, job.output], job.seed, job.release.clip) for job in jobs]
        wave = Wave(tasks, self.labels, protocol, device)
        states = [self.store.tensors("checkpoints", self._checkpoint(job)) for job in jobs]
        if known := [state for state in states if state is not None]:
            wave.load(known)
        self.say(f"{len(tasks)} classifiers from epoch {wave.epoch}: {', '.join(job.name for job in jobs)}")
        saved = start = time.monotonic()
        first = wave.epoch
        while not wave.done:
            try:
                self._begin()
            except OutOfTimeError:
                if wave.epoch > first:
                    self._keep(jobs, wave)
                raise
            wave.run_epoch()
            if time.monotonic() - saved > CHECKPOINT_SECONDS and not wave.done:
                self._keep(jobs, wave)
                saved = time.monotonic()
                pace = (saved - start) / (wave.epoch - first)
                left = pace * (protocol.epochs - wave.epoch) / 60
                rate = len(tasks) * wave.half / pace
                self.say(f"epoch {wave.epoch} of {protocol.epochs}, {rate:.0f} pictures/s, {left:.0f} minutes left")
        clean = wave.accuracies(self.maker.pixels)
        for number, job in enumerate(jobs):
            if job.name == f"train.{CLEAN}.{JUDGE}":
                self.store.write_tensors("weights", JUDGE, wave.states()[number]["network"])
            curve = wave.curves[number]
            best = max(accuracy for _, accuracy in curve)
            record = {"release": job.release.name, "output": job.output, "seed": job.seed, "last": curve[-1][1]}
            record["clip"] = job.release.clip
            self.store.write_record(job.name, record | {"best": best, "clean": clean[number], "curve": curve})
            self.say(f"{job.name}: {curve[-1][1]:.4f} at the last epoch, {best:.4f} at the best")
            self.store.delete_tensors("checkpoints", self._checkpoint(job))

    def _keep(self, jobs: list[Job], wave: Wave) -> None:
        for job, state in zip(jobs, wave.states(), strict=True):
            self.store.write_tensors("checkpoints", self._checkpoint(job), state)

    def metrics(self) -> None:
        """Reconstructions against the clean pictures."""
        found: list[NDArray[np.float64]] = []  # of the judge: made once, and only if something is to be measured
        ready = self._encoded()
        for release in ready:
            for output in release.outputs if release.method != CLEAN else ():
                name = f"metrics.{release.name}.{output}"
                if self.store.record(name) is None:
                    self._begin()
                    found = found or [self._features(self.maker.pixels)]
                    self.store.write_record(name, self._measured(self.maker.pictures(release, output), found[0]))
        release = self.config.release(self.config.ancestral.release)
        if self.store.record("ancestral") is None and release in ready:
            self._begin()
            found = found or [self._features(self.maker.pixels)]
            drawn = self.maker.ancestral(release, self.config.ancestral.images)
            quick = self.maker.pictures(release, "denoised")[: len(drawn)]
            record = {name: self._measured(p, found[0]) for name, p in (("ancestral", drawn), ("fast", quick))}
            self.store.write_record("ancestral", {"release": release.name, **record})

    def _measured(self, pictures: Pixels, clean: NDArray[np.float64]) -> dict[str, Any]:
        pixels, device = self.maker.pixels[: len(pictures)], self.maker.device
        return {
            "images": len(pictures),
            "psnr": metrics.psnr(pictures, pixels),
            "ms_ssim": metrics.ms_ssim(pictures, pixels, device),
            "frechet": metrics.frechet(self._features(pictures), clean),
        }

    def _features(self, pictures: Pixels) -> NDArray[np.float64]:
        weights = self.store.tensors("weights", JUDGE)
        if weights is None:
            raise DippError("metrics: the Fréchet distance needs the classifier of clean pictures; run train first")
        network = ResNet56()
        network.load_state_dict(weights)
        return features(network.to(self.maker.device), pictures, self.maker.device)

    def report(self) -> None:
        """One JSON, tables and figures."""
        place = report.write(self.config, self.store)
        for line in report.gaps(report.missing(self.config, self.store)):
            self.say(f"missing: {line}")
        self.say(f"report: {place}")


STAGES: dict[str, Callable[[Run], None]] = {
    "baseline": Run.baseline,
    "encode": Run.encode,
    "train": Run.train,
    "metrics": Run.metrics,
    "report": Run.report,
}


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
