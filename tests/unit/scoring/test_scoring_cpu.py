"""The CPU backend returns the reference's integers, bit for bit."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from helpers.refusals import refused
from helpers.statistics import bounded
from hypothesis import given
from hypothesis import strategies as st

from dipp import scoring
from dipp.core import randomness, selection
from dipp.core.arithmetic import Arithmetic
from dipp.core.channels import Channel, Gaussian, Laplace, Sign
from dipp.core.laws import SignLaw
from experiments.comparisons.channels import Huber, Logistic

CHANNELS: list[Channel] = [Laplace(), Gaussian(), Logistic(), Huber(0.5), Sign(period=1), Sign(period=3)]


def make_task(
    channel: Channel, snr_gain: float, sizes: list[int], candidates: int, ordered: bool, alpha: Fraction = Fraction(1)
) -> scoring.ScoringTask:
    """Return a task whose chunks differ in size, with shifts up to the limit."""
    generator = np.random.default_rng(len(sizes) + candidates)
    arithmetic = Arithmetic(channel, snr_gain, alpha)
    dims = sum(sizes)
    x, x_hat = generator.uniform(-1, 1, dims), np.clip(generator.uniform(-1.5, 1.5, dims), -1, 1)
    x[:1], x_hat[:1] = 1, -1
    return scoring.ScoringTask(
        arithmetic.law,
        arithmetic.fraction_bits,
        candidates,
        scoring.stream_rows([randomness.stream(bytes(16), i, 3) for i in range(len(sizes))], range(len(sizes))),
        np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        arithmetic.shifts(x, x_hat),
        generator.integers(-5000, 5000, candidates).astype(np.int32) if ordered else None,
    )


@pytest.mark.slow
@bounded
@given(
    channel=st.sampled_from(CHANNELS),
    snr_gain=st.sampled_from([1e-6, 1e-4, 0.02, 0.7, 5.0, 80.0]),
    sizes=st.lists(st.integers(1, 70), min_size=1, max_size=4),
    candidates=st.integers(1, 5000),
    ordered=st.booleans(),
    alpha=st.sampled_from([Fraction(1), Fraction(5, 4), Fraction(2)]),
)
def test_every_stage_agrees_with_the_reference(
    channel: Channel, snr_gain: float, sizes: list[int], candidates: int, ordered: bool, alpha: Fraction
) -> None:
    """Scores, bin sums, located indices and winners are identical on ragged chunks."""
    agree(make_task(channel, snr_gain, sizes, candidates, ordered, alpha))


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("channel", CHANNELS, ids=str)
def test_small_tasks_agree_with_the_reference(channel: Channel, ordered: bool) -> None:
    """The chunks are a single coordinate, a whole group of the sign channel, and two groups and one coordinate."""
    agree(make_task(channel, 0.02, [1, 16, 33], 300, ordered))


def agree(task: scoring.ScoringTask) -> None:
    """Assert that every stage of the CPU backend returns what the reference returns."""
    cpu, reference = scoring.backend("cpu"), scoring.backend("reference")
    scores = reference.scores(task)
    np.testing.assert_array_equal(cpu.scores(task), scores)
    sums = reference.bin_sums(scores, task.fraction_bits)
    np.testing.assert_array_equal(cpu.bin_sums(scores, task.fraction_bits), sums)
    bins, offsets = selection.draw_bins(sums)
    indices = reference.locate(scores, task.fraction_bits, bins, offsets)
    np.testing.assert_array_equal(cpu.locate(scores, task.fraction_bits, bins, offsets), indices)
    np.testing.assert_array_equal(
        cpu.winners(task.law, task.streams, task.offsets, indices),
        reference.winners(task.law, task.streams, task.offsets, indices),
    )


@pytest.mark.parametrize("channel", [Laplace(), Sign(period=3)], ids=lambda c: c.name)
def test_long_chunks_do_not_overflow_the_lanes(channel: Channel) -> None:
    """With 3,072 extreme shifts of one sign, 16-bit lanes must be flushed in time."""
    arithmetic = Arithmetic(channel, 0.0191)
    dims = 3072
    task = scoring.ScoringTask(
        arithmetic.law,
        arithmetic.fraction_bits,
        64,
        scoring.stream_rows([randomness.stream(bytes(16))], [0]),
        np.array([0, dims]),
        np.full(dims, arithmetic.limit, np.int32),
    )
    np.testing.assert_array_equal(scoring.backend("cpu").scores(task), scoring.backend("reference").scores(task))


def test_batches_do_not_change_the_indices(monkeypatch: pytest.MonkeyPatch) -> None:
    """`select` divides a task into batches; with fixed draws, the indices do not depend on the division."""
    task = make_task(Laplace(), 0.1, [5, 9, 4, 7], 200, ordered=False)
    cpu = scoring.backend("cpu")

    def middle(sums: selection.Sums) -> tuple[selection.Sums, selection.Sums]:
        bins = np.argmax(sums > 0, axis=1).astype(np.int64)
        return bins, sums[np.arange(len(sums)), bins] // 2

    monkeypatch.setattr(selection, "draw_bins", middle)
    whole = scoring.select(task, cpu)
    assert len(set(whole)) > 1
    monkeypatch.setattr(type(cpu), "scores_per_batch", 1)
    np.testing.assert_array_equal(scoring.select(task, cpu), whole)


def test_laws_beyond_the_lanes_are_refused() -> None:
    """The sum of sixteen shifts of 2048 does not fit into 16 bits, so the backend raises and does not wrap."""
    task = scoring.ScoringTask(
        SignLaw(limit=2048),
        8,
        16,
        scoring.stream_rows([randomness.stream(bytes(16))], [0]),
        np.array([0, 1]),
        np.array([2048], np.int32),
    )
    with refused("law"):
        scoring.backend("cpu").scores(task)


def test_an_unknown_device_is_refused() -> None:
    with refused("device"):
        scoring.backend("abacus")
