"""Operations on public arrays that are NumPy arrays or PyTorch tensors, as the engine of the denoiser takes them.

Shared code asks for the library of an array, and calls functions that both libraries name alike. This module does not
import PyTorch: a caller that holds a tensor has imported it.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = Any
"""A NumPy array or a PyTorch tensor; all arrays of one call belong to the same library."""


def library(values: Array) -> Any:
    """Return the library of an array: the module `numpy` or `torch`."""
    return np if isinstance(values, np.ndarray | np.generic) else sys.modules["torch"]


def host(values: Array) -> NDArray[Any]:
    """Return an array as a NumPy array: an array as it is, a tensor as a copy on the host."""
    array: NDArray[Any] = values if isinstance(values, np.ndarray) else values.cpu().numpy()
    return array


def colours_last(values: Array) -> NDArray[Any]:
    """Return states (N, C, H, W) as a NumPy array (N, H, W, C)."""
    return np.moveaxis(host(values), 1, -1)


def alike(values: Array, other: Array) -> Array:
    """Convert an array to the library and the device of another array.

    Args:
        values: The array to convert.
        other: The array whose library and device the result has.

    Returns:
        The converted array, in its own dtype.
    """
    if isinstance(other, np.ndarray):
        return host(values)
    return library(other).as_tensor(values, device=other.device)


def room(shape: tuple[int, ...], other: Array) -> Array:
    """Return an uninitialised array of the library, the dtype and the device of another array.

    Args:
        shape: Shape of the new array.
        other: The array whose library, dtype and device the result has.
    """
    return np.empty(shape, other.dtype) if isinstance(other, np.ndarray) else other.new_empty(shape)


def single(values: Array) -> Array:
    """Return an array as float32."""
    return values.astype(np.float32, copy=False) if isinstance(values, np.ndarray) else values.float()
