"""Run networks in PyTorch: with a wanted precision, and on CUDA as captured graphs.

Inside the coded steps the results of two machines must nearly agree. So kernels are deterministic, and TF32 products
are used only where `Numbers` allows them, whatever the calling program has set. On CUDA, launching the small kernels of
a network one by one takes longer than running them on small pictures, so the network is captured as one graph for each
padded batch size.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

import torch

from dipp.errors import DippError
from dipp.models.denoiser import Numbers

Forward = Callable[[torch.Tensor, torch.Tensor, Numbers], torch.Tensor]
"""A function from states, a timestep or SNR as a tensor of one number, and a precision to the output in fp32."""

MAX_GRAPHS = 16
"""Largest number of CUDA graphs that are kept."""
TENSOR_CORES = (8, 0)
"""Lowest compute capability of CUDA devices with TF32 products."""


def computed(call: Callable[[], torch.Tensor], device: torch.device, numbers: Numbers) -> torch.Tensor:
    """Return the output of a network's call, in fp32.

    Args:
        call: Calls the network.
        device: Device of the network.
        numbers: Precision of the computation.
    """
    single = numbers is Numbers.SENSING
    exact = torch.backends.cudnn.flags(enabled=True, benchmark=single, deterministic=True, allow_tf32=single)
    half = torch.autocast(device.type, torch.bfloat16, enabled=numbers is Numbers.FAST, cache_enabled=False)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        with exact, half:
            output = call()
    finally:
        torch.set_float32_matmul_precision(before)
    return output.float()


def ready(network: torch.nn.Module, device: torch.device, *, split: bool = True) -> torch.nn.Module:
    """Return a network on a device, for predictions and not for training.

    Args:
        network: The network, which is changed in place.
        device: Where it shall run.
        split: Whether to compute convolutions by split numbers on tensor cores (`tf32`). Their weights then take four
            times the memory.
    """
    moved: Any = network.eval().requires_grad_(False)
    moved = moved.to(device, memory_format=torch.channels_last)
    if split and device.type == "cuda" and torch.cuda.get_device_capability(device) >= TENSOR_CORES:
        from dipp.models.tf32 import with_split_convolutions

        moved = with_split_convolutions(moved)
    return moved  # type: ignore[no-any-return]


def built(
    name: str,
    make: Callable[[], torch.nn.Module],
    tensors: Mapping[str, torch.Tensor],
    device: torch.device,
    *,
    split: bool = True,
) -> torch.nn.Module:
    """Return a network in fp32 with exactly the stored tensors.

    Args:
        name: The model, for error messages.
        make: Makes the network, with any weights.
        tensors: Stored tensors by their names.
        device: Where the network shall run.
        split: Whether to use split convolutions on tensor cores (`ready`).

    Raises:
        DippError: A tensor is missing, left over or of another shape, or the config is invalid.
    """
    try:
        with torch.device("meta"):  # draws no random weights: the caller's generator stays as it is
            network = make()
        network.load_state_dict({key: tensor.float() for key, tensor in tensors.items()}, strict=True, assign=True)
    except (ValueError, TypeError, KeyError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise DippError("model", f"{name} has weights and a config that do not make a network: {reason}") from None
    return ready(network, device, split=split)


class Graphs:
    """The CUDA graphs of a network by shape and precision. At most `MAX_GRAPHS` of the most recently used are kept.

    Args:
        forward: Calls the network.
        kind: dtype of the number that the network takes beside states: a timestep or an SNR.
        device: Device of the network.
    """

    def __init__(self, forward: Forward, kind: torch.dtype, device: torch.device) -> None:
        self.forward, self.kind, self.device = forward, kind, device
        self.graphs: dict[tuple[tuple[int, ...], Numbers], _Graph] = {}
        self.running = threading.Lock()
        """Held while a graph runs: graphs share their memory, so only one may run at a time."""

    def __call__(self, x: torch.Tensor, number: float, numbers: Numbers) -> torch.Tensor:
        """Return the network's output, by replaying the CUDA graph that was captured for the padded shape.

        Args:
            x: States (N, C, H, W).
            number: Timestep or SNR of all states.
            numbers: Precision in which the network computes.
        """
        # A power of two: few graphs, and less than half of a batch is padding.
        shape = (1 << (len(x) - 1).bit_length(), *x.shape[1:])
        with self.running:
            graph = self.graphs.pop((shape, numbers), None)
            if graph is None:
                if len(self.graphs) >= MAX_GRAPHS:
                    self.graphs.pop(next(iter(self.graphs)))
                pool = next((other.graph.pool() for other in self.graphs.values()), None)
                graph = _Graph(self, shape, numbers, pool)
            self.graphs[shape, numbers] = graph
            return graph(x, number)  # a copy, which the next run does not overwrite


class _Graph:
    """A network captured as a CUDA graph for one batch shape. A smaller batch is padded with any states."""

    def __init__(self, graphs: Graphs, shape: tuple[int, ...], numbers: Numbers, pool: Any) -> None:
        with torch.cuda.device(graphs.device):
            self.x = torch.zeros(shape, device=graphs.device).contiguous(memory_format=torch.channels_last)
            self.number = torch.zeros(1, dtype=graphs.kind, device=graphs.device)
            side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):  # libraries initialise in a first run, which must not be captured
                graphs.forward(self.x, self.number, numbers)
            torch.cuda.current_stream().wait_stream(side)
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph, pool=pool):
                self.output = graphs.forward(self.x, self.number, numbers)

    def __call__(self, x: torch.Tensor, number: float) -> torch.Tensor:
        self.x[: len(x)].copy_(x)
        self.number.fill_(number)
        self.graph.replay()
        return self.output[: len(x)].clone()
