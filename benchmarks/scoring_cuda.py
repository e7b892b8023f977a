"""The CUDA part of `scoring.py`: the backend against the reference, bit for bit, and its speed.

Rates are in G candidate·dimensions per second: of the score kernel alone (device time), and of the whole selection
(wall time: transfers, scores, bin sums, the secure draw on the host, locating). The `generator` is the sign kernel
without its products: it makes the Philox words and combines them, and does nothing else. Steps are as large as an
encoder's: the scores of a chunk of any dimension spread over some 25 bits.
"""

from __future__ import annotations

import functools
import statistics
import time
from collections.abc import Callable
from importlib import resources
from typing import Any

import checkout  # noqa: F401 - for `experiments`
import numpy as np
import torch
from numpy.typing import NDArray

from dipp.core import selection
from dipp.core.arithmetic import Arithmetic
from dipp.core.channels import Channel, Gaussian, Laplace, Sign
from dipp.scoring import ScoringTask, select
from dipp.scoring.gpu import GpuBackend
from dipp.scoring.reference import ReferenceBackend
from experiments.comparisons.channels import Huber, Logistic

CHECKED: dict[str, tuple[Channel, float]] = {
    "sign": (Sign(), 1e-3),
    "sign, large steps": (Sign(), 1e5),
    "laplace": (Laplace(), 1e-3),
    "laplace, tiny steps": (Laplace(), 1e-6),
    "laplace, large steps": (Laplace(), 1e3),
    "logistic": (Logistic(), 1e-2),
    "gaussian": (Gaussian(), 1e-2),
    "huber": (Huber(), 1e-2),
}
DIMENSIONS = (32, 96, 256, 1024, 3072)
CANDIDATES = (1 << 14, 1 << 16, 1 << 18)


def random_task(arithmetic: Arithmetic, candidates: int, sizes: list[int], ordered: bool, seed: int) -> ScoringTask:
    """Return ragged chunks with shifts like those of an encoder: mostly small, some at the limit."""
    rng = np.random.default_rng(seed)
    limit = arithmetic.law.limit
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    shifts = np.clip(np.rint(rng.standard_normal(offsets[-1]) * limit / 4), -limit, limit).astype(np.int32)
    streams = rng.integers(0, 1 << 32, (len(sizes), 4), np.uint32)
    order = rng.integers(-(1 << 16), 1 << 16, candidates).astype(np.int32) if ordered else None
    return ScoringTask(arithmetic.law, arithmetic.fraction_bits, candidates, streams, offsets, shifts, order)


def check(on: GpuBackend, paths: list[bool]) -> list[str]:
    """Return the differences between backend and reference in every stage of every law."""
    reference, wrong = ReferenceBackend(), []
    for name, (channel, snr_gain) in CHECKED.items():
        for number, candidates in enumerate((1, 13, 1000, 8200, 70_001)):
            sizes = [1, 5, 16, 17, 33, 64, 100, 250] if candidates < 5000 else [3, 20]
            if candidates == 13 and name in ("sign", "laplace"):
                sizes = [13_000, 1, 300]
            task = random_task(Arithmetic(channel, snr_gain), candidates, sizes, number % 2 == 0, number)
            scores = reference.scores(task)
            sums = reference.bin_sums(scores, task.fraction_bits)
            bins, targets = selection.draw_bins(sums)
            last = sums[np.arange(len(bins)), bins] - 1
            indices = reference.locate(scores, task.fraction_bits, bins, targets)
            expected: tuple[NDArray[Any], ...] = (
                scores,
                sums,
                indices,
                reference.locate(scores, task.fraction_bits, bins, last),
                reference.winners(task.law, task.streams, task.offsets, indices),
            )
            for on.native in paths:
                made = on.scores(task)
                got: tuple[NDArray[Any], ...] = (
                    made.cpu().numpy(),
                    on.bin_sums(made, task.fraction_bits),
                    on.locate(made, task.fraction_bits, bins, targets),
                    on.locate(made, task.fraction_bits, bins, last),
                    on.host(on.winners(task.law, task.streams, task.offsets, indices)),
                )
                same = [np.array_equal(x, y) for x, y in zip(got, expected, strict=True)]
                if not all(same):
                    wrong.append(f"{name}, n = {candidates}, native = {on.native}: {same}")
    return wrong


