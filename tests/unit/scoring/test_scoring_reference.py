"""The reference backend agrees with plain loops, and a task refuses input that could overflow."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from helpers.charges import selection_epsilon
from helpers.refusals import refused
from helpers.statistics import bounded, integer_weights, plain_draw, scripted
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from dipp import scoring
from dipp.core import randomness, selection
from dipp.core.arithmetic import Arithmetic
from dipp.core.channels import Channel, Gaussian, Laplace, Sign
from dipp.core.laws import IntegerLaw, LaplaceLaw, PotentialLaw, SignLaw
from dipp.core.selection import MAX_ABS_SCORE, MAX_CANDIDATES, MAX_FRACTION_BITS
from dipp.scoring import ScoringTask, reference, stream_rows
from dipp.scoring.reference import ReferenceBackend
from experiments.comparisons.channels import Huber, Logistic

SEED = bytes(range(16))
CHANNELS: list[Channel] = [Sign(1), Sign(3), Laplace(), Logistic(), Huber(), Gaussian()]
by_channel = pytest.mark.parametrize("channel", CHANNELS, ids=str)


def make_task(
    channel: Channel, sizes: list[int], candidates: int, order: bool = False, gain: float = 0.05
) -> ScoringTask:
    """Return a task of chunks with these sizes, with shifts of all sizes; each chunk has its own stream and number."""
    arithmetic = Arithmetic(channel, gain)
    count = sum(sizes)
    x = randomness.uniforms(randomness.stream(SEED, purpose="test/x"), 2 * count) * 2 - 1
    ranks = np.arange(1, candidates + 1)
    streams = [randomness.stream(SEED, image=i % 2, step=7) for i in range(len(sizes))]
    return ScoringTask(
        law=arithmetic.law,
        fraction_bits=arithmetic.fraction_bits,
        candidates=candidates,
        streams=stream_rows(streams, [3 * i for i in range(len(sizes))]),
        offsets=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        shifts=arithmetic.shifts(x[:count], x[count:]),
        order=np.rint(-np.log2(ranks) * 2.0**arithmetic.fraction_bits).astype(np.int32) if order else None,
    )


def plain_phi(law: PotentialLaw, z: int) -> int:
    cell, within = divmod(abs(z), 1 << law.knot_bits)
    low, high = int(law.knots[cell]), int(law.knots[cell + 1])
    return low + ((high - low) * within >> law.knot_bits)


def plain_score(law: IntegerLaw, drawn: int, m: int) -> int:
    """Return the score of one coordinate in Python integers; for the sign law, `drawn` is the bit of the coordinate."""
    if isinstance(law, SignLaw):
        return m if drawn else -m
    assert isinstance(law, LaplaceLaw | PotentialLaw)
    z = int(law.values[drawn])
    return abs(z) - abs(z - m) if isinstance(law, LaplaceLaw) else plain_phi(law, z) - plain_phi(law, z - m)


def plain_coordinate(task: ScoringTask, row: int, i: int, k: int) -> int:
    """Return the draw of coordinate i of candidate k of a chunk, by the layout of the file format."""
    key0, key1, nonce, chunk = (int(word) for word in task.streams[row])
    source = randomness.Stream(key0, key1, nonce)
    if isinstance(task.law, SignLaw):
        return (plain_draw(source, chunk, i // 16, k) >> (i % 16)) & 1
    return plain_draw(source, chunk, i, k)


def plain_scores(task: ScoringTask) -> list[list[int]]:
    """Return all scores, computed by three nested loops."""
    table = []
    for row in range(len(task.offsets) - 1):
        shifts = task.shifts[task.offsets[row] : task.offsets[row + 1]].tolist()
        table.append(
            [
                sum(plain_score(task.law, plain_coordinate(task, row, i, k), m) for i, m in enumerate(shifts))
                + (0 if task.order is None else int(task.order[k]))
                for k in range(task.candidates)
            ]
        )
    return table


@by_channel
@pytest.mark.parametrize("order", [False, True])
def test_scores_equal_plain_loops(channel: Channel, order: bool) -> None:
    """Chunks differ in size, and blocks of eight candidates and groups of sixteen coordinates are incomplete."""
    task = make_task(channel, [5, 1, 17, 33], 21, order)
    scores = ReferenceBackend().scores(task)
    assert scores.dtype == np.int32
    assert scores.tolist() == plain_scores(task)


@by_channel
def test_order_is_added_to_every_chunk(channel: Channel) -> None:
    plain, ordered = make_task(channel, [3, 4], 19), make_task(channel, [3, 4], 19, order=True)
    assert ordered.order is not None
    difference = ReferenceBackend().scores(ordered) - ReferenceBackend().scores(plain)
    assert difference.tolist() == [ordered.order.tolist()] * 2


def test_scores_do_not_depend_on_slices_of_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    """The scores are the same if seven candidates are scored at a time."""
    task = make_task(Laplace(), [4, 9], 40)
    whole = ReferenceBackend().scores(task).tolist()
    monkeypatch.setattr(reference, "SLICE", 7)
    assert ReferenceBackend().scores(task).tolist() == whole


@by_channel
def test_chunks_are_independent_of_their_neighbours(channel: Channel) -> None:
    """A part of a task has the same scores as within the whole task."""
    task = make_task(channel, [5, 1, 17, 2], 13, order=True)
    whole = ReferenceBackend().scores(task)
    for first, last in [(0, 1), (1, 3), (2, 4), (0, 4)]:
        part = task.part(first, last)
        assert part.chunks == last - first
        assert part.offsets[0] == 0
        assert ReferenceBackend().scores(part).tolist() == whole[first:last].tolist()


def test_fewer_candidates_are_the_first_of_more() -> None:
    """A smaller n gives the first candidates of a larger n, because n is no part of the stream."""
    short, long = make_task(Sign(1), [20], 10), make_task(Sign(1), [20], 100)
    assert ReferenceBackend().scores(long)[:, :10].tolist() == ReferenceBackend().scores(short).tolist()


def test_chunks_differ_by_stream_and_number() -> None:
    """Chunks with equal shifts but another stream or number have other candidates."""
    task = make_task(Laplace(), [6, 6, 6], 50)
    shifts = np.tile(task.shifts[:6], 3)
    first, second = randomness.stream(SEED), randomness.stream(SEED, step=1)
    rows = stream_rows([first, first, second], [0, 1, 0])
    scores = ReferenceBackend().scores(dataclasses.replace(task, streams=rows, shifts=shifts))
    assert len({tuple(row) for row in scores.tolist()}) == 3


@by_channel
def test_winners_have_the_draws_that_were_scored(channel: Channel) -> None:
    """The draws of the chosen candidates follow the layout of the format, and have the scores of those candidates."""
    task = make_task(channel, [5, 1, 17, 33], 21, order=True)
    backend = ReferenceBackend()
    scores = backend.scores(task)
    assert task.order is not None
    for indices in ([0, 20, 7, 8], [19, 3, 16, 15]):
        drawn = backend.winners(task.law, task.streams, task.offsets, np.array(indices))
        assert drawn.shape == task.shifts.shape
        assert drawn.dtype == np.uint16
        for row, k in enumerate(indices):
            chunk = slice(task.offsets[row], task.offsets[row + 1])
            assert drawn[chunk].tolist() == [plain_coordinate(task, row, i, k) for i in range(len(task.shifts[chunk]))]
            again = task.law.score(drawn[chunk], task.shifts[chunk]).sum() + task.order[k]
            assert again == scores[row, k]


# --- from a task to an index ---


def test_select_equals_the_selection_of_the_scores() -> None:
    """For the same private integers, `scoring.select` and `selection.select` of the scores give the same indices."""
    task = make_task(Laplace(), [4, 9, 2], 30, order=True)
    scores = ReferenceBackend().scores(task)
    totals = integer_weights(scores, task.fraction_bits).sum(axis=1).tolist()
    targets = [total * share // 1000 for total, share in zip(totals, (3, 500, 998), strict=True)]
    with scripted(targets):
        expected = selection.select(scores, task.fraction_bits).tolist()
    with scripted(targets):
        assert scoring.select(task, ReferenceBackend()).tolist() == expected


@pytest.mark.parametrize("budget", [1, 30, 65, 1 << 20])
def test_select_in_batches_keeps_the_chunks_in_order(budget: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The order of the indices does not depend on the number of scores that are held at a time."""
    task = make_task(Sign(1), [4, 9, 2, 20, 1], 30)
    totals = integer_weights(ReferenceBackend().scores(task), task.fraction_bits).sum(axis=1).tolist()
    targets = [total * share // 10 for total, share in zip(totals, (0, 9, 5, 2, 7), strict=True)]
    with scripted(targets):
        expected = selection.select(ReferenceBackend().scores(task), task.fraction_bits).tolist()
    monkeypatch.setattr(ReferenceBackend, "scores_per_batch", budget)
    with scripted(targets):
        assert scoring.select(task, ReferenceBackend()).tolist() == expected


@pytest.mark.parametrize("budget", [1, 65, 1 << 20])
def test_best_is_the_first_of_the_largest_scores(budget: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """α = ∞ takes the first largest score of each chunk, in batches too, and asks for no private randomness."""
    task = make_task(Sign(1), [1, 9, 2, 20], 30)
    expected = [row.index(max(row)) for row in plain_scores(task)]
    monkeypatch.setattr(ReferenceBackend, "scores_per_batch", budget)
    with scripted([]):
        assert scoring.best(task, ReferenceBackend()).tolist() == expected


def test_backends_are_found_by_name() -> None:
    assert scoring.backend("reference").name == "reference"
    with refused("device"):
        scoring.backend("abacus")


def losses(task: ScoringTask, changed: ScoringTask) -> NDArray[np.float64]:
    """Return ln P/P' of every index, exact up to the last logarithm."""
    before, after = (
        integer_weights(ReferenceBackend().scores(t), t.fraction_bits)[0].tolist() for t in (task, changed)
    )
    return np.array([math.log(Fraction(b * sum(after), a * sum(before))) for b, a in zip(before, after, strict=True)])


@pytest.mark.parametrize("channel", [Sign(1), Sign(3), Laplace(), Logistic(), Huber()], ids=str)
def test_one_coordinate_costs_its_epsilon_and_no_more(channel: Channel) -> None:
    """A coordinate that goes from −1 to 1 moves no log probability by more than ε, in exact integers.

    With the other coordinates set to favour one candidate over all others, the loss comes within 1 % of ε for the
    sign and Laplace channels, so the bound is tight. The smooth potentials reach their slope only in the tails.
    """
    arithmetic, dims = Arithmetic(channel, 0.5), 40
    task = make_task(channel, [dims], 600, gain=0.5)
    first = np.array([plain_coordinate(task, 0, 0, k) for k in range(600)])
    favoured = np.array([np.argmin(first)])
    drawn = ReferenceBackend().winners(task.law, task.streams, task.offsets, favoured)
    x = np.sign(channel.sample(drawn))
    ends = []
    for value in (-1.0, 1.0):
        x[0] = value
        ends.append(dataclasses.replace(task, shifts=arithmetic.shifts(x, np.zeros(dims))))
    loss = losses(ends[1], ends[0])
    assert np.abs(loss).max() <= selection_epsilon(arithmetic)
    assert loss.max() - loss.min() <= selection_epsilon(arithmetic)
    if isinstance(channel, Sign | Laplace):
        assert np.abs(loss).max() >= 0.99 * selection_epsilon(arithmetic)


# --- invalid tasks ---


def good() -> dict[str, Any]:
    """Return the arguments of a valid task."""
    return {
        "law": SignLaw(limit=300),
        "fraction_bits": 8,
        "candidates": 10,
        "streams": np.zeros((2, 4), np.uint32),
        "offsets": np.array([0, 3, 5]),
        "shifts": np.array([1, -300, 300, 0, 7], np.int32),
        "order": np.arange(10, dtype=np.int32),
    }


def test_a_valid_task_is_accepted() -> None:
    assert ScoringTask(**good()).chunks == 2
    assert ScoringTask(**(good() | {"order": None})).chunks == 2


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("candidates", 0),
        ("candidates", MAX_CANDIDATES + 1),
        ("fraction_bits", -1),
        ("fraction_bits", MAX_FRACTION_BITS + 1),
        ("streams", np.zeros((3, 4), np.uint32)),
        ("streams", np.zeros((2, 3), np.uint32)),
        ("streams", np.zeros((2, 4), np.int64)),
        ("offsets", np.array([0, 3, 3])),
        ("offsets", np.array([0, 6, 5])),
        ("offsets", np.array([1, 3, 5])),
        ("shifts", np.zeros(4, np.int32)),
        ("shifts", np.zeros((5, 1), np.int32)),
        ("shifts", np.zeros(5, np.int64)),
        ("shifts", np.zeros(5, np.float32)),
        ("shifts", np.array([0, 0, 301, 0, 0], np.int32)),
        ("shifts", np.array([0, 0, 0, -301, 0], np.int32)),
        ("shifts", np.array([0, 0, -(1 << 31), 0, 0], np.int32)),
        ("order", np.zeros(9, np.int32)),
        ("order", np.zeros(10, np.int64)),
    ],
)
def test_invalid_tasks_are_refused(name: str, value: Any) -> None:
    """The error is one line that names the argument."""
    with refused(name):
        ScoringTask(**(good() | {name: value}))


