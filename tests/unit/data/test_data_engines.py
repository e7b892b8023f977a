"""Engines repeat lost shards as long as something comes back, and yield each shard once."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from types import SimpleNamespace
from typing import Any

import pytest
from helpers.refusals import refused

from dipp.data import engines
from dipp.data.contents import Contents, SkippedPosition
from dipp.data.engines import LocalEngine, RayEngine
from dipp.errors import MiscomputedError


def contents(shard: int) -> Contents:
    """Return the contents of a shard of one position."""
    return Contents("s", 1, "", 0, shard, 1, (SkippedPosition(shard, "0 bytes"),), 0, None, 0, 0)


class RayError(Exception):
    """The error that Ray raises."""


class FakeRay:
    """A cluster that answers some shards of each pipeline, and then gives up."""

    exceptions = SimpleNamespace(RayError=RayError)

    def __init__(self, answered: Iterable[int], error: tuple[str, ...] = ()) -> None:
        self.answered, self.error = iter(answered), error
        self.asked: list[list[int]] = []
        self.data = SimpleNamespace(from_items=self.from_items, ActorPoolStrategy=lambda size: size)

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": 2.0}

    def from_items(self, items: list[dict[str, int]], override_num_blocks: int) -> Any:
        assert override_num_blocks == len(items)
        self.asked.append([item["shard"] for item in items])
        return SimpleNamespace(map_batches=self.map_batches)

    def map_batches(self, _: Any, *, compute: int, **__: Any) -> Any:
        assert compute == min(2, len(self.asked[-1]))
        return SimpleNamespace(iter_rows=self.iter_rows)

    def iter_rows(self) -> Iterator[dict[str, str]]:
        """Yield rows in another order than they were asked for."""
        for shard in self.asked[-1][::-1][: next(self.answered)]:
            result = (
                {"error": self.error, "miscomputed": False}
                if self.error
                else {"shard": shard, "contents": contents(shard), "encoded": 7}
            )
            yield {"result": json.dumps(result)}
        raise RayError


def run(monkeypatch: pytest.MonkeyPatch, cluster: FakeRay, shards: range) -> Iterator[Contents]:
    worker: Any = SimpleNamespace(job=SimpleNamespace(device="cpu"))
    monkeypatch.setattr(engines, "_ray", lambda: cluster)
    monkeypatch.setattr(RayEngine, "_connected", lambda *_: contextlib.nullcontext())
    return RayEngine().run(worker, shards, lambda _: None)


def test_a_pipeline_that_ray_gives_up_is_repeated_for_the_remaining_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FakeRay([2, 1, 3])
    assert sorted(shard.first for shard in run(monkeypatch, cluster, range(6))) == [0, 1, 2, 3, 4, 5]
    assert cluster.asked == [[0, 1, 2, 3, 4, 5], [0, 1, 2, 3], [0, 1, 2]]


def test_the_run_ends_if_a_pipeline_of_ray_answers_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FakeRay([2, 0])
    answers = run(monkeypatch, cluster, range(5))
    assert [next(answers), next(answers)] == [contents(4), contents(3)]
    with refused("engine", remedy="published"):
        next(answers)
    assert cluster.asked == [[0, 1, 2, 3, 4], [0, 1, 2]]


def test_a_dipp_error_of_an_actor_is_raised_and_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FakeRay(itertools.repeat(1), error=("src", "cat.png: 0 bytes"))
    with refused("src", "cat.png"):
        list(run(monkeypatch, cluster, range(3)))
    assert len(cluster.asked) == 1


class FakePool:
    """A pool of processes in which one dies in every round, at the moment when another answers."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.calls = 0

    def __enter__(self) -> FakePool:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def submit(self, _: Any, shard: int) -> Future[Any]:
        future: Future[Any] = Future()
        self.calls += 1
        if self.calls == 1:
            future.set_exception(BrokenProcessPool())
        else:
            future.set_result(contents(shard))
        return future

    def shutdown(self, **_: Any) -> None:
        pass


def test_an_answer_counts_if_another_process_dies_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A round that answered a shard is repeated for the others, in whichever order the futures are handled."""
    monkeypatch.setattr(engines, "ProcessPoolExecutor", FakePool)
    worker: Any = SimpleNamespace(job=None)
    answers = LocalEngine(2).run(worker, range(9), lambda _: None)
    answered = [next(answers).first for _ in range(8)]
    assert sorted(answered) == [1, 2, 3, 4, 5, 6, 7, 8]
    with refused("workers", "anything"):
        next(answers)  # the process of the last shard is alone, and dies again


def test_a_mismatch_is_not_repeated_if_a_process_dies_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken pool is started again, but not if one of its shards was computed wrongly."""

    class WrongPool(FakePool):
        def submit(self, *arguments: Any) -> Future[Any]:
            future: Future[Any] = super().submit(*arguments)
            if self.calls == 3:
                future = Future()
                future.set_exception(MiscomputedError("cpu", "wrong"))
            return future

    worker: Any = SimpleNamespace(job=None)
    monkeypatch.setattr(engines, "ProcessPoolExecutor", WrongPool)
    for _ in range(20):  # futures are handled in the order of their addresses, which varies
        with pytest.raises(MiscomputedError):
            list(LocalEngine(2).run(worker, range(4), lambda _: None))
