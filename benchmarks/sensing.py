"""Clipped sensing against what `sharp` was before it, and against noise that the same network denoises, per ε.

    python benchmarks/sensing.py MODEL IMAGES.npz TABLE.json --device cuda --out benchmarks/results/sensing.json

IMAGES.npz holds a uint8 array `encode` (N, 32, 32, 3); TABLE.json, by `dipp calibrate`, the costs on other images. All
pictures are really encoded, with several seeds; PSNR is 10·log10(4/MSE) of the expected picture, one call after the
chain, with the MSE averaged over the images. The rivals have the same pure ε per pixel: Laplace noise on all channels
(b = 6/ε on [−1, 1]) and on one random channel of each pixel (b = 2/ε), not clamped, at the timestep of the nearest SNR;
their bits are those of the clamped pictures as PNG.
"""

from __future__ import annotations

import argparse
import io
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from inputs import Inputs
from PIL import Image
from provenance import provenance, write

from dipp.codec import Codec
from dipp.codec.chain import Chain
from dipp.codec.encoder import Selector
from dipp.codec.pictures import Pixels, to_pixels
from dipp.core import randomness
from dipp.core.plan import Plan
from dipp.core.signal import to_signal
from dipp.format.archive import Archive
from dipp.models.denoiser import Denoiser
from dipp.planning.planner import Point
from dipp.planning.presets import UNCLIPPED, SensingPreset, preset
from dipp.planning.table import ErrorTable
from dipp.privacy.budget import Budget

EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
RATES = {1.0: (0.06,), 4.0: (0.33,), 16.0: (0.9,)}
"""Low rates at which sensing is measured beside one bit per pixel, by ε."""
LONG = {16.0: 4.0, 64.0: 3.5}
"""Rates at which 64 network calls are allowed, by ε."""
SEEDS = 3
FACTORS = (0.1, 0.15, 0.25, 0.4, 0.6, 0.8, 1.0, 1.3)
"""SNRs at which noise is denoised, over that of the noise alone: the best of them counts."""
CODED_AS_PNG = 64
"""Noisy pictures that are stored as PNG."""


def psnr(x_hat: torch.Tensor, pixels: Pixels) -> float:
    """PSNR over all images."""
    clean = torch.from_numpy(to_signal(pixels)).permute(0, 3, 1, 2).to(x_hat)
    return 10 * math.log10(4 / float((x_hat - clean).square().mean()))


def encoded(plan: Plan, denoiser: Denoiser, pixels: Pixels, seeds: int) -> dict[str, Any]:
    """Rate and quality of a plan, really coded with several seeds."""
    found, bpps, began = [], [], time.perf_counter()
    for _ in range(seeds):
        seed = randomness.fresh_seed()
        chain = Chain(plan, denoiser, seed, pixels.shape[1:])
        selector = Selector(plan, seed, pixels.reshape(len(pixels), -1), denoiser.device.type)
        state, chosen = chain.run(range(len(pixels)), selector)
        rows = np.concatenate(chosen, axis=1)
        archive = Archive.build(Codec(denoiser, plan).release(seed), [chain.shape] * len(pixels), rows)
        found.append(psnr(chain.trajectory.expected(len(plan.steps), state), pixels))
        bpps.append(archive.payload_bpp)
    return {
        "bpp": float(np.mean(bpps)),
        "psnr": float(np.mean(found)),
        "spread": float(np.ptp(found)),
        "certificate": archive.certificate.epsilon,
        "seconds": time.perf_counter() - began,
    }


def described(point: Point) -> dict[str, Any]:
    """What a plan is made of."""
    plan = point.plan
    return {
        "code": plan.code.name,
        "steps": len(plan.steps),
        "period": plan.mask.period,
        "expected": point.psnr,
        "expected_bpp": point.bpp,
        "bound": point.bound,
    }


