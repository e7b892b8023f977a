"""Whole datasets on a real Ray cluster of several nodes: a worker and a node die, and every image is released once."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
from helpers.datasets import SHARD_SIZE, Publications, check_release, save_model, save_table, tiny_codec
from ray.cluster_utils import Cluster

from dipp.data.engines import Engine, Local, Ray
from dipp.data.privatize import Choices, privatize
from dipp.data.shards import Shard
from dipp.data.store import Store
from dipp.errors import DippError
from dipp.core.plan import DIFFC

pytestmark = [
    pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks for worker processes in /proc"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # Ray Data sets its own old options
]
COUNT = 2000


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A head and two nodes on loopback, one actor each."""
    here = f"{Path(__file__).parent}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", here)
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        options = {"num_cpus": 1, "object_store_memory": 100 << 20, "include_dashboard": False}
        made = Cluster(initialize_head=True, head_node_args=options)
        try:
            made.workers = [made.add_node(num_cpus=1, object_store_memory=100 << 20) for _ in range(2)]
            yield made
        finally:
            ray.shutdown()
            made.shutdown()


def actors(node: Any) -> list[int]:
    """Processes of a node that hold the model."""
    raylet = node.all_processes["raylet"][0].process.pid
    found = []
    for child in Path(f"/proc/{raylet}/task/{raylet}/children").read_text().split():
        if b"MapWorker" in Path(f"/proc/{child}/cmdline").read_bytes():
            found.append(int(child))
    return found


def test_a_worker_and_a_node_die(cluster: Any, model: Path, tmp_path: Path) -> None:
    """All 2,000 images are released once: none lost, none twice."""
    source, target = save_table(tmp_path / "s.parquet", COUNT), tmp_path / "out"
    watch, killed, failures = Publications(Store(target)), list[str](), list[BaseException]()

    def busy(shards: int) -> Any:
        """A node that works, not the head, once so many shards are out."""
        while True:
            if watch.look() >= shards:
                for node in cluster.workers:
                    if actors(node):
                        return node
            time.sleep(0.01)

    def reap() -> None:
        try:
            os.kill(actors(busy(3))[0], signal.SIGKILL)
            killed.append("worker")
            cluster.remove_node(busy(12), allow_graceful=False)
            killed.append("node")
            assert not watch.store.finished, "it was over before the node could be killed"
        except BaseException as error:  # told by the test's own thread
            failures.append(error)

    reaper = threading.Thread(target=reap, daemon=True)
    reaper.start()
    choices, codec = Choices(shard_size=SHARD_SIZE), tiny_codec(model, index_bits=16)
    summary = privatize(str(source), target, codec, str(model), Ray(address=cluster.address), choices)
    reaper.join(60)
    assert not failures, failures
    assert killed == ["worker", "node"]
    assert summary.encoded == COUNT
    assert watch.look() == COUNT // SHARD_SIZE
    check_release(target, COUNT)


def test_ray_gives_what_this_process_gives(cluster: Any, model: Path, tmp_path: Path) -> None:
    """The same columns and payloads for the same public seed, by a mechanism that draws no private randomness."""
    source = save_table(tmp_path / "s.parquet", 60)
    codec, choices = tiny_codec(model, DIFFC), Choices(shard_size=20, seed=bytes(range(16)))
    engines: dict[str, Engine] = {"one": Local(1), "two": Ray(address=cluster.address)}
    for name, engine in engines.items():
        privatize(str(source), tmp_path / name, codec, str(model), engine, choices)
    for path in Store(tmp_path / "one").shards():
        one, two = Shard.read(path), Shard.read(tmp_path / "two" / path.name)
        assert one.ids.tolist() == two.ids.tolist()
        assert one.labels == two.labels
        assert one.payloads == two.payloads
    content = source.read_bytes()
    source.write_bytes(content[:100] + bytes(200) + content[300:])
    with pytest.raises(DippError, match="src"):
        privatize(
            str(source), tmp_path / "three", codec, str(model), Ray(address=cluster.address), choices, strict=True
        )
