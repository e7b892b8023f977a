"""Rate and quality of the presets on CIFAR-10, for each ε: payload bits, PSNR of the posterior mean, the code's bias.

    python benchmarks/quality.py MODEL IMAGES.npz TABLE.json --device cuda --out benchmarks/results/quality.json

IMAGES.npz holds a uint8 array `encode` (N, 32, 32, 3); TABLE.json, by `dipp calibrate`, the costs on other images.
By default it takes the denoiser that ships with dipp and tiles of the sample pictures. `--quick` encodes a few of them
once, by the preset's own choice. PSNR is 10·log10(4/MSE) of x̂0 at the final step, the MSE averaged over the images.
"exact" samples the channel itself, without a code, along the same plan; the bias of a code is the gap to it.
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path
from typing import Any

import checkout  # noqa: F401 - for `experiments`
import numpy as np
from inputs import Inputs
from provenance import provenance, write

from dipp.codec import Codec
from dipp.codec.chain import Chain
from dipp.codec.encoder import Selector
from dipp.codec.pictures import Pixels
from dipp.core import randomness
from dipp.core.arrays import Array, colours_last, host
from dipp.core.channels import LocationChannel
from dipp.core.geometry import Geometry
from dipp.core.plan import Plan
from dipp.core.signal import to_signal
from dipp.format.archive import Archive
from dipp.models.denoiser import Denoiser
from dipp.planning.planner import Point
from dipp.planning.presets import PRESETS, Plans, Preset
from dipp.privacy.budget import Budget
from experiments.comparisons.unclipped import UNCLIPPED

EPSILONS = (1.0, 4.0, 16.0, 64.0, 256.0)
METHODS: dict[str, Preset] = {"paper": PRESETS["paper"], "unclipped": UNCLIPPED["sharp"]}
"""Methods with steps along timesteps: the paper's, and `sharp`'s former one. `sensing.py` measures clipped sensing."""
SHARES = {"paper": (0.8, 0.4, 0.15), "unclipped": (0.3, 0.1, 0.03, 0.01)}
"""Final SNRs to measure for each method, as shares of the largest within the budget."""
FEW_STEPS, FEW_SHARES = 64.0, {"paper": (0.1,), "unclipped": (0.1, 0.03)}
"""Above this ε only these shares are measured, because plans have dozens of steps."""
SEEDS = 3
"""Number of coded and of exact chains that are averaged."""
QUICK_COUNT, QUICK_EPSILON = 8, 16.0


def psnr(x_hat: Array, pixels: Pixels) -> tuple[float, float]:
    """Return the PSNR over all images, and its standard error over images."""
    each = np.square(colours_last(x_hat) - to_signal(pixels)).mean(axis=(1, 2, 3))
    error = 10 / math.log(10) * each.std() / each.mean() / math.sqrt(len(each))
    return 10 * math.log10(4 / each.mean()), float(error)


def exact(plan: Plan, denoiser: Denoiser, pixels: Pixels, seed: int = 0) -> tuple[float, list[float]]:
    """Return the PSNR of the channel sampled without a code, and the mean squared error at the start of each step."""
    generator = np.random.default_rng(seed)
    chain = Chain(plan, denoiser, seed.to_bytes(16, "little"), Geometry.of(pixels.shape[1:]))
    images, start = range(len(pixels)), chain.trajectory.start(chain.seed, chain.geometry)
    x_t, met = denoiser.placed(host(start).repeat(len(pixels), axis=0)), []
    clean = to_signal(pixels).reshape(len(pixels), -1)
    for number, step in enumerate(plan.steps):
        order = chain.layout(number, images).chunks.order
        x_hat = denoiser.x0(x_t, step.start)
        flat = colours_last(x_hat).reshape(len(pixels), -1)
        met.append(float(np.square(flat - clean).mean()))
        channel, shift = plan.channel, (clean - flat)[:, order] * math.sqrt(step.snr_gain)
        uniform = np.clip(generator.random(shift.shape), 1e-12, 1 - 1e-12)
        if isinstance(channel, LocationChannel):
            z = shift + channel.quantile(uniform)
        else:
            z = channel.slope * np.where(uniform < 1 / (1 + np.exp(-2 * channel.slope * shift)), 1.0, -1.0)
        noise = np.zeros_like(clean, np.float32)
        noise[:, order] = z
        placed = denoiser.placed(np.ascontiguousarray(np.moveaxis(noise.reshape(pixels.shape), -1, 1)))
        x_t = denoiser.schedule.step(step.start, step.end).next_state(x_t, x_hat, placed)
    return psnr(denoiser.x0(x_t, plan.steps[-1].end), pixels)[0], met


def coded(plan: Plan, denoiser: Denoiser, pixels: Pixels, seed: bytes) -> tuple[Array, Archive]:
    """Return the final x̂0 of a coded chain, and the archive."""
    chain = Chain(plan, denoiser, seed, Geometry.of(pixels.shape[1:]))
    x_t, chosen = chain.run(
        range(len(pixels)), Selector(plan, seed, pixels.reshape(len(pixels), -1), denoiser.device.type)
    )
    rows = np.concatenate(chosen, axis=1)
    archive = Archive.build(Codec(denoiser, plan).parameters(seed), [chain.geometry] * len(pixels), rows)
    return denoiser.x0(x_t, plan.steps[-1].end), archive


def chosen_points(plans: Plans, budget: Budget, shares: tuple[float, ...]) -> list[Point]:
    """Return the planner's choice, then the plans whose final SNRs are nearest to shares of the largest possible."""
    points = plans.frontier(budget)
    wanted = [math.log(share * points[-1].snr) for share in shares]
    return [plans.choose(budget), *(min(points, key=lambda p: abs(math.log(p.snr) - snr)) for snr in wanted)]


