"""What the golden archives of real encodings hold: codings, pictures and reconstructions."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from dipp.codec.codec import Codec
from dipp.codes import Flat, Pairs
from dipp.core.beacon import Beacon
from dipp.core.plan import Plan
from dipp.core.window import Window
from dipp.format.archive import Archive
from dipp.models.denoiser import Denoiser
from dipp.planning.presets import DIFFC, PAPER
from experiments.comparisons.unclipped import SHARP, THRIFTY
from helpers.codecs import make_plan, pictures
from helpers.sensing import sensing_plan

STEPPED = {
    "coded-sharp": SHARP,
    "coded-thrifty": THRIFTY,
    "coded-paper": PAPER,
    "coded-diffc": DIFFC,
    "coded-sizes": SHARP,
}
"""Format 1: steps along timesteps."""
SENSED = {"sensing-pairs": Pairs(), "sensing-flat": Flat()}
"""Format 2: a pass and a half of clipped sensing, with the digest of a table."""
MIXED = {"beacon-sharp": Beacon(4242, bytes(range(100, 132)), bytes(range(16)))}
"""Format 2: steps along timesteps, with a seed that follows from a beacon."""
SOURCED = {"source-pairs": Window(-100, 900)}
"""Format 2: pairs, with a window, and pictures in colour and in grey."""
ARCHIVES = (*STEPPED, *SENSED, *MIXED, *SOURCED)
SIZES = ((8, 8), (13, 21), (7, 9), (40, 24))
"""Of pictures in the archive `sizes`: the denoiser's own, uneven ones, and one that it sees through windows."""
SENSED_SIZES = ((8, 8), (8, 8), (7, 9), (1, 1))
TABLE = hashlib.sha256(b"a table").hexdigest()


def images(name: str) -> list[Any]:
    if name in SOURCED:
        colour = pictures(2)
        return [colour[0], colour[1, :, :, 0], colour[1, :, :, :1].astype(np.int16) * 4 - 100]
    if name in SENSED:
        return [pictures(1, *size)[0] for size in SENSED_SIZES]
    return [pictures(1, *size)[0] for size in SIZES] if name == "coded-sizes" else list(pictures(3))


def plan_of(name: str, denoiser: Denoiser) -> Plan:
    if name in SOURCED:
        return sensing_plan(Pairs())
    return sensing_plan(SENSED[name]) if name in SENSED else make_plan(STEPPED.get(name, SHARP), denoiser.schedule)


def codec_of(name: str, denoiser: Denoiser) -> Codec:
    """What encodes the archive of a name."""
    return Codec(denoiser, plan_of(name, denoiser), table=TABLE if plan_of(name, denoiser).sensing else None)


def reconstructions(codec: Codec, source: Archive) -> dict[str, Any]:
    """Of all pictures, one after the other."""
    found: dict[str, list[Any]] = {"noisy": [], "mean": []}
    for state, t in codec.states(source):
        found["noisy"].append(state.cpu().numpy().ravel())
        found["mean"].append(codec.denoiser.x0(state, t).cpu().numpy().ravel())
    return {kind: np.concatenate(parts) for kind, parts in found.items()}
