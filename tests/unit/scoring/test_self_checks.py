"""The two checks of a backend: known answers before the first selection, and a public share that is rescored."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.codecs import SEED, make_codec, make_plan, pictures
from helpers.datasets import save_model, save_table, tiny_codec
from helpers.networks import tiny_denoiser
from helpers.refusals import refused
from helpers.sensing import sensing_plan
from helpers.statistics import bounded
from hypothesis import given
from hypothesis import strategies as st

from dipp import scoring
from dipp.codec import encoder
from dipp.codec.chain import Chain
from dipp.codec.encoder import Selector
from dipp.core import randomness, selection
from dipp.core.arithmetic import Arithmetic
from dipp.core.channels import Channel, Laplace, Sign
from dipp.core.geometry import Geometry
from dipp.core.laws import IntegerLaw, LaplaceLaw, PotentialLaw, SignLaw
from dipp.data.choices import Choices, Conduct
from dipp.data.engines import LocalEngine
from dipp.data.privatize import privatize
from dipp.data.store import Store
from dipp.errors import MiscomputedError
from dipp.odometer import Meter, Odometer
from dipp.planning.presets import PAPER
from dipp.scoring import Candidates, ScoringTask, known, rescoring
from dipp.scoring.cpu import CpuBackend
from dipp.scoring.reference import ReferenceBackend
from experiments.comparisons.channels import Huber, Logistic
from experiments.comparisons.unclipped import SHARP, THRIFTY

KINDS: list[type[IntegerLaw]] = [SignLaw, LaplaceLaw, PotentialLaw]
CHANNELS: list[Channel] = [Sign(period=1), Laplace(), Logistic(), Huber(0.5)]


def task_of(channel: Channel, sizes: list[int], candidates: int, ordered: bool, seed: int = 0) -> ScoringTask:
    rng = np.random.default_rng(seed)
    step = Arithmetic(channel, 0.02)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    streams = [randomness.stream(SEED, image) for image in range(len(sizes))]
    return ScoringTask(
        step.law,
        step.fraction_bits,
        candidates,
        scoring.stream_rows(streams, [0] * len(sizes)),
        offsets,
        rng.integers(-step.law.limit, step.law.limit + 1, offsets[-1]).astype(np.int32),
        rng.integers(-500, 500, candidates).astype(np.int32) if ordered else None,
    )


class BrokenBackend(CpuBackend):
    """A CPU backend with one wrong kernel, which errs in tasks of at least a number of candidates."""

    def __init__(self, kernel: str, least: int = 1) -> None:
        self.kernel, self.least = kernel, least

    def _wrong(self, kernel: str, candidates: int) -> bool:
        return self.kernel == kernel and candidates >= self.least

    def scores(self, task: ScoringTask) -> selection.Scores:
        scores = super().scores(task)
        if self._wrong("scores", task.candidates):
            scores[:, 1::2] += 1
        return scores

    def bin_sums(self, scores: selection.Scores, fraction_bits: int) -> selection.Sums:
        sums = super().bin_sums(scores, fraction_bits)
        if self._wrong("bin_sums", scores.shape[1]):
            sums[-1, 0] += 1
        return sums

    def locate(self, scores: selection.Scores, fraction_bits: int, bins: Any, offsets: Any) -> Any:
        indices = super().locate(scores, fraction_bits, bins, offsets)
        return indices ^ 1 if self._wrong("locate", scores.shape[1]) else indices

    def best(self, scores: selection.Scores) -> Any:
        indices = super().best(scores)
        return indices ^ 1 if self._wrong("best", scores.shape[1]) else indices

    def winners(self, law: IntegerLaw, streams: Any, offsets: Any, indices: Any) -> Any:
        draws = super().winners(law, streams, offsets, indices)
        return draws ^ 1 if self._wrong("winners", self.least) else draws


# Known answers.


@pytest.mark.parametrize("kind", KINDS)
def test_reference_and_cpu_give_the_known_answers(kind: type[IntegerLaw]) -> None:
    assert known.answers(ReferenceBackend(), kind) == known.ANSWERS[kind]
    assert known.answers(CpuBackend(), kind) == known.ANSWERS[kind]


@pytest.mark.gpu
@pytest.mark.parametrize("kind", KINDS)
def test_a_device_gives_the_known_answers(kind: type[IntegerLaw]) -> None:
    on = scoring.backend("cuda")
    assert known.answers(on, kind) == known.ANSWERS[kind]


@pytest.mark.parametrize("channel", CHANNELS[:3], ids=str)
@pytest.mark.parametrize("kernel", ["scores", "bin_sums", "locate", "best", "winners"])
def test_a_wrong_kernel_stops_the_selection_before_any_draw(
    kernel: str, channel: Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`select` is the only way to an index, so no use of a backend avoids the check."""
    drawn: list[int] = []
    monkeypatch.setattr(randomness, "private_bytes", drawn.append)
    with refused("cpu", kind=MiscomputedError):
        Candidates(task_of(channel, [20], 64, ordered=False), lambda: BrokenBackend(kernel)).select()
    assert drawn == []


