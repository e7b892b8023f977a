"""Engines run workers, which release shards. Each engine yields the contents of the published shards, in any order.

`LocalEngine` works in this process, with batches on the GPU or on all cores, or in a pool of spawned processes (a
forked child cannot use numba's threads). `RayEngine` uses Ray Data, which places, restarts and feeds actors that hold
the model. Neither engine records which worker did what: if a shard is requested twice, it is still published once
(`store`), and the second request is answered from the published file. So a lost worker costs no more than repeating the
shard that it had not published.
"""

from __future__ import annotations

import contextlib
import json
import logging
import multiprocessing
import os
import threading
import warnings
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol

from dipp.data.contents import Contents
from dipp.data.worker import Job, Progress, Worker, limit_threads
from dipp.errors import DippError, MiscomputedError, installing
from dipp.models.denoiser import torch_device

TASK_RETRIES = 4
"""How often Ray repeats a shard whose worker died, so that a picture that kills its reader cannot do so for ever."""
TICK = 0.5
"""Seconds between two reports of progress from a pool."""


class Engine(Protocol):
    """A program that runs workers, here or elsewhere."""

    def run(self, worker: Worker[Any], shards: Iterable[int], progress: Progress) -> Iterator[Contents]:
        """Release shards, and yield what each holds, in any order.

        Args:
            worker: The worker of this process; workers in other processes are made from its job.
            shards: Numbers of the shards.
            progress: Callback that receives the number of images done since its last call.

        Returns:
            An iterator over what the shards hold.
        """


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def engine(name: str, workers: int | None = None, address: str | None = None, device: str = "auto") -> Engine:
    """Return an engine by its name.

    Args:
        name: "local" or "ray".
        workers: Number of processes, each with the model. By default one for each core, or one on a GPU.
        address: Address of a running Ray cluster. None, the default, starts one on this machine if necessary.
        device: Device of the workers, such as "auto" or "cpu"; "auto" by default.

    Raises:
        DippError: The name is unknown, or the options contradict each other.
    """
    if workers is not None and workers < 1:
        raise DippError("workers", f"must be at least 1, got {workers}")
    if name == "ray":
        return RayEngine(workers, address)
    if name != "local":
        raise DippError("engine", f"must be local or ray, got {name}")
    if address is not None:
        raise DippError("address", "needs the engine ray", "use --engine ray")
    if torch_device(device).type != "cpu":
        if workers not in (None, 1):
            raise DippError(
                "workers", f"must be 1 on a GPU, got {workers}", "use --device cpu, or --engine ray for several GPUs"
            )
        return LocalEngine(1)
    return LocalEngine(workers or cores())


@dataclass(frozen=True)
class LocalEngine:
    """An engine that runs workers on this machine."""

    workers: int = 1
    """Number of processes; 1 means this process alone."""

    def run(self, worker: Worker[Any], shards: Iterable[int], progress: Progress) -> Iterator[Contents]:
        """Run in this process, or in spawned processes that share the cores; restart a pool that lost a process."""
        remaining = dict.fromkeys(shards)
        workers = min(self.workers, len(remaining))
        if workers <= 1:
            worker.progress = progress
            yield from map(worker.release, remaining)
            return
        while remaining:
            before = len(remaining)
            try:
                for shard, contents in _pool(workers, worker.job, list(remaining), progress):
                    del remaining[shard]
                    yield contents
            except BrokenProcessPool:
                if len(remaining) == before:
                    raise DippError(
                        "workers",
                        "were killed before they could publish anything, perhaps for lack of memory",
                        "use fewer, then run the same command again to go on",
                    ) from None


