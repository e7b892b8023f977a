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
"""Bound on |m| of the sign law, because the kernel has 12 bit planes."""
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
    """Write the scores of the sign law; two threads share a block of eight candidates."""
    score_with(_kernel("sign_scores"), task, scores, 2 * scores.shape[1] // DRAWS_PER_BLOCK, SIGN_PASSES)


def laplace_scores(task: Uploaded, scores: torch.Tensor, magnitudes: torch.Tensor, entries: int, gaps: bool) -> None:
    """Write the scores of the Laplace law; a thread scores two blocks. `magnitudes` is padded to whole 16 bytes."""
    kernel = _kernel("laplace_scores", f"-DGAPS={int(gaps)}")
    shared = 2 * len(magnitudes)
    kernel.max_dynamic_shared_size_bytes = shared
    table = (magnitudes.data_ptr(), cupy.uint32(entries))
    threads = -(-scores.shape[1] // (2 * DRAWS_PER_BLOCK))
    score_with(kernel, task, scores, threads, LAPLACE_PASSES, table, shared)


def bin_sums(
    sums: torch.Tensor, scores: torch.Tensor, tops: torch.Tensor, weights: torch.Tensor, fraction_bits: int
) -> None:
    """Add the weights of all candidates to `sums`, an array of chunks × bins."""
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
    """Run a score kernel with work for `needed` threads per chunk, in several passes if fewer threads suffice."""
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
