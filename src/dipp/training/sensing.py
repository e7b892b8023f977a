"""Measure, on public pictures, the residuals (pixels minus prediction) that a denoiser leaves on sensing chains.

The chains are really coded, by the codec's own masks, integers and pairs, but without a plan. Before each step, the
planner's formulas compute clip and gain from the public pictures' own residuals. The residuals go into a table by the
SNR of the state. Chains of several tilts, and of pictures of several sizes, are averaged, since residuals depend on the
SNR alone, about.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dipp import scoring
from dipp.codec.chain import Chain
from dipp.codec.encoder import Selector
from dipp.codec.trajectory import Sensing
from dipp.codes import Flat, Pairs
from dipp.core import randomness
from dipp.core.arrays import Array, colours_last
from dipp.core.channels import Sign
from dipp.core.geometry import Geometry
from dipp.core.plan import Coding, Plan
from dipp.core.signal import to_signal
from dipp.core.steps import SensingStep
from dipp.models.denoiser import Denoiser
from dipp.planning.planner import short_floats
from dipp.planning.residuals import Residuals
from dipp.planning.sensing import SEARCHES
from dipp.planning.table import slices
from dipp.planning.tilts import deviation, divergence, gain

Floats = NDArray[np.float64]
Pixels = NDArray[np.uint8]
Progress = Callable[[str], None]

SEED = bytes(16)
"""The public seed of calibration. Two runs differ by the private random bits of the chains alone."""
TILTS = {0.25: 2, 1.0: 2, 4.0: 3, 16.0: 4}
"""Passes over the pixels of each chain, by its largest tilt V. A step costs 2·V, which is from 0.5 to 32."""
GROUPS = 16
"""Steps of a pass over the pixels."""
CLIP = 0.35
"""Clip, in standard deviations of the residual."""
SHARES = (0.5, 1.0)
"""Bounds of the share that `_realised` measures, because few pixels give random shares."""
FACTORS = (0.8, 1.25)
"""Bounds of the measured factor φ, because few or small pictures give random factors."""
POINTS = 40
"""Number of SNRs in the table."""
SEARCHED_BITS, SEARCHED_TILTS = 14, (0.25, 0.5, 1.0, 2.0)
"""Index bits and tilts at which the share of a searching code is measured. The share hardly depends on the bits."""
SEARCHED_COORDINATES = 1 << 17
"""Largest number of coordinates on which the share of a searching code is measured."""


def sensing_residuals(denoiser: Denoiser, sizes: Sequence[Pixels], progress: Progress) -> Residuals:
    """Measure the residuals of a denoiser on sensing chains of public pictures.

    Args:
        denoiser: The denoiser.
        sizes: uint8 pictures (N, H, W, C) of one or more sizes, an array for each.
        progress: Callback that receives what is being measured.
    """
    chains = []
    for pixels in sizes:
        for tilt, passes in TILTS.items():
            progress(f"sensing chains of tilt {tilt:g} on pictures of {pixels.shape[1]}×{pixels.shape[2]}")
            chains.append(sensing_chain(denoiser, pixels, tilt, passes))
    progress("the share of its tilt that a searching code realises")
    return Residuals(*_table(chains), *searched(sizes[0]))


def searched(pixels: Pixels) -> tuple[Floats, Floats]:
    """Return pairs of a pad and a tilt of the code `Flat` (K, 2), and what `_realised` measures for each (K,)."""
    searches = [(pad, tilt) for pad in sorted({pad for _, pad in SEARCHES}) for tilt in SEARCHED_TILTS]
    return np.array(searches), np.array([_realised(pixels, pad, tilt) for pad, tilt in searches])


class ChainPoint(NamedTuple):
    """The measurements of a sensing chain before one of its steps, or at its end."""

    snr: float
    """The SNR of the state."""
    sizes: Floats
    """Mean sizes of the residuals in slices of equally many coordinates, in ascending order."""
    touched: float
    """φ of the step: the mean of |r|·tanh θ, of residuals r and tilts θ, where it touches, divided by that of all."""


def sensing_chain(denoiser: Denoiser, pixels: Pixels, tilt: float, passes: int) -> list[ChainPoint]:
    """Code public pictures by the code `Pairs`, and return the measurements before each step and after the last.

    Args:
        denoiser: The denoiser.
        pixels: uint8 pictures (N, H, W, C).
        tilt: The largest tilt V of a coordinate, in nats.
        passes: Number of passes over the pixels, of `GROUPS` steps each.
    """
    geometry = Geometry.of(pixels.shape[1:])
    channels = geometry.channels
    flat = pixels.reshape(len(pixels), -1)
    x = to_signal(flat)
    coding = Coding(Sign(period=channels * GROUPS), Pairs())
    steps: list[SensingStep] = []
    state = Sensing((), denoiser).start(SEED, geometry)
    met, snr = list[ChainPoint](), 0.0
    for number in range(GROUPS * passes + 1):
        x_hat = Sensing(steps, denoiser).fully(number, state)
        residual = np.abs(x - _rows(x_hat))
        if number == GROUPS * passes:
            met.append(ChainPoint(snr, slices(residual), met[-1].touched))
            break
        clip = float(short_floats(CLIP * deviation(residual.ravel())))
        theta = tilt * np.minimum(residual / clip, 1.0)
        told = residual * np.tanh(theta)
        asked = coding.channel.mask.touched(SEED, number, geometry)
        factor = float(np.clip(told[:, asked].mean() / told.mean(), *FACTORS)) if len(asked) else 1.0
        met.append(ChainPoint(snr, slices(residual), factor))
        gained = gain(residual.ravel(), theta.ravel(), factor, 1 / (channels * GROUPS))
        steps.append(SensingStep(tilt, clip, float(short_floats(gained)), 1, 1))
        chain = Chain(Plan(coding, tuple(steps)), denoiser, SEED, geometry)
        layout = chain.layout(number, range(len(pixels)))
        touched = colours_last(x_hat).reshape(len(x_hat), -1)[:, layout.chunks.order]
        select = Selector(chain.plan, SEED, flat, denoiser.device.type)
        indices = select(layout, np.broadcast_to(touched, (len(pixels), touched.shape[1])))
        state = chain.trajectory.advance(number, state, x_hat, chain.noise(layout, indices))
        snr += steps[-1].snr_gain
    return met


def _rows(x: Array) -> Floats:
    return colours_last(x).reshape(len(x), -1).astype(np.float64)


def _table(chains: list[list[ChainPoint]]) -> tuple[Floats, Floats, Floats]:
    """Return SNRs, and at each the means over chains of the residuals' sizes and of φ (`ChainPoint`)."""
    start = np.sqrt(np.mean([np.square(chain[0].sizes) for chain in chains], axis=0))
    later = [chain[1:] for chain in chains]
    columns = [np.log(np.maximum([[*point.sizes, point.touched] for point in chain], 1e-9)).T for chain in later]
    snrs = [np.log([point.snr for point in chain]) for chain in later]
    logs = np.linspace(min(grid[0] for grid in snrs), max(grid[-1] for grid in snrs), POINTS)
    rows = []
    for log in logs:
        # The chains that pass this SNR. If no chain does, the chains that come nearest.
        beside = np.array([max(grid[0] - log, log - grid[-1], 0.0) for grid in snrs])
        passing = np.flatnonzero(beside <= beside.min() + 1e-9).tolist()
        met = [[np.interp(log, snrs[chain], column) for column in columns[chain]] for chain in passing]
        rows.append(np.exp(np.mean(met, axis=0)))
    sizes, touched = np.stack(rows)[:, :-1], np.stack(rows)[:, -1]
    return np.array([0.0, *np.exp(logs)]), np.stack([start, *sizes]), np.array([1.0, *touched])


