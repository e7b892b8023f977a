"""The stages of a run, in order. Results on disk are kept, so any stage can be stopped and run again.

| stage | what it makes |
|---|---|
| baseline | bytes of the lossless codecs, on the CPU |
| encode | archives of the codec, and the δ of appendix C |
| train | classifiers, wave after wave |
| metrics | PSNR, MS-SSIM and Fréchet distance of reconstructions |
| probe | how well the best guess tells what was encoded |
| report | one JSON, tables and figures, on the CPU |
"""

from __future__ import annotations

import functools
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dipp.codec.pictures import Pixels
from dipp.errors import DippError
from dipp.format import archive as archives
from experiments.cifar10 import deviations, metrics, probes, provenance
from experiments.cifar10.baseline import COUNTED, file_bytes
from experiments.cifar10.config import Config
from experiments.cifar10.methods import CLEAN, Release
from experiments.cifar10.releases import Maker
from experiments.cifar10.resnet import ResNet56
from experiments.cifar10.store import MADE_WITH, Store
from experiments.cifar10.training import Task, Wave, features

CHECKPOINT_SECONDS = 120
"""Seconds between checkpoints of a wave."""

Say = Callable[[str], None]


class UnfinishedError(Exception):
    """A stage that ended with work left."""

    def __init__(self, why: str, how: str) -> None:
        """Keep the reason why work is left, and how to go on."""
        super().__init__(why)
        self.why, self.how = why, how


class Job(NamedTuple):
    """A classifier to train."""

    release: Release
    output: str
    seed: int

    @property
    def name(self) -> str:
        """The name of its record."""
        return f"train.{self.release.name}.{self.output}.{self.seed}"


class Judge(NamedTuple):
    """What the Fréchet distance is measured in: features of the classifier of clean pictures, first seed."""

    identity: str
    features: Callable[[Pixels], NDArray[np.float64]]
    clean: NDArray[np.float64]
    """The features of all original pictures."""


