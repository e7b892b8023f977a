"""A network for photographs on the CPU, by ONNX Runtime: PyTorch's fp32 numbers to rounding, in less of its time.

A session has threads of its own, which a forked process does not inherit: there the session would wait for them for
ever, even to end. So sessions end before a fork, and both processes begin new ones when they need them.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Mapping

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from dipp.models.config import Config
from dipp.models.graph import graph
from dipp.models.running import threads

Floats = NDArray[np.float32]

_every: weakref.WeakSet[Runtime] = weakref.WeakSet()


class Runtime:
    """A network in ONNX Runtime, with as many threads as a network may have at the time of a call."""

    def __init__(self, config: Config, weights: Mapping[str, Floats]) -> None:
        self.content = graph(config, weights, {}).SerializeToString()
        self.sessions: dict[int, onnxruntime.InferenceSession] = {}
        """By their number of threads; it takes tens of milliseconds to begin one."""
        _every.add(self)

    def __call__(self, told: Floats, snr: float) -> Floats:
        """x̂0, clamped to [−1, 1], of stacked planes (N, K, H, W)."""
        count = threads()
        session = self.sessions.get(count)
        if session is None:
            session = self.sessions[count] = self._session(count)
        given = {"y": np.ascontiguousarray(told), "snr": np.array([snr], np.float32)}
        x0: Floats = session.run(None, given)[0]
        return x0

    def _session(self, count: int) -> onnxruntime.InferenceSession:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = count
        # As OpenMP's (`dipp`): with other work on the cores, threads that spin cost more than they save.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.enable_mem_pattern = False  # plans of memory for every size of pictures would add up
        return onnxruntime.InferenceSession(self.content, options, providers=["CPUExecutionProvider"])


def _end_sessions() -> None:
    for runtime in list(_every):
        runtime.sessions.clear()  # one that is running, in another thread, ends after its call


os.register_at_fork(before=_end_sessions)
