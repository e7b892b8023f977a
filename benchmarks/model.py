"""Two denoisers side by side, today's and its predecessor: quality, time of a call, seams, engines.

    python benchmarks/model.py PICTURES.npz --old FOLDER --photograph FILE --checkout TREE
    python benchmarks/model.py PICTURES.npz --old FOLDER --device cuda --parts time quality

PICTURES.npz holds arrays (N, H, W, 3) of pictures that neither network was trained on, one for each source. FOLDER is
`src/dipp/models/embedded` at the git tag embedded-cifar10 (commit 25d6e09), FILE a photograph of 768×512, TREE the
repository at the commit e8001c4, the last before residuals were clipped.

**Quality.** PSNR of the expected picture on Gaussian states, by SNR; both see the same noise. The old network is asked
with the timestep of the nearest SNR, and sees pictures of more than 64×64 through overlapping windows.

**Time.** The median time of a call on 768×512 in fp32, of one network after the other, and the CPU time, which counts
no waiting for other work.

**Seams.** The photograph is encoded at ε = 1, and decoded as a whole and in tiles of 256 pixels instead of 1024. Stated
are the squared error near the borders of tiles over that elsewhere (1 means no seam), and how much the two differ.

**End to end.** The commands `dipp encode` and `dipp decode` of both trees on the photograph at ε = 4, each in a process
of its own with all that it loads.

**Chains, cells, boxes.** The uses of the networks (`model_tasks`).

**Engines.** The new network on the CPU: plain PyTorch, in bf16, compiled, ONNX Runtime, and Winograd's convolutions.
"""

from __future__ import annotations

import dipp  # isort: skip - before PyTorch, because it sets how threads wait

import argparse
import copy
import functools
import itertools
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from model_tasks import tasks
from provenance import provenance, write

from dipp import models
from dipp.codec import pictures
from dipp.codec.pictures import Pixels
from dipp.core.signal import to_signal
from dipp.models import embedded, photonet, tiles
from dipp.models.config import LARGEST_SNR
from dipp.models.denoiser import Denoiser
from dipp.models.evidence import Evidence
from dipp.training.validation import gaussian_psnr

SIZE = (512, 768)
TASKS = ["chains", "cells", "boxes"]
ROUNDS = {"new": 7, "old": 2}
SEAM_SIDE, SEAM_WIDTH = 256, 4
PARTS = ["end-to-end", "time", "engines", "seams", "quality", *TASKS]
"""Parts of the benchmark. Commands come first, because a process starts with the peak memory of its parent."""
PATIENCE = 900.0
"""Seconds after which a command is stopped and recorded with this time."""


def timed(call: Callable[[], Any], rounds: int, device: torch.device) -> dict[str, float]:
    """Return the median wall time and the mean CPU time of calls, after one that does not count."""
    wall = []
    call()
    cpu = time.process_time()
    for _ in range(rounds):
        began = time.perf_counter()
        call()
        if device.type == "cuda":
            torch.cuda.synchronize()
        wall.append(time.perf_counter() - began)
    spent = (time.process_time() - cpu) / rounds
    return {"seconds": round(statistics.median(wall), 4), "CPU seconds": round(spent, 4)}


def quality(denoisers: dict[str, Denoiser], sets: dict[str, Pixels]) -> dict[str, Any]:
    """Return the PSNR by source, SNR and network."""
    found: dict[str, Any] = {}
    for source, pixels in sets.items():
        for name, denoiser in denoisers.items():
            table = gaussian_psnr(denoiser, pixels)
            found.setdefault(source, {"pictures": len(pixels), "size": list(pixels.shape[1:3])})[name] = {
                f"{snr:g}": round(value, 2) for snr, value in table.items()
            }
        print(source, found[source], flush=True)
    return found


def seams(pixels: Pixels) -> dict[str, float]:
    """Return errors near the borders of tiles for a photograph at ε = 1, and differences to decoding it whole."""
    height, width = pixels.shape[:2]
    codec = dipp.Codec.from_pretrained(epsilon=1, preset="swift", size=(height, width))
    config = codec.denoiser.config  # type: ignore[attr-defined]
    near = np.zeros((height, width), bool)
    for place in itertools.chain.from_iterable(tiles.spans(height, config.stride, SEAM_SIDE)):
        near[max(0, place - SEAM_WIDTH) : place + SEAM_WIDTH] = 0 < place < height
    for place in itertools.chain.from_iterable(tiles.spans(width, config.stride, SEAM_SIDE)):
        near[:, max(0, place - SEAM_WIDTH) : place + SEAM_WIDTH] |= 0 < place < width
    archive = codec.encode([pixels], odometer=False)
    (whole,) = codec.decode(archive)
    photonet.TILE, photonet.WIDEST = SEAM_SIDE, 0  # in place of bands
    (tiled,) = codec.decode(archive)
    squares = [np.square(one.astype(np.float64) - pixels).mean(axis=2) for one in (tiled, whole)]
    in_tiles, in_whole = (square[near].mean() / square[~near].mean() for square in squares)
    return {
        "error within 4 pixels of borders over error elsewhere, in tiles": round(float(in_tiles), 4),
        "the same in tiles over that in the whole": round(float(in_tiles / in_whole), 4),
        "largest difference to the whole, in grey levels": int(np.abs(tiled.astype(int) - whole).max()),
        "share of values that differ": float((tiled != whole).mean()),
    }


