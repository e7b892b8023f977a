"""The ε of a signal-to-noise ratio: certified presets and Gaussian diffusion itself (the paper's appendix A).

    python benchmarks/gaussian_plot.py --out benchmarks/results/gaussian.png

Nothing is measured: all numbers are computed. Gaussian noise has no pure ε, so all are stated at δ = 10^−5 per pixel.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import checkout  # noqa: F401 - for `experiments`
import numpy as np
from matplotlib.figure import Figure

from dipp.core.geometry import Geometry
from dipp.core.plan import Coding, Plan
from dipp.core.steps import Step
from dipp.errors import DippError
from dipp.planning.presets import PAPER
from dipp.privacy.certificate import Certificate
from experiments.comparisons.gaussian import GaussianDiffusion
from experiments.comparisons.unclipped import SHARP

DELTA = 1e-5
CODINGS = (
    ("paper", PAPER, 3, "#fd8d3c", "-"),
    ("paper", PAPER, 30, "#fd8d3c", "--"),
    ("unclipped", SHARP, 3, "#08519c", "-"),
    ("unclipped", SHARP, 30, "#08519c", "--"),
)
KL_BITS = 4.0
"""A divergence of chunks, for the entropy code. No ε depends on it."""


def approximate(coding: Coding, snr: float, steps: int) -> float:
    """Return ε at δ of equal steps to a final SNR, for 32×32 images; NaN if a step is too large or too small."""
    gain = float(np.float32(snr / steps))
    units = coding.code.exponent_units(KL_BITS)
    try:
        plan = Plan(coding, tuple(Step(steps - i, steps - i - 1, gain, 256, 8, units) for i in range(steps)))
        return Certificate.of(plan, Geometry(1, 1024, 3)).approximate(DELTA)
    except DippError:
        return float("nan")


def main() -> None:
    """Compute and draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    snrs = np.geomspace(1e-4, 10, 120)
    figure = Figure(figsize=(6.4, 4.4), layout="constrained")
    axes = figure.add_subplot()
    axes.plot(snrs, [GaussianDiffusion(snr).epsilon(DELTA) for snr in snrs], color="black", label="Gaussian, no code")
    for name, coding, steps, colour, line in CODINGS:
        costs = [approximate(coding, snr, steps) for snr in snrs.tolist()]
        axes.plot(snrs, costs, line, color=colour, label=f"{name}, {steps} steps")
    axes.set(xscale="log", yscale="log", xlabel="final signal-to-noise ratio", ylabel="ε per pixel at δ = 10⁻⁵")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    figure.savefig(arguments.out, format="png", dpi=120)


if __name__ == "__main__":
    main()
