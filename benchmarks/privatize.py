"""Whole datasets: the overhead of each engine over the bare codec, and memory by the number of pictures.

    python benchmarks/privatize.py cpu --cifar CIFAR_FOLDER --out benchmarks/results/datasets-cpu.json
    python benchmarks/privatize.py cuda --cifar CIFAR_FOLDER --model MODEL --calibration TABLE \
        --out benchmarks/results/datasets-cuda.json
    python benchmarks/privatize.py plot --out benchmarks/results/datasets.png

`cpu` encodes the first 5,000 training images of CIFAR-10 (by default, repeated tiles of the sample pictures) in nine
steps of a small untrained network; they are stored as PNGs in a Parquet file. "bare" is the codec alone, with one
process and one thread per worker and its share of the images in memory. Each run is a process of its own. The overhead
of an engine is the time that a user waits longer for the same images on the same number of workers: on the wall clock,
from a loaded codec to the last byte, so that reading, writing and the start of pools and clusters count. The start
alone is measured with one image per worker. Beside it stand the CPU seconds of all processes, Ray's daemons included,
which vary less on a shared machine. `--quick` takes a hundred images, and leaves out Ray and the memory of 20,000.

`cuda` privatises the 10,000 test images with a real model, beside the bare codec in the same process.
"""

from __future__ import annotations

import argparse
import ctypes
import io
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import checkout  # noqa: F401 - for `experiments`
import numpy as np
from provenance import provenance, write

RESULTS = Path(__file__).parent / "results"
IMAGES = 5000
MEMORY_IMAGES = (1000, 20_000)
QUICK_IMAGES = 100
WORKERS = (1, 2)
ENGINES = ("bare", "local", "ray")
SHARD_SIZE = 250
STEPS = 9
"""Number of steps: about 45 ms per image on one core. The codec that ships takes several times as long."""
SUBREAPER = 36
SAMPLE = 0.2
"""Seconds between two readings of the CPU seconds of all processes."""
SMALL, SMALLER = (32, 64), (8, 16)
"""Widths of the networks: one for rates, and one for memory, where most images are needed."""


def make_model(folder: Path, widths: tuple[int, ...]) -> None:
    """Write an untrained network for 32×32 pictures in diffusers' format; speed does not depend on its quality."""
    import torch
    from diffusers import DDPMScheduler, UNet2DModel

    torch.manual_seed(0)
    network: Any = UNet2DModel
    network(
        sample_size=32,
        block_out_channels=widths,
        down_block_types=("DownBlock2D",) * len(widths),
        up_block_types=("UpBlock2D",) * len(widths),
        layers_per_block=1,
        norm_num_groups=4,
    ).save_pretrained(folder / "unet", safe_serialization=True)
    scheduler: Any = DDPMScheduler
    scheduler().save_pretrained(folder / "scheduler")


def make_codec(model: str, count: int) -> Any:
    """Return a codec with a few steps of `sharp`'s former coding: 2^12 candidates for chunks of 128 coordinates."""
    from dipp import models
    from dipp.codec import Codec
    from dipp.core.plan import Plan
    from dipp.core.steps import Step
    from experiments.comparisons.unclipped import SHARP

    denoiser, steps = models.load(model), []
    for start, end in itertools.islice(itertools.pairwise((999, *range(900, 0, -100))), count):
        gain = float(np.float32(denoiser.schedule.step(start, end).snr_gain))
        steps.append(Step(start, end, gain, 128, 12))
    return Codec(denoiser, Plan(SHARP, tuple(steps)))


