"""Clipped sensing compared with the former `sharp`, and with noise that the same network denoises, for each ε.

    python benchmarks/sensing.py MODEL IMAGES.npz TABLE.json --device cuda --out benchmarks/results/sensing.json

IMAGES.npz holds a uint8 array `encode` (N, 32, 32, 3); TABLE.json, by `dipp calibrate`, the costs on other images. All
pictures are really encoded, with several seeds; PSNR is 10·log10(4/MSE) of the expected picture, one call after the
chain, with the MSE averaged over the images.

The rivals (`cifar10.rivals`) have the same pure ε per pixel:

- Laplace noise on all channels (b = 6/ε on [−1, 1]), not clamped;
- noise of the cube on all channels together, not clamped;
- Laplace noise on one random channel of each pixel (b = 2/ε), not clamped;
- one bit of such a channel by randomised response against mid-grey.

The bits of noise are those of the clamped pictures, or of the one clamped value of a pixel, as PNG.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
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
from dipp.core.geometry import Geometry
from dipp.core.plan import Plan
from dipp.format.archive import Archive
from dipp.models.denoiser import Denoiser
from dipp.planning.planner import Point
from dipp.planning.presets import Preset, SensingPreset, preset
from dipp.planning.table import ErrorTable
from dipp.privacy.budget import Budget
from experiments.cifar10.baseline import file_bytes
from experiments.cifar10.rivals import Cube, Noise, OneBit, OneChannel, Rival, best_factor, psnr
from experiments.comparisons.unclipped import UNCLIPPED

EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
RATES = {1.0: (0.06,), 4.0: (0.33,), 16.0: (0.9,)}
"""Low rates at which sensing is measured beside one bit per pixel, by ε."""
LONG = {16.0: 4.0, 64.0: 3.5}
"""Rates at which 64 network calls are allowed, by ε."""
RIVALS: dict[str, type[Rival]] = {
    "Laplace, all channels": Noise,
    "noise of the cube, all channels": Cube,
    "Laplace, one channel": OneChannel,
    "one bit against mid-grey": OneBit,
}
SEEDS = 3
CODED_AS_PNG = 64
"""Number of noisy pictures that are stored as PNG."""


def encoded(plan: Plan, denoiser: Denoiser, pixels: Pixels, seeds: int) -> dict[str, Any]:
    """Encode and decode by a plan with several seeds, and return its rate and quality."""
    found, bpps, began = [], [], time.perf_counter()
    for _ in range(seeds):
        seed = randomness.fresh_seed()
        chain = Chain(plan, denoiser, seed, Geometry.of(pixels.shape[1:]))
        selector = Selector(plan, seed, pixels.reshape(len(pixels), -1), denoiser.device.type)
        state, chosen = chain.run(range(len(pixels)), selector)
        rows = np.concatenate(chosen, axis=1)
        archive = Archive.build(Codec(denoiser, plan).parameters(seed), [chain.geometry] * len(pixels), rows)
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
    """Return the facts of a plan."""
    plan = point.plan
    return {
        "code": plan.code.name,
        "steps": len(plan.steps),
        "period": plan.mask.period,
        "expected": point.psnr,
        "expected_bpp": point.bpp,
        "bound": point.bound,
    }


def denoised_noise(rival: Rival, denoiser: Denoiser, pixels: Pixels, seeds: int) -> dict[str, Any]:
    """Return a rival's pictures, denoised at the best of several SNRs, and the bits of its release."""
    drawn = [np.concatenate(list(rival.release(pixels, f"seed {seed}"))) for seed in range(seeds)]
    found = [best_factor(rival, y, pixels, denoiser)[0] for y in drawn]
    stored, area = rival.stored(drawn[-1][:CODED_AS_PNG]), pixels.shape[1] * pixels.shape[2]
    bpp = 1.0 if stored is None else 8 * file_bytes(stored, "png") / (len(stored) * area)
    return {"psnr": float(np.mean(found)), "spread": float(np.ptp(found)), "bpp": bpp}


@dataclass(frozen=True)
class Comparison:
    """The methods that are compared at one ε, really encoded."""

    epsilon: float
    denoiser: Denoiser
    table: ErrorTable
    pixels: Pixels
    seeds: int

    def headline(self) -> list[dict[str, Any]]:
        """Measure `sharp` at one bit per pixel, and the rivals."""
        noises = {name: kind(self.epsilon) for name, kind in RIVALS.items()}
        found = [
            {"what": f"{name}, denoised", **denoised_noise(rival, self.denoiser, self.pixels, self.seeds)}
            for name, rival in noises.items()
        ]
        return [self._sensed("sharp", preset("sharp"), 1.0), *found]

    def others(self) -> list[dict[str, Any]]:
        """Measure the former `sharp`, `sharp` at other rates and with more calls, and `swift`."""
        budget = Budget.pure(self.epsilon)
        before = UNCLIPPED["sharp"].planner(self.denoiser, self.table, budget).choose(budget)
        found = [self._row("unclipped", before)]
        rates = (found[0]["bpp"], *RATES.get(self.epsilon, ()))
        found += [self._sensed("sharp", preset("sharp"), rate) for rate in rates]
        if self.epsilon in LONG:
            long = SensingPreset("long", "As sharp, in 64 calls.", calls=63)
            found.append(self._sensed("sharp, 64 calls", long, LONG[self.epsilon]))
        return [*found, self._sensed("swift", preset("swift"), 1.0)]

    def _sensed(self, what: str, chosen: Preset, rate: float) -> dict[str, Any]:
        budget = Budget.pure(self.epsilon)
        point = chosen.planner(self.denoiser, self.table, budget).choose(budget, bpp=rate)
        return {"rate": rate, **self._row(what, point)}

    def _row(self, what: str, point: Point) -> dict[str, Any]:
        return {"what": what, **described(point), **encoded(point.plan, self.denoiser, self.pixels, self.seeds)}


def main() -> None:
    """Compare at every ε."""
    parser = argparse.ArgumentParser(description=__doc__)
    Inputs.add_to(parser)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--count", type=int, default=256)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument(
        "--epsilon", type=float, action="append", help="an ε to measure, may be repeated; by default all"
    )
    parser.add_argument("--headline", action="store_true", help="only sharp at one bit per pixel, and the rivals")
    arguments = parser.parse_args()
    inputs = Inputs.of(arguments)
    denoiser, table, pixels = inputs.denoiser(arguments.device), inputs.costs(), inputs.pixels(arguments.count)
    source, rows = provenance(arguments.device), list[dict[str, Any]]()
    for epsilon in arguments.epsilon or EPSILONS:
        comparison = Comparison(epsilon, denoiser, table, pixels, arguments.seeds)
        for row in comparison.headline() + ([] if arguments.headline else comparison.others()):
            print(*(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items()), flush=True)
            rows.append({"epsilon": epsilon, **row})
        write(arguments.out, {**source, "images": len(pixels), "seeds": arguments.seeds, "rows": rows})


if __name__ == "__main__":
    main()