def test_a_task_without_chunks_is_refused() -> None:
    with refused("offsets"):
        ScoringTask(
            **(
                good()
                | {"streams": np.zeros((0, 4), np.uint32), "offsets": np.array([0]), "shifts": np.zeros(0, np.int32)}
            )
        )


def sized_task(law: IntegerLaw, size: int, order: int | None) -> ScoringTask:
    return ScoringTask(
        law=law,
        fraction_bits=8,
        candidates=2,
        streams=np.zeros((2, 4), np.uint32),
        offsets=np.array([0, 1, 1 + size]),
        shifts=np.zeros(1 + size, np.int32),
        order=None if order is None else np.array([0, order], np.int32),
    )


@pytest.mark.parametrize("law", [SignLaw(limit=1 << 14), Arithmetic(Gaussian(), 0.05).law], ids=["sign", "gaussian"])
def test_chunks_that_could_overflow_are_refused(law: IntegerLaw) -> None:
    """The largest chunk times the largest score, plus the largest order, must stay below 2^30."""
    most = (MAX_ABS_SCORE - 1) // law.bound
    spare = MAX_ABS_SCORE - 1 - most * law.bound
    sized_task(law, most, None)
    sized_task(law, most, spare)
    sized_task(law, most, -spare)
    for size, order in [(most + 1, None), (most, spare + 1), (most, -spare - 1), (1, -(1 << 31))]:
        with refused("offsets", "overflow"):
            sized_task(law, size, order)


