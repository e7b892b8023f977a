"""Photographs of 768×512 and 4000×3000 through the commands of two commits: time, memory, size of the file and PSNR.

    python benchmarks/large.py PHOTOGRAPH... --checkout TREE --epsilons 1 4

TREE is the repository at another commit; each photograph goes through `dipp encode` and `dipp decode` of both, with
default settings, each command in a process of its own with all that it loads. The commands of both take turns, so that
other work on the machine slows both. Compare the processor's time (user and system) on a shared machine; the time on
the clock stands beside it. `--names` can leave out a tree; rows of an earlier run stay in the output, each with the
time at which it was measured.

`--tasks` chooses among:

**Commands**: the comparison above; beside each time stands the load of the machine, as the mean of the last minute.

**Parts**: where an encoding spends its time, part by part of each step, in one process: dealing coordinates (`layout`),
the network (`predict`), the private draw (`choose`), what is observed (`noise`) and the next state (`advance`).

**Fewer**: PSNR of the square of 256×256 in the middle of each photograph, by the plans of fewer calls for a picture of
768×512, beside what the planner expects. A plan is coded `ROUNDS` times: each draw is random.

**Files**: bytes of each photograph's own file, of JPEG files of it at several qualities, and of the payload of the
default plan.

**Plans**: of the default preset, what a picture of each size takes: steps, bits per pixel, and network calls, counted
by their pixels over those of the picture; before, without levels and at one bit per pixel.
"""

from __future__ import annotations

import argparse
import dataclasses
import io
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from levels import middle
from PIL import Image
from provenance import provenance, write

from dipp import models
from dipp.codec.chain import Chain
from dipp.codec.codec import Codec
from dipp.codec.encoder import Selector
from dipp.core.arrays import colours_last
from dipp.core.geometry import Geometry
from dipp.models import embedded
from dipp.planning.presets import preset
from dipp.planning.sensing import SensingPlanner
from dipp.planning.table import ErrorTable
from dipp.privacy.budget import Budget

TASKS = ("plans", "commands", "parts", "fewer", "files")
CALLS = (19, 15, 11, 9, 7, 5)
ROUNDS = 2
SIDE = 256
QUALITIES = (75, 85, 90, 95)
SIZES = ((512, 768), (3000, 4000), (4000, 6000))
HERE = Path(__file__).parents[1]
MAIN = "from dipp.cli import main; main()"