def test_a_stale_cache_of_one_kernel_stops_the_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel returns what another version of the code would return, as a stale cache of numba does."""
    real = scoring.cpu.sign_scores  # type: ignore[attr-defined] # a module, once it is imported

    def stale(streams: Any, first: Any, m: Any, totals: Any, flush: int, out: Any) -> None:
        real(streams, first, m, totals, flush, out)
        out[:, -1] += 2

    known._require.cache_clear()
    monkeypatch.setattr("dipp.scoring.cpu.sign_scores", stale)
    with refused("cpu", kind=MiscomputedError):
        make_codec(SHARP).encode(pictures(1))
    monkeypatch.undo()
    assert len(make_codec(SHARP).encode(pictures(1))) == 1, "a backend that failed once is checked again"


# Rescoring.


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rescoring, "SHARES", {"cpu": 1.0, "reference": 1.0})
    monkeypatch.setattr(rescoring, "MOST", 1000)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("coding", [SHARP, PAPER, THRIFTY], ids=repr)
def test_a_correct_encoder_passes(coding: Any) -> None:
    codec = make_codec(coding)
    assert len(codec.encode(pictures(3))) == 3


@bounded
@given(
    st.sampled_from(CHANNELS),
    st.lists(st.integers(1, 40), min_size=1, max_size=4),
    st.sampled_from([1, 7, 255, 256, 257, 3000]),
    st.booleans(),
)
def test_correct_selections_pass(channel: Channel, sizes: list[int], candidates: int, ordered: bool) -> None:
    task, on = task_of(channel, sizes, candidates, ordered), CpuBackend()
    rows = np.arange(task.chunks)
    scores = on.scores(task)
    sums = on.bin_sums(scores, task.fraction_bits)
    rescoring.require_scores(task, on, scores, sums, rows)
    drawn = selection.draw_bins(sums)
    indices = on.locate(scores, task.fraction_bits, *drawn)
    rescoring.require_located(task, on, scores, drawn, indices, rows)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize(("kernel", "word"), [("scores", "scores"), ("bin_sums", "weights"), ("locate", "located")])
@pytest.mark.parametrize("channel", CHANNELS[:3], ids=str)
def test_errors_in_large_tasks_alone_are_found_by_rescoring(channel: Channel, kernel: str, word: str) -> None:
    task = task_of(channel, [20, 30], 4000, ordered=True)
    with refused("cpu", word, kind=MiscomputedError):
        scoring.select(task, BrokenBackend(kernel, least=1000))
    assert len(scoring.select(task, CpuBackend())) == 2


def test_the_usual_share_catches_a_kernel_that_is_always_wrong() -> None:
    """Streams are fixed, so the usual share of these 200 selections certainly contains some."""
    task = task_of(Sign(period=1), [4] * 200, 1000, ordered=False)
    assert 0 < len(rescoring.chosen(task, CpuBackend())) <= rescoring.MOST
    with pytest.raises(MiscomputedError):
        scoring.select(task, BrokenBackend("scores", least=1000))


def test_public_streams_choose_the_checked_selections() -> None:
    """Other shifts give the same choice, and about the wanted share of 20,000 selections is chosen."""
    first, second = (task_of(Sign(period=1), [2] * 50, 8, ordered=False, seed=seed) for seed in (0, 1))
    assert not np.array_equal(first.shifts, second.shifts)
    assert np.array_equal(rescoring.chosen(first, CpuBackend()), rescoring.chosen(second, CpuBackend()))
    streams = np.column_stack([np.tile(np.array(randomness.stream(SEED), np.uint32), (20_000, 1)), np.arange(20_000)])
    words = rescoring._words(streams.astype(np.uint32), 0)
    assert np.count_nonzero(words < 0xFFFFFFFF // 16) == pytest.approx(1250, abs=175)  # five deviations
    assert len(rescoring.chosen(first, ReferenceBackend())) == 0


def stopped(monkeypatch: pytest.MonkeyPatch, encode: Callable[[], object]) -> int:
    """Return the number of batches that are drawn before a mismatch ends an encoding."""
    counted, real = [0], selection.draw_bins

    def count(sums: selection.Sums) -> Any:
        counted[0] += 1
        return real(sums)

    on = BrokenBackend("locate")
    monkeypatch.setattr(scoring, "backend", lambda _: on)
    monkeypatch.setattr(known, "ANSWERS", {})
    monkeypatch.setattr(selection, "draw_bins", count)
    with pytest.raises(MiscomputedError):
        encode()
    return counted[0]


@pytest.mark.usefixtures("always")
def test_a_mismatch_ends_an_encoding_without_another_try(monkeypatch: pytest.MonkeyPatch) -> None:
    codec = make_codec(SHARP)
    assert stopped(monkeypatch, lambda: codec.encode(pictures(1), seed=SEED)) == 1


class FailingBackend(BrokenBackend):
    """A backend that locates a wrong index after a number of right calls."""

    def __init__(self, right: int) -> None:
        super().__init__("locate")
        self.right = right

    def locate(self, *arguments: Any) -> Any:
        self.right -= 1
        return super().locate(*arguments) if self.right < 0 else CpuBackend.locate(self, *arguments)


@pytest.mark.usefixtures("always", "one_thread", "odometer")
@pytest.mark.parametrize("name", ["out", "out.dipp"])
@pytest.mark.parametrize("shards", [0, 1])
def test_a_mismatch_ends_a_run_for_good(
    shards: int, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The shard is not published, no other worker of the run can publish, and the same command cannot continue it.

    A new run is charged as another release, because the decision to throw a draw away may have depended on it.
    """
    source, model = save_table(tmp_path / "s.parquet", 4), save_model(tmp_path / "model")
    codec, out = tiny_codec(model), tmp_path / name
    on, single = FailingBackend(shards * len(codec.plan.steps)), out.suffix == ".dipp"
    store = Store(tmp_path / ".out.dipp.work" if single else out)

    def run(**more: Any) -> None:
        conduct = Conduct(meter=Meter(), **more)
        privatize(str(source), out, codec, str(model), LocalEngine(1), Choices(shard_size=2), conduct)

    with monkeypatch.context() as broken:
        broken.setattr(scoring, "backend", lambda _: on)
        broken.setattr(known, "ANSWERS", {})
        begun: list[dict[str, Any]] = []
        begin = Store.begin

        def kept(self: Store, facts: dict[str, Any]) -> dict[str, Any]:
            begun.append(begin(self, facts))
            return begun[-1]

        broken.setattr(Store, "begin", kept)
        with refused("cpu", "located", kind=MiscomputedError):
            run()
    left = 0 if single else shards
    assert store.folder.exists() == bool(left)
    assert [path.name for path in tmp_path.glob("**/shard-*")] == ["shard-000000.parquet"] * left
    with refused("dst", "ended"):
        store.publish(begun[0]["token"], 1, lambda _: None)
    assert {picture.releases for picture in Odometer.open().pictures(9)} == {1}
    if left:
        with refused("dst", "shards"):
            run()
    run(overwrite=bool(left))
    assert {picture.releases for picture in Odometer.open().pictures(9)} == {2}


