"""The time of `dipp redact` on a photograph of 4000×3000 pixels with five regions of 200×200.

    python benchmarks/redact.py --rounds 3 --out benchmarks/results/redact.json

The whole command is timed, in a process of its own: loading, decoding, painting, coding, writing. The photograph is a
picture of `benchmarks/pictures`, scaled up, with grain. It is saved as a camera does (quality 90, 4:2:0).
The first round may compile, and does not count. Beside the time on the clock stands the processor's, of all cores
together, because on a shared machine the clock also counts other work. The load is the average number of processes that
wanted a core, including these.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from provenance import provenance, write
from startup import timed

SIZE = (4000, 3000)
BOXES = [
    (300, 400, 200, 200),
    (1500, 700, 200, 200),
    (2600, 300, 200, 200),
    (900, 2100, 200, 200),
    (3300, 2300, 200, 200),
]
MAIN = "import sys; sys.argv[0] = 'dipp'; from dipp.cli import main; main()"


def photograph(size: tuple[int, int]) -> Image.Image:
    """Return a picture of this size with the grain of a camera."""
    with Image.open(Path(__file__).parent / "pictures" / "foliage.png") as small:
        large = np.asarray(small.convert("RGB").resize(size, Image.Resampling.LANCZOS), np.float32)
    grain = np.random.default_rng(0).normal(0, 3, large.shape).astype(np.float32)
    return Image.fromarray(np.clip(large + grain, 0, 255).astype(np.uint8))


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--quick", action="store_true", help="a quick run: a picture with a quarter of the sides, one round"
    )
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    scale = 4 if arguments.quick else 1
    rounds = 1 if arguments.quick else arguments.rounds
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        picture = photograph((SIZE[0] // scale, SIZE[1] // scale))
        regions = [{"kind": "face", "box": [number // scale for number in box]} for box in BOXES]
        names: dict[str, dict[str, Any]] = {"photograph.jpg": {"quality": 90, "subsampling": 2}}
        entries = [{"name": name, "size": list(picture.size), "regions": regions} for name in names]
        (folder / "regions.json").write_text(json.dumps({"format": "dipp regions", "version": 1, "pictures": entries}))
        environment = os.environ | {"DIPP_ODOMETER": str(folder / "odometer")}
        for name, options in names.items():
            picture.save(folder / name, **options)
            for fill in ("paint", "grey"):
                words = ["redact", str(folder / name), "-o", str(folder / f"out-{name}"), "--overwrite"]
                words += ["--regions", str(folder / "regions.json"), "--fill", fill, "--device", "cpu"]
                times = [timed([sys.executable, "-c", MAIN, *words], environment) for _ in range(rounds + 1)][1:]
                clock, cpu = zip(*times, strict=True)
                row: dict[str, Any] = {"file": name, "size": list(picture.size), "regions": len(regions), "fill": fill}
                row |= {"least_clock": min(clock), "median_clock": statistics.median(clock)}
                rows.append(row | {"median_cpu": statistics.median(cpu), "load": os.getloadavg()[0]})
                print(*(f"{word:.1f}" if isinstance(word, float) else word for word in rows[-1].values()), flush=True)
    write(arguments.out, {**provenance(), "rounds": rounds, "rows": rows})


if __name__ == "__main__":
    main()
