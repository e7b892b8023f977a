"""Speed and memory of scoring: candidates × dimensions per second, by backend, against plain floating-point programs.

    python benchmarks/scoring.py cpu  --out benchmarks/results/scoring-cpu.json
    python benchmarks/scoring.py cuda --out benchmarks/results/scoring-cuda.json
    python benchmarks/scoring.py plot --out benchmarks/results/scoring.png

All rates of a file are measured in one run on one machine, so that ratios are meaningful on a busy machine. The plain
programs are ours: `float-numpy` draws Laplace floats with NumPy's Philox generator and sums |z| − |z − μ|;
`float-thread` is the paper's appendix B as it stands, one thread per candidate (numba on the CPU, CUDA on the GPU). A
rate of `select` includes the bin sums, the secure draw and locating the index. `cpu --quick` takes 96 and 1024
coordinates and 2^14 candidates alone.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import checkout  # noqa: F401 - for `experiments`
import numba
import numpy as np
from provenance import provenance, write

from dipp import scoring
from dipp.core import randomness
from dipp.core.arithmetic import Arithmetic
from dipp.core.channels import Channel, Laplace, Sign
from dipp.scoring import cpu_kernels
from experiments.comparisons.channels import Logistic

DIMENSIONS = (32, 96, 256, 1024, 3072)
CANDIDATES = (1 << 14, 1 << 16, 1 << 18)
QUICK_DIMENSIONS, QUICK_CANDIDATES = (96, 1024), (1 << 14,)
SPREAD = 8.2
"""Standard deviation in nats of a chunk's score, about as large as an encoder's steps make it."""
RESULTS = Path(__file__).parent / "results"


def make_task(channel: Channel, dims: int, candidates: int, chunks: int = 1) -> scoring.ScoringTask:
    """Return a task whose scores spread like those of a chunk of about 16 bits, for any dimension."""
    generator = np.random.default_rng(dims)
    arithmetic = Arithmetic(channel, (SPREAD / channel.unit_slope) ** 2 / dims)
    x, x_hat = generator.uniform(-1, 1, (2, chunks * dims))
    return scoring.ScoringTask(
        arithmetic.law,
        arithmetic.fraction_bits,
        candidates,
        scoring.stream_rows([randomness.stream(bytes(16), image) for image in range(chunks)], [0] * chunks),
        np.arange(chunks + 1) * dims,
        arithmetic.shifts(x, x_hat / 4),
    )


def seconds(run: Callable[[], object], least: float = 0.6) -> float:
    """Return the shortest of five or more runs that take `least` seconds; other work only makes runs longer."""
    run()
    times: list[float] = []
    while len(times) < 5 or sum(times) < least:
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def float_numpy(mu: np.ndarray[Any, Any], candidates: int) -> np.ndarray[Any, Any]:
    """Return the paper's scores as written plainly in NumPy, one slice of candidates at a time."""
    generator, scores = np.random.Generator(np.random.Philox(0)), np.empty(candidates)
    rows = max(1, (1 << 18) // len(mu))
    for first in range(0, candidates, rows):
        z = generator.laplace(size=(min(rows, candidates - first), len(mu)))
        scores[first : first + rows] = (np.abs(z) - np.abs(z - mu)).sum(axis=1)
    return scores


@numba.njit(parallel=True)
def float_thread(mu: np.ndarray[Any, Any], scores: np.ndarray[Any, Any]) -> None:
    """Compute appendix B as it stands: one thread and one generator per candidate, floats, and a logarithm per draw."""
    for k in numba.prange(scores.size):
        total, state = np.float32(0), np.uint64(0x9E3779B97F4A7C15) * np.uint64(k + 1)
        for i in range(mu.size):
            state ^= state << np.uint64(13)
            state ^= state >> np.uint64(7)
            state ^= state << np.uint64(17)
            half = np.float32(state >> np.uint64(40)) * np.float32(2.0**-24) - np.float32(0.5)
            size = np.float32(-np.log(max(np.float32(1) - np.float32(2) * abs(half), np.float32(1e-10))))
            z = size if half >= 0 else -size
            total += abs(z) - abs(z - mu[i])
        scores[k] = total


@numba.njit(parallel=True)
def generator_alone(stream: np.ndarray[Any, Any], groups: int, out: np.ndarray[Any, Any]) -> None:
    """Run the CPU kernels' generator, and combine its words only by an exclusive or."""
    for tile in numba.prange(out.size):
        keys, words = cpu_kernels.round_keys(stream), np.empty((4, cpu_kernels.MAX_BLOCKS), np.uint32)
        folded = np.zeros_like(words)
        for group in range(groups):
            cpu_kernels.fill(words, keys, group, tile * cpu_kernels.MAX_BLOCKS, 0, 0)
            folded ^= words
        out[tile] = folded.sum()


def cpu_rates(dimensions: Sequence[int], sizes: Sequence[int]) -> list[dict[str, Any]]:
    """Return all rates of the CPU, in G candidate·dimensions per second."""
    cpu, rows = scoring.backend("cpu"), []

    def record(program: str, dims: int, candidates: int, stage: str, spent: float) -> None:
        rate = candidates * dims / spent / 1e9
        rows.append({"program": program, "dims": dims, "n": candidates, "stage": stage, "rate": rate})
        print(f"{program:14} {stage:8} dims {dims:5} n 2^{candidates.bit_length() - 1}  {rate:8.3f} G/s", flush=True)

    for dims in dimensions:
        mu = np.random.default_rng(dims).normal(0, SPREAD / np.sqrt(2 * dims), dims).astype(np.float32)
        for n in sizes:
            tile = 8 * cpu_kernels.MAX_BLOCKS
            stream, out = np.array([1, 2, 3, 4], np.uint32), np.empty(n // tile, np.uint64)
            groups = -(-dims // 16)
            numba.set_num_threads(numba.config.NUMBA_NUM_THREADS)
            record("generator", dims, n, "16 bits", seconds(lambda: generator_alone(stream, dims, out)))
            record("generator", 16 * groups, n, "1 bit", seconds(lambda: generator_alone(stream, groups, out)))
            # The tabulated channels are slow on the CPU and the same at any size.
            for channel in (Laplace(), Sign(), *([Logistic()] if n == sizes[0] else [])):
                task = make_task(channel, dims, n)
                record(channel.name, dims, n, "score", seconds(lambda: cpu.scores(task)))
                record(channel.name, dims, n, "select", seconds(lambda: scoring.select(task, cpu)))
            if n == sizes[0]:
                record("float-numpy", dims, n, "score", seconds(lambda: float_numpy(mu, n)))
                scores = np.empty(n, np.float32)
                numba.set_num_threads(numba.config.NUMBA_NUM_THREADS)
                record("float-thread", dims, n, "score", seconds(lambda: float_thread(mu, scores)))
        task = make_task(Laplace(), dims, 1 << 12)
        reference = scoring.backend("reference")
        record("reference", dims, 1 << 12, "score", seconds(lambda: reference.scores(task)))
    return rows


def cpu_memory() -> dict[str, float]:
    """Return by how many MB peak memory grows while 2^18 candidates of 3,072 dimensions are scored and selected."""
    cpu, grown = scoring.backend("cpu"), {}
    for channel in (Laplace(), Sign()):
        small = make_task(channel, 3072, 1 << 10)
        scoring.select(small, cpu)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        scoring.select(make_task(channel, 3072, 1 << 18), cpu)
        grown[channel.name] = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    grown["whole process"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return grown


def main() -> None:
    """Measure, print and write; or plot written results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["cpu", "cuda", "plot"])
    parser.add_argument(
        "--quick", action="store_true", help="a quick run on the CPU: two sizes of chunks, one number of candidates"
    )
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    if arguments.what == "plot":
        from scoring_plot import plot

        plot(RESULTS, arguments.out)
        return
    if arguments.what == "cuda":
        from scoring_cuda import measure

        found = measure()
    else:
        sizes = (QUICK_DIMENSIONS, QUICK_CANDIDATES) if arguments.quick else (DIMENSIONS, CANDIDATES)
        # Memory first: the peak of a process never falls.
        found = {"memory_mb": cpu_memory(), "rates": cpu_rates(*sizes)}
    write(arguments.out, {**provenance(arguments.what), **found})


if __name__ == "__main__":
    main()
