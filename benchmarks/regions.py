"""How much answers about regions add to painting at ε = 0: PSNR inside boxes of photographs, by side and by ε.

    python benchmarks/regions.py PHOTOGRAPHS --out benchmarks/results/regions.json

PHOTOGRAPHS is a folder of pictures that neither network nor words have seen. A box of each side is put into each of
them, by a fixed seed. It is painted once without being read, and asked once at each ε. `gain` is the mean over
photographs of the PSNR inside, minus that of the painting; `worst` is the smallest one.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from provenance import provenance, write

from dipp.codec import asking
from dipp.models import embedded
from dipp.planning.regions import plan_of_regions
from dipp.redaction import answers, paint
from dipp.redaction.outlines import Box, Margin
from dipp.redaction.regions import PlacedRegions, Region
from dipp.redaction.sources import open_source

SIDES = (32, 64, 128, 256)
EPSILONS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)


def measured(path: Path, side: int) -> list[float]:
    """Return the PSNR inside a box: of the painting, and of the answers at each ε."""
    source = open_source(path.read_bytes())
    width, height = source.size
    generator = np.random.default_rng([side, *path.stem.encode()])
    left, top = (int(generator.integers(0, size - side + 1)) for size in (width, height))
    placed = PlacedRegions((Region(Box(left, top, left + side, top + side)),), source.size)
    unit, cells = answers.unit_of(source, placed, Margin()), source.cells(placed.mask(Margin()))
    fill = paint.fill(paint.PAINT, str(embedded.FOLDER), "cpu")
    denoiser = answers.denoiser_of(fill, str(embedded.FOLDER), "cpu")
    base, original = answers.base_of(source, cells, fill), source.levels()
    if unit is None:
        raise ValueError(path)

    def psnr(picture: Any) -> float:
        error = np.square(picture[cells].astype(np.float64) - original[cells]).mean()
        return float(10 * np.log10(255**2 / max(error, 1e-3)))

    archives = (asking.ask(denoiser, plan_of_regions(unit, epsilon), base, original) for epsilon in EPSILONS)
    return [psnr(base), *(psnr(asking.decoded(denoiser, archive, base)) for archive in archives)]


def main() -> None:
    """Measure, and write the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("photographs", type=Path)
    parser.add_argument("--sides", type=int, nargs="+", default=SIDES)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    paths, rows = sorted(options.photographs.iterdir()), []
    for side in options.sides:
        found = np.array([measured(path, side) for path in paths])
        gains = found[:, 1:] - found[:, :1]
        rows.append(
            {
                "side": side,
                "photographs": len(paths),
                "painted": round(float(found[:, 0].mean()), 2),
                "gain": dict(zip(map(str, EPSILONS), gains.mean(axis=0).round(2).tolist(), strict=True)),
                "worst": dict(zip(map(str, EPSILONS), gains.min(axis=0).round(2).tolist(), strict=True)),
            }
        )
        print(rows[-1])
        write(options.out, {**provenance(), "rows": rows})


if __name__ == "__main__":
    main()