@dataclass(frozen=True, eq=False)
class Run:
    """One run, or a part of it."""

    maker: Maker
    labels: NDArray[np.int64]
    releases: list[Release]
    """The releases that this part of the run is about."""
    deadline: float
    """Time in seconds of `time.monotonic` after which no more work begins."""
    say: Say

    @property
    def config(self) -> Config:
        """The settings of the run."""
        return self.maker.config

    @property
    def store(self) -> Store:
        """The folder of the run."""
        return self.maker.store

    @functools.cached_property
    def _made_of(self) -> dict[str, str]:
        """A digest of the settings on which each record depends."""
        return {name: made_of for names in provenance.records(self.config).values() for name, made_of in names.items()}

    def check(self) -> None:
        """Raise if there are records of another config, or of two models, because they must not be reported as one."""
        for name, made_of in self._made_of.items():
            record = self.store.record(name)
            if record is not None and record.get("made_of") != made_of:
                raise DippError("output", f"has {name}, which was made with another config", "name another folder")
        for what in MADE_WITH:
            if len(found := self.store.made_with(what)) > 1:
                raise DippError(
                    "output", f"has records of more than one {what} ({', '.join(found)})", "keep those of one"
                )

    def _write(self, name: str, record: dict[str, Any]) -> None:
        self.store.write_record(name, {**record, "made_of": self._made_of[name]})

    def _begin(self) -> None:
        """Raise `UnfinishedError` if no time is left for another piece of work."""
        if time.monotonic() >= self.deadline:
            raise UnfinishedError("out of time", "run it again to go on")

    def _is_encoded(self, release: Release) -> bool:
        return not release.coded or self.store.record(f"encode.{release.name}") is not None

    def _require_encoded(self) -> None:
        """Raise `UnfinishedError` if the stage left out releases that are not encoded yet."""
        if names := sorted(release.name for release in self.releases if not self._is_encoded(release)):
            raise UnfinishedError(f"not encoded yet: {', '.join(names)}", "run the stage encode, then this one")

    def baseline(self) -> None:
        """Count the bytes that lossless codecs take for clean pictures and for pictures with Laplace noise."""
        count, (height, width) = min(COUNTED, self.config.images), self.maker.pixels.shape[1:3]
        for release in (release for release in self.releases if release.lossless):
            for codec in provenance.codecs(release):
                name = f"baseline.{release.name}.{codec}"
                if self.store.record(name) is None:
                    self._begin()
                    pixels = self.maker.stored(release, count)
                    size = count * -(-height * width // 8) if pixels is None else file_bytes(pixels, codec)
                    bpp = 8 * size / (count * height * width)
                    record = {"release": release.name, "codec": codec, "images": count}
                    self._write(name, record | {"file_bytes": size, "file_bpp": bpp})
                    self.say(f"{release.name}, {codec}: {bpp:.3f} bits per pixel")

    def encode(self) -> None:
        """Encode all releases, and measure how far their steps move a coordinate."""
        for release in (release for release in self.releases if release.coded):
            name = f"encode.{release.name}"
            if self.store.record(name) is None:
                self._begin()
                self._refuse_second(release)
                record = self.maker.encode(release)
                self._write(name, record)
                steps, seconds = record["steps"], record["encode_seconds"]
                self.say(f"{release.name}: {record['file_bpp']:.4f} bits per pixel, {steps} steps, {seconds:.0f} s")
        for release in (release for release in self.config.shown("paper") if release in self.releases):
            name = f"deviations.{release.name}"
            if self.store.record(name) is None:
                self._begin()
                pixels = self.maker.pixels[: self.config.deviations]
                source = archives.open(self.store.archive(release.name))
                self._write(name, deviations.measure(source, self.maker.denoiser, pixels))

    def _refuse_second(self, release: Release) -> None:
        """Raise if there are records of an earlier archive of the same name."""
        kinds = (f"train.{release.name}.", f"metrics.{release.name}.", f"deviations.{release.name}")
        if any(self.store.records(kind) for kind in kinds):
            raise DippError(
                release.name,
                f"has records of its archive, but no encode.{release.name}.json",
                f"bring that, or delete {', '.join(f'{kind}*' for kind in kinds)}, and ancestral.json if it is of "
                "this release",
            )

    def train(self) -> None:
        """Train the missing classifiers in waves, beginning with those that were begun."""
        waiting: dict[int, list[Job]] = defaultdict(list)
        known = [
            (release, output) for release in self.releases for output in release.train if self._is_encoded(release)
        ]
        known.sort(key=lambda pair: pair[1] == "noisy")  # the panels do not show these, so they can wait
        for job in (Job(release, output, seed) for release, output in known for seed in self.config.seeds(release)):
            if self.store.record(job.name) is None:
                self.maker.require(job.release, job.output)
                begun = self.store.tensors("checkpoints", self._checkpoint(job))
                waiting[begun["epoch"] if begun else 0].append(job)
        size = self.config.protocol.wave
        for _, jobs in sorted(waiting.items(), reverse=True):
            for start in range(0, len(jobs), size):
                self._begin()
                self._train_wave(jobs[start : start + size])
        self._require_encoded()

    def _checkpoint(self, job: Job) -> str:
        """Return the file of a classifier's state. Another protocol has another file."""
        return f"{job.name}.{provenance.of_classifier(self.config, job.release)}"

    def _train_wave(self, jobs: list[Job]) -> None:
        """Train a wave until it ends or time is up, and record the result."""
        device, protocol = self.maker.device, self.config.protocol
        sets = {(job.release.name, job.output): self.maker.pictures(job.release, job.output) for job in jobs}
        tasks = [Task(job.name, sets[job.release.name, job.output], job.seed, job.release.clip) for job in jobs]
        wave = Wave(tasks, self.labels, self.config.cut, protocol, device)
        states = [self.store.tensors("checkpoints", self._checkpoint(job)) for job in jobs]
        if known := [state for state in states if state is not None]:
            wave.load(known)
        self.say(f"{len(tasks)} classifiers from epoch {wave.epoch}: {', '.join(job.name for job in jobs)}")
        saved = start = time.monotonic()
        first = wave.epoch
        while not wave.done:
            try:
                self._begin()
            except UnfinishedError:
                if wave.epoch > first:
                    self._keep(jobs, wave)
                raise
            wave.run_epoch()
            if time.monotonic() - saved > CHECKPOINT_SECONDS and not wave.done:
                self._keep(jobs, wave)
                saved = time.monotonic()
                pace = (saved - start) / (wave.epoch - first)
                left = pace * (protocol.epochs - wave.epoch) / 60
                rate = len(tasks) * wave.cut / pace
                self.say(f"epoch {wave.epoch} of {protocol.epochs}, {rate:.0f} pictures/s, {left:.0f} minutes left")
        clean = wave.accuracies([self.maker.clean(job.release) for job in jobs])
        for number, job in enumerate(jobs):
            if job.name == f"train.{CLEAN}.{self._judge_name}":
                self.store.write_tensors("weights", {self._judge_name: wave.states()[number]["network"]})
            curve = wave.curves[number]
            best = max(accuracy for _, accuracy in curve)
            record = {"release": job.release.name, "output": job.output, "seed": job.seed, "last": curve[-1][1]}
            record["clip"] = job.release.clip
            self._write(job.name, record | {"best": best, "clean": clean[number], "curve": curve})
            self.say(f"{job.name}: {curve[-1][1]:.4f} at the last epoch, {best:.4f} at the best")
            self.store.delete_tensors("checkpoints", self._checkpoint(job))

    def _keep(self, jobs: list[Job], wave: Wave) -> None:
        """Write checkpoints of all classifiers at the same epoch, because a wave cannot continue at two epochs."""
        names = [self._checkpoint(job) for job in jobs]
        self.store.write_tensors("checkpoints", dict(zip(names, wave.states(), strict=True)))

    def metrics(self) -> None:
        """Measure the reconstructions against the clean pictures."""
        ready = [release for release in self.releases if self._is_encoded(release)]
        named = {f"metrics.{r.name}.{output}": (r, output) for r in ready for output in provenance.measured(r)}
        wanted = {name: what for name, what in named.items() if not self._is_measured(name)}
        for release, output in wanted.values():
            self.maker.require(release, output)
        for name, (release, output) in wanted.items():
            self._begin()
            self._write(name, self._measured(self.maker.pictures(release, output)))
        check = self.config.ancestral
        for checked in (release for release in ready if check is not None and release.name == check.release):
            if check is not None and self.store.record("ancestral") is None:
                self._begin()
                drawn = self.maker.ancestral(checked, check.images)
                quick = self.maker.pictures(checked, "denoised")[: len(drawn)]
                record = {name: self._measured(p) for name, p in (("ancestral", drawn), ("fast", quick))}
                self._write("ancestral", {"release": checked.name, **record})
        self._require_encoded()

    def _is_measured(self, name: str) -> bool:
        """Return whether a record is complete; without the Fréchet distance it waits for the weights of the judge."""
        record = self.store.record(name)
        return record is not None and ("frechet" in record or self._judge is None)

    def _measured(self, pictures: Pixels) -> dict[str, Any]:
        pixels, judge = self.maker.pixels[: len(pictures)], self._judge
        found = {
            "images": len(pictures),
            "psnr": metrics.psnr(pictures, pixels),
            "ms_ssim": metrics.ms_ssim(pictures, pixels, self.maker.device),
        }
        if judge is None:
            return found
        distance = metrics.frechet(judge.features(pictures), judge.clean[: len(pictures)])
        return found | {"frechet": distance, "judge": judge.identity}

    @property
    def _judge_name(self) -> str:
        return f"{CLEAN}.{self.config.protocol.seeds[0]}"

    @functools.cached_property
    def _judge(self) -> Judge | None:
        """Return the judge; None if its weights are missing, because another classifier would give other features."""
        weights = self.store.tensors("weights", self._judge_name)
        if weights is None and self.store.record(f"train.{CLEAN}.{self._judge_name}") is None:
            raise DippError(
                "metrics", "need the classifier of clean pictures for the Fréchet distance", "run the stage train first"
            )
        if weights is None:
            self.say(f"no Fréchet distance is measured: weights/{self._judge_name}.pt is not here")
            return None
        identity = provenance.fingerprint(*(tensor.numpy().tobytes() for tensor in weights.values()))
        self.store.require("judge", identity)
        network = ResNet56()
        network.load_state_dict(weights)
        judged = functools.partial(features, network.to(self.maker.device), device=self.maker.device)
        return Judge(identity, judged, judged(self.maker.pixels))

    def probe(self) -> None:
        """Measure how often the best guess names the encoded picture."""
        asked = self.config.probes
        for epsilon in () if asked is None else asked.epsilons:
            name = f"probes.{epsilon:g}"
            if asked is not None and self.store.record(name) is None:
                self._begin()
                self._write(name, probes.measure(self.maker, asked, epsilon))
                self.say(f"{name}: measured on {asked.images} pictures")

    def report(self) -> None:
        """Write the report: a JSON file, tables and figures."""
        from experiments.cifar10 import report, tables  # they need a library for drawing, and the other stages do not

        if not self.store.records(""):
            raise DippError("output", f"has no records to report in {self.store.folder}", "run another stage first")
        place = report.write(self.config, self.store)
        for line in tables.gaps(report.missing(self.config, self.store)):
            self.say(f"missing: {line}")
        self.say(f"report: {place}")


STAGES: dict[str, Callable[[Run], None]] = {
    "baseline": Run.baseline,
    "encode": Run.encode,
    "train": Run.train,
    "metrics": Run.metrics,
    "probe": Run.probe,
    "report": Run.report,
}