def make_source(images: Path, path: Path, count: int) -> None:
    """Write images as PNGs in a Parquet file, repeated if there are too few."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from inputs import pictures, repeated  # imported here, so that spawned workers do not load it
    from PIL import Image

    files, labels = [], []
    for number, picture in enumerate(repeated(pictures(images, count), count)):
        stream = io.BytesIO()
        Image.fromarray(picture).save(stream, "PNG")
        files.append(stream.getvalue())
        labels.append(number % 10)
    pq.write_table(pa.table({"image": files, "label": labels}), path, row_group_size=256)


def one(engine: str, workers: int, part: int, model: str, source: str, steps: int, shard_size: int) -> dict[str, float]:
    """Return the seconds of one run in this process, from a loaded codec to the last byte."""
    from dipp.data import engines
    from dipp.data.choices import Choices
    from dipp.data.privatize import privatize
    from dipp.data.sources import Columns, open_source

    codec = make_codec(model, steps)
    with tempfile.TemporaryDirectory() as folder:
        if engine == "bare":
            from dipp.codec.pictures import read

            found = open_source(source, Columns(), Path(folder))
            share = range(len(found) * part // workers, len(found) * (part + 1) // workers)
            records = found.read(share.start, share.stop)
            images = [read(record.content) for record in records]  # type: ignore[arg-type]
            started = time.perf_counter()
            archive = codec.encode(images, odometer=False)
            return {"seconds": time.perf_counter() - started, "images": len(archive)}
        runner: engines.Engine = engines.LocalEngine(workers) if engine == "local" else engines.RayEngine(workers)
        started = time.perf_counter()
        summary = privatize(source, Path(folder) / "out", codec, model, runner, Choices(shard_size=shard_size))
        return {"seconds": time.perf_counter() - started, "images": summary.facts["images"]}


def measure(engine: str, workers: int, model: Path, source: Path, shard_size: int = SHARD_SIZE) -> dict[str, Any]:
    """Return the wall clock of a run in a new process, and the CPU seconds of it and all its descendants."""
    # For several workers, the codec alone runs in as many processes, each with its share of the pictures.
    before = processor_seconds()  # daemons of Ray that an earlier run has left
    parts = range(workers if engine == "bare" else 1)
    runs = [launch(engine, workers, part, model, source, shard_size=shard_size) for part in parts]
    used: dict[tuple[int, int], float] = {}
    while any(run.poll() is None for run in runs):
        used.update(processor_seconds())
        time.sleep(SAMPLE)
    outputs = [json.loads(run.communicate()[0].splitlines()[-1]) for run in runs]
    assert all(run.returncode == 0 for run in runs)
    seconds, images = max(o["seconds"] for o in outputs), sum(o["images"] for o in outputs)
    cpu = sum(seconds - before.get(process, 0.0) for process, seconds in used.items())
    found = {"engine": engine, "workers": workers, "images": images, "seconds": seconds, "cpu_seconds": cpu}
    return {**found, "images_per_second": images / seconds, "load": os.getloadavg()[0]}


def processor_seconds() -> dict[tuple[int, int], float]:
    """Return the CPU seconds of every living descendant of this process, by process number and start.

    They are sampled while processes live: the times of a process whose parent does not wait for it, such as Ray's, are
    lost at its end. Orphans become children of this process, which is their subreaper.
    """
    parents, found = {}, {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        pid = int(path.parent.name)
        parents[pid] = int(fields[1])
        found[pid] = (int(fields[19]), (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"))

    def ours(pid: int) -> bool:
        while pid in parents:
            pid = parents[pid]
            if pid == os.getpid():
                return True
        return False

    return {(pid, started): seconds for pid, (started, seconds) in found.items() if ours(pid)}


def launch(
    engine: str,
    workers: int,
    part: int,
    model: Path,
    source: Path,
    steps: int = STEPS,
    shard_size: int = SHARD_SIZE,
) -> subprocess.Popen[bytes]:
    """Run `one` with one thread for each worker."""
    command = [sys.executable, __file__, "one", "--model", str(model), "--source", str(source), "--engine", engine]
    command += ["--workers", str(workers), "--part", str(part), "--steps", str(steps), "--shard-size", str(shard_size)]
    environment = {**os.environ, "NUMBA_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE)  # noqa: S603


def cpu(images: Path, rounds: int, count: int, quick: bool) -> dict[str, Any]:
    """Measure rates, overheads and memory on this machine."""
    ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_model(folder / "small", SMALL)
        make_model(folder / "smaller", SMALLER)
        memory = []
        for number in (QUICK_IMAGES,) if quick else MEMORY_IMAGES:
            make_source(images, folder / f"{number}.parquet", number)
            memory.append(peak(folder / "smaller", folder / f"{number}.parquet", number))
            print(json.dumps(memory[-1]), file=sys.stderr, flush=True)
        make_source(images, folder / "rates.parquet", count)
        runs, starts = [], []
        for workers in WORKERS:
            make_source(images, folder / f"start-{workers}.parquet", workers)
        for number in range(rounds):
            for workers in WORKERS:
                for engine in ENGINES[:2] if quick else ENGINES:
                    run = measure(engine, workers, folder / "small", folder / f"start-{workers}.parquet", 1)
                    starts.append({"round": number, **run})
                    run = measure(engine, workers, folder / "small", folder / "rates.parquet")
                    runs.append({"round": number, **run})
                    print(json.dumps(runs[-1]), file=sys.stderr, flush=True)
    return {
        "images": count,
        "runs": runs,
        "starts": starts,
        "overheads": overheads(runs, starts),
        "memory": memory,
    }


def best(runs: list[dict[str, Any]], engine: str, workers: int, key: str) -> float:
    """Return the smallest value of all rounds, since other work on the machine only adds time."""
    return float(min(run[key] for run in runs if (run["engine"], run["workers"]) == (engine, workers)))


def overheads(runs: list[dict[str, Any]], starts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what each engine adds to the bare codec: wall clock, start, and CPU seconds with and without start.

    Wall clocks are compared within a round, since the speed of a machine drifts, and the ratios averaged.
    """
    found = []
    for engine in sorted({run["engine"] for run in runs} - {"bare"}):
        for workers in WORKERS:
            clocks = {(run["engine"], run["round"]): run["seconds"] for run in runs if run["workers"] == workers}
            ratios = [clocks[engine, number] / clocks["bare", number] for name, number in clocks if name == engine]
            start = best(starts, engine, workers, "seconds") - best(starts, "bare", workers, "seconds")
            spent, used = (best(runs, name, workers, "cpu_seconds") for name in ("bare", engine))
            before, first = (best(starts, name, workers, "cpu_seconds") for name in ("bare", engine))
            found.append(
                {
                    "engine": engine,
                    "workers": workers,
                    "wall": sum(ratios) / len(ratios) - 1,
                    "wall_by_round": [ratio - 1 for ratio in ratios],
                    "start_seconds": start,
                    "cpu": used / spent - 1,
                    "cpu_without_start": (used - first) / (spent - before) - 1,
                }
            )
    return found


