"""Two denoisers side by side: bits of the Gaussian path to SNR 2, and CPU time of a network call.

    python benchmarks/model.py FULL DATA [--calibration TABLE] [--pictures 256] [-o benchmarks/results/model.json]

DATA are pictures that neither was trained on. Both see the same states; calls of both are timed in turns, batches of 16
in fp32, so that other work on the machine slows both alike, and the median of the ratios is taken.

With the calibration of FULL on the pictures that the small one was calibrated on: the errors on coded chains
of the unclipped preset `sharp`, where that calibration has them, beside those on Gaussian states.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path

import torch
from inputs import SIDE, pictures
from provenance import provenance, write

import dipp
from dipp import models
from dipp.models import embedded
from dipp.models.denoiser import Denoiser
from dipp.models.unet import UNetDenoiser
from dipp.planning.table import FILE_NAME, ErrorTable
from dipp.training import validation

BATCH = 16
ROUNDS = 15
SNR = 2.0
CODED_SNRS = (0.1, 0.35, 1.24, 4.5, 15.8, 58.0)


def seconds(denoiser: Denoiser, x_t: torch.Tensor) -> float:
    """One call, per image."""
    began = time.perf_counter()
    denoiser.x0(x_t, 500)
    return (time.perf_counter() - began) / len(x_t)


def parameters(denoiser: Denoiser) -> int:
    """Weights of its network."""
    assert isinstance(denoiser, UNetDenoiser)
    return sum(parameter.numel() for parameter in denoiser.network.parameters())


def coded_errors(tables: dict[str, ErrorTable]) -> dict[str, dict[str, list[float]]]:
    """By model and SNR: mean squared errors on Gaussian states and at the same SNR on coded chains."""
    return {
        name: {
            f"{snr:g}": [float(f"{float(table.mse(snr, chains)):.4g}") for chains in (None, "sharp")]
            for snr in CODED_SNRS
        }
        for name, table in tables.items()
    }


def main() -> None:
    """Measure both and write the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("full", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--small", type=Path, default=embedded.FOLDER)
    parser.add_argument("--calibration", type=Path)
    parser.add_argument("--pictures", type=int, default=256)
    parser.add_argument("-o", "--output", type=Path, default=Path("benchmarks/results/model.json"))
    options = parser.parse_args()
    denoisers = {"small": models.load(options.small), "full": models.load(options.full)}
    pixels = pictures(options.data, options.pictures, "images")
    x_t = torch.randn(BATCH, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(0))
    for denoiser in denoisers.values():
        seconds(denoiser, x_t)
    times: dict[str, list[float]] = {name: [] for name in denoisers}
    for _ in range(ROUNDS):
        for name, denoiser in denoisers.items():
            times[name].append(seconds(denoiser, x_t))
    figures: dict[str, object] = {}
    bits = {}
    for name, denoiser in denoisers.items():
        table = validation.errors(denoiser, pixels)
        path = validation.path_bits(table, denoiser)
        bits[name] = path[SNR]
        figures[name] = {
            "identity": denoiser.identity,
            "parameters": parameters(denoiser),
            "milliseconds an image": round(1000 * statistics.median(times[name]), 2),
            "mse of x0 at SNR": {f"{snr:g}": float(f"{table.mse(snr):.4g}") for snr in path},
            "bits per pixel of the path to SNR": {f"{snr:g}": float(f"{value:.4g}") for snr, value in path.items()},
        }
        print(name, json.dumps(figures[name], indent=1))
    ratios = [small / full for small, full in zip(times["small"], times["full"], strict=True)]
    result = {
        **provenance(),
        "version": dipp.__version__,
        "threads": torch.get_num_threads(),
        "batch": BATCH,
        "rounds": ROUNDS,
        "data": options.data.name,
        "pictures": len(pixels),
        **figures,
        "time, small over full": round(statistics.median(ratios), 3),
        "path to SNR 2, small over full": round(bits["small"] / bits["full"], 4),
    }
    if options.calibration:
        tables = {"small": options.small / FILE_NAME, "full": options.calibration}
        result["mse at SNR: Gaussian, coded"] = coded_errors({name: ErrorTable.load(p) for name, p in tables.items()})
    write(options.output, result)
    print(json.dumps({key: value for key, value in result.items() if "over" in key}))


if __name__ == "__main__":
    main()