def command(tree: Path, home: Path, *words: str) -> dict[str, float]:
    """Run a command of a tree, and return its seconds on the clock and of the processor, and its peak memory."""
    environment = {**os.environ, "PYTHONPATH": str(tree / "src"), "XDG_DATA_HOME": str(home)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # otherwise each command would compile its sources again
    began = time.perf_counter()
    child = subprocess.Popen([sys.executable, "-c", MAIN, *words], env=environment, stdout=subprocess.DEVNULL)  # noqa: S603
    _, child.returncode, used = os.wait4(child.pid, 0)
    if child.returncode:
        raise SystemExit(f"{tree}: dipp {words[0]} failed")
    return {
        "seconds": round(time.perf_counter() - began, 1),
        "CPU seconds": round(used.ru_utime + used.ru_stime, 1),
        "peak GB": round(used.ru_maxrss / 1e6, 2),
        "load": round(os.getloadavg()[0], 1),
    }


def psnr(first: Path, second: Path) -> float:
    """Return the PSNR of one picture against another, in dB."""
    one, other = (np.asarray(Image.open(path).convert("RGB"), np.float32) for path in (first, second))
    return round(float(10 * np.log10(255**2 / np.square(one - other).mean(dtype=np.float64))), 3)


def row(tree: Path, home: Path, photograph: Path, epsilon: float, more: list[str]) -> dict[str, Any]:
    """Return the figures of encoding and decoding a photograph by the commands of a tree."""
    file, picture = home / "file.dipp", home / "picture.png"
    budget = ["--epsilon", f"{epsilon:g}", *more]
    encoding = command(tree, home, "encode", str(photograph), "-o", str(file), "--overwrite", *budget)
    decoding = command(tree, home, "decode", str(file), "-o", str(picture), "--overwrite")
    with Image.open(photograph) as source:
        pixels = source.width * source.height
    return {
        "encode": encoding,
        "decode": decoding,
        "file bytes": file.stat().st_size,
        "bits per pixel": round(8 * file.stat().st_size / pixels, 3),
        "PSNR": psnr(photograph, picture),
        "measured": time.strftime("%H:%M"),
    }


def parts(photograph: Path, epsilon: float) -> dict[str, Any]:
    """Return the times of the parts of each step of an encoding, on the clock and of the processor, in milliseconds."""
    pixels = np.asarray(Image.open(photograph).convert("RGB"))
    height, width, _ = pixels.shape
    codec = Codec.from_pretrained(epsilon=epsilon, size=(height, width), device="cpu")
    chain = Chain.of_pictures(codec.plan, codec.denoiser, bytes(16), Geometry(height, width, 3))
    select, found = Selector(codec.plan, bytes(16), pixels.reshape(1, -1), "cpu"), dict[str, list[list[float]]]()

    def timed(name: str, call: Callable[..., Any], *given: Any) -> Any:
        began, used = time.perf_counter(), time.process_time()
        made = call(*given)
        spent = [time.perf_counter() - began, time.process_time() - used]
        found.setdefault(name, []).append([round(1000 * one) for one in spent])
        return made

    own, state = chain.trajectory, chain.trajectory.start(bytes(16), chain.geometry)
    for number in range(len(codec.plan.steps)):
        layout = timed("layout", chain.layout, number, [0])
        x_hat = timed("predict", own.predict, number, state)
        flat = colours_last(x_hat).reshape(1, -1)[:, layout.chunks.order]
        indices = timed("choose", select, layout, flat)
        noise = timed("noise", chain.noise, layout, indices)
        state = timed("advance", own.advance, number, state, x_hat, noise)
    totals = {name: [sum(one[i] for one in times) for i in (0, 1)] for name, times in found.items()}
    return {
        "levels": [step.level for step in codec.plan.steps],
        "total": totals,
        "steps": found,
        "load": os.getloadavg()[0],
    }


def fewer(photographs: list[Path], epsilon: float) -> list[dict[str, Any]]:
    """Return expected and measured PSNR of plans with fewer calls."""
    denoiser, table, budget = (
        models.load(embedded.FOLDER, "cpu"),
        ErrorTable.of_model(embedded.FOLDER),
        Budget.pure(epsilon),
    )
    planner = preset("sharp").planner(denoiser, table, budget, Geometry(512, 768, 3))
    assert isinstance(planner, SensingPlanner)
    assert table.residuals is not None
    rows: list[dict[str, Any]] = []
    for most in CALLS:
        options = dataclasses.replace(planner, calls=most).frontier(budget)
        point = max(
            (option for option in options if option.bpp <= planner.rate * 1.002), key=lambda option: option.psnr
        )
        codec, measured = Codec(denoiser, point.plan, table=table.residuals.digest), list[float]()
        for path in photographs:
            pixels = middle(path, SIDE)
            for _ in range(ROUNDS):
                (shown,) = codec.decode(codec.encode([pixels.copy()], odometer=False))
                error = np.square(shown.astype(np.float64) - pixels).mean()
                measured.append(float(10 * np.log10(255**2 / error)))
        mean, each = round(float(np.mean(measured)), 3), [round(one, 2) for one in measured]
        calls = len(point.plan.steps) - 1
        rows.append({"calls": calls, "expected": round(point.psnr, 2), "measured": mean, "each": each})
        print(epsilon, rows[-1], flush=True)
    return rows


def files(photographs: list[Path], epsilons: list[float]) -> dict[str, Any]:
    """Return the bytes of photographs as they are, as JPEG files and as payloads of default plans, and a summary."""
    denoiser, table = models.load(embedded.FOLDER, "cpu"), ErrorTable.of_model(embedded.FOLDER)
    rows: dict[str, Any] = {}
    for path in photographs:
        with Image.open(path) as source:
            picture = source.convert("RGB")
        sizes = {"own": path.stat().st_size}
        for quality in QUALITIES:
            picture.save(stored := io.BytesIO(), "JPEG", quality=quality)
            sizes[f"JPEG, quality {quality}"] = stored.tell()
        geometry = Geometry(picture.height, picture.width, 3)
        for epsilon in epsilons:
            budget = Budget.pure(epsilon)
            sizes[f"ε = {epsilon:g}"] = round(
                preset("sharp").planner(denoiser, table, budget, geometry).choose(budget).bits / 8
            )
        rows[path.name] = {"size": f"{picture.width}×{picture.height}"} | sizes
    largest = [max(row[f"ε = {epsilon:g}"] for epsilon in epsilons) for row in rows.values()]
    names = ["own", *(f"JPEG, quality {quality}" for quality in QUALITIES)]
    larger = {
        name: sum(row[name] > payload for row, payload in zip(rows.values(), largest, strict=True)) for name in names
    }
    return {"photographs": rows, "files larger than the payload": larger, "of": len(rows)}


def commit(tree: Path) -> str:
    """Return the commit of a tree."""
    words = ["git", "-C", str(tree), "describe", "--always", "--dirty", "--exclude=*"]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()  # noqa: S603


def plans() -> dict[str, Any]:
    """Return the plans of several sizes by the present rules and by the former ones."""
    found: dict[str, Any] = {}
    denoiser, table = models.load(embedded.FOLDER, "cpu"), ErrorTable.of_model(embedded.FOLDER)
    for (height, width), epsilon in itertools.product(SIZES, (1.0, 4.0)):
        budget = Budget.pure(epsilon)
        planner = preset("sharp").planner(denoiser, table, budget, Geometry(height, width, 3))
        assert isinstance(planner, SensingPlanner)
        every = dataclasses.replace(planner, coarse=False).frontier(budget)
        before = max((point for point in every if point.bpp <= 1.002), key=lambda point: point.psnr)
        found[f"{width}×{height}, ε = {epsilon:g}"] = {
            name: {
                "steps": len(point.plan.steps),
                "bits per pixel": round(point.bpp, 3),
                "calls": round(point.plan.work, 2),
                "expected PSNR": round(point.psnr, 2),
            }
            for name, point in (("before", before), ("after", planner.choose(budget)))
        }
    return found


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("photographs", nargs="+", type=Path)
    parser.add_argument("--tasks", nargs="*", default=["plans", "commands"], choices=TASKS)
    parser.add_argument("--checkout", type=Path, help="checkout of the commit to compare with")
    parser.add_argument("--epsilons", nargs="*", type=float, default=[1, 4])
    parser.add_argument("--names", nargs="*", default=["before", "after"], choices=["before", "after"])
    parser.add_argument("--bpp", nargs="*", type=float, default=[], help="rates to try beside the default")
    parser.add_argument("-o", "--output", type=Path, default=HERE / "benchmarks/results/large.json")
    options = parser.parse_args()
    trees = {"before": options.checkout, "after": HERE} if options.checkout else {"after": HERE}
    stored = json.loads(options.output.read_text()) if options.output.exists() else {}
    found = stored.setdefault("rows", {})
    commits = {name: commit(tree) for name, tree in trees.items()}

    def keep() -> None:
        write(options.output, stored | provenance() | {"cores": os.cpu_count()})

    if "plans" in options.tasks:
        stored["plans"] = plans()
    if "files" in options.tasks:
        stored["files"] = files(options.photographs, options.epsilons)
    for epsilon in options.epsilons:
        if "parts" in options.tasks:
            stored.setdefault("parts", {}).update(
                {f"{path.stem}, ε = {epsilon:g}": parts(path, epsilon) for path in options.photographs}
            )
        if "fewer" in options.tasks:
            stored.setdefault("fewer", {})[f"ε = {epsilon:g}"] = fewer(options.photographs, epsilon)
        keep()
    if "commands" not in options.tasks:
        return
    with tempfile.TemporaryDirectory() as place:
        for photograph in options.photographs:
            with Image.open(photograph) as source:
                size = f"{photograph.stem}, {source.width}×{source.height}"
            for epsilon in options.epsilons:
                for rate in (None, *options.bpp):
                    for name in (name for name in trees if name in options.names):
                        key = f"{size}, ε = {epsilon:g}" + (f", --bpp {rate:g}" if rate else "")
                        more = ["--bpp", f"{rate:g}"] if rate else []
                        made = row(trees[name], Path(place), photograph, epsilon, more)
                        found.setdefault(key, {})[name] = made | {"commit": commits[name]}
                        print(key, name, found[key][name], flush=True)
                        keep()


if __name__ == "__main__":
    main()
