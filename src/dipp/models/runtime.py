"""Run a network for photographs on the CPU by ONNX Runtime: in fp32 as PyTorch, to rounding, but faster.

A session has threads of its own, which a forked process does not inherit: a session there would wait for them for ever,
even to end. So sessions are ended before a fork, and both processes begin new ones when they need them.
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

_runtimes: weakref.WeakSet[Runtime] = weakref.WeakSet()
"""All runtimes of this process, whose sessions are ended before a fork."""


class Runtime:
    """A network in ONNX Runtime, which uses `running.threads()` threads in each call.

    Args:
        config: Config of the network.
        weights: Its weights by their names, fp32.
    """

    def __init__(self, config: Config, weights: Mapping[str, Floats]) -> None:
        self.content = graph(config, weights, {}).SerializeToString()
        self.sessions: dict[int, onnxruntime.InferenceSession] = {}
        """Sessions by their number of threads, kept because beginning one takes tens of milliseconds."""
        _runtimes.add(self)

    def __call__(self, told: Floats, snr: float) -> Floats:
        """Return estimated pictures x̂0 (N, 3, H, W), clamped to [−1, 1], for stacked planes (N, K, H, W) at one SNR."""
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
        # As OpenMP's threads (`dipp`), they do not spin: with other work on the cores that costs more than it saves.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.enable_mem_pattern = False  # a memory plan is kept for every size of pictures, and they would add up
        return onnxruntime.InferenceSession(self.content, options, providers=["CPUExecutionProvider"])


def _end_sessions() -> None:
    for runtime in list(_runtimes):
        runtime.sessions.clear()  # a session that is running in another thread ends after its call


os.register_at_fork(before=_end_sessions)
