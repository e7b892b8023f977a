"""The audit of the certified presets, with its plot of observed against claimed losses.

    python benchmarks/audit.py --out benchmarks/results/audit.json --plot benchmarks/results/audit.png

No model and no images are needed. The JSON has the output of `dipp audit --json` for several presets, and the points of
the plot. Of presets with the same codings, only the first is audited. `--quick` audits the default preset alone.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from provenance import provenance, write

from dipp.audit import audit, ladder
from dipp.audit.plot import draw
from dipp.planning.presets import PRESETS


def main() -> None:
    """Audit the presets, draw the plot and write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epsilon", type=float, default=4.0)
    parser.add_argument("--quick", action="store_true", help="a quick run: only the default preset")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--plot", type=Path, required=True)
    arguments = parser.parse_args()
    source, start = provenance(), time.perf_counter()
    firsts = {preset.codings: name for name, preset in reversed(PRESETS.items()) if preset.certified}
    names = [name for name in PRESETS if name in firsts.values()][: 1 if arguments.quick else None]
    found = {name: audit(name, arguments.epsilon).to_dict() for name in names}
    seconds = time.perf_counter() - start
    points = [point for name in names for point in ladder(name, arguments.epsilon)]
    draw(points, arguments.plot)
    content = {
        **source,
        "seconds": round(seconds, 1),
        "presets": found,
        "points": [point._asdict() for point in points],
    }
    write(arguments.out, content)
    for name, one in found.items():
        print(name, "passed" if one["passed"] else "FAILED")


if __name__ == "__main__":
    main()
