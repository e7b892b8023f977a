"""One side of `speed.py`: times its cases with the dipp of this interpreter, one for each name that it reads.

    python speed_side.py SOURCE

SOURCE is the folder that dipp must come from. The first line of the output lists the cases. Only
`compare_side.py` knows the names of the API in each checkout.
"""

from __future__ import annotations

import functools
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from compare_side import Blur, codec_of, decoded, encoded, picture, plan_of_preset, table_of
from scoring import make_task

import dipp
from dipp import models, scoring
from dipp.core.channels import Laplace, Sign
from dipp.models import embedded

BUDGETS = {"sharp": (1, 4, 16), "swift": (4, 16), "paper": (16,)}
IMAGES = 4
SIDE = 32
LARGE = 192
DIMENSIONS = (96, 1024)
CANDIDATES = (1 << 14, 1 << 16)

Work = Callable[[], object]


def codec_cases(denoiser: Any, table: Any, name: str) -> dict[str, Work]:
    """Return cases of encoding and decoding by each preset, and of one larger picture."""
    sizes = {(preset, epsilon): (SIDE, IMAGES) for preset, found in BUDGETS.items() for epsilon in found}
    cases: dict[str, Work] = {}
    for (preset, epsilon), (side, count) in [*sizes.items(), (("sharp", 4), (LARGE, 1))]:
        case = {"preset": preset, "budget": {"epsilon": epsilon}, "planned_for": (side, side)}
        plan, _ = plan_of_preset(case, denoiser, table)
        codec = codec_of(denoiser, plan, None)
        images = [picture(np.random.default_rng(number), [side, side], 3, False) for number in range(count)]
        label = f"{name}, {preset} ε = {epsilon}, {count} of {side}×{side}"
        cases[f"encode: {label}"] = functools.partial(encoded, codec, images, bytes(16))
        archive = functools.cache(functools.partial(encoded, codec, images, bytes(16)))
        cases[f"decode: {label}"] = functools.partial(decoded_anew, codec, archive)
    return cases


def decoded_anew(codec: Any, archive: Callable[[], Any]) -> list[bytes]:
    """Return a case that decodes an archive, which is made when it is first needed."""
    return decoded(codec, archive())


def scoring_cases() -> dict[str, Work]:
    """Return cases of scores and selections of two channels."""
    on, cases = scoring.backend("cpu"), dict[str, Work]()
    for channel in (Laplace(), Sign()):
        for dims in DIMENSIONS:
            for candidates in CANDIDATES:
                task = make_task(channel, dims, candidates)
                label = f"{channel.name}, {dims} dimensions, 2^{candidates.bit_length() - 1}"
                cases[f"score: {label}"] = functools.partial(on.scores, task)
                cases[f"select: {label}"] = functools.partial(scoring.select, task, on)
    return cases


def main(source: Path) -> None:
    """Answer each name of a case with processor seconds, until there are no more names."""
    torch.set_num_threads(1)
    if not Path(dipp.__file__).resolve().is_relative_to(source):
        raise SystemExit(f"{sys.executable} imports dipp from {dipp.__file__}; {source} is needed")
    table = table_of(embedded.FOLDER / "calibration.json")
    blur = Blur(3, str(table.provenance["model"]))
    cases = codec_cases(blur, table, "no network")
    cases |= codec_cases(models.load(str(embedded.FOLDER), "cpu"), table, "network") | scoring_cases()
    print(json.dumps(list(cases)), flush=True)
    for line in sys.stdin:
        start = time.process_time()
        cases[line.strip()]()
        print(json.dumps(time.process_time() - start), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
