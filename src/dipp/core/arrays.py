"""Arrays of public numbers: of NumPy, or tensors of PyTorch, as the engine of the denoiser takes them.

Code for both asks for the library of what it was given, and calls what both name alike. No framework is imported here:
who holds a tensor has loaded PyTorch.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = Any
"""An array of NumPy or a tensor of PyTorch; all those of one call are of one library."""


def library(values: Array) -> Any:
    """Return the library of an array: the module `numpy` or `torch`."""
    return np if isinstance(values, np.ndarray | np.generic) else sys.modules["torch"]


def host(values: Array) -> NDArray[Any]:
    """Return an array in NumPy: itself, or a copy of a tensor from its device."""
    found: NDArray[Any] = values if isinstance(values, np.ndarray) else values.cpu().numpy()
    return found


def colours_last(values: Array) -> NDArray[Any]:
    """Return states (N, C, H, W) in NumPy, as (N, H, W, C)."""
    return np.moveaxis(host(values), 1, -1)


def alike(values: Array, other: Array) -> Array:
    """Return an array in the library of another array, and on its device."""
    if isinstance(other, np.ndarray):
        return host(values)
    return library(other).as_tensor(values).to(other.device)


def room(shape: tuple[int, ...], other: Array) -> Array:
    """Return an array with nothing in it yet, of the type of another array, and on its device."""
    return np.empty(shape, other.dtype) if isinstance(other, np.ndarray) else other.new_empty(shape)


def single(values: Array) -> Array:
    """Return values in single precision."""
    return values.astype(np.float32, copy=False) if isinstance(values, np.ndarray) else values.float()