def device_seconds(run: Callable[[], Any], repeats: int = 5) -> float:
    """Return the median device time of a call, after one to warm up."""
    run()
    times = []
    for _ in range(repeats):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        start.record()
        run()
        stop.record()
        stop.synchronize()
        times.append(float(start.elapsed_time(stop)) / 1000)
    return statistics.median(times)


def wall_seconds(run: Callable[[], Any], repeats: int = 5) -> float:
    """Return the median wall time of a call that ends on the host, after one to warm up."""
    run()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def speed(on: GpuBackend, channel: Channel, candidates: int, dimension: int, work: float) -> dict[str, Any]:
    """Return rates, and microseconds per chunk of each stage, for about `work` candidate·dimensions."""
    rows = int(min(max(work / (candidates * dimension), 32), (1 << 28) // candidates))
    arithmetic = Arithmetic(channel, (8.2 / channel.unit_slope) ** 2 / dimension)
    task = random_task(arithmetic, candidates, [dimension] * rows, False, 0)
    scores = on.scores(task)
    uploaded = on._upload(task, candidates)
    sums = on.bin_sums(scores, task.fraction_bits)
    drawn = selection.draw_bins(sums)
    seconds = {
        "upload": wall_seconds(lambda: on._upload(task, candidates)),
        "score": device_seconds(lambda: on._score(task.law, uploaded, scores)),
        "sums": wall_seconds(lambda: on.bin_sums(scores, task.fraction_bits)),
        "draw": wall_seconds(lambda: selection.draw_bins(sums)),
        "locate": wall_seconds(lambda: on.locate(scores, task.fraction_bits, *drawn)),
        "select": wall_seconds(lambda: select(task, on)),
    }
    total = rows * candidates * dimension / 1e9
    result = {"law": channel.name, "cuda": on.native, "n": candidates, "dims": dimension, "chunks": rows}
    result |= {"kernel_rate": total / seconds["score"], "select_rate": total / seconds["select"]}
    if on.native and channel.name == "sign":
        result["generator_rate"] = total / device_seconds(lambda: generate(uploaded, scores))
    return result | {f"{stage}_us": 1e6 * spent / rows for stage, spent in seconds.items()}


def generate(uploaded: Any, scores: torch.Tensor) -> None:
    """Run the sign kernel with an exclusive or of the words in place of its products."""
    from dipp.scoring import cuda_kernels

    cuda_kernels.score_with(generator(), uploaded, scores, scores.shape[1] // 4, cuda_kernels.SIGN_PASSES)


@functools.cache
def generator() -> Any:
    """Return the kernel of `generate`."""
    import cupy

    source = resources.files("dipp.scoring").joinpath("kernels.cu").read_text()
    head, tail = source.split("#pragma unroll\n  for (int w = 0; w < 4; ++w) {\n    const u32 bits[4]")
    folded = "for (int w = 0; w < 4; ++w) sum[w][0][0] ^= word[0][w] ^ word[1][w] ^ word[2][w] ^ word[3][w];\n}\n"
    code = head + "#pragma unroll\n" + folded + tail[tail.index('extern "C"') :]
    return cupy.RawModule(code=code, options=("-std=c++17",)).get_function("sign_scores")


FLOAT_THREAD = r"""
extern "C" __global__ void float_thread(const float* mu, int dims, float* scores, int n) {
  const int k = blockIdx.x * blockDim.x + threadIdx.x;
  if (k >= n) return;
  mu += blockIdx.y * dims;
  float total = 0.0f;
  for (int i = 0; i < dims; i += 4) {
    unsigned c0 = i, c1 = k, c2 = blockIdx.y, c3 = 0, k0 = 1, k1 = 2;
    for (int r = 0; r < 10; ++r) {
      const unsigned h0 = __umulhi(0xD2511F53u, c0), l0 = 0xD2511F53u * c0;
      const unsigned h1 = __umulhi(0xCD9E8D57u, c2), l1 = 0xCD9E8D57u * c2;
      c0 = h1 ^ c1 ^ k0; c1 = l1; c2 = h0 ^ c3 ^ k1; c3 = l0;
      k0 += 0x9E3779B9u; k1 += 0xBB67AE85u;
    }
    const unsigned word[4] = {c0, c1, c2, c3};
    for (int j = 0; j < 4 && i + j < dims; ++j) {
      const float half = (word[j] + 0.5f) * 2.3283064e-10f - 0.5f;
      const float size = -logf(fmaxf(1.0f - 2.0f * fabsf(half), 1e-10f));
      const float z = half >= 0.0f ? size : -size;
      total += fabsf(z) - fabsf(z - mu[i + j]);
    }
  }
  scores[(long long)blockIdx.y * n + k] = total;
}
"""


def float_rate(candidates: int, dimension: int) -> dict[str, Any]:
    """Return the rate of the paper's appendix B in floats, one thread per candidate, for the score kernel alone."""
    import cupy

    kernel = cupy.RawKernel(FLOAT_THREAD, "float_thread")
    chunks = max(1, (1 << 31) // (candidates * dimension))
    mu = cupy.random.standard_normal(chunks * dimension, dtype=cupy.float32)
    scores = cupy.empty(chunks * candidates, cupy.float32)
    grid, arguments = (-(-candidates // 256), chunks), (mu, np.int32(dimension), scores, np.int32(candidates))

    def run() -> None:
        kernel(grid, (256,), arguments)
        cupy.cuda.Device().synchronize()

    rate = chunks * candidates * dimension / 1e9 / wall_seconds(run)
    return {
        "law": "float-thread",
        "cuda": True,
        "n": candidates,
        "dims": dimension,
        "chunks": chunks,
        "kernel_rate": rate,
    }


def numpy_rate(dimension: int) -> dict[str, Any]:
    """Return the rate of the reference backend on the host's CPU, for the ratio."""
    task = random_task(
        Arithmetic(Laplace(), (8.2 / Laplace().unit_slope) ** 2 / dimension), 1 << 12, [dimension], False, 0
    )
    rate = (1 << 12) * dimension / 1e9 / wall_seconds(lambda: ReferenceBackend().scores(task), 3)
    return {"law": "reference", "cuda": False, "n": 1 << 12, "dims": dimension, "chunks": 1, "kernel_rate": rate}


def measure() -> dict[str, Any]:
    """Check, measure and print."""
    on = GpuBackend()
    paths = [True, False] if on.native else [False]
    wrong = check(on, paths)
    rates = []

    def record(row: dict[str, Any]) -> None:
        rates.append(row)
        print(row["law"], *(f"{k} {v:.4g}" for k, v in row.items() if k != "law"), flush=True)

    for on.native in paths:
        for channel in (Sign(), Laplace()) if on.native else (Sign(), Laplace(), Logistic(), Gaussian()):
            work = 2.0 ** (36 if channel.name == "sign" else 34) / (1 if on.native else 4)
            sizes = [(n, d) for n in CANDIDATES for d in DIMENSIONS] if on.native else [(1 << 16, 96), (1 << 16, 1024)]
            for candidates, dimension in sizes:
                record(speed(on, channel, candidates, dimension, work))
    for dimension in DIMENSIONS:
        record(float_rate(1 << 16, dimension))
        record(numpy_rate(dimension))
    print("wrong:", wrong, flush=True)
    return {"wrong": wrong, "rates": rates}
