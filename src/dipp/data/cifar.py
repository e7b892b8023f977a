"""CIFAR-10's Python version: pickles of 10,000 pictures each, read by an unpickler that can run no code."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dipp.errors import DippError

BATCHES = {"train": tuple(f"data_batch_{i}" for i in range(1, 6)), "test": ("test_batch",)}
META = "batches.meta"
"""File with the names of the classes."""
SIDE = 32


class _Plain(pickle.Unpickler):
    """An unpickler for plain Python values and NumPy arrays, and for nothing that could run code."""

    MODULES = ("numpy", "numpy.core.multiarray", "numpy._core.multiarray")
    MAKERS: ClassVar[dict[str, Any]] = {
        "_reconstruct": np.empty(0).__reduce__()[0],
        "ndarray": np.ndarray,
        "dtype": np.dtype,
    }

    def find_class(self, module: str, name: str) -> Any:
        """The functions and classes that a pickled array of numbers needs; all others are refused."""
        if module in self.MODULES and name in self.MAKERS:
            return self.MAKERS[name]
        raise pickle.UnpicklingError(f"{module}.{name} is not allowed")


def read(path: Path) -> tuple[NDArray[np.uint8], Sequence[int]]:
    """The pictures (N, 32, 32, 3) of a batch file, and their labels."""
    batch = _unpickled(path)
    try:
        rows = np.asarray(batch[b"data"], np.uint8).reshape(-1, 3, SIDE, SIDE)
        labels = [int(label) for label in batch[b"labels"]]
    except (KeyError, TypeError, ValueError):
        raise _damaged(path) from None
    if len(rows) != len(labels):
        raise _damaged(path)
    return rows.transpose(0, 2, 3, 1), labels


def class_names(path: Path) -> tuple[str, ...]:
    """The names of the classes, from the file `META`."""
    try:
        return tuple(name.decode() for name in _unpickled(path)[b"label_names"])
    except (KeyError, TypeError, AttributeError, UnicodeDecodeError):
        raise _damaged(path) from None


def _unpickled(path: Path) -> Any:
    try:
        with path.open("rb") as stream:
            return _Plain(stream, encoding="bytes").load()
    except FileNotFoundError:
        raise DippError(f"{path.name} of CIFAR-10 is missing; unpack the archive again") from None
    except Exception:  # a damaged pickle can raise almost anything
        raise _damaged(path) from None


def _damaged(path: Path) -> DippError:
    return DippError(f"{path.name} is not a batch of CIFAR-10; unpack the archive again")
