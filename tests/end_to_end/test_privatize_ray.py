"""A run on a real Ray cluster of several nodes: a worker and a node die, and every image is released once."""

from __future__ import annotations

import functools
import math
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
from helpers.datasets import SHARD_SIZE, Publications, check_release, require_same_shards, save_table, tiny_codec
from helpers.held_store import HeldStore
from helpers.paths import ROOT
from helpers.processes import children
from helpers.refusals import refused
from ray.cluster_utils import Cluster

from dipp.data import privatize as running
from dipp.data.choices import Choices, Conduct
from dipp.data.engines import Engine, LocalEngine, RayEngine
from dipp.data.privatize import privatize
from dipp.data.store import Store
from dipp.planning.presets import DIFFC

pytestmark = [
    pytest.mark.ray,
    pytest.mark.slow,
    pytest.mark.usefixtures("one_thread"),
    pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks for worker processes in /proc"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # Ray Data sets its own old options
]
COUNT = 30 * SHARD_SIZE


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Start a cluster of a head and two nodes on the loopback interface, with one actor each."""
    folders = f"{ROOT / 'tests'}{os.pathsep}{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", folders)
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_worker_niceness", "0")  # other work on the machine must not starve its workers
        options = {"num_cpus": 1, "object_store_memory": 100 << 20, "include_dashboard": False}
        made = Cluster(initialize_head=True, head_node_args=options)
        try:
            options = {"num_cpus": 1, "object_store_memory": 100 << 20}
            made.workers = [made.add_node(wait=False, **options) for _ in range(2)]
            made.wait_for_nodes(timeout=math.inf)
            yield made
        finally:
            ray.shutdown()
            made.shutdown()


def actors(node: Any) -> list[int]:
    """Return the processes of a node that hold the model."""
    raylet = node.all_processes["raylet"][0].process.pid
    return [pid for pid in children(raylet) if b"MapWorker" in command_of(pid)]


def command_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):  # the process has just ended
        return b""


def test_every_image_is_released_once_if_a_worker_and_a_node_die(
    cluster: Any, light_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run is held until both are dead, so that no image is released before."""
    source, target, gate = save_table(tmp_path / "s.parquet", COUNT), tmp_path / "out", tmp_path / "go on"
    watch, killed, failures = Publications(Store(target)), list[str](), list[BaseException]()
    over = threading.Event()
    monkeypatch.setattr(running, "Store", functools.partial(HeldStore, held_at=20, gate=gate))

    def busy(shards: int) -> tuple[Any, int]:
        """Return a working node other than the head, and its process, once `shards` shards are published."""
        while not over.is_set():
            if watch.look() >= shards:
                for node in cluster.workers:
                    for pid in actors(node):
                        return node, pid
            time.sleep(0.01)
        raise AssertionError("the run was over before anything could be killed")

    def reap() -> None:
        try:
            _, worker = busy(3)
            os.kill(worker, signal.SIGKILL)
            killed.append("worker")
            node, _ = busy(12)
            cluster.remove_node(node, allow_graceful=False)
            killed.append("node")
            assert not watch.store.finished, "it was over before the node could be killed"
        except BaseException as error:  # set by the thread of the test
            failures.append(error)
        finally:
            gate.touch()

    reaper = threading.Thread(target=reap)
    reaper.start()
    try:
        choices, codec = Choices(shard_size=SHARD_SIZE), tiny_codec(light_model)
        summary = privatize(str(source), target, codec, str(light_model), RayEngine(address=cluster.address), choices)
    finally:
        over.set()
        reaper.join()
    assert not failures, failures
    assert killed == ["worker", "node"]
    assert summary.encoded == COUNT
    assert watch.look() == COUNT // SHARD_SIZE
    check_release(target, COUNT)


def test_ray_and_this_process_write_equal_shards(cluster: Any, light_model: Path, tmp_path: Path) -> None:
    """The columns and payloads are equal for the same public seed, with a code without private draws."""
    source = save_table(tmp_path / "s.parquet", 60)
    codec, choices = tiny_codec(light_model, DIFFC), Choices(shard_size=20, seed=bytes(range(16)))
    engines: dict[str, Engine] = {"one": LocalEngine(1), "two": RayEngine(address=cluster.address)}
    for name, engine in engines.items():
        privatize(str(source), tmp_path / name, codec, str(light_model), engine, choices)
    require_same_shards(tmp_path / "one", tmp_path / "two")
    content = source.read_bytes()
    source.write_bytes(content[:100] + bytes(200) + content[300:])
    engine, strict = RayEngine(address=cluster.address), Conduct(strict=True)
    with refused("src", "s.parquet row 0"):
        privatize(str(source), tmp_path / "three", codec, str(light_model), engine, choices, strict)
