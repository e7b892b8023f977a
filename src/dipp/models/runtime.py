"""A network for photographs on the CPU, by ONNX Runtime: PyTorch's fp32 numbers to rounding, in less of its time."""

from __future__ import annotations

import os

import numpy as np
import onnxruntime
import torch

from dipp.models.graph import graph
from dipp.models.network import Network


class Runtime:
    """Sessions of ONNX Runtime with as many threads as PyTorch has, one for each process that is forked."""

    def __init__(self, network: Network) -> None:
        self.content = graph(network, {}).SerializeToString()
        self.sessions: dict[int, onnxruntime.InferenceSession] = {}

    def __call__(self, y: torch.Tensor, snr: float) -> torch.Tensor:
        """x̂0 of states (N, 3, H, W), clamped to [−1, 1]."""
        process = os.getpid()
        if process not in self.sessions:
            # A fork has its parent's session, but not the threads of it, which the end of the session would wait for:
            # so that one is kept.
            self.sessions[process] = self._session()
        feed = {"y": y.contiguous().numpy(), "snr": np.array([snr], np.float32)}
        (x0,) = self.sessions[process].run(None, feed)
        return torch.from_numpy(x0)

    def _session(self) -> onnxruntime.InferenceSession:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        options.enable_mem_pattern = False  # plans of memory for every size of pictures would add up
        return onnxruntime.InferenceSession(self.content, options, providers=["CPUExecutionProvider"])
