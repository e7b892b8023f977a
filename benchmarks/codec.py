"""Speed of the codec in images per second, divided into network, scoring and rest, beside naive programs.

    python benchmarks/codec.py MODEL IMAGES.npz TABLE.json --device cuda --out benchmarks/results/codec-cuda.json

IMAGES.npz holds a uint8 array `encode` (N, 32, 32, 3); by default, the denoiser that ships with dipp and tiles of
the sample pictures. `--methods` and `--epsilons` choose presets and ε per pixel, by default all at ε = 16.
`--quick` takes two images, and leaves out the naive program. The rate is of a run
without clocks inside; the division is of a second run that waits for the device at the ends of each stage. The "naive"
program is a first draft: diffusers' network on one image at a time, candidates as a matrix of floats for one chunk at a
time, Gumbel noise in floats. It does the same work (as many steps, chunks and candidates) in the same run, on fewer
images, and has no certificate. The bias is the PSNR of the channel sampled without a code minus that of the coded
images, along the same plan. Both exist only for steps along timesteps, which is how presets were without a clip.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import checkout  # noqa: F401 - for `experiments`
import torch
from inputs import Inputs, repeated
from provenance import provenance, write
from quality import coded, exact, psnr

from dipp import scoring
from dipp.codec import Codec
from dipp.codec.chain import Chain
from dipp.codec.decoding import Decoding
from dipp.codec.pictures import Pixels
from dipp.codes import Pairs
from dipp.core import randomness
from dipp.core.geometry import Geometry
from dipp.core.signal import to_signal
from dipp.core.steps import SensingStep
from dipp.models.denoiser import Denoiser, Device
from dipp.planning.presets import PRESETS, Preset
from dipp.privacy.budget import Budget
from experiments.comparisons.unclipped import UNCLIPPED

EPSILON = 16.0
METHODS: dict[str, Preset] = {
    "sharp": PRESETS["sharp"],
    "swift": PRESETS["swift"],
    "unclipped sharp": UNCLIPPED["sharp"],
    "unclipped swift": UNCLIPPED["swift"],
}
COUNTS = {"cpu": 8, "cuda": 1024}
NAIVE_COUNTS = {"cpu": 1, "cuda": 4}
QUICK_COUNT = 2
BIAS_COUNT = 256
RUNS = {"cpu": 1, "cuda": 3}


def synchronise(device: torch.device | Device) -> None:
    """Wait until the device has finished."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


@contextmanager
def clocks(denoiser: Denoiser) -> Iterator[dict[str, float]]:
    """Measure the seconds spent in the network and in scoring, within this context."""
    device, spent = denoiser.device, defaultdict[str, float](float)

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
    places = [(type(denoiser), "x0", "network"), (scoring, "select", "scoring"), (on, "winners", "scoring")]
    places.append((Pairs, "draw", "scoring"))  # pairs search nothing
    before = [getattr(place, name) for place, name, _ in places]
    for (place, name, stage), function in zip(places, before, strict=True):
        setattr(place, name, timed(stage, function))
    try:
        yield spent
    finally:
        for (place, name, _), function in zip(places, before, strict=True):
            setattr(place, name, function)


def rates(codec: Codec, images: list[Pixels]) -> dict[str, Any]:
    """Return images per second of encoding and decoding, and the parts of the time of encoding."""
    device = torch.device(codec.denoiser.device)
    archive = codec.encode(images, odometer=False)  # compiles, captures, warms up
    codec.decode(archive)

    def fastest(work: Callable[[], Any]) -> float:
        times = []
        for _ in range(RUNS[device.type]):
            start = time.perf_counter()
            work()
            synchronise(device)
            times.append(time.perf_counter() - start)
        return min(times)

    seconds = fastest(lambda: codec.encode(images, odometer=False))
    row: dict[str, Any] = {
        "images": len(images),
        "images_per_second": len(images) / seconds,
        "seconds_per_image": seconds / len(images),
    }
    row["decode_noisy_per_second"] = len(images) / fastest(lambda: codec.decode(archive, Decoding(noisy=True)))
    row["decode_denoised_per_second"] = len(images) / fastest(lambda: codec.decode(archive))
    with clocks(codec.denoiser) as spent:
        start = time.perf_counter()
        codec.encode(images, odometer=False)
        synchronise(device)
        total = time.perf_counter() - start
    row["split"] = {stage: value / total for stage, value in spent.items()}
    row["split"]["rest"] = 1 - sum(spent.values()) / total
    row["payload_bpp"] = archive.payload_bpp
    return row


@functools.cache
def network(folder: str) -> Any:
    """Return the network as diffusers loads it."""
    from diffusers import UNet2DModel

    make: Any = UNet2DModel
    return make.from_pretrained(folder, subfolder="unet").eval()


def naive(codec: Codec, network: Any, pixels: Pixels) -> dict[str, Any]:
    """Return seconds per image of the naive program."""
    device, plan, schedule = codec.denoiser.device, codec.plan, codec.denoiser.schedule
    spent: dict[str, float] = defaultdict(float)
    seed = randomness.fresh_seed()
    chain = Chain(plan, codec.denoiser, seed, Geometry.of(pixels.shape[1:]))
    layouts = [chain.layout(number, [0]) for number in range(len(plan.steps))]
    begin = time.perf_counter()
    for image in range(-1, len(pixels)):  # the first call only warms up
        if image == 0:
            spent, begin = defaultdict(float), time.perf_counter()
        x0 = torch.from_numpy(to_signal(pixels[image])).float().to(device)
        x_t = torch.randn(1, 3, *pixels.shape[1:3], device=device)
        for layout in layouts:
            step, channel = plan.steps[layout.number], plan.channel
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
    """Measure every preset, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    Inputs.add_to(parser)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--epsilons", nargs="+", type=float, default=[EPSILON])
    parser.add_argument("--quick", action="store_true", help="a quick run: two images, without the naive program")
    parser.add_argument("--bias", action="store_true", help="also measure the code's bias, on 256 images")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    inputs, device = Inputs.of(arguments), arguments.device
    denoiser, table = inputs.denoiser(device), inputs.costs()
    pixels = inputs.pixels(max(COUNTS[device], BIAS_COUNT))
    source, rows = provenance(arguments.device), []
    for name, epsilon in itertools.product(arguments.methods, arguments.epsilons):
        preset, budget = METHODS[name], Budget.pure(epsilon)
        plan = preset.planner(denoiser, table, budget).choose(budget).plan
        codec = Codec(denoiser, plan, budget)
        row: dict[str, Any] = {"preset": name, "epsilon": epsilon, "steps": len(plan.steps)}
        row["index_bits"] = [step.index_bits for step in plan.steps]
        row |= rates(codec, list(repeated(pixels, QUICK_COUNT if arguments.quick else COUNTS[device])))
        if not (arguments.quick or plan.kind == SensingStep.kind):
            row["naive"] = naive(codec, network(inputs.model).to(denoiser.device), pixels[: NAIVE_COUNTS[device]])
            row["times_faster"] = row["naive"]["seconds_per_image"] / row["seconds_per_image"]
        if arguments.bias and plan.kind != SensingStep.kind:
            images = pixels[:BIAS_COUNT]
            found = psnr(coded(plan, denoiser, images, randomness.fresh_seed())[0], images)[0]
            row |= {"psnr": found, "bias": exact(plan, denoiser, images)[0] - found}
        rows.append(row)
        print(json.dumps(row), flush=True)
        write(arguments.out, {**source, "threads": torch.get_num_threads(), "rows": rows})


if __name__ == "__main__":
    main()
