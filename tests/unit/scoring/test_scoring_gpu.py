"""The CUDA backend returns the integers of the reference, on a device and by Triton's interpreter."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from fractions import Fraction
from multiprocessing import get_context
from typing import Any

import numpy as np
import pytest
from helpers.gpu_scoring import (
    LAWS,
    compare,
    compare_selection,
    interpret,
    random_task,
    select_from_the_host,
    wide_scores,
)
from hypothesis import given
from hypothesis import strategies as st

from dipp.core import randomness
from dipp.core.laws import LaplaceLaw

by_law = pytest.mark.parametrize("law", LAWS)
has_triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None or importlib.util.find_spec("torch") is None, reason="needs Triton"
)


@pytest.fixture(scope="module")
def interpreter() -> Iterator[Executor]:
    with ProcessPoolExecutor(1, get_context("spawn"), interpret) as executor:
        yield executor


@pytest.mark.slow
@has_triton
@by_law
def test_interpreted_kernels_return_the_reference_integers(law: str, interpreter: Executor) -> None:
    jobs = [
        interpreter.submit(compare, "cpu", False, random_task(law, candidates, sizes, ordered))
        for candidates, sizes, ordered in ((1, [1], False), (13, [2, 17], True), (2501, [5], False))
    ]
    for job in jobs:
        job.result()


@pytest.mark.slow
@has_triton
@pytest.mark.parametrize("fraction_bits", [0, 5, 15])
def test_an_interpreted_selection_crosses_tiles(fraction_bits: int, interpreter: Executor) -> None:
    interpreter.submit(compare_selection, "cpu", False, wide_scores(9001), fraction_bits).result()


@pytest.mark.slow
@has_triton
def test_an_interpreted_selection_takes_shifts_from_the_host(interpreter: Executor) -> None:
    law = next(iter(LAWS))
    interpreter.submit(select_from_the_host, "cpu", random_task(law, 13, [2, 17], False)).result()


@pytest.fixture
def device() -> str:
    torch: Any = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    return "cuda"


@pytest.mark.gpu
@has_triton
@by_law
@pytest.mark.parametrize("native", [True, False])
def test_the_device_returns_the_reference_integers(law: str, native: bool, device: str) -> None:
    for candidates, sizes, ordered in ((13, [2, 17, 300], True), (9001, [5, 40], False)):
        compare(device, native, random_task(law, candidates, sizes, ordered))


@pytest.mark.gpu
@has_triton
@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("candidates", [70_001, 1 << 22])
def test_the_device_selects_among_many_candidates(candidates: int, native: bool, device: str) -> None:
    compare_selection(device, native, wide_scores(candidates), 7)


@pytest.mark.slow
def test_the_error_names_a_missing_device() -> None:
    torch: Any = pytest.importorskip("torch")
    pytest.importorskip("triton")
    if torch.cuda.is_available():
        pytest.skip("there is a device")
    program = (
        "import pytest, dipp.scoring.gpu as gpu, dipp.errors as errors\n"
        "with pytest.raises(errors.DippError) as error: gpu.GpuBackend()\n"
        "assert error.value.argument == 'device'"
    )
    subprocess.run([sys.executable, "-c", program], check=True)  # noqa: S603


def test_importing_dipp_stays_light() -> None:
    program = "import sys, dipp, dipp.scoring; assert not {'torch', 'triton', 'cupy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)  # noqa: S603


@given(alpha=st.fractions(Fraction(1, 100), 10), fraction_bits=st.integers(0, 15), limit=st.integers(1, (1 << 14) - 1))
def test_laplace_values_are_odd_and_never_fall(alpha: Fraction, fraction_bits: int, limit: int) -> None:
    """The Laplace kernels assume that flipping the draw negates z, and that clamping the draw clamps z."""
    values = np.clip(LaplaceLaw.at(alpha, fraction_bits, limit).values, -limit, limit)
    np.testing.assert_array_equal(values, -values[::-1])
    assert (np.diff(values) >= 0).all()


def test_the_factored_generator_equals_philox() -> None:
    """The generator of kernels.cu, which computes the parts of group and block apart, agrees with Philox."""
    rng = np.random.default_rng(0)
    group, block, chunk, nonce, key0, key1 = rng.integers(0, 1 << 32, (6, 1000), np.uint32).astype(object)
    (m0, m1), (w0, w1), low = randomness.PHILOX_MULTIPLIERS, randomness.PHILOX_WEYL, 0xFFFFFFFF
    k0, k1 = ([(key + r * w) & low for r in range(10)] for key, w in ((key0, w0), (key1, w1)))
    p = group * m0
    q = ((p >> 32) ^ nonce ^ k1[0]) * m1
    r = ((q >> 32) ^ (chunk * m1 & low) ^ k0[1]) * m0
    start = ((chunk * m1 >> 32) ^ block ^ k0[0]) * m0
    q2 = ((start >> 32) ^ (p & low) ^ k1[1]) * m1
    c0, c1 = (q2 >> 32) ^ (q & low) ^ k0[2], q2 & low
    c2, c3 = (start & low) ^ (r >> 32) ^ k1[2], r & low
    for i in range(3, 10):
        p0, p1 = c0 * m0, c2 * m1
        c0, c1, c2, c3 = (p1 >> 32) ^ c1 ^ k0[i], p1 & low, (p0 >> 32) ^ c3 ^ k1[i], p0 & low
    words = [np.asarray(x, np.uint32) for x in (group, block, chunk, nonce, key0, key1)]
    expected = randomness.philox((words[0], words[1], words[2], words[3]), (words[4], words[5]))
    for got, word in zip((c0, c1, c2, c3), expected, strict=True):
        np.testing.assert_array_equal(np.asarray(got, np.uint32), word)
