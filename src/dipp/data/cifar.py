"""CIFAR-10 and CIFAR-100 in their Python versions: files of pictures and labels, which are read without unpickling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dipp.data import pickles
from dipp.errors import DippError

SIDE = 32
"""Height and width of the pictures, in pixels."""


@dataclass(frozen=True)
class CifarVersion:
    """The names of files and keys in the Python version of CIFAR-10 or of CIFAR-100."""

    title: str
    folder: str
    """Name of the unpacked folder."""
    meta: str
    """File with the names of the classes."""
    batches: Mapping[str, tuple[str, ...]]
    """Names of the files of each split."""
    labels: str
    """Key of the labels in a batch file."""
    names: str
    """Key of the class names in `meta`."""
    signs: tuple[str, ...]
    """Files by which the folder is recognised."""

    def is_in(self, folder: Path) -> bool:
        """Return whether a folder holds this dataset."""
        return all((folder / name).is_file() for name in self.signs)


TEN = CifarVersion(
    "CIFAR-10",
    "cifar-10-batches-py",
    "batches.meta",
    {"train": tuple(f"data_batch_{number}" for number in range(1, 6)), "test": ("test_batch",)},
    "labels",
    "label_names",
    ("batches.meta",),
)
"""CIFAR-10."""
HUNDRED = CifarVersion(
    "CIFAR-100",
    "cifar-100-python",
    "meta",
    {"train": ("train",), "test": ("test",)},
    "fine_labels",
    "fine_label_names",
    ("meta", "train", "test"),
)
"""CIFAR-100."""
KINDS = (TEN, HUNDRED)
"""Both datasets."""


def read(path: Path, kind: CifarVersion = TEN) -> tuple[NDArray[np.uint8], Sequence[int]]:
    """Return the pictures of a batch file, and their labels.

    Args:
        path: The batch file.
        kind: The dataset of the file; CIFAR-10 by default.

    Returns:
        Pictures, uint8 (N, 32, 32, 3), and a label for each.

    Raises:
        DippError: The file is missing, damaged, or no file of this dataset.
    """
    batch = _loaded(path, kind)
    try:
        rows = pickles.array(_item(batch, "data"))
        if rows.dtype != np.uint8 or rows.shape[1:] != (3 * SIDE * SIDE,):
            raise _damaged(path, kind)
        labels = _item(batch, kind.labels)
        if not isinstance(labels, list):
            labels = pickles.array(labels).tolist()  # a number, if the array has no dimension
    except ValueError:
        raise _damaged(path, kind) from None
    if not isinstance(labels, list) or len(labels) != len(rows) or not all(type(label) is int for label in labels):
        raise _damaged(path, kind)
    return rows.reshape(-1, 3, SIDE, SIDE).transpose(0, 2, 3, 1), labels


def class_names(path: Path, kind: CifarVersion = TEN) -> tuple[str, ...]:
    """Return the names of the classes, from the file `CifarVersion.meta`.

    Args:
        path: The file.
        kind: The dataset of the file; CIFAR-10 by default.

    Raises:
        DippError: The file is missing, damaged, or no file of this dataset.
    """
    try:
        names = _item(_loaded(path, kind), kind.names)
        texts = [name.decode() if isinstance(name, bytes) else name for name in names]
    except (ValueError, TypeError):
        raise _damaged(path, kind) from None
    if not all(isinstance(text, str) for text in texts):
        raise _damaged(path, kind)
    return tuple(texts)


def _item(batch: Any, key: str) -> Any:
    """Return the value of a key in a batch file, whose keys Python 2 wrote as bytes."""
    for spelled in (key.encode(), key):
        if isinstance(batch, dict) and spelled in batch:
            return batch[spelled]
    raise ValueError


def _loaded(path: Path, kind: CifarVersion) -> Any:
    """Return the value in a pickle file."""
    try:
        return pickles.load(path)
    except FileNotFoundError:
        raise DippError("src", f"has no {path.name} of {kind.title}", "unpack the archive again") from None
    except OSError as error:
        problem = f"has a file {path.name} of {kind.title} that cannot be read ({error.strerror})"
        raise DippError("src", problem) from None
    except ValueError:
        raise _damaged(path, kind) from None


def _damaged(path: Path, kind: CifarVersion) -> DippError:
    """Return the error about a file that is no file of the dataset."""
    return DippError("src", f"has a file {path.name} that is not of {kind.title}", "unpack the archive again")