def engines(denoiser: Denoiser, pixels: Pixels) -> dict[str, Any]:
    """Return the time of the new network in several CPU engines, and their largest error at SNR 1."""
    from dipp.models.photonet import PhotoDenoiser
    from dipp.models.runtime import Runtime
    from dipp.models.winograd_network import Winograd

    assert isinstance(denoiser, PhotoDenoiser)
    network, snr, config, weights = denoiser.network, torch.ones(1), denoiser.config, denoiser.weights
    x0 = torch.from_numpy(to_signal(pixels)).float().permute(2, 0, 1)[None]
    y = x0 + torch.randn(x0.shape, generator=torch.Generator().manual_seed(0))
    y = Evidence(y, 1.0).stacked(denoiser.planes, LARGEST_SNR).contiguous(memory_format=torch.channels_last)
    told = y.contiguous().numpy()

    def half() -> Any:
        with torch.autocast("cpu", torch.bfloat16):
            return network(y, snr)

    compiled, runtime, winograd = (
        torch.compile(network, dynamic=False),
        Runtime(config, weights),
        Winograd(config, weights),
    )
    ways: dict[str, Callable[[], Any]] = {
        "PyTorch, fp32": lambda: network(y, snr),
        "PyTorch, bf16": half,
        "torch.compile, fp32": lambda: compiled(y, snr),
        "ONNX Runtime, fp32": lambda: torch.from_numpy(runtime(told, 1.0)),
        "Winograd's convolutions, fp32": lambda: torch.from_numpy(winograd(told, 1.0)),
    }
    with torch.inference_mode():
        exact = copy.deepcopy(network).double()(y.double(), snr.double()).clamp(-1, 1)
        return {
            name: {
                **timed(way, 5, torch.device("cpu")),
                "largest error": float(f"{(way().clamp(-1, 1) - exact).abs().max():.2g}"),
            }
            for name, way in ways.items()
        }


def end_to_end(photograph: Path, trees: dict[str, Path]) -> dict[str, Any]:
    """Return time, CPU time and peak memory of the commands of each tree."""
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as place:
        for name, tree in trees.items():
            file, picture = Path(place) / f"{name}.dipp", Path(place) / f"{name}.png"
            home = {**os.environ, "PYTHONPATH": str(tree / "src"), "XDG_DATA_HOME": place}
            home.pop("PYTHONDONTWRITEBYTECODE", None)  # otherwise each command would compile its sources again
            for words in (
                ["encode", str(photograph), "-o", str(file), "--epsilon", "4"],
                ["decode", str(file), "-o", str(picture)],
            ):
                began = time.perf_counter()
                command = [sys.executable, "-c", "from dipp.cli import main; main()", *words]
                child = subprocess.Popen(command, env=home, stdout=subprocess.DEVNULL)  # noqa: S603
                stop = threading.Timer(PATIENCE, child.kill)
                stop.start()
                _, status, used = os.wait4(child.pid, 0)
                stop.cancel()
                child.returncode = status
                if status not in (0, signal.SIGKILL):
                    raise SystemExit(f"{tree}: dipp {words[0]} failed")
                found.setdefault(words[0], {})[name] = {
                    "seconds": round(time.perf_counter() - began, 1),
                    "CPU seconds": round(used.ru_utime + used.ru_stime, 1),
                    "peak GB": round(used.ru_maxrss / 1e6, 3),
                    **({"stopped": "it would have taken longer"} if status else {}),
                }
                print(words[0], name, found[words[0]][name], flush=True)
    for one in found.values():
        if "old" in one:
            one["times faster"] = round(one["old"]["seconds"] / one["new"]["seconds"], 2)
    return found


def main() -> None:
    """Measure both and write the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path, metavar="PICTURES.npz")
    parser.add_argument(
        "--new", type=Path, default=embedded.FOLDER, help="folder of the new denoiser; by default the one that ships"
    )
    parser.add_argument("--old", type=Path)
    parser.add_argument("--photograph", type=Path, help="photograph of 768×512, to encode and to look for seams")
    parser.add_argument("--checkout", type=Path, help="checkout of an older commit, to encode with")
    parser.add_argument("--count", type=int, default=12, help="number of pictures larger than 64×64 from each source")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--parts", nargs="*", default=PARTS)
    parser.add_argument("-o", "--output", type=Path, default=Path("benchmarks/results/model.json"))
    options = parser.parse_args()
    with np.load(options.data, allow_pickle=False) as stored:
        sets = {name: stored[name] for name in stored}
    sets = {name: one if one.shape[1] <= 64 else one[: options.count] for name, one in sets.items()}
    denoisers = {"new": models.load(options.new, options.device)}
    if options.old:
        denoisers["old"] = models.load(options.old, options.device)
    result: dict[str, Any] = {
        **provenance(options.device),
        "threads": torch.get_num_threads(),
        "identity": {name: denoiser.identity for name, denoiser in denoisers.items()},
    }
    y = torch.randn(1, 3, *SIZE, generator=torch.Generator().manual_seed(0))
    trees = {"new": Path(__file__).parent.parent, **({"old": options.checkout} if options.checkout else {})}
    parts: dict[str, tuple[str, Callable[[], Any]]] = {
        "time": (
            "a call on 768×512",
            lambda: {
                name: timed(functools.partial(one.predict, Evidence(y, 1.0)), ROUNDS[name], torch.device(one.device))
                for name, one in denoisers.items()
            },
        ),
        "engines": ("engines", lambda: engines(denoisers["new"], pictures.read(options.photograph))),
        "end-to-end": (
            "end to end, 768×512, ε = 4, default settings",
            lambda: end_to_end(options.photograph, trees),
        ),
        "seams": ("seams", lambda: seams(pictures.read(options.photograph))),
        "quality": ("PSNR on Gaussian states, by SNR", lambda: quality(denoisers, sets)),
        **{part: (part, functools.partial(tasks, part, denoisers, sets)) for part in TASKS},
    }
    for part in options.parts:
        name, measure = parts[part]
        result[name] = measure()
        print(name, result[name], flush=True)
        write(options.output, result)


if __name__ == "__main__":
    main()
