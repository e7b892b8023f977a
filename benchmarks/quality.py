"""Rate and quality of the presets on CIFAR-10, per ε: payload bits, PSNR of the posterior mean, the code's bias.

    python benchmarks/quality.py MODEL IMAGES.npz TABLE.json --device cuda --out benchmarks/results/quality.json

IMAGES.npz holds a uint8 array `encode` (N, 32, 32, 3); TABLE.json, by `dipp calibrate`, the costs on other images.
PSNR is 10·log10(4/MSE) of x̂0 at the final step, the MSE averaged over the images. "exact" samples the channel itself,
without a code, along the same plan; the bias of a code is the gap to it.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from provenance import provenance

from dipp.core import randomness
from dipp.format.archive import Archive
from dipp.planning.table import ErrorTable
from dipp.codec.chain import Chain, Selector
from dipp.core.channels import LocationChannel
from dipp.codec.codec import planner
from dipp.models.denoiser import Denoiser
from dipp.core.plan import Plan
from dipp.privacy.budget import Budget

EPSILONS = (1.0, 4.0, 16.0, 64.0, 256.0)
SHARES = {"paper": (0.8, 0.4, 0.15), "sharp": (0.3, 0.1, 0.03, 0.01)}
"""By preset: final SNRs as shares of the largest within the budget, beside the plan that the preset chooses."""
FEW_STEPS, FEW_SHARES = 64.0, {"paper": (0.1,), "sharp": (0.1, 0.03)}
"""Above this ε fewer are measured: plans have dozens of steps there."""
SEEDS = 3
"""Of coded and of exact chains: both are averaged over as many."""


def psnr(x_hat: torch.Tensor, pixels: np.ndarray[Any, Any]) -> tuple[float, float]:
    """PSNR over all images, and its standard error over images."""
    clean = torch.from_numpy(pixels / 127.5 - 1).permute(0, 3, 1, 2).to(x_hat)
    each = (x_hat - clean).square().mean(dim=(1, 2, 3)).double().cpu().numpy()
    error = 10 / math.log(10) * each.std() / each.mean() / math.sqrt(len(each))
    return 10 * math.log10(4 / each.mean()), float(error)


def exact(plan: Plan, denoiser: Denoiser, pixels: np.ndarray[Any, Any], seed: int = 0) -> tuple[float, list[float]]:
    """PSNR when the channel is sampled without a code, and the mean squared error met at the start of each step."""
    generator = np.random.default_rng(seed)
    chain = Chain(plan, denoiser, seed.to_bytes(16, "little"), pixels.shape[1:])
    images, x_t, met = range(len(pixels)), chain.start().expand(len(pixels), -1, -1, -1), []
    clean = (pixels / 127.5 - 1).reshape(len(pixels), -1)
    for number, step in enumerate(plan.steps):
        order = chain.layout(number, images).chunks.order
        x_hat = denoiser.x0(x_t, step.start)
        flat = x_hat.permute(0, 2, 3, 1).reshape(len(pixels), -1).cpu().numpy()
        met.append(float(np.square(flat - clean).mean()))
        channel, shift = plan.coding.channel, (clean - flat)[:, order] * math.sqrt(step.snr_gain)
        uniform = np.clip(generator.random(shift.shape), 1e-12, 1 - 1e-12)
        if isinstance(channel, LocationChannel):
            z = shift + channel.quantile(uniform)
        else:
            z = channel.slope * np.where(uniform < 1 / (1 + np.exp(-2 * channel.slope * shift)), 1.0, -1.0)
        noise = np.zeros_like(clean, np.float32)
        noise[:, order] = z
        tensor = torch.from_numpy(noise.reshape(pixels.shape)).permute(0, 3, 1, 2).contiguous().to(x_t)
        x_t = denoiser.schedule.step(step.start, step.end).next_state(x_t, x_hat, tensor)
    return psnr(denoiser.x0(x_t, plan.steps[-1].end), pixels)[0], met


def coded(plan: Plan, denoiser: Denoiser, pixels: np.ndarray[Any, Any], seed: bytes) -> tuple[torch.Tensor, Archive]:
    """The final x̂0 of a coded chain, and the archive."""
    chain = Chain(plan, denoiser, seed, pixels.shape[1:])
    x_t, chosen = chain.run(
        range(len(pixels)), Selector(plan, seed, pixels.reshape(len(pixels), -1), denoiser.device.type)
    )
    rows = np.concatenate(chosen, axis=1)
    made = Archive.build(plan, denoiser.identity, seed, [chain.shape] * len(pixels), rows)
    return denoiser.x0(x_t, plan.steps[-1].end), made


def main() -> None:
    """Encode at every ε."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("images", type=Path)
    parser.add_argument("table", type=Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--count", type=int, default=256)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--epsilon", type=float, action="append", help="instead of all")
    arguments = parser.parse_args()
    denoiser = models.load(arguments.model, arguments.device)
    pixels, table = np.load(arguments.images)["encode"][: arguments.count], ErrorTable.load(arguments.table)
    source, rows = provenance(arguments.device), []
    for epsilon in arguments.epsilon or EPSILONS:
        for name, shares in SHARES.items():
            budget = Budget.pure(epsilon)
            plans = planner(denoiser, table, name, budget)
            points, best = plans.frontier(budget), plans.choose(budget)
            for share in (None, *(shares if epsilon <= FEW_STEPS else FEW_SHARES[name])):
                point = (
                    best
                    if share is None
                    else min(points, key=lambda p: abs(math.log(p.snr / (share * points[-1].snr))))
                )
                row: dict[str, Any] = {"epsilon": epsilon, "preset": name}
                row |= {"code": point.plan.coding.name}
                row |= {"index_bits": max(step.index_bits for step in point.plan.steps)}
                row |= {
                    "chosen": share is None,
                    "snr": point.snr,
                    "steps": len(point.plan.steps),
                    "expected": point.psnr,
                }
                start = time.perf_counter()
                runs, bpps = [], []
                for _ in range(SEEDS):
                    seed = randomness.fresh_seed()
                    x_hat, archive = coded(point.plan, denoiser, pixels, seed)
                    runs.append(psnr(x_hat, pixels))
                    bpps.append(archive.payload_bpp)
                assert archive.certificate is not None
                assert archive.certificate.epsilon <= epsilon
                row |= {"bpp": float(np.mean(bpps)), "psnr": float(np.mean([p for p, _ in runs]))}
                row |= {"spread": float(np.ptp([p for p, _ in runs])), "standard_error": runs[0][1]}
                found = [exact(point.plan, denoiser, pixels, number)[0] for number in range(SEEDS)]
                row |= {"exact": float(np.mean(found)), "certificate": archive.certificate.epsilon}
                row |= {"seconds": time.perf_counter() - start, "timesteps": [s.end for s in point.plan.steps]}
                rows.append(row)
                print(*(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items()), flush=True)
                facts = {**source, "images": len(pixels), "seeds": SEEDS, "rows": rows}
                arguments.out.write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    main()
