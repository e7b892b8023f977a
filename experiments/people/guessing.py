"""Stage `guesses`: how often a released picture tells the colour of a pixel, or a cell, from another's."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

import numpy as np

from dipp.codec import pictures
from dipp.codec.pictures import Pixels
from dipp.risk import guesses
from experiments.people.faces import Faces
from experiments.people.methods import Method
from experiments.people.store import Store

ROOT = Path(__file__).parents[2]
PICTURES = sorted(path for folder in ("examples", "benchmarks") for path in (ROOT / folder / "pictures").glob("*.png"))
METHODS = (
    *(Method("cells", 16, epsilon) for epsilon in (8.0, 4.0, 16.0)),
    *(Method("picture", 0, epsilon) for epsilon in (8.0, 4.0, 16.0)),
    *(Method("cells", side, epsilon) for side in (8, 32) for epsilon in (8.0, 4.0, 16.0)),
)
SIDES = (1, 8, 16, 32)


def stage(faces: Faces, store: Store) -> None:
    """Record every requested method that is not recorded yet."""
    for method in METHODS:
        if store.wanted(f"guesses.{method.name}"):
            began = time.process_time()
            store.write(f"guesses.{method.name}", _asked(method, faces), began)


def _asked(method: Method, faces: Faces) -> dict[str, Any]:
    """Return the shares of right guesses about pixels, cells and whole faces."""
    rows = []
    for path in PICTURES:
        original = pictures.read(path)
        shown = method.released(original[None], original[None])[0][0]
        rng = np.random.default_rng(0)
        right = {f"{side}": _rounded(guesses.about_cells(original, shown, side, rng)) for side in SIDES}
        rows.append({"picture": path.stem, "right": right})
    epsilon = method.epsilon or 0.0
    content = {"method": method.name, "family": method.family, "size": method.size, "epsilon": epsilon}
    content["bound"] = round(1 / (1 + math.exp(-epsilon)), 4)
    content["faces"] = None
    if method.family == "picture":
        probes: Pixels = faces.probes[0]
        content["faces"] = _rounded(guesses.about_pictures(probes, method.released(probes, probes)[0]))
    return {**content, "rows": rows}


def _rounded(right: float | None) -> float | None:
    return None if right is None else round(right, 4)
