"""`python -m experiments.cifar10.units`: classifiers on pictures with an ε for each cell, or for the whole picture.

Classifiers are trained by the paper's protocol (`config.Protocol`) on the first half of CIFAR-10's test set as it was
released, and tested on the other half, released alike and clean. All methods have the same unit and pure ε:

| method | what a receiver has |
|---|---|
| `dipp` | pictures of `--unit N --epsilon E`, with the words of the model |
| `words` | one question by the same words, with as many draws as the ε pays for, interpolated without a network |
| `DP-Pix` | the mean of each unit with Laplace noise, denoised by the same network |
| `PrivUnitG` | one answer about each unit's coarse pixels, denoised likewise (`experiments/comparisons/units.py`) |

The last two are denoised at the SNR that is best on the first clean pictures. PrivUnitG also chooses its coarse pixels
there. dipp has no such advantages. The words come from CIFAR-10's training pictures, which count as public:

    cp -r src/dipp/models/embedded DIR
    dipp words DIR CIFAR --count 2000 --tried 48 --overwrite
    python -m experiments.cifar10.units CIFAR --model DIR --output RUN

`--only` takes patterns of names such as `8-32-dipp` or `picture-64-*`, of unit, ε and method; `clean` is the reference.
"""

from __future__ import annotations

import fnmatch
import functools
import itertools
import json
import os
import shlex
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import torch
import typer
from numpy.typing import NDArray

import dipp
from dipp import files, models
from dipp.cli.main import run_app
from dipp.cli.options import AUTO, Device
from dipp.codec.decoding import ChainEnd
from dipp.codec.pictures import Pixels
from dipp.codec.pixels import to_pixels
from dipp.core import units
from dipp.core.geometry import Geometry
from dipp.core.plan import Plan
from dipp.core.steps import BLOCK
from dipp.core.unit import Unit
from dipp.errors import DippError
from dipp.models.denoiser import Denoiser, torch_device
from dipp.planning.planner import Point
from dipp.planning.questions import CODING, MOST, QuestionPlanner, candidates_of, step_of
from dipp.privacy.budget import Budget
from dipp.training.asking import LABELS
from experiments.cifar10 import metrics, run
from experiments.cifar10.config import Protocol
from experiments.cifar10.store import Store
from experiments.cifar10.training import Task, Wave
from experiments.comparisons import units as rivals

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STAGES = ("release", "train", "report")
CASES: dict[str, tuple[float, ...]] = {"8": (8, 32), "16": (32,), "picture": (128,)}
"""The ε of each unit that matter most."""
MORE: dict[str, tuple[float, ...]] = {"4": (4, 8, 16), "8": (4, 16), "16": (8, 16, 64), "picture": (8, 32, 64)}
"""Further ε of each unit, which come later."""
METHODS = ("dipp", "DP-Pix", "PrivUnitG", "words")
CLEAN = "clean"
IMAGES, TUNED = 10000, 256
"""Number of released pictures, and of the first of them, on which rivals are tuned."""
CHECKPOINT = 300
"""Seconds between checkpoints."""
COLOURS = dict(zip(METHODS, ("#d94801", "#756bb1", "#2ca25f", "#969696"), strict=True))

Labels = NDArray[np.int64]


@dataclass(frozen=True)
class Case:
    """A method at a unit and a pure ε of it."""

    unit: str
    epsilon: float
    method: str

    @property
    def name(self) -> str:
        """The name of the case in records and patterns."""
        return f"{self.unit}-{self.epsilon:g}-{self.method}"


def cases() -> list[Case]:
    """Return all cases, the most important first."""
    pairs = [(unit, epsilon) for part in (CASES, MORE) for unit, every in part.items() for epsilon in every]
    return [Case(*pair, method) for pair, method in itertools.product(pairs, METHODS)]


