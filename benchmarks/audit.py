"""The audit of the certified presets, with its plot: observed loss against what is claimed.

    python benchmarks/audit.py --out benchmarks/results/audit.json --plot benchmarks/results/audit.png

No model and no images are needed. The JSON has what `dipp audit --json` prints for several presets, and the points.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

from provenance import provenance

from dipp.planning.presets import PRESETS
from dipp.audit import audit, ladder
from dipp.audit.plot import draw


def main() -> None:
    """Audit, draw and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epsilon", type=float, default=4.0)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--plot", type=Path, required=True)
    arguments = parser.parse_args()
    start = time.perf_counter()
    names = [name for name, preset in PRESETS.items() if preset.mechanism.certified]
    found = {name: audit(name, arguments.epsilon).to_dict() for name in names}
    seconds = time.perf_counter() - start
    points = [point for name in names for point in ladder(name, arguments.epsilon)]
    draw(points, arguments.plot)
    content = {
        **provenance(),
        "seconds": round(seconds, 1),
        "presets": found,
        "points": [point._asdict() for point in points],
    }
    arguments.out.write_text(json.dumps(content, indent=1) + "\n")
    for name, one in found.items():
        print(name, "passed" if one["passed"] else "FAILED")


if __name__ == "__main__":
    main()
