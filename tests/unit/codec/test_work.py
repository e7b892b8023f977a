"""The limit of work: honest files pass, and a file that asks for too much is refused before any work."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.geometry import of_pixels
from helpers.networks import IDENTITY
from helpers.refusals import refused
from helpers.sensing import WienerDenoiser, sensing_plan

import dipp
from dipp import models
from dipp.codec import chain, work
from dipp.codec.chain import Chain
from dipp.codec.decoder import Decoder
from dipp.codec.decoding import Decoding
from dipp.codes import Flat
from dipp.core.channels import Sign
from dipp.core.geometry import Geometry
from dipp.core.plan import Coding, Plan
from dipp.core.steps import SensingStep
from dipp.format.archive import Archive
from dipp.format.parameters import MAX_STEPS, PublicParameters
from dipp.models import embedded

PHOTOGRAPH = 12_600_000
"""Number of pixels of a picture from a camera or a phone."""


def bomb(model: str = IDENTITY, side: int = 8192) -> Archive:
    """Return an archive of a huge picture in 4,096 steps of one bit each."""
    step = SensingStep(1.0, 0.25, 2**-6, (1 << 32) - 1, 1, 0)
    plan = Plan(Coding(Sign(period=3), Flat()), (step,) * MAX_STEPS)
    return Archive.build(
        PublicParameters(plan, model, bytes(16), 3), [Geometry(side, side, 3)], [np.zeros(MAX_STEPS, np.int64)]
    )


@pytest.fixture(scope="module")
def made() -> Archive:
    return bomb(models.load(embedded.FOLDER).identity)


@pytest.mark.slow
def test_a_small_file_cannot_ask_for_hours(made: Archive, tmp_path: Path) -> None:
    """A process with little memory refuses the file before it allocates any."""
    options: list[dict[str, Any]] = [{}, {"noisy": True}, {"steps": 100}, {"max_work": 270}]
    made.save(tmp_path / "bomb.dipp")
    assert made.size < 700
    script = f"""
import resource, dipp
from dipp.codec.decoding import Decoding
from dipp.errors import DippError
codec = dipp.Codec.for_parameters(dipp.open({str(tmp_path / "bomb.dipp")!r}).parameters)
with open("/proc/self/statm") as file:
    held = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (held + (256 << 20), held + (256 << 20)))
for options in {options!r}:
    try:
        codec.decode({str(tmp_path / "bomb.dipp")!r}, Decoding(**options))
    except DippError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)  # noqa: S603
    assert done.stderr == ""
    told = done.stdout.splitlines()
    assert len(told) == len(options)
    assert all(f"of {made.size} bytes sends " in line and "allow it by --max-work" in line for line in told)


def test_the_error_names_a_limit_that_is_enough() -> None:
    sizes, size = [(3, 1000), (2, 500)], 10
    work.require_affordable(sizes, 100, size)
    with refused("archive", remedy="--max-work"):
        work.require_affordable(sizes, 350_001, size)
    work.require_affordable(sizes, 350_001, size, 1.5)
    with refused("archive", remedy="max-work"):
        work.require_affordable(sizes, 1, size, 1e-7)
    work.require_affordable(sizes, 1 << 40, size, math.inf)
    for wrong in (0, -1, math.nan):
        with refused("max-work"):
            work.require_affordable(sizes, 1, size, wrong)
    work.require_affordable([], 5, size)


def test_memory_counts_even_in_one_step() -> None:
    work.require_affordable([(1, 1 << 24)], 1, 100)
    with refused("archive", remedy="max-work"):
        work.require_affordable([(1, 1 << 26)], 1, 100)
    work.require_affordable([(1, 1 << 26)], 1, 1 << 16)


@pytest.mark.parametrize(
    "options",
    [
        {"epsilon": 0.1},
        {"epsilon": 4},
        {"epsilon": 64},
        {"epsilon": 4, "preset": "swift"},
        {"epsilon": 1, "preset": "paper"},
        {"epsilon": 64, "preset": "paper"},
        {"preset": "diffc", "bpp": 0.1},
    ],
    ids=str,
)
def test_honest_photographs_need_no_option(options: dict[str, Any]) -> None:
    """Photographs, a hundred of them in a file and many small pictures stay below the limit."""
    codec = dipp.Codec.from_pretrained(embedded.FOLDER, size=(1, PHOTOGRAPH), **options)
    parameters = codec.parameters(bytes(16))
    for finish in (Decoding(), Decoding(sample=True)):
        calls = Decoder(codec.denoiser).calls(codec.plan, finish)
        for pixels, count in ((PHOTOGRAPH, 1), (PHOTOGRAPH, 100), (1024, 50_000)):
            bits = max(parameters.layout(of_pixels(pixels)).least_bits, int(options.get("bpp", 0) * pixels))
            if count == 100 and bits < pixels / 1000:
                continue
            work.require_affordable([(count, pixels)], calls, 128 + count * bits // 8)


def test_the_deals_of_many_steps_are_not_kept() -> None:
    """Keeping the deals of 256×256 pixels in 4,096 steps would take 13 GB."""
    few = Chain(sensing_plan(), WienerDenoiser(), bytes(16), Geometry(256, 256, 3))
    assert few._chunks.cache_info().maxsize is None  # type: ignore[attr-defined]
    many = Chain(bomb().parameters.plan, WienerDenoiser(), bytes(16), Geometry(256, 256, 3))
    assert many._chunks.cache_info().maxsize == 1  # type: ignore[attr-defined]
    assert 256 * 256 * 3 * chain.DEAL_BYTES * MAX_STEPS > chain.KEPT_BYTES


def test_loading_a_file_that_asks_for_too_much_is_refused(made: Archive, tmp_path: Path) -> None:
    made.save(tmp_path / "bomb.dipp")
    data = dipp.load(tmp_path / "bomb.dipp")
    assert len(data) == 1
    for _ in range(2):
        with refused("archive", remedy="max-work"):
            data[0]