def denoised_noise(epsilon: float, denoiser: Denoiser, pixels: Pixels, one_channel: bool, seeds: int) -> dict[str, Any]:
    """Laplace noise at a pure ε per pixel, denoised; and the bits of the clamped pictures as PNG."""
    x, found, bits = to_signal(pixels), [], 0
    channels = pixels.shape[3]
    for seed in range(seeds):
        generator = np.random.default_rng(seed)
        scale = (2 if one_channel else 2 * channels) / epsilon
        noisy = x + generator.laplace(0, scale, x.shape)
        snr = 1 / (2 * scale**2)
        if one_channel:
            # The channels that are not released are unknown: mid-grey, so that the state is an unbiased picture of few.
            chosen = generator.integers(0, channels, x.shape[:3])[..., None] == np.arange(channels)
            noisy, snr = np.where(chosen, noisy * channels, 0.0), snr / channels
        y = torch.from_numpy(noisy).permute(0, 3, 1, 2).float().to(denoiser.device)
        found.append(max(psnr(denoiser.at_snr(y, factor * snr), pixels) for factor in FACTORS))
    for one in to_pixels(torch.from_numpy(noisy[:CODED_AS_PNG]).permute(0, 3, 1, 2)):
        stream = io.BytesIO()
        Image.fromarray(one).save(stream, format="PNG", optimize=True)
        bits += 8 * len(stream.getvalue())
    stored = min(CODED_AS_PNG, len(pixels)) * pixels.shape[1] * pixels.shape[2]
    return {"psnr": float(np.mean(found)), "spread": float(np.ptp(found)), "bpp": bits / stored}


def rows_of(epsilon: float, denoiser: Denoiser, table: ErrorTable, pixels: Pixels, seeds: int) -> list[dict[str, Any]]:
    """All that is compared at one ε."""
    budget, found = Budget.pure(epsilon), []
    before = UNCLIPPED["sharp"].planner(denoiser, table, budget).choose(budget)
    found.append({"what": "unclipped", **described(before), **encoded(before.plan, denoiser, pixels, seeds)})
    sharp, rates = preset("sharp").planner(denoiser, table, budget), (1.0, found[0]["bpp"], *RATES.get(epsilon, ()))
    for rate in rates:
        point = sharp.choose(budget, bpp=rate)
        row = {"what": "sharp", "rate": rate, **described(point)}
        found.append({**row, **encoded(point.plan, denoiser, pixels, seeds)})
    if epsilon in LONG:
        long = SensingPreset("long", "As sharp, in 64 calls.", calls=63).planner(denoiser, table, budget)
        point = long.choose(budget, bpp=LONG[epsilon])
        row = {"what": "sharp, 64 calls", "rate": LONG[epsilon], **described(point)}
        found.append({**row, **encoded(point.plan, denoiser, pixels, seeds)})
    swift = preset("swift").planner(denoiser, table, budget).choose(budget)
    found.append({"what": "swift", "rate": 1.0, **described(swift), **encoded(swift.plan, denoiser, pixels, seeds)})
    for name, one in (("Laplace, all channels", False), ("Laplace, one channel", True)):
        found.append({"what": f"{name}, denoised", **denoised_noise(epsilon, denoiser, pixels, one, seeds)})
    return [{"epsilon": epsilon, **row} for row in found]


def main() -> None:
    """Compare at every ε."""
    parser = argparse.ArgumentParser(description=__doc__)
    Inputs.add_to(parser)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--count", type=int, default=256)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--epsilon", type=float, action="append", help="instead of all")
    arguments = parser.parse_args()
    inputs = Inputs.of(arguments)
    denoiser, table, pixels = inputs.denoiser(arguments.device), inputs.costs(), inputs.pixels(arguments.count)
    source, rows = provenance(arguments.device), list[dict[str, Any]]()
    for epsilon in arguments.epsilon or EPSILONS:
        for row in rows_of(epsilon, denoiser, table, pixels, arguments.seeds):
            print(*(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items()), flush=True)
            rows.append(row)
        write(arguments.out, {**source, "images": len(pixels), "seeds": arguments.seeds, "rows": rows})


if __name__ == "__main__":
    main()