@dataclass(frozen=True, eq=False)
class Job:
    """A run, or a part of it."""

    store: Store
    pixels: Pixels
    labels: Labels
    denoiser: Denoiser | None
    """The denoiser; None for a stage that makes no pictures."""
    chosen: list[Case]
    clean: bool
    """Whether a classifier of clean pictures is trained as a reference."""
    protocol: Protocol
    device: str
    facts: dict[str, Any]
    """Command, commit and device."""

    def release(self) -> None:
        """Make the pictures of every case once, because a second draw would be a second release."""
        assert self.denoiser is not None
        self.store.require("model", self.denoiser.identity)
        for case in self.chosen:
            name = f"release.{case.name}"
            if self.store.record(name) is None:
                began = time.monotonic()
                pictures, found = made(case, self.pixels, self.denoiser, self.store)
                self.store.write_pictures(case.name, "released", pictures)
                found["psnr"] = metrics.psnr(pictures, self.pixels)
                known = {"unit": case.unit, "epsilon": case.epsilon, "method": case.method}
                known |= {"images": len(pictures), "model": self.denoiser.identity}
                seconds = time.monotonic() - began
                self.store.write_record(name, {**known, **found, "seconds": seconds, **self.facts})
                typer.echo(f"{name}: {found['psnr']:.2f} dB, {seconds:.0f} s")

    def train(self) -> None:
        """Train the missing classifiers side by side, one wave for each number of a seed."""
        for seed in self.protocol.seeds:
            sets = {CLEAN: self.pixels} if self.clean else {}
            sets |= {case.name: self._released(case) for case in self.chosen}
            left = [name for name in sets if self.store.record(f"train.{name}.{seed}") is None]
            for start in range(0, len(left), self.protocol.wave):
                self._wave({name: sets[name] for name in left[start : start + self.protocol.wave]}, seed)

    def _released(self, case: Case) -> Pixels:
        pictures = self.store.pictures(case.name, "released")
        if pictures is None or len(pictures) != len(self.pixels):
            raise DippError(
                case.name, f"has no file with its {len(self.pixels)} pictures", "run the stage release first"
            )
        return pictures

    def _wave(self, sets: dict[str, Pixels], seed: int) -> None:
        cut = len(self.pixels) // 2
        tasks = [Task(f"train.{name}.{seed}", pictures, seed, clip=True) for name, pictures in sets.items()]
        wave = Wave(tasks, self.labels, cut, self.protocol, self.device)
        begun = [self.store.tensors("checkpoints", task.name) for task in tasks]
        if all(begun):
            wave.load([state for state in begun if state is not None])
        began = saved = time.monotonic()
        typer.echo(f"{len(tasks)} classifiers from epoch {wave.epoch}: {', '.join(sets)}")
        while not wave.done:
            wave.run_epoch()
            if time.monotonic() - saved > CHECKPOINT and not wave.done:
                states = zip(tasks, wave.states(), strict=True)
                self.store.write_tensors("checkpoints", {task.name: state for task, state in states})
                saved = time.monotonic()
                typer.echo(f"epoch {wave.epoch} of {self.protocol.epochs}, {(saved - began) / 60:.0f} minutes")
        on_clean = wave.accuracies([self.pixels[cut:]] * len(tasks))
        seconds = time.monotonic() - began
        for number, task in enumerate(tasks):
            curve = wave.curves[number]
            record = {"last": curve[-1][1], "clean": on_clean[number], "seed": seed, "curve": curve}
            record |= {"epochs": self.protocol.epochs, "seconds of the wave": seconds, "classifiers": len(tasks)}
            self.store.write_record(task.name, {**record, **self.facts})
            self.store.delete_tensors("checkpoints", task.name)
            typer.echo(f"{task.name}: {record['last']:.4f}, on clean pictures {record['clean']:.4f}")

    def report(self) -> None:
        """Write a JSON, a table and a figure of the finished cases."""
        rows = [row for row in map(self._row, self.chosen) if row is not None]
        results = {"clean": self._accuracy(CLEAN), "rows": rows, "made_with": self.store.made_with("model")}
        folder = self.store.folder / "report"
        folder.mkdir(exist_ok=True)
        with files.atomic(folder / "results.json") as part:
            part.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
        with files.atomic(folder / "tables.md") as part:
            part.write_text(table(results))
        with files.atomic(folder / "units.png") as part:
            drawn(results).savefig(part, format="png", dpi=120)
        typer.echo(f"report: {folder}")

    def _row(self, case: Case) -> dict[str, Any] | None:
        record = self.store.record(f"release.{case.name}")
        return None if record is None else {**record, "accuracy": self._accuracy(case.name)}

    def _accuracy(self, name: str) -> dict[str, Any] | None:
        found = self.store.records(f"train.{name}.")
        if not found:
            return None
        mean = {key: statistics.fmean(one[key] for one in found) for key in ("last", "clean")}
        facts = {key: sorted({one[key] for one in found}) for key in ("epochs", *self.facts)}
        return {**mean, "each": [one["last"] for one in found], **facts}