def peak(model: Path, source: Path, images: int) -> dict[str, Any]:
    """Return the peak resident memory of a run in one process."""
    output, _ = launch("local", 1, 0, model, source, steps=1).communicate()
    return {"images": images, "peak_mib": json.loads(output.splitlines()[-1])["peak_mib"]}


def peak_mib() -> float:
    """Return the peak memory of this process; getrusage counts the parent's memory at the fork for a child."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def cuda(cifar: Path, model: str, calibration: Path | None, epsilon: float, rounds: int, device: str) -> dict[str, Any]:
    """Measure a release of the test images to disk, and the codec alone, in turn, in one process."""
    from dipp.codec import Codec
    from dipp.data.choices import Choices
    from dipp.data.engines import LocalEngine
    from dipp.data.privatize import privatize
    from dipp.data.sources import Columns, open_source

    codec = Codec.from_pretrained(model, epsilon=epsilon, device=device, calibration=calibration)
    source = open_source(str(cifar), Columns(split="test"), cifar)
    images = [record.content for record in source.read(0, len(source))]
    codec.encode(images[:1024], odometer=False)  # graphs are captured, kernels compiled
    runs = []
    for _ in range(rounds):
        started = time.perf_counter()
        archive = codec.encode(images, odometer=False)
        bare = len(archive) / (time.perf_counter() - started)
        with tempfile.TemporaryDirectory() as folder:
            started = time.perf_counter()
            choices = Choices(columns=Columns(split="test"))
            summary = privatize(str(cifar), Path(folder) / "out", codec, model, LocalEngine(1), choices)
            written = summary.facts["images"] / (time.perf_counter() - started)
        runs.append({"bare_images_per_second": bare, "written_images_per_second": written, "share": written / bare})
        print(json.dumps(runs[-1]), file=sys.stderr, flush=True)
    share = max(run["written_images_per_second"] for run in runs) / max(run["bare_images_per_second"] for run in runs)
    facts = {key: summary.facts[key] for key in ("images", "payload_bpp", "file_bpp")}
    return {"epsilon": epsilon, **facts, "runs": runs, "share": share}


def plot(output: Path) -> None:
    """Draw rates, CPU seconds and memory."""
    from matplotlib.figure import Figure

    facts = json.loads((RESULTS / "datasets-cpu.json").read_text())
    figure = Figure(figsize=(12, 3.8), layout="constrained")
    rates, costs, memory = figure.subplots(1, 3)
    for place, (engine, colour) in enumerate(zip(ENGINES, ("#969696", "#08519c", "#d94801"), strict=True)):
        for at, workers in enumerate(WORKERS):
            x, label = at + 0.28 * (place - 1), engine if not at else None
            seconds, used = (best(facts["runs"], engine, workers, key) for key in ("seconds", "cpu_seconds"))
            rates.bar(x, facts["images"] / seconds, 0.25, color=colour, label=label)
            costs.bar(x, 1000 * used / facts["images"], 0.25, color=colour, label=label)
            start = best(facts["starts"], engine, workers, "cpu_seconds")
            label = "its start" if not at and not place else None
            costs.bar(x, 1000 * start / facts["images"], 0.25, color="white", alpha=0.4, hatch="//", label=label)
    for axes, title in ((rates, "images/s, wall clock"), (costs, "CPU ms an image, all processes")):
        axes.set_xticks(range(len(WORKERS)), labels=[f"{w} worker{'s' * (w > 1)}" for w in WORKERS])
        axes.set_ylabel(title)
        axes.margins(y=0.3)
        axes.legend(frameon=False, fontsize=8, ncols=4)
    memory.plot([m["images"] for m in facts["memory"]], [m["peak_mib"] for m in facts["memory"]], "o-", color="#08519c")
    most = max(m["peak_mib"] for m in facts["memory"])
    memory.set(xlabel="images", ylabel="peak memory, MiB", xscale="log", ylim=(0, 1.3 * most))
    for axes in (rates, costs, memory):
        axes.grid(alpha=0.3)
    figure.savefig(output, dpi=130)


def main() -> None:
    """Run one of the modes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=("cpu", "cuda", "plot", "one"))
    parser.add_argument(
        "--cifar",
        type=Path,
        help="pictures for the mode `cpu`, any source of `dipp train`; by default the sample pictures",
    )
    parser.add_argument("--quick", action="store_true", help="a quick run of the mode `cpu`: few images, and no Ray")
    parser.add_argument("--model", default="")
    parser.add_argument("--calibration", type=Path)
    parser.add_argument("--epsilon", type=float, default=16.0)
    parser.add_argument("--device", default="cuda", help="device of the mode `cuda`; cpu only tries it out")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--images", type=int, default=IMAGES)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--engine", default="bare")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--part", type=int, default=0)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--shard-size", type=int, default=SHARD_SIZE)
    parser.add_argument("--source", default="")
    chosen = parser.parse_args()
    if chosen.out is not None:
        chosen.out.parent.mkdir(parents=True, exist_ok=True)  # fails now, and not after all the work
    if chosen.mode == "one":
        where = (chosen.model, chosen.source, chosen.steps, chosen.shard_size)
        run = one(chosen.engine, chosen.workers, chosen.part, *where)
        print(json.dumps({**run, "peak_mib": peak_mib()}))
    elif chosen.mode == "plot":
        plot(chosen.out)
    else:
        if chosen.mode == "cpu":
            from inputs import SAMPLES

            count = QUICK_IMAGES if chosen.quick else chosen.images
            result = cpu(chosen.cifar or SAMPLES, chosen.rounds, count, chosen.quick)
        else:
            result = cuda(chosen.cifar, chosen.model, chosen.calibration, chosen.epsilon, chosen.rounds, chosen.device)
        facts = provenance(chosen.device if chosen.mode == "cuda" else "cpu")
        write(chosen.out, {**facts, **result})


if __name__ == "__main__":
    main()
