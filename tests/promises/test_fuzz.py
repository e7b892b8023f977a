"""A hundred thousand broken archives: each is refused in one line or decoded, quickly and in little memory.

Files are made from small archives by flipped bits, edited bytes, cuts, insertions, splices and oversized numbers. Most
get their checksum right again, so that the damage reaches the parser; some get a consistent header, too, certificate
included, so that it reaches the index decoders.
"""

from __future__ import annotations

import multiprocessing
import time
import tracemalloc
from concurrent.futures import ProcessPoolExecutor

import pytest
from helpers.archives import sealed
from helpers.broken_archives import Survey, costly, limited_survey, read, seeds, survey

FILES = 100_000
FEW = 1500
WORKERS = 2
SECONDS = 2.0
"""CPU time that a file may take: a hundred times what the slowest needs, for busy machines."""
BYTES = 1 << 20
"""Memory that a file of some hundred bytes may take at its peak."""


def check(found: Survey, files: int, reasons: int) -> None:
    assert found.refused + found.decoded == files
    assert found.slowest < SECONDS
    assert found.largest < BYTES
    # The damage went deep: many files came through, others stopped at many different places.
    assert found.decoded > files // 10
    assert len(found.reasons) > reasons


def test_some_broken_archives_are_refused_or_decoded() -> None:
    check(survey(WORKERS, FEW), FEW, reasons=30)


@pytest.mark.slow
def test_broken_archives_are_refused_or_decoded() -> None:
    # Processes of their own, so that neither memory nor time of other tests counts.
    with ProcessPoolExecutor(WORKERS, mp_context=multiprocessing.get_context("spawn")) as pool:
        for found in pool.map(limited_survey, range(WORKERS), [FILES // WORKERS] * WORKERS):
            check(found, FILES // WORKERS, reasons=40)


@pytest.mark.parametrize(
    "name",
    [
        "a large image",
        "small images",
        "many sizes",
        "likely indices",
        "small likely images",
        "many zeta codes",
        "many steps and slots",
    ],
)
def test_costly_archives_cost_in_proportion(name: str) -> None:
    data = costly(name)
    began = time.process_time()
    assert not any(read(data).image_indices(0))
    assert time.process_time() - began < 10
    tracemalloc.start()
    read(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < (16 << 20) + 600 * len(data)


def test_sealed() -> None:
    data = seeds()[0].to_bytes()
    assert sealed(data) == data
    assert sealed(data[:-4] + bytes(4)) == data
