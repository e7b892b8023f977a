"""Engines: what is lost is asked for again, as long as something comes back; each shard is answered once."""

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
from dipp.data.contents import Contents, Skipped
from dipp.data.engines import Local, Ray
from dipp.errors import MiscomputedError


def contents(shard: int) -> Contents:
    """What a shard of one position holds."""
    return Contents("s", 1, "", 0, shard, 1, (Skipped(shard, "0 bytes"),), 0, None, 0, 0)


class RayError(Exception):
    """The error that Ray raises."""


class FakeRay:
    """A cluster that answers a number of shards of each pipeline, and then gives up."""

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
        """In another order than they were asked for."""
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
    monkeypatch.setattr(Ray, "_connected", lambda *_: contextlib.nullcontext())
    return Ray().run(worker, shards, lambda _: None)


def test_a_pipeline_that_ray_gives_up_is_made_anew_for_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FakeRay([2, 1, 3])
    assert sorted(found.first for found in run(monkeypatch, cluster, range(6))) == [0, 1, 2, 3, 4, 5]
    assert cluster.asked == [[0, 1, 2, 3, 4, 5], [0, 1, 2, 3], [0, 1, 2]]


def test_ray_is_given_up_where_nothing_gets_on(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FakeRay([2, 0])
    met = run(monkeypatch, cluster, range(5))
    assert [next(met), next(met)] == [contents(4), contents(3)]
    with refused("engine", remedy="published"):
        next(met)
    assert cluster.asked == [[0, 1, 2, 3, 4], [0, 1, 2]]


def test_an_error_that_is_one_clear_line_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FakeRay(itertools.repeat(1), error=("src", "cat.png: 0 bytes"))
    with refused("src", "cat.png"):
        list(run(monkeypatch, cluster, range(3)))
    assert len(cluster.asked) == 1


class FakePool:
    """Processes; in every round one dies at the moment when another answers."""

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


def test_what_came_back_counts_where_a_process_dies_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A round in which a shard was answered is one that gets on, however the answers are looked at."""
    monkeypatch.setattr(engines, "ProcessPoolExecutor", FakePool)
    worker: Any = SimpleNamespace(job=None)
    met = Local(2).run(worker, range(9), lambda _: None)
    answered = [next(met).first for _ in range(8)]
    assert sorted(answered) == [1, 2, 3, 4, 5, 6, 7, 8]
    with refused("workers", "anything"):
        next(met)  # the last one is alone, and dies again


def test_a_mismatch_is_not_tried_again_where_a_process_dies_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pool that is broken is started again; not so if a shard of it was computed wrongly."""

    class Wrong(FakePool):
        def submit(self, *arguments: Any) -> Future[Any]:
            future: Future[Any] = super().submit(*arguments)
            if self.calls == 3:
                future = Future()
                future.set_exception(MiscomputedError("cpu", "wrong"))
            return future

    worker: Any = SimpleNamespace(job=None)
    monkeypatch.setattr(engines, "ProcessPoolExecutor", Wrong)
    for _ in range(20):  # futures are met in the order of their addresses
        with pytest.raises(MiscomputedError):
            list(Local(2).run(worker, range(4), lambda _: None))
