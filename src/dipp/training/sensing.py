"""Sensing chains on public pictures: the residuals that a denoiser's encodings meet, for the planner.

The chains are really coded, by the codec's own masks, integers and pairs. No plan is needed for them: before each step
the clip and the gain are computed from the public pictures' own residuals, by the planner's formulas. The residuals
that are met go into a table by the SNR of the state; chains of several tilts, and of pictures of several sizes, are
averaged, since it is the SNR that matters.
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
"""Calibration is public and repeatable, but for the private coin of the chains."""
TILTS = {0.25: 2, 1.0: 2, 4.0: 3, 16.0: 4}
"""Largest tilts V of the chains, and the passes that each takes: pairs at ε = 0.5 to 32 a touch."""
GROUPS = 16
"""g: steps of a pass."""
CLIP = 0.35
"""k: clip in deviations of the residual."""
SHARES = (0.5, 1.0)
"""Least and largest share of its tilt that a searching code is believed to realise: of few pixels it is mostly
chance."""
FACTORS = (0.8, 1.25)
"""Least and largest φ that are believed: of few and small pictures it is mostly chance."""
POINTS = 40
"""SNRs of the table."""
SEARCHED_BITS, SEARCHED_TILTS = 14, (0.25, 0.5, 1.0, 2.0)
"""Index bits and tilts at which the share of a searching code is measured: the size of an index hardly matters."""
SEARCHED_COORDINATES = 1 << 17
"""Coordinates of the pictures on which it is measured, at most."""


def sensing_residuals(denoiser: Denoiser, sizes: Sequence[Pixels], progress: Progress) -> Residuals:
    """The residuals of a denoiser on sensing chains of public pictures (N, H, W, C), for each of some sizes."""
    chains = []
    for pixels in sizes:
        for tilt, passes in TILTS.items():
            progress(f"sensing chains of tilt {tilt:g} on pictures of {pixels.shape[1]}×{pixels.shape[2]}")
            chains.append(sensing_chain(denoiser, pixels, tilt, passes))
    progress("the share of its tilt that a searching code realises")
    return Residuals(*_table(chains), *searched(sizes[0]))


def searched(pixels: Pixels) -> tuple[Floats, Floats]:
    """The share of its tilt that a searching code realises on pictures: rows (pad, V), and the share of each."""
    searches = [(pad, tilt) for pad in sorted({pad for _, pad in SEARCHES}) for tilt in SEARCHED_TILTS]
    return np.array(searches), np.array([_realised(pixels, pad, tilt) for pad, tilt in searches])


class ChainPoint(NamedTuple):
    """What a chain met before a step, or at its end."""

    snr: float
    sizes: Floats
    """Slices of the residuals' sizes, of all coordinates."""
    touched: float
    """φ of the step: E[|r|·tanh θ] of the coordinates that it touches, over that of all. 1 at the end."""


def sensing_chain(denoiser: Denoiser, pixels: Pixels, tilt: float, passes: int) -> list[ChainPoint]:
    """Code public pictures by pairs of one tilt: what is met before each step, and after the last."""
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
    """SNRs, and sizes and φ at each of them: mean logarithms of what the chains that pass it interpolate."""
    start = np.sqrt(np.mean([np.square(chain[0].sizes) for chain in chains], axis=0))
    later = [chain[1:] for chain in chains]
    columns = [np.log(np.maximum([[*one.sizes, one.touched] for one in chain], 1e-9)).T for chain in later]
    places = [np.log([one.snr for one in chain]) for chain in later]
    logs = np.linspace(min(place[0] for place in places), max(place[-1] for place in places), POINTS)
    rows = []
    for log in logs:
        # Those that pass it; if none does, those that come nearest.
        beside = np.array([max(place[0] - log, log - place[-1], 0.0) for place in places])
        passing = np.flatnonzero(beside <= beside.min() + 1e-9).tolist()
        met = [[np.interp(log, places[chain], column) for column in columns[chain]] for chain in passing]
        rows.append(np.exp(np.mean(met, axis=0)))
    sizes, touched = np.stack(rows)[:, :-1], np.stack(rows)[:, -1]
    return np.array([0.0, *np.exp(logs)]), np.stack([start, *sizes]), np.array([1.0, *touched])


def _realised(pixels: Pixels, pad: float, tilt: float) -> float:
    """E[s·r]/E[r·tanh θ] of the flat code on pictures' residuals against mid-grey, in a public random order."""
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