def made(case: Case, pixels: Pixels, denoiser: Denoiser, store: Store) -> tuple[Pixels, dict[str, Any]]:
    """Return the pictures that a receiver of a case has, and facts about them."""
    unit = units.parse(case.unit)
    if case.method in ("dipp", "words"):
        return _asked(case, unit, pixels, denoiser, store)
    generator, few = np.random.default_rng(list(case.name.encode())), pixels[:TUNED]
    tried: list[tuple[int, Callable[[Pixels], rivals.Answers]]] = []
    if case.method == "DP-Pix":
        tried.append((1, functools.partial(rivals.dp_pix, unit=unit, epsilon=case.epsilon, generator=generator)))
    else:
        known = functools.partial(rivals.priv_unit, unit=unit, epsilon=case.epsilon, generator=generator)
        for parts in rivals.PARTS:
            radii = rivals.radii(few, unit, parts)
            tried += [(parts, functools.partial(known, parts=parts, radius=radius)) for radius in radii]
    parts, answer = max(tried, key=lambda one: metrics.psnr(one[1](few).shrunk(), few))
    answers = answer(pixels)
    best = max(LABELS, key=lambda factor: metrics.psnr(answers.first(TUNED).denoised(denoiser, factor), few))
    return answers.denoised(denoiser, best), {"parts": parts, "factor": best, "certified": case.epsilon}


def _asked(case: Case, unit: Unit, pixels: Pixels, denoiser: Denoiser, store: Store) -> tuple[Pixels, dict[str, Any]]:
    """Return the pictures that questions by the model's words show, with or without the network."""
    if denoiser.books is None:
        raise DippError("model", "has no words", "make them with `dipp words`")
    geometry, found = Geometry.of(pixels.shape[1:]), list[Pixels]()
    if case.method == "dipp":
        planner = QuestionPlanner(denoiser.books, geometry, (unit,))
        point: Point = planner.choose(Budget(case.epsilon, unit=unit))
        plan = point.plan
    else:
        plan = _plain(case.epsilon, unit, geometry)

    def keep(end: ChainEnd) -> None:
        if case.method == "dipp":
            found.append(end.pictures())
        else:
            state, t = end.noisy()
            found.append(to_pixels(state / denoiser.schedule.gamma(t)))

    codec = dipp.Codec(denoiser, plan, table=denoiser.books.digest)
    archive = codec.encode(pixels, odometer=False, ends=keep)
    archive.save(store.archive(case.name))
    facts = {"certified": archive.certificate.epsilon, "payload_bpp": archive.payload_bpp}
    return np.concatenate(found), {**facts, "questions": plan.steps[0].words(plan.steps, 1)}


def _plain(epsilon: float, unit: Unit, geometry: Geometry) -> Plan:
    """Return one question with the fewest draws whose words can take the ε."""
    split, side = 1, unit.side_in(geometry)
    while epsilon / split**2 > MOST and side % (2 * split * BLOCK) == 0:
        split *= 2
    each = min(epsilon / split**2, MOST)
    return Plan(CODING, (step_of(candidates_of(each)._replace(split=split, rounds=4), each),), unit=unit)


def table(results: dict[str, Any]) -> str:
    """Return accuracies (on clean pictures in brackets), PSNR and bits as Markdown, a row for each unit and ε."""
    lines = [["unit", "ε", *METHODS, *(f"PSNR: {method}" for method in METHODS), "bits per pixel: dipp"]]
    lines.append(["---"] * len(lines[0]))
    rows = {(row["unit"], row["epsilon"], row["method"]): row for row in results["rows"]}
    for unit, epsilon in dict.fromkeys(key[:2] for key in rows):
        own = [rows.get((unit, epsilon, method)) for method in METHODS]
        quality = ["–" if row is None else f"{row['psnr']:.1f}" for row in own]
        learnt = [_percent(row and row["accuracy"]) for row in own]
        bits = "–" if own[0] is None else f"{own[0]['payload_bpp']:.3f}"
        lines.append([units.parse(unit).short, f"{epsilon:g}", *learnt, *quality, bits])
    clean = _percent(results["clean"])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines) + f"\nClean pictures teach {clean}.\n"