def _pool(workers: int, job: Job, shards: list[int], progress: Progress) -> Iterator[tuple[int, Contents]]:
    """Yield the number and the contents of each shard from a pool of spawned processes, in any order."""
    context = multiprocessing.get_context("spawn")
    # Whether to stop, and the number of encoded images. No lock: a killed process might never release it.
    shared = context.RawArray("d", 2)
    arguments = (job, max(1, cores() // workers), shared)
    reported = 0.0
    with ProcessPoolExecutor(workers, context, initializer=_start, initargs=arguments) as pool:
        try:
            queue, running = iter(shards), dict[Future[Contents], int]()
            while True:
                for shard in islice(queue, 2 * workers - len(running)):
                    running[pool.submit(_release, shard)] = shard
                if not running:
                    return
                done = wait(running, TICK, FIRST_COMPLETED).done
                progress(shared[1] - reported)
                reported = shared[1]
                for future in sorted(done, key=_urgency):
                    contents = future.result()
                    yield running.pop(future), contents
        finally:
            shared[0] = 1
            pool.shutdown(wait=False, cancel_futures=True)


def _urgency(done: Future[Contents]) -> int:
    """Return the order in which futures are handled: first results, then mismatches, then all other failures."""
    error = done.exception()
    return 0 if error is None else 1 if isinstance(error, MiscomputedError) else 2


_worker: Worker[Any]
"""The worker of a spawned process, which `_start` sets."""


def _start(job: Job, threads: int, shared: Any) -> None:
    """Set up a spawned process: its threads, its worker, and a thread that ends the process when the parent dies."""
    global _worker

    def follow() -> None:
        parent = multiprocessing.parent_process()
        if parent is not None:
            parent.join()
            os._exit(1)

    def progress(images: float) -> None:
        shared[1] += images
        if shared[0]:
            raise DippError("run", "was stopped")

    threading.Thread(target=follow, daemon=True).start()
    limit_threads(threads)
    _worker = job.worker(progress)


def _release(shard: int) -> Contents:
    """Release a shard with the worker of this process, and return what the shard holds."""
    return _worker.release(shard)


@dataclass(frozen=True)
class RayEngine:
    """An engine that runs workers on a Ray cluster."""

    workers: int | None = None
    """Number of actors; None means one for each GPU or CPU of the cluster."""
    address: str | None = None
    """Address of the cluster. None means the cluster that this process is connected to, or else a new cluster on this
    machine."""

    def run(self, worker: Worker[Any], shards: Iterable[int], progress: Progress) -> Iterator[Contents]:
        """Send shard numbers through a Ray Data pipeline of actors; pixels are read by the actors and stay in them.

        If Ray gives up a pipeline, another is started for the remaining shards, as long as each pipeline publishes
        something. Before a cluster notices that a node is gone, Ray may have used up all attempts at a shard there.
        """
        remaining, ray = dict.fromkeys(shards), _ray()
        with self._connected(ray):
            while remaining:
                before = len(remaining)
                try:
                    for shard, contents in self._pipeline(ray, worker.job, list(remaining), progress):
                        del remaining[shard]
                        yield contents
                except ray.exceptions.RayError as error:
                    if len(remaining) == before:
                        raise DippError(
                            "engine",
                            f"ray gave up ({type(error).__name__})",
                            "published shards are safe, run the same command again to go on",
                        ) from None

    def _pipeline(self, ray: Any, job: Job, shards: list[int], progress: Progress) -> Iterator[tuple[int, Contents]]:
        """Yield the number and the contents of each shard."""
        gpu = job.device.startswith("cuda")
        free = int(ray.cluster_resources().get("GPU" if gpu else "CPU", 0))
        if not free:
            raise DippError("device", f"must be in the Ray cluster, which has no {'GPU' if gpu else 'CPU'}")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the only option for the number of retries is deprecated
            numbers = ray.data.from_items([{"shard": shard} for shard in shards], override_num_blocks=len(shards))
            data = numbers.map_batches(
                _Actor,
                fn_constructor_args=(job,),
                batch_size=1,
                compute=ray.data.ActorPoolStrategy(size=min(self.workers or free, free, len(shards))),
                num_cpus=1,
                num_gpus=1 if gpu else 0,
                ray_remote_args_fn=_actor_options,
            )
        for row in data.iter_rows():
            result = json.loads(row["result"])
            if "error" in result:
                raise (MiscomputedError if result["miscomputed"] else DippError)(*result["error"])
            progress(result["encoded"])
            yield result["shard"], Contents.from_json(result["contents"])

    @contextlib.contextmanager
    def _connected(self, ray: Any) -> Iterator[None]:
        """Connect to Ray with its bars and logs switched off; afterwards disconnect, unless it was connected before."""
        mine = not ray.is_initialized()
        if mine:
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
            os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
            os.environ.setdefault("RAY_enable_worker_prestart", "0")  # prestarted workers would be idle
            where = {"address": self.address} if self.address else {"address": "local", "include_dashboard": False}
            try:
                ray.init(**where, log_to_driver=False, logging_level=logging.ERROR)
            except (ConnectionError, RuntimeError, ValueError) as error:
                got = self.address or "this machine"
                raise DippError("address", f"must be one of a Ray cluster, got {got} ({error})") from None
        context = ray.data.DataContext.get_current()
        before = context.enable_progress_bars
        context.enable_progress_bars = False
        logger = logging.getLogger("ray.data")
        level = logger.level
        logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            logger.setLevel(level)
            context.enable_progress_bars = before
            if mine:
                ray.shutdown()


def _ray() -> Any:
    """Return the module ray, which is an optional dependency."""
    try:
        import ray
        import ray.data
    except ImportError:
        raise DippError("engine", "ray needs the package ray", installing("ray")) from None
    return ray


def _actor_options() -> dict[str, Any]:
    """Return the options of Ray's actors."""
    return {"max_task_retries": TASK_RETRIES}


class _Actor:
    """A worker inside a Ray actor. It returns a `DippError` as a result; Ray retries after any other exception."""

    def __init__(self, job: Job) -> None:
        limit_threads(1)
        self._encoded = 0.0
        self._worker = job.worker(self._count)

    def _count(self, images: float) -> None:
        self._encoded += images

    def __call__(self, batch: dict[str, Any]) -> dict[str, list[str]]:
        """Release the shards of a batch; return the contents of each, or the error, as JSON."""
        results = []
        for shard in batch["shard"].tolist():
            self._encoded = 0.0
            try:
                contents = self._worker.release(shard)
                results.append(json.dumps({"shard": shard, "contents": contents, "encoded": self._encoded}))
            except DippError as error:
                miscomputed = isinstance(error, MiscomputedError)
                results.append(json.dumps({"error": error.args, "miscomputed": miscomputed}))
        return {"result": results}
