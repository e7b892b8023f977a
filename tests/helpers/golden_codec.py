"""What the golden archives of real encodings hold: codings, pictures and reconstructions."""

from __future__ import annotations

from typing import Any

import numpy as np

from dipp.codec.codec import Codec
from dipp.format.archive import Archive
from dipp.planning.presets import DIFFC, PAPER, SHARP, THRIFTY
from helpers.codecs import pictures

ARCHIVES = {"sharp": SHARP, "thrifty": THRIFTY, "paper": PAPER, "diffc": DIFFC, "sizes": SHARP}
SIZES = ((8, 8), (13, 21), (7, 9), (40, 24))
"""Of pictures in the archive `sizes`: the denoiser's own, uneven ones, and one that it sees through windows."""


def images(name: str) -> list[Any]:
    return [pictures(1, *size)[0] for size in SIZES] if name == "sizes" else list(pictures(3))


def reconstructions(codec: Codec, source: Archive) -> dict[str, Any]:
    """Of all pictures, one after the other."""
    found: dict[str, list[Any]] = {"noisy": [], "mean": []}
    for state, t in codec.states(source):
        found["noisy"].append(state.cpu().numpy().ravel())
        found["mean"].append(codec.denoiser.x0(state, t).cpu().numpy().ravel())
    return {kind: np.concatenate(parts) for kind, parts in found.items()}
