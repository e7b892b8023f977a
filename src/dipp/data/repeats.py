"""The same file under two names, which would be released twice at the ε of one release.

A file is identified by its device and inode, whatever its name: a hard link, a symbolic link, or a folder that is
mounted a second time leads to the same pair. Copies are other files, and are not detected.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from dipp.data.states import WORD
from dipp.errors import DippError

Identity = tuple[int, int]
"""Device and inode of a file, or 128 other bits that identify a picture."""


def identity(facts: os.stat_result) -> Identity | None:
    """Return the identity of a file; None on a file system that does not number its files.

    Args:
        facts: What `stat` returned for the file.
    """
    return (facts.st_dev & WORD, facts.st_ino & WORD) if facts.st_ino else None


def twice(paths: Iterable[Path]) -> tuple[Path, Path] | None:
    """Return the first two paths that lead to the same file; None if there are no such paths.

    Args:
        paths: The paths. A path that cannot be read is ignored.
    """
    seen: dict[Identity, Path] = {}
    for path in paths:
        try:
            identity_of = identity(path.stat())
        except OSError:
            continue  # reading it raises later
        if identity_of is not None and seen.setdefault(identity_of, path) is not path:
            return seen[identity_of], path
    return None


def refuse_twice(paths: Iterable[Path]) -> None:
    """Raise if two paths lead to the same file.

    Args:
        paths: Files that hold many pictures each.

    Raises:
        DippError: Two paths lead to the same file, whose pictures would be released twice.
    """
    if pair := twice(paths):
        first, second = pair
        raise DippError(
            "src", f"has one file under the names {first.name} and {second.name}, to be released twice", "remove one"
        )


class Register:
    """The identities of listed pictures, in their order: 16 bytes each in memory."""

    def __init__(self) -> None:
        self._halves = array("Q")

    def add(self, identified: Identity | None) -> None:
        """Add the identity of the next picture.

        Args:
            identified: The identity; None for a picture that differs from all others.
        """
        self._halves.extend(identified or (WORD, len(self._halves) // 2))  # no device has that number

    def later(self) -> list[int]:
        """Return the numbers of the pictures that repeat an earlier one, in ascending order."""
        halves = np.frombuffer(self._halves, np.uint64).reshape(-1, 2)
        order = np.lexsort((halves[:, 1], halves[:, 0]))  # a stable sort, so the first of each stays first
        same = (halves[order[1:]] == halves[order[:-1]]).all(axis=1)
        return sorted(order[1:][same].tolist())
