"""Probes: how often the best guess names which of two candidates was encoded.

The toss of a coin decides which of two candidate pictures is encoded. A reader who knows both, and everything public,
does best to guess the candidate under which the file is likelier. That likelihood ratio is computed exactly, from the
encoder's own integers (`dipp.audit.likelihood`). The candidates differ as follows:

| probe | in |
|---|---|
| pixel | one pixel, black or white |
| shade | one pixel, by 16 grey levels |
| patch | 8×8 pixels, which come from another picture |
| picture | everything: they are two pictures |

**The bound.** With a loss L = |ln P/P'| the best guess is right with probability 1/(1 + e^−L), and the certificate
promises L ≤ k·ε where k pixels differ: at most e^kε/(1 + e^kε) of all guesses are right. The share of right guesses is
counted; `expected` is the mean of 1/(1 + e^−L) over the same files, which estimates the same with less variance.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special

from dipp.codec.batches import batch_size
from dipp.codec.chain import Chain
from dipp.codec.encoder import Selector
from dipp.codec.pictures import Pixels
from dipp.core import randomness
from dipp.core.geometry import Geometry
from dipp.core.plan import Plan
from dipp.format.parameters import promised
from dipp.privacy.budget import Budget
from experiments.cifar10.config import Probes
from experiments.cifar10.releases import Maker
from experiments.cifar10.witness import Witness

KINDS = {"pixel": 1, "shade": 1, "patch": 64, "picture": 1024}
"""Largest number of pixels in which the candidates of each probe differ."""
SHADE, SIDE = 16, 8
"""Grey levels of `shade`, and the side of a patch."""
QUANTILES = {"median": 0.5, "high": 0.95, "largest": 1.0}


def candidates(kind: str, pixels: Pixels, generator: np.random.Generator) -> tuple[Pixels, Pixels]:
    """Return two candidates for each of the pictures."""
    first, second, others = pixels.copy(), pixels.copy(), np.roll(pixels, 1, axis=0)
    count, height, width, _ = pixels.shape
    if kind == "picture":
        return first, others
    side = SIDE if kind == "patch" else 1
    tops, lefts = generator.integers(0, [[height - side + 1], [width - side + 1]], (2, count))
    for number, (top, left) in enumerate(zip(tops, lefts, strict=True)):
        place = number, slice(top, top + side), slice(left, left + side)
        if kind == "pixel":
            first[place], second[place] = 0, 255
        elif kind == "shade":
            second[place] = np.where(first[place] < SHADE * 8, first[place] + SHADE, first[place] - SHADE)
        else:
            second[place] = others[place]
    return first, second


def ratios(maker: Maker, plan: Plan, pair: tuple[Pixels, Pixels], second: Any, begin: int, seed: bytes) -> Any:
    """Return ln P[file | first]/P[file | second] for real files of first candidates, or of second ones if asked."""
    truth, found = np.where(second[:, None, None, None], pair[1], pair[0]), []
    chain = Chain(plan, maker.denoiser, seed, Geometry.of(truth.shape[1:]))
    size = batch_size(maker.device, chain.geometry)
    for start in range(0, len(truth), size):
        part = slice(start, start + size)
        rows = (one[part].reshape(len(one[part]), -1) for one in (truth, *pair))
        witness = Witness(*(Selector(plan, seed, row, maker.device) for row in rows))
        chain.run(range(begin + start, begin + start + len(truth[part])), witness)
        found.append(witness.ratios)
    return np.concatenate(found)


def measure(maker: Maker, asked: Probes, epsilon: float) -> dict[str, Any]:
    """Encode pictures at one ε, and return what each attack of `asked` finds out about them, by name."""
    seed = randomness.fresh_seed()
    point = maker.choose(asked.method, Budget.pure(epsilon), asked.bpp)
    pixels, generator = maker.pixels[: asked.images], np.random.default_rng(0)
    promise = promised(point.plan, Geometry.of(pixels.shape[1:]), None).epsilon
    rows = {}
    for number, (kind, touched) in enumerate(KINDS.items()):
        second = generator.random(len(pixels)) < 0.5
        pair = candidates(kind, pixels, generator)
        found = ratios(maker, point.plan, pair, second, number * len(pixels), seed)
        loss = np.abs(found)
        rows[kind] = {
            "pixels": touched,
            "right": float(((found < 0) == second).mean()),
            "expected": float(special.expit(loss).mean()),
            "bound": float(special.expit(touched * promise)),
            "losses": {name: float(np.quantile(loss, share)) for name, share in QUANTILES.items()},
            "beyond": int((loss > touched * promise).sum()),
        }
    facts = {"epsilon": epsilon, "certified": promise, "images": len(pixels), "bpp": point.bpp, "kinds": rows}
    return {**facts, "code": point.plan.code.name, "steps": len(point.plan.steps), "model": maker.denoiser.identity}
