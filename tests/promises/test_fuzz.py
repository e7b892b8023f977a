"""Thousands of broken archives: each is refused in one line or decoded, quickly and in little memory.

Files are made from small archives by flipped bits, edited bytes, cuts, insertions, splices and oversized numbers. Most
get a right checksum, so that the damage reaches the parser; some also get a consistent header with its certificate, so
that the damage reaches the decoders of indices.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import math
import multiprocessing
import struct
import time
import tracemalloc
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from unittest import mock

import pytest
from helpers import broken_archives, broken_datasets
from helpers.archives import with_checksum
from helpers.broken_archives import Survey, checked_read, costly_files, limited_survey, read, seeds, survey
from helpers.paths import ROOT
from helpers.refusals import refused

from dipp.errors import DippError
from dipp.format.parameters import PublicParameters

CORPUS: dict[str, str] = json.loads((ROOT / "tests" / "corpus" / "archives.json").read_text())
"""Broken archives in hex digits, by the reason for which each was refused when the corpus was made."""

FILES = 5000
FEW = 1000
SECONDS = 2.0
"""CPU time that a file may take: a hundred times what the slowest needs, for busy machines."""
BYTES = 1 << 20
"""Memory that a file of some hundred bytes may take at its peak."""


def check(found: Survey, files: int, reasons: int) -> None:
    assert found.refused + found.decoded == files
    assert found.slowest < SECONDS
    assert found.largest < BYTES
    # The damage went deep: many files were read, and others were refused for many different reasons.
    assert found.decoded > files // 20
    assert len(found.reasons) > reasons


def test_some_broken_archives_are_refused_or_decoded() -> None:
    check(survey(2, FEW), FEW, reasons=30)


@pytest.mark.slow
def test_broken_archives_are_refused_or_decoded() -> None:
    # A process of its own, so that neither memory nor time of other tests counts.
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        check(pool.submit(limited_survey, 0, FILES).result(), FILES, reasons=40)


def test_what_is_read_has_the_recomputed_certificate() -> None:
    """Most mutants of archives and datasets get past their checksums. `benchmarks/fuzz.py` reads millions."""
    for source, count, least in ((broken_archives, 600, 60), (broken_datasets, 60, 2)):
        passed = past = 0
        for _, right, case in source.cases(0, count):
            past += right
            with contextlib.suppress(DippError):
                case()
                passed += 1
        assert past > count / 3
        assert passed >= least


def test_another_certificate_in_a_file_would_be_found() -> None:
    """A reader that believes what a file states is no longer consistent with the plan."""
    good = seeds()[0]
    certificate = good.certificate
    stated = struct.pack("<2d", certificate.epsilon / 2, certificate.rho)
    data = with_checksum(good.to_bytes().replace(struct.pack("<2d", certificate.epsilon, certificate.rho), stated))
    with refused("file"):
        checked_read(data, again=False)
    believing = mock.patch.object(PublicParameters, "claim", return_value=struct.unpack("<2d", stated))
    with believing, pytest.raises(AssertionError):
        checked_read(data, again=False)


@pytest.mark.parametrize("reason", CORPUS)
def test_what_was_refused_once_is_refused(reason: str) -> None:
    """A file for each reason that fuzzing has met. A later version may find another reason, which is one line too."""
    with pytest.raises(DippError) as error:
        read(bytes.fromhex(CORPUS[reason]))
    assert "\n" not in str(error.value)


@pytest.mark.slow
def test_the_long_run_stops_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    monkeypatch.setenv("COMMIT", "test")
    out, fuzz = tmp_path / "fuzz.json", importlib.import_module("fuzz")
    for seconds, blocks in ((0, 1), (math.inf, 3)):
        found = fuzz.run("archives", 60, 20, workers=1, out=out, seconds=seconds)
        assert found == json.loads(out.read_text())["result"]
        assert (found["files"], found["done"], found["findings"]) == (20 * blocks, list(range(blocks)), [])
    assert found["share_past_checksums"] > 1 / 3


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
    data = costly_files(name)
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
    assert with_checksum(data) == data
    assert with_checksum(data[:-4] + bytes(4)) == data
