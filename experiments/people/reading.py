"""Stage `text`: the share of characters that are read, by height of letters, method and ε."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np

from dipp.risk import text
from experiments.people.lines import Line, line, matched, random_text
from experiments.people.methods import Method
from experiments.people.store import Store

HEIGHTS = (8, 12, 16, 24, 32, 48, 80)
LINES = {8: (12, 4), 12: (12, 4), 16: (12, 4), 24: (12, 3), 32: (12, 2), 48: (6, 3), 80: (6, 2)}
"""Number of characters per line and number of lines, by height."""
METHODS = (
    Method("clean"),
    *(Method("cells", side, epsilon) for side in (8, 16, 32) for epsilon in (4.0, 8.0, 16.0)),
    *(Method("pixel", 0, epsilon) for epsilon in (1.0, 0.25, 0.5)),
    *(Method("blur", sigma) for sigma in (4, 8)),
    *(Method("pixelate", side) for side in (8, 16)),
    Method("picture", 0, 16.0),
)


def stage(store: Store) -> None:
    """Record every requested method that is not recorded yet."""
    for method in METHODS:
        if store.wanted(f"text.{method.name}"):
            began = time.process_time()
            rows = [_read(method, height) for height in HEIGHTS]
            content = {"method": method.name, "family": method.family, "size": method.size, "epsilon": method.epsilon}
            store.write(f"text.{method.name}", {**content, "rows": rows}, began)


def lines(height: int) -> list[Line]:
    """Return the lines of one height, the same in every run."""
    rng = np.random.default_rng(height)
    letters, count = LINES[height]
    return [line(random_text(letters, rng), height) for _ in range(count)]


def _read(method: Method, height: int) -> dict[str, Any]:
    """Return the shares of characters that both readers read."""
    by_match, by_program = [], []
    for drawn in lines(height):
        shown = method.released(drawn.pixels[None], drawn.pixels[None])[0][0]
        read = matched(drawn, shown)
        by_match.append(np.mean([a == b for a, b in zip(read, drawn.text, strict=True)]))
        by_program.append(text.share(text.tesseract(shown, height), drawn.text))
    return {
        "height": height,
        "characters": math.prod(LINES[height]),
        "knows the typeface": round(float(np.mean(by_match)), 4),
        "tesseract": round(float(np.mean(by_program)), 4),
    }