# Shifts that a device computes.


def shifts_on_a_device(monkeypatch: pytest.MonkeyPatch, wrong: int) -> None:
    """Run the code path of a device on the CPU, with an error of `wrong` in the shift of one coordinate."""
    denoiser = tiny_denoiser()
    plan = make_plan(SHARP, denoiser.schedule)
    chain = Chain(plan, denoiser, SEED, Geometry(8, 8, 3))
    selector = Selector(plan, SEED, pictures(2).reshape(2, -1), "cuda")
    layout = chain.layout(1, range(2))
    real = encoder._minus

    def minus(*arguments: Any) -> torch.Tensor:
        shifts = real(*arguments)
        shifts[1, 5] += wrong
        return shifts

    monkeypatch.setattr(encoder, "_minus", minus)
    selector.task(layout, torch.zeros((2, len(layout.chunks.order))))


def test_shifts_of_a_device_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    shifts_on_a_device(monkeypatch, 0)
    with refused("cpu", kind=MiscomputedError):
        shifts_on_a_device(monkeypatch, 1)


def test_clipped_shifts_of_a_device_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check compares clipped shifts, because a device may subtract correctly and clip wrongly."""
    plan, denoiser = sensing_plan(), tiny_denoiser()
    layout = Chain(plan, denoiser, SEED, Geometry(8, 8, 3)).layout(1, range(2))
    private = np.stack([np.zeros(192, np.uint8), np.full(192, 255, np.uint8)])
    selector, x_hat = Selector(plan, SEED, private, "cuda"), torch.zeros((2, len(layout.chunks.order)))
    selector.task(layout, x_hat)
    real = torch.Tensor.clip
    monkeypatch.setattr(torch.Tensor, "clip", lambda shifts, low, high: real(shifts, low, high - 1))
    with refused("cpu", kind=MiscomputedError):
        selector.task(layout, x_hat)