def _realised(pixels: Pixels, pad: float, tilt: float) -> float:
    """Return how much of the agreement that a tilt promises the code `Flat` reaches: E[s·r]/E[r·tanh θ].

    The residuals r are pixels minus mid-grey, in random order. The drawn signs are s, and each residual has the tilt θ.
    """
    order = np.random.default_rng(0).permutation(pixels.size)[:SEARCHED_COORDINATES]
    r = to_signal(pixels.reshape(-1)[order])
    clip = float(short_floats(np.array([np.sqrt(np.square(r).mean())]))[0])
    theta = tilt * np.clip(r / clip, -1, 1)
    size = max(1, int((SEARCHED_BITS - pad) / divergence(np.abs(theta)).mean()))
    step = SensingStep(tilt, clip, 2.0**-6, size, SEARCHED_BITS)
    arithmetic, on = step.arithmetic(Sign(period=3), Flat().score_alpha), scoring.backend("cpu")
    bounds = np.linspace(0, len(r), -(-len(r) // size) + 1).astype(np.int64)
    chunks = len(bounds) - 1
    task = scoring.ScoringTask(
        arithmetic.law,
        arithmetic.fraction_bits,
        step.candidates,
        scoring.stream_rows([randomness.stream(SEED, 0)] * chunks, [*range(chunks)]),
        bounds,
        arithmetic.shifts(r, np.zeros(len(r))),
    )
    drawn = on.host(on.winners(task.law, task.streams, task.offsets, scoring.select(task, on)))
    told, wanted = ((2.0 * drawn - 1) * r).sum(), (r * np.tanh(theta)).sum()
    return float(np.clip(told / wanted, *SHARES))
