"""Fit the exponent of the truncated zeta code to the indices of step-limited PPR, and print the table.

    python benchmarks/fit_zeta.py [--out FILE.json]

prints `exponents.REFITTED` (a row for each pad, a column for each KL, in units of 1/64) and how much it saves. It
simulates the Laplace channel at α = 2 and chunks of many small, equal shifts. Scores are drawn from the law that dipp's
integer scores have: the law of one coordinate, convolved with itself. The zeta law is an exponential family with the
statistic log k, so the best exponent depends on the mean of log2 K alone; that mean is taken over P[K = k | Z] exactly
in each simulated chunk, not over one draw of K. It takes two minutes on two cores; `--quick` takes a few seconds, with
a table that is not settled yet.
"""

from __future__ import annotations

import argparse
import functools
import math
from concurrent.futures import ProcessPoolExecutor
from fractions import Fraction
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from provenance import provenance, write

from dipp.core import entropy, exponents
from dipp.core.arithmetic import Arithmetic
from dipp.core.channels import Laplace, LocationChannel
from dipp.core.selection import MAX_CANDIDATES

SHIFT = 0.18
"""Shift of a coordinate in units of its noise: 0.25 nats of score. About 24 such coordinates have a KL of one bit."""
MAX_CHUNKS = 4096
BUDGET = 1 << 29
"""Largest number of candidates that are simulated for each KL."""
QUICK_BUDGET = 1 << 23
CELLS = 1 << 16
TAIL = 256
"""Number of the best cells of the quantile table; scores in them are drawn exactly."""
UNITS = range(16, 192)
"""Exponents to try, in units of 1/64."""

Floats = NDArray[np.float64]


class ScoreLaw:
    """The law of the score of a candidate for a chunk of `kl_bits` of KL, in bits and multiplied by α."""

    def __init__(self, kl_bits: int) -> None:
        arithmetic = Arithmetic(Laplace(), (2 * SHIFT) ** 2, exponents.REFITTED_ALPHA)
        shift = round(arithmetic.unit / 2)
        scores = arithmetic.law.score(np.arange(1 << 16, dtype=np.uint16), np.asarray(shift, np.int32))
        single = np.bincount(scores + shift, minlength=2 * shift + 1) / 2**16
        coordinates = round(kl_bits / float(LocationChannel.kl(Laplace(), np.asarray(SHIFT))))
        length = 2 * shift * coordinates + 1
        padded = 1 << length.bit_length()
        law = np.maximum(np.fft.irfft(np.fft.rfft(single, padded) ** coordinates, padded)[:length], 0)
        self.scores = (np.arange(length) - shift * coordinates) / 2.0**arithmetic.fraction_bits
        self.cumulative = (np.cumsum(law) / law.sum())[:-1]
        self.table = self.quantile((np.arange(CELLS) + 0.5) / CELLS)

    def quantile(self, probability: Floats) -> Floats:
        """Return the score below which a share of the candidates lies."""
        return np.asarray(self.scores[np.searchsorted(self.cumulative, probability)], np.float64)

    def sample(self, count: int, generator: np.random.Generator) -> Floats:
        """Draw scores from the table, and exactly among the few that are high."""
        cells = generator.integers(0, CELLS, count, np.uint16)
        drawn: Floats = self.table[cells]
        high = np.flatnonzero(cells >= CELLS - TAIL)
        drawn[high] = self.quantile((cells[high] + generator.random(len(high))) / CELLS)
        return drawn


def mean_log2_index(kl_bits: int, chunks: int) -> dict[int, float]:
    """Return the mean of log2 K for each pad of the table, up to the largest allowed n = 2^(KL + pad)."""
    pads = [pad for pad in exponents.REFITTED_PADS if 1 << (kl_bits + pad) <= MAX_CANDIDATES]
    ends = (1 << (kl_bits + np.array(pads))) - 1
    generator = np.random.default_rng(kl_bits)
    law = ScoreLaw(kl_bits)
    log2_index = np.log2(np.arange(1, ends[-1] + 2))
    total = np.zeros(len(pads))
    for _ in range(chunks):
        arrivals = np.cumsum(generator.standard_exponential(ends[-1] + 1))
        score = law.sample(ends[-1] + 1, generator) - float(exponents.REFITTED_ALPHA) * np.log2(arrivals)
        weights = np.exp2(score - score.max())
        total += np.cumsum(weights * log2_index)[ends] / np.cumsum(weights)[ends]
    return dict(zip(pads, (total / chunks).tolist(), strict=True))


def codelength(units: int, mean: float, candidates: int) -> float:
    """Return the bits of the truncated code for indices with this mean of log2 K."""
    total = entropy.ZetaCode(candidates, Fraction(units, entropy.EXPONENT_UNITS)).total
    return units / entropy.EXPONENT_UNITS * mean + math.log2(total) - entropy.WEIGHT_BITS


def endless_codelength(exponent: float, mean: float) -> float:
    """Return the bits of the zeta code on all integers: ζ(s) from its first terms and an integral over the others."""
    terms = 1 << 16
    zeta = np.sum(np.arange(1.0, terms + 1) ** -exponent) + (terms + 0.5) ** (1 - exponent) / (exponent - 1)
    return exponent * mean + math.log2(zeta)


def fit(kl_bits: int, budget: int) -> tuple[list[int], list[str]]:
    """Fit a column of the table, and report in lines how much it saves."""
    chunks = min(MAX_CHUNKS, budget >> min(kl_bits + exponents.REFITTED_PADS[-1], 22))
    column: list[int] = []
    lines: list[str] = []
    paper = exponents.paper_exponent(kl_bits, exponents.REFITTED_ALPHA)
    for pad, mean in mean_log2_index(kl_bits, chunks).items():
        candidates = 1 << (kl_bits + pad)
        lengths = [codelength(units, mean, candidates) for units in UNITS]
        column.append(UNITS[lengths.index(min(lengths))])
        endless = endless_codelength(float(paper), mean)
        truncated = codelength(int(paper * entropy.EXPONENT_UNITS), mean, candidates)
        lines.append(f"{kl_bits:4d} {pad:4d} {mean:9.2f} {endless:9.2f} {truncated:10.2f} {min(lengths):9.2f}")
    # A larger n is not allowed; the table still needs a full column.
    column += column[-1:] * (len(exponents.REFITTED_PADS) - len(column))
    return column, lines


def main() -> None:
    """Print the savings and the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a quick run: few chunks")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    budget = QUICK_BUDGET if arguments.quick else BUDGET
    with ProcessPoolExecutor(2) as pool:
        fits = list(pool.map(functools.partial(fit, budget=budget), reversed(exponents.REFITTED_KL)))[::-1]
    print("  KL  pad  E log2 K     paper  truncated  refitted   (bits an index)")
    print("\n".join(line for _, lines in fits for line in lines))
    table = list(zip(*(column for column, _ in fits), strict=True))
    print("REFITTED = (")
    for pad in table:
        print(f"    {pad},")
    print(")")
    if arguments.out:
        write(arguments.out, {**provenance(), "candidates": budget, "refitted": table})


if __name__ == "__main__":
    main()