def test_the_largest_scores_are_exact() -> None:
    """The largest possible sums, all of one sign, do not wrap."""
    law = SignLaw(limit=1 << 20)
    task = dataclasses.replace(
        sized_task(law, 1023, None),
        streams=stream_rows([randomness.stream(SEED)] * 2, [0, 1]),
        candidates=1,
    )
    drawn = ReferenceBackend().winners(law, task.streams, task.offsets, np.array([0, 0]))
    shifts = np.where(drawn.astype(bool), law.limit, -law.limit).astype(np.int32)
    scores = ReferenceBackend().scores(dataclasses.replace(task, shifts=shifts))
    assert scores.tolist() == [[1 << 20], [1023 << 20]]


@bounded
@given(st.lists(st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1)), max_size=5))
def test_rows_of_streams_have_key_nonce_and_chunk(pairs: list[tuple[int, int]]) -> None:
    """Rows are (key0, key1, nonce, chunk) as uint32; lists of different lengths raise."""
    sources = [randomness.Stream(word, word ^ 1, word ^ 2) for word, _ in pairs]
    rows = stream_rows(sources, [chunk for _, chunk in pairs])
    assert rows.shape == (len(pairs), 4)
    assert rows.dtype == np.uint32
    assert rows.tolist() == [[*source, chunk] for source, (_, chunk) in zip(sources, pairs, strict=True)]
    with pytest.raises(ValueError, match="zip"):
        stream_rows(sources, [0] * (len(pairs) + 1))


def test_a_task_does_not_print_private_shifts() -> None:
    """A log or a traceback may show a task, so its text must not contain the image."""
    assert "300" not in repr(ScoringTask(**(good() | {"law": SignLaw(limit=301)})))
