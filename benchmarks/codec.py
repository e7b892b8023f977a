"""Speed of the codec: images a second, split into network, scoring and rest, beside the same stages written naively.

    python benchmarks/codec.py MODEL IMAGES.npz TABLE.json --device cuda --out benchmarks/results/codec-cuda.json

IMAGES.npz holds a uint8 array `encode` (N, 32, 32, 3). The rate is that of a run without clocks inside; the split comes
from a second run that waits for the device at the bounds of each stage. "Naive" is what one writes first: diffusers'
network on one image at a time, candidates as a matrix of floats for one chunk at a time, Gumbel noise in floats. It
does the same work (as many steps, chunks and candidates) in the same run, on fewer images, and has no certificate.
The bias is the PSNR of the channel sampled without a code minus that of the coded images, along the same plan.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from diffusers import UNet2DModel
from provenance import provenance
from quality import coded, exact, psnr

from dipp.core import randomness
from dipp import scoring
from dipp.planning.table import ErrorTable
from dipp.codec.chain import Chain
from dipp.codec.codec import Codec, planner
from dipp.models.denoiser import Denoiser
from dipp.privacy.budget import Budget

EPSILON = 16.0
PRESETS = ("sharp", "swift")
COUNTS = {"cpu": 8, "cuda": 1024}
NAIVE_COUNTS = {"cpu": 1, "cuda": 4}
BIAS_COUNT = 256
RUNS = {"cpu": 1, "cuda": 3}


def synchronise(device: torch.device) -> None:
    """Wait for the device."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


@contextmanager
def clocks(device: torch.device) -> Iterator[dict[str, float]]:
    """Seconds spent in the network and in scoring (candidates, selection, winners), while inside."""
    spent: dict[str, float] = defaultdict(float)

    def timed(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            synchronise(device)
            start = time.perf_counter()
            result = function(*arguments, **named)
            synchronise(device)
            spent[name] += time.perf_counter() - start
            return result

        return call

    on: Any = scoring.backend(device.type)
    places = [(Denoiser, "x0", "network"), (scoring, "select", "scoring"), (on, "winners", "scoring")]
    before = [getattr(place, name) for place, name, _ in places]
    for (place, name, stage), function in zip(places, before, strict=True):
        setattr(place, name, timed(stage, function))
    try:
        yield spent
    finally:
        for (place, name, _), function in zip(places, before, strict=True):
            setattr(place, name, function)


def rates(codec: Codec, images: list[Any]) -> dict[str, Any]:
    """Images a second of encoding and decoding, and the split of encoding."""
    device = codec.denoiser.device
    archive = codec.encode(images)  # compiles, captures, warms up
    codec.decode(archive)

    def fastest(work: Callable[[], Any]) -> float:
        times = []
        for _ in range(RUNS[device.type]):
            start = time.perf_counter()
            work()
            synchronise(device)
            times.append(time.perf_counter() - start)
        return min(times)

    seconds = fastest(lambda: codec.encode(images))
    row: dict[str, Any] = {
        "images": len(images),
        "images_per_second": len(images) / seconds,
        "seconds_per_image": seconds / len(images),
    }
    row["decode_noisy_per_second"] = len(images) / fastest(lambda: codec.decode(archive, denoise=False))
    row["decode_denoised_per_second"] = len(images) / fastest(lambda: codec.decode(archive))
    with clocks(device) as spent:
        start = time.perf_counter()
        codec.encode(images)
        synchronise(device)
        total = time.perf_counter() - start
    row["split"] = {stage: value / total for stage, value in spent.items()}
    row["split"]["rest"] = 1 - sum(spent.values()) / total
    row["payload_bpp"] = archive.payload_bpp
    return row


def naive(codec: Codec, network: Any, pixels: np.ndarray[Any, Any]) -> dict[str, Any]:
    """Seconds an image of the plain program."""
    device, plan, schedule = codec.denoiser.device, codec.plan, codec.denoiser.schedule
    spent: dict[str, float] = defaultdict(float)
    seed = randomness.fresh_seed()
    chain = Chain(plan, codec.denoiser, seed, pixels.shape[1:])
    layouts = [chain.layout(number, [0]) for number in range(len(plan.steps))]
    begin = time.perf_counter()
    for image in range(-1, len(pixels)):  # the first is for warming up
        if image == 0:
            spent, begin = defaultdict(float), time.perf_counter()
        x0 = torch.from_numpy(pixels[image] / 127.5 - 1).float().to(device)
        x_t = torch.randn(1, 3, *pixels.shape[1:3], device=device)
        for layout in layouts:
            step, channel = layout.step, plan.coding.channel
            synchronise(device)
            start = time.perf_counter()
            with torch.inference_mode():
                output = network(x_t, torch.tensor([step.start], device=device), return_dict=False)[0]
            x_hat = schedule.x0(output, x_t, step.start)
            synchronise(device)
            spent["network"] += time.perf_counter() - start
            error = (x0 - x_hat[0].permute(1, 2, 0)).reshape(-1) * math.sqrt(step.snr_gain) * channel.slope
            noise = torch.zeros(x0.numel(), device=device)
            for chunk in range(layout.chunks.count):
                start = time.perf_counter()
                part = torch.tensor(layout.chunks.part(chunk), device=device)
                candidates = torch.randint(0, 2, (1 << step.index_bits, len(part)), device=device).float() * 2 - 1
                gumbel = -torch.empty(len(candidates), device=device).exponential_().log()
                best = int((candidates @ error[part] + gumbel).argmax())
                noise[part] = candidates[best] * channel.slope
                synchronise(device)
                spent["scoring"] += time.perf_counter() - start
            noise = noise.reshape(*pixels.shape[1:]).permute(2, 0, 1)[None]
            x_t = schedule.step(step.start, step.end).next_state(x_t, x_hat, noise)
    seconds = (time.perf_counter() - begin) / len(pixels)
    split = {stage: value / len(pixels) / seconds for stage, value in spent.items()}
    return {"images": len(pixels), "seconds_per_image": seconds, "split": split | {"rest": 1 - sum(split.values())}}


def main() -> None:
    """Measure every preset."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("images", type=Path)
    parser.add_argument("table", type=Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--bias", action="store_true", help="also measure the code's bias, on 256 images")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    denoiser = models.load(arguments.model, arguments.device)
    make: Any = UNet2DModel
    network = make.from_pretrained(arguments.model, subfolder="unet").eval().to(denoiser.device)
    pixels = np.load(arguments.images)["encode"]
    table, budget = ErrorTable.load(arguments.table), Budget.pure(EPSILON)
    source, rows = provenance(arguments.device), []
    for name in PRESETS:
        plan = planner(denoiser, table, name, budget).choose(budget).plan
        codec = Codec(denoiser, plan, budget)
        row: dict[str, Any] = {"preset": name, "epsilon": EPSILON, "steps": len(plan.steps)}
        row["index_bits"] = [step.index_bits for step in plan.steps]
        row |= rates(codec, list(pixels[: COUNTS[arguments.device]]))
        row["naive"] = naive(codec, network, pixels[: NAIVE_COUNTS[arguments.device]])
        row["times_faster"] = row["naive"]["seconds_per_image"] / row["seconds_per_image"]
        if arguments.bias:
            images = pixels[:BIAS_COUNT]
            found = psnr(coded(plan, denoiser, images, randomness.fresh_seed())[0], images)[0]
            row |= {"psnr": found, "bias": exact(plan, denoiser, images)[0] - found}
        rows.append(row)
        print(json.dumps(row), flush=True)
        facts = {**source, "threads": torch.get_num_threads(), "rows": rows}
        arguments.out.write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    main()
