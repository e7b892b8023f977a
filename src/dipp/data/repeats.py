"""The same file twice: what stands behind two names would be released twice, at the ε of one release.

A file is known by its device and inode, whatever it is called: a hard link, a symbolic link, or a folder that is
mounted a second time leads to the same pair. Copies are other files, and are not looked for.
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
"""Device and inode of a file, or other 128 bits that tell things apart."""


def identity(facts: os.stat_result) -> Identity | None:
    """What a file is known by; None on a file system that does not number its files."""
    return (facts.st_dev & WORD, facts.st_ino & WORD) if facts.st_ino else None


def twice(paths: Iterable[Path]) -> tuple[Path, Path] | None:
    """The first two paths that lead to the same file; None if there are none."""
    seen: dict[Identity, Path] = {}
    for path in paths:
        try:
            known = identity(path.stat())
        except OSError:
            continue  # reading it will say so
        if known is not None and seen.setdefault(known, path) is not path:
            return seen[known], path
    return None


def refuse_twice(paths: Iterable[Path]) -> None:
    """Refuse files that hold many pictures each, if two of them are the same file."""
    if found := twice(paths):
        first, second = found
        raise DippError(
            "src", f"{first.name} and {second.name} are one file, whose pictures would be released twice", "remove one"
        )


class Register:
    """Identities in the order in which things are listed: 16 bytes each, whatever their number."""

    def __init__(self) -> None:
        self._halves = array("Q")

    def add(self, known: Identity | None) -> None:
        """The identity of the next thing; None if it is like no other."""
        self._halves.extend(known or (WORD, len(self._halves) // 2))  # no device has that number

    def later(self) -> list[int]:
        """Numbers of the things that were there before, under another name: all but the first of each."""
        halves = np.frombuffer(self._halves, np.uint64).reshape(-1, 2)
        order = np.lexsort((halves[:, 1], halves[:, 0]))  # which is stable
        same = (halves[order[1:]] == halves[order[:-1]]).all(axis=1)
        return sorted(order[1:][same].tolist())
