"""Calls of the CUDA C++ kernels in `kernels.cu`, which CuPy compiles for the present device."""

from __future__ import annotations

import functools
from importlib import resources
from typing import TYPE_CHECKING, Any

import cupy
import torch

from dipp.core.randomness import DRAWS_PER_BLOCK

if TYPE_CHECKING:
    from dipp.scoring.gpu import Uploaded

SIGN_LIMIT = 1 << 11
"""Bound on the absolute value of a shift of the sign law: the kernel adds up shifts as 12 arrays of single bits."""
LAPLACE_LIMIT = 1 << 15
"""Bound on magnitudes of the Laplace law, because the table of the kernel has 16-bit integers."""
THREADS = 256
"""Largest number of threads of a thread block."""
ENOUGH = 1 << 10
"""Number of thread blocks that fill a device. If more are needed, each scores candidates in several passes."""
SIGN_PASSES, LAPLACE_PASSES = 16, 4
"""Largest number of passes of a thread block, for each law."""
SUMMED = 1 << 14
"""Number of candidates that one thread block sums into bins (WARPS·MOST in `kernels.cu`)."""


def sign_scores(task: Uploaded, scores: torch.Tensor) -> None:
    """Write the scores of the sign law; two threads share eight consecutive candidates."""
    score_with(_kernel("sign_scores"), task, scores, 2 * scores.shape[1] // DRAWS_PER_BLOCK, SIGN_PASSES)


def laplace_scores(task: Uploaded, scores: torch.Tensor, magnitudes: torch.Tensor, entries: int, gaps: bool) -> None:
    """Write the scores of the Laplace law; each thread scores sixteen consecutive candidates.

    Args:
        task: The arrays of the task on the device.
        scores: The scores to write, chunks × candidates.
        magnitudes: Table of the law's ascending magnitudes up to its limit, padded to whole 16 bytes.
        entries: Number of magnitudes in the table, without the padding.
        gaps: Whether the magnitudes skip an integer below the limit.
    """
    kernel = _kernel("laplace_scores", f"-DGAPS={int(gaps)}")
    shared = 2 * len(magnitudes)
    kernel.max_dynamic_shared_size_bytes = shared
    table = (magnitudes.data_ptr(), cupy.uint32(entries))
    threads = -(-scores.shape[1] // (2 * DRAWS_PER_BLOCK))
    score_with(kernel, task, scores, threads, LAPLACE_PASSES, table, shared)


def bin_sums(
    sums: torch.Tensor, scores: torch.Tensor, tops: torch.Tensor, weights: torch.Tensor, fraction_bits: int
) -> None:
    """Add the weight of each candidate to the sum of its bin.

    Args:
        sums: The sums, chunks × bins.
        scores: The scores, chunks × candidates.
        tops: The best score of each chunk.
        weights: The table of fraction weights (`selection.fraction_weights`).
        fraction_bits: S: scores are counted in multiples of 2^−S bits.
    """
    rows, candidates = scores.shape
    tiles = -(-candidates // SUMMED)
    numbers = (candidates, scores.stride(0), tiles, fraction_bits)
    _run(_kernel("bin_sums"), rows * tiles, THREADS, (sums, scores, tops, weights), numbers)


def score_with(
    kernel: Any,
    task: Uploaded,
    scores: torch.Tensor,
    needed: int,
    most_passes: int,
    extra: tuple[Any, ...] = (),
    shared: int = 0,
) -> None:
    """Run a score kernel, in several passes if the chunks alone give a device enough threads.

    Args:
        kernel: The compiled kernel.
        task: The arrays of the task on the device.
        scores: The scores to write, chunks × candidates.
        needed: Number of threads that would score a chunk in one pass.
        most_passes: Largest number of passes.
        extra: Further arguments of the kernel.
        shared: Number of bytes of shared memory of a thread block.
    """
    rows, stride = scores.shape
    threads = min(THREADS, -(-needed // 32) * 32)
    passes = max(1, min(most_passes, -(-needed // threads), rows * needed // (threads * ENOUGH)))
    tiles = -(-needed // (threads * passes))
    numbers = (stride // DRAWS_PER_BLOCK, stride, tiles, passes)
    _run(kernel, rows * tiles, threads, (*task, scores), numbers, extra, shared)


def _run(
    kernel: Any,
    grid: int,
    threads: int,
    tensors: tuple[torch.Tensor | None, ...],
    numbers: tuple[int, ...],
    extra: tuple[Any, ...] = (),
    shared: int = 0,
) -> None:
    pointers = (0 if tensor is None else tensor.data_ptr() for tensor in tensors)
    words = (cupy.uint32(number) for number in numbers)
    with cupy.cuda.Stream.from_external(torch.cuda.current_stream()):
        kernel((grid,), (threads,), (*pointers, *words, *extra), shared_mem=shared)


@functools.cache
def _kernel(name: str, *options: str) -> Any:
    source = resources.files("dipp.scoring").joinpath("kernels.cu").read_text()
    return cupy.RawModule(code=source, options=("-std=c++17", *options)).get_function(name)
