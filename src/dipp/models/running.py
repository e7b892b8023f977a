"""Code that denoisers with a single network share: checked batches, calls of bounded size, graphs on CUDA."""

from __future__ import annotations

import functools
import math
import os
import sys
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from dipp.errors import DippError
from dipp.models.denoiser import Denoiser, Device, Numbers
from dipp.models.diffusion import NoiseSchedule

if TYPE_CHECKING:
    import torch

    from dipp.models.books import Books
    from dipp.models.engine import Graphs


def threads() -> int:
    """Return the number of threads that a network may use on the CPU.

    It is PyTorch's number if PyTorch is loaded, otherwise that of the environment variable OMP_NUM_THREADS, and by
    default the number of cores.
    """
    if "torch" in sys.modules:
        return int(sys.modules["torch"].get_num_threads())
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    if wanted.isdigit() and int(wanted):
        return int(wanted)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_calls(predict: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor, pixels: int) -> torch.Tensor:
    """Return the predictions for a batch, in several calls.

    Args:
        predict: Function from a part of the batch to its predictions.
        x: Batch (N, C, H, W).
        pixels: Largest number of pixels in one call; a larger picture has a call of its own.
    """
    import torch

    size = max(1, pixels // math.prod(x.shape[2:]))
    with torch.inference_mode():
        parts = [predict(part) for part in torch.split(x, size)]
        return torch.cat(parts) if len(parts) > 1 else parts[0]


@dataclass(frozen=True, eq=False)
class NetworkDenoiser(Denoiser):
    """A network that takes a batch of states and one number, with a noise schedule."""

    schedule: NoiseSchedule
    """Noise levels by timestep."""
    identity: str
    """Hex SHA-256 over weights, network config and scheduler config (`models.identity`)."""
    device: torch.device | Device
    """Where the network runs."""
    books: Books | None = field(default=None, kw_only=True)
    """The public words of the model; None if it has none."""

    number: ClassVar[type[int] | type[float]]
    """Type of the number that the network takes beside states: `int` for a timestep, `float` for an SNR."""
    pixels_per_call: ClassVar[Mapping[str, int]]
    """Largest number of pixels in one call of the network, by device; a larger picture has a call of its own."""
    graph_pixels: ClassVar[float] = math.inf
    """Largest number of pixels of pictures for which CUDA graphs are used."""

    @abstractmethod
    def _module(self) -> Any:
        """Return the network in PyTorch, on the device."""

    @staticmethod
    @abstractmethod
    def _output(network: Any, x: torch.Tensor, number: torch.Tensor) -> torch.Tensor:
        """Return the output of the network for a batch of states at one number: a timestep or an SNR."""

    @classmethod
    def _forward(cls, network: Any, x: torch.Tensor, number: torch.Tensor, numbers: Numbers) -> torch.Tensor:
        from dipp.models.engine import computed

        return computed(lambda: cls._output(network, x, number), x.device, numbers)

    def _batch(self, x: torch.Tensor) -> torch.Tensor:
        """Return a batch on the device, in fp32; raise if it is not of shape (N, C, H, W)."""
        self._check_shape(tuple(x.shape))
        return self._moved(x)

    def _moved(self, x: torch.Tensor) -> torch.Tensor:
        """Return a tensor on the device, in fp32."""
        import torch

        return x.to(self.device, torch.float32)

    def _check_shape(self, shape: tuple[int, ...]) -> None:
        if len(shape) != 4 or not all(shape) or shape[1] != self.channels:
            raise DippError("x_t", f"must be a batch (N, {self.channels}, H, W), got shape {shape}")

    def _in_calls(self, predict: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> torch.Tensor:
        """Return the predictions for a batch, in calls of bounded size."""
        return in_calls(predict, x, self.pixels_per_call[self.device.type])

    def _predict(self, x: torch.Tensor, number: float, numbers: Numbers) -> torch.Tensor:
        """Return the network's output for states at a number. On CUDA, small pictures go through captured graphs."""
        import torch

        cuda = self.device.type == "cuda"
        if cuda and math.prod(x.shape[2:]) <= self.graph_pixels:
            return self._graphs(x, number, numbers)
        x, given = x.contiguous(memory_format=torch.channels_last), torch.tensor([self.number(number)])
        return self._forward(self._module(), x, given.to(self.device), numbers if cuda else Numbers.EXACT)

    @functools.cached_property
    def _graphs(self) -> Graphs:
        import torch

        from dipp.models.engine import Graphs

        # It holds the network and not the denoiser, which otherwise would hold itself alive.
        forward, kind = functools.partial(self._forward, self._module()), torch.tensor([self.number()]).dtype
        return Graphs(forward, kind, torch.device(self.device))
