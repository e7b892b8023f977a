"""How much ε a change of one pixel costs, by the size of the change: for steps with and without a clip, at ε = 4.

    python benchmarks/change_plot.py --out docs/change.png

Nothing is measured: every number is computed from the ledger of a plan, as `Certificate.between` does it. Changes
are of one channel, in grey levels of 255. A clip of width c is 127.5·c levels; a change of twice that costs all of ε.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import checkout  # noqa: F401 - for `experiments`
import numpy as np
from matplotlib.figure import Figure

from dipp.codes import Flat, Pairs
from dipp.core.channels import Sign
from dipp.core.geometry import Geometry
from dipp.core.plan import Coding, Plan
from dipp.core.sensitivity import TiltedCode
from dipp.core.steps import SensingStep, Step
from dipp.planning.tilts import largest_tilt
from dipp.privacy.budget import Budget
from dipp.privacy.certificate import Certificate
from dipp.privacy.ledger import Ledger
from experiments.comparisons.unclipped import SHARP

EPSILON = 4.0
CHANNELS, PIXELS = 3, 32 * 32
STEPS = 2
"""Number of equal steps of the plan without a clip, as `sharp` had at this ε before residuals were clipped."""
GROUPS = 16
"""Number of steps of the clipped plans: one pass, so that each pixel pays once."""
GAIN = 2.0**-8
"""SNR gain of a clipped step. No ε depends on it."""
WIDTHS = {0.3: "-", 0.1: "--", 0.03: ":"}
"""Clips c, for data in [−1, 1], and the line style of each."""
CODES: dict[TiltedCode, tuple[str, str]] = {Flat(): ("#31a354", "flat"), Pairs(): ("#08519c", "pairs")}
STATED = (1, 2, 4, 8, 16, 26, 51, 102, 255)
"""Changes of a pixel whose ε is printed."""


def unclipped() -> Ledger:
    """Return steps along timesteps by `sharp`'s former coding: the largest equal gains within the budget."""
    coding = SHARP
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        within = ledger_of(coding, middle).epsilon <= EPSILON
        low, high = (middle, high) if within else (low, middle)
    return ledger_of(coding, low)


def ledger_of(coding: Coding, gain: float) -> Ledger:
    """Return the ledger of equal steps along timesteps. Chunks and candidates do not change ε."""
    steps = (Step(STEPS - i, STEPS - i - 1, float(np.float32(gain)), 256, 8) for i in range(STEPS))
    return Certificate.of(Plan(coding, tuple(steps)), Geometry(1, PIXELS, CHANNELS)).ledger


def clipped(code: TiltedCode, width: float) -> Ledger:
    """Return one pass of clipped steps at the largest tilt within the budget."""
    step = SensingStep(largest_tilt(code, 1, Budget.pure(EPSILON)), float(np.float32(width)), GAIN, 1, 1)
    plan = Plan(Coding(Sign(period=CHANNELS * GROUPS), code), (step,) * GROUPS)
    return Certificate.of(plan, Geometry(1, PIXELS, CHANNELS)).ledger


def main() -> None:
    """Compute, print and draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    lines = {"no clip, as before": (unclipped(), "black", "-")}
    for code, (colour, name) in CODES.items():
        for width, line in WIDTHS.items():
            lines[f"{name}, c = {width:g}"] = (clipped(code, width), colour, line)
    figure = Figure(figsize=(8.4, 4.2), layout="constrained")
    axes, changes = figure.add_subplot(), range(1, 256)
    print(f"{'grey levels':<24}", *(f"{change:>6}" for change in STATED))
    for label, (ledger, colour, line) in lines.items():
        costs = [ledger.epsilon_of_change(change) for change in changes]
        print(f"{label:<24}", *(f"{costs[change - 1]:6.3f}" for change in STATED))
        axes.plot(changes, costs, line, color=colour, label=label)
    axes.set(xscale="log", xlim=(1, 255), ylim=(0, None), ylabel="pure ε of this change")
    axes.set_xlabel("change of one channel of one pixel, in grey levels of 255")
    axes.set_xticks(STATED, labels=map(str, STATED), minor=False)
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    figure.legend(loc="outside right upper", frameon=False)
    figure.savefig(arguments.out, format="png", dpi=120)


if __name__ == "__main__":
    main()
