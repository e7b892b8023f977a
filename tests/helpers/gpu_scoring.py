"""The CUDA backend beside the reference, in a module that child processes can import.

Triton reads TRITON_INTERPRET when it is imported, so kernels are interpreted in child processes.
"""

from __future__ import annotations

import os
import warnings
from fractions import Fraction

import numpy as np

from dipp.core import selection
from dipp.core.arithmetic import Arithmetic
from dipp.core.channels import Gaussian, Laplace, Sign
from dipp.core.laws import IntegerLaw, LaplaceLaw, SignLaw
from dipp.scoring import ScoringTask
from dipp.scoring.reference import ReferenceBackend
from experiments.comparisons.channels import Huber, Logistic

REFERENCE = ReferenceBackend()
LAWS: dict[str, tuple[IntegerLaw, int]] = {
    f"{step.channel.name} at {step.snr_gain:g}": (step.law, step.fraction_bits)
    for step in (
        Arithmetic(Sign(), 1e-3),
        Arithmetic(Laplace(), 1e-2),
        Arithmetic(Laplace(), 1e-6),
        Arithmetic(Laplace(), 1e3),
        Arithmetic(Logistic(), 1e-2),
        Arithmetic(Gaussian(), 1e-2),
        Arithmetic(Huber(), 1e-6),
    )
} | {
    "sign, large shifts": (SignLaw(limit=1 << 16), 15),
    "laplace, large shifts": (LaplaceLaw.at(Fraction(1), 12, 40_000), 12),
}


def random_task(name: str, candidates: int, sizes: list[int], ordered: bool) -> ScoringTask:
    rng = np.random.default_rng(candidates)
    law, fraction_bits = LAWS[name]
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    shifts = rng.integers(-law.limit, law.limit + 1, offsets[-1]).astype(np.int32)
    streams = rng.integers(0, 1 << 32, (len(sizes), 4), np.uint32)
    order = rng.integers(-(1 << 16), 1 << 16, candidates).astype(np.int32) if ordered else None
    return ScoringTask(law, fraction_bits, candidates, streams, offsets, shifts, order)


def compare(device: str, native: bool, task: ScoringTask) -> None:
    """Compare scores and winners; `compare_selection` compares what is selected from them."""
    from dipp.scoring.gpu import GpuBackend

    on = GpuBackend(device)
    on.native = on.native and native
    scores = on.scores(task)
    np.testing.assert_array_equal(scores.cpu().numpy(), REFERENCE.scores(task))
    indices = np.arange(task.chunks, dtype=np.int64) * 7919 % task.candidates
    chosen = (task.law, task.streams, task.offsets, indices)
    np.testing.assert_array_equal(on.host(on.winners(*chosen)), REFERENCE.winners(*chosen))
    compare_selection(device, native, scores.cpu().numpy(), task.fraction_bits)


def compare_selection(device: str, native: bool, scores: selection.Scores, fraction_bits: int) -> None:
    """Compare bin sums, the best score, and the positions of the first, the last and a drawn weight of a drawn bin."""
    import torch

    from dipp.scoring.gpu import GpuBackend

    on = GpuBackend(device)
    on.native = on.native and native
    sent = torch.from_numpy(scores).to(device)
    sums = REFERENCE.bin_sums(scores, fraction_bits)
    np.testing.assert_array_equal(on.bin_sums(sent, fraction_bits), sums)
    np.testing.assert_array_equal(on.best(sent), REFERENCE.best(scores))
    bins, targets = selection.draw_bins(sums)
    for target in (np.zeros_like(targets), targets, sums[np.arange(len(bins)), bins] - 1):
        expected = REFERENCE.locate(scores, fraction_bits, bins, target)
        np.testing.assert_array_equal(on.locate(sent, fraction_bits, bins, target), expected)


def select_from_the_host(device: str, task: ScoringTask) -> None:
    """Select by shifts that are a NumPy array, with every chunk scored again on the host."""
    from dipp.scoring import rescoring, select
    from dipp.scoring.gpu import GpuBackend

    rescoring.SHARES["cuda"] = 1.0
    indices = select(task, GpuBackend(device))
    assert ((indices >= 0) & (indices < task.candidates)).all()


def interpret() -> None:
    """Prepare a process in which kernels are interpreted."""
    os.environ["TRITON_INTERPRET"] = "1"
    warnings.simplefilter("error")


def wide_scores(candidates: int) -> selection.Scores:
    """Return scores with ties, with a lone best score, and with some beyond the range of the selection."""
    rng = np.random.default_rng(0)
    scores = (1000 * rng.standard_normal((3, candidates))).astype(np.int32)
    scores[0] //= 512
    scores[1, candidates // 2] = 20_000
    scores[2, 0] = -(1 << 29)
    return scores
