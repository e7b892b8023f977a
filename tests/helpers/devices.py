"""A device without a GPU: tensors on the CPU that keep apart from NumPy arrays, as tensors on a GPU do."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils._pytree import tree_leaves

from dipp.core import arrays
from dipp.models.denoiser import Denoiser
from dipp.scoring import ScoringTask
from dipp.scoring.cpu import CpuBackend


class DeviceTensor(torch.Tensor):
    """A tensor that refuses NumPy arrays as operands, and becomes a NumPy array after `cpu` alone."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Raise where a tensor on a GPU would raise, and otherwise do what tensors do."""
        if func in (torch.Tensor.numpy, torch.Tensor.__array__):
            raise TypeError("a tensor on a device is no NumPy array; call .cpu() first")
        if func is not torch.Tensor.new_tensor and any(
            isinstance(leaf, np.ndarray) for leaf in tree_leaves((args, kwargs))
        ):
            raise TypeError(f"{func.__name__} mixes a tensor on a device with a NumPy array")
        if func is torch.Tensor.cpu:
            return args[0].as_subclass(torch.Tensor)
        return super().__torch_function__(func, types, args, kwargs or {})  # type: ignore[no-untyped-call]


class DeviceBackend(CpuBackend):
    """The backend of the CPU, for tasks whose shifts lie on the device or on the host."""

    name = "cuda"

    def scores(self, task: ScoringTask) -> Any:
        """Return the scores of a task."""
        return super().scores(replace(task, shifts=arrays.host(task.shifts)))

    def host(self, values: Any) -> NDArray[Any]:
        """Return values as a NumPy array."""
        return arrays.host(values)


def moved(denoiser: Denoiser) -> Denoiser:
    """Move a denoiser to the device: it takes and returns tensors of the device alone."""
    x0 = denoiser.x0

    def checked(x_t: Any, t: int, *, fast: bool = False) -> Any:
        assert isinstance(x_t, DeviceTensor), "a state has left the device"
        return x0(x_t, t, fast=fast)

    def placed(values: NDArray[np.float32]) -> Any:
        return torch.from_numpy(values).as_subclass(DeviceTensor)

    changed: dict[str, Any] = {"x0": checked, "placed": placed, "device": SimpleNamespace(type="cuda")}
    for name, value in changed.items():
        object.__setattr__(denoiser, name, value)
    return denoiser