def measured(point: Point, denoiser: Denoiser, pixels: Pixels, seeds: int) -> dict[str, Any]:
    """Return rate and quality of a plan coded with several seeds, and of its channel sampled without a code."""
    start, runs, bpps = time.perf_counter(), [], []
    for _ in range(seeds):
        x_hat, archive = coded(point.plan, denoiser, pixels, randomness.fresh_seed())
        runs.append(psnr(x_hat, pixels))
        bpps.append(archive.payload_bpp)
    found = [exact(point.plan, denoiser, pixels, number)[0] for number in range(seeds)]
    return {
        "bpp": float(np.mean(bpps)),
        "psnr": float(np.mean([p for p, _ in runs])),
        "spread": float(np.ptp([p for p, _ in runs])),
        "standard_error": runs[0][1],
        "exact": float(np.mean(found)),
        "certificate": archive.certificate.epsilon,
        "seconds": time.perf_counter() - start,
        "timesteps": [step.end for step in point.plan.steps],
    }


def main() -> None:
    """Encode at every ε, and write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    Inputs.add_to(parser)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--count", type=int, default=256)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument(
        "--epsilon", type=float, action="append", help="an ε to measure, may be repeated; by default all"
    )
    parser.add_argument("--quick", action="store_true", help="a quick run: a few pictures, once, at ε = 16")
    arguments = parser.parse_args()
    inputs, quick = Inputs.of(arguments), arguments.quick
    denoiser, table = inputs.denoiser(arguments.device), inputs.costs()
    pixels, seeds = inputs.pixels(QUICK_COUNT if quick else arguments.count), 1 if quick else SEEDS
    source, rows = provenance(arguments.device), []
    for epsilon in arguments.epsilon or ([QUICK_EPSILON] if quick else EPSILONS):
        budget = Budget.pure(epsilon)
        for name, shares in SHARES.items():
            tried = () if quick else shares if epsilon <= FEW_STEPS else FEW_SHARES[name]
            points = chosen_points(METHODS[name].planner(denoiser, table, budget), budget, tried)
            for number, point in enumerate(points):
                row: dict[str, Any] = {"epsilon": epsilon, "preset": name, "code": point.plan.code.name}
                row["index_bits"] = max(step.index_bits for step in point.plan.steps)
                row |= {"chosen": not number, "snr": point.snr, "steps": len(point.plan.steps), "expected": point.psnr}
                row |= measured(point, denoiser, pixels, seeds)
                assert row["certificate"] <= epsilon
                rows.append(row)
                print(*(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items()), flush=True)
                write(arguments.out, {**source, "images": len(pixels), "seeds": seeds, "rows": rows})


if __name__ == "__main__":
    main()