def _percent(found: dict[str, Any] | None) -> str:
    if found is None:
        return "–"
    spread = (max(found["each"]) - min(found["each"])) / 2
    own = f"{100 * found['last']:.1f}" + (f" ± {100 * spread:.1f}" if len(found["each"]) > 1 else "")
    return f"{own} % ({100 * found['clean']:.1f})"


def drawn(results: dict[str, Any]) -> Figure:
    """Draw accuracy over ε, with one panel for each unit."""
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(row["unit"] for row in results["rows"])) or ["picture"]
    figure = Figure(figsize=(3.4 * len(names), 3.6), layout="constrained")
    for axes, unit in zip(figure.subplots(1, len(names), sharey=True, squeeze=False)[0], names, strict=True):
        for method in METHODS:
            points = [
                (row["epsilon"], row["accuracy"]["last"])
                for row in sorted(results["rows"], key=lambda row: row["epsilon"])
                if row["unit"] == unit and row["method"] == method and row["accuracy"]
            ]
            if points:
                axes.plot(*zip(*points, strict=True), color=COLOURS[method], marker="o", label=method)
        if results["clean"]:
            axes.axhline(results["clean"]["last"], color="black", ls="--", lw=1, label="clean pictures")
        title = "whole picture" if unit == "picture" else f"cells of {unit}×{unit}"
        axes.set(xscale="log", xlabel="pure ε of the unit", title=title)
        axes.grid(alpha=0.3)
        axes.legend(frameon=False, fontsize=7)
    return figure


def experiment(
    data: Annotated[Path, typer.Argument(help="Folder of CIFAR-10's Python version.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of the run; results in it are kept.")],
    model: Annotated[Path, typer.Option(help="Folder of a denoiser with words of CIFAR-10's training pictures.")],
    stage: Annotated[str | None, typer.Option(help=f"One stage: {', '.join(STAGES)}. By default all.")] = None,
    only: Annotated[str, typer.Option(help="Names or patterns of cases, such as '8-32-*,clean'.")] = "*",
    seeds: Annotated[int, typer.Option(help="Number of classifiers of each case.", min=1)] = 3,
    images: Annotated[int, typer.Option(help="Number of pictures; fewer for a trial.", min=2)] = IMAGES,
    epochs: Annotated[int, typer.Option(help="Number of epochs; fewer for a trial.", min=1)] = 250,
    device: Device = AUTO,
) -> None:
    """Measure what is learnt from pictures that were released with an ε for each cell, or for the whole picture."""
    if stage is not None and stage not in STAGES:
        raise DippError("stage", f"must be one of {', '.join(STAGES)}, got {stage}")
    patterns = [pattern.strip() for pattern in only.split(",")]

    def wanted(name: str) -> bool:
        return any(fnmatch.fnmatch(name, pattern) for pattern in patterns)

    chosen, place = [case for case in cases() if wanted(case.name)], torch_device(device)
    if not chosen and not wanted(CLEAN):
        raise DippError("only", f"matches no case: {only} is not among {', '.join(case.name for case in cases())}")
    pixels, labels = run.load(data, images)
    usual = Protocol()
    batch = min(usual.batch, images // 2)
    protocol = replace(usual, epochs=epochs, evaluate_every=min(50, epochs), seeds=tuple(range(seeds)), batch=batch)
    words = [Path(word).name if Path(word).is_absolute() else word for word in sys.argv[1:]]
    facts = {
        "command": shlex.join(["python", "-m", "experiments.cifar10.units", *words]),
        "commit": os.environ.get("COMMIT") or run.commit(),
        "device": torch.cuda.get_device_name() if place.type == "cuda" else "CPU",
    }
    for name in STAGES if stage is None else (stage,):
        denoiser = models.load(model, place) if name == "release" else None
        job = Job(Store(output), pixels, labels, denoiser, chosen, wanted(CLEAN), protocol, place.type, facts)
        steps: dict[str, Callable[[], None]] = {"release": job.release, "train": job.train, "report": job.report}
        steps[name]()


app = typer.Typer(pretty_exceptions_enable=False, context_settings={"help_option_names": ["-h", "--help"]})
app.command()(experiment)

if __name__ == "__main__":
    run_app(app)
