"""The state of a file, by which a change is noticed.

A time alone is not enough: two files with the same time can exchange their names, and a program can set the time of a
file that it has replaced. Device and inode identify the file. The system itself sets the time of the last change
(ctime) at every write, rename or `utime`, and no program can set it back. If even that fails, `survey` compares the
contents.
"""

from __future__ import annotations

import functools
import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

WORD = (1 << 64) - 1
"""Largest integer of 64 bits."""
BOOT = Path("/proc/sys/kernel/random/boot_id")
"""File in which Linux names the current boot."""


class State(NamedTuple):
    """What the system states of a file: each number modulo 2⁶⁴, times in nanoseconds."""

    device: int
    inode: int
    changed: int
    """Time of the last change of the file or its metadata (ctime)."""
    modified: int
    """Time of the last change of the content (mtime)."""
    size: int


def state_of(facts: os.stat_result) -> State:
    """Return the state of a file.

    Args:
        facts: What `stat` returned for the file.
    """
    numbers = (facts.st_dev, facts.st_ino, facts.st_ctime_ns, facts.st_mtime_ns, facts.st_size)
    return State(*(number & WORD for number in numbers))


def state_at(path: Path) -> State | None:
    """Return the state of the file at a path; None if it cannot be read.

    Args:
        path: The path.
    """
    try:
        return state_of(path.stat())
    except OSError:
        return None


def same(before: Sequence[int] | None, now: State | None, where: str) -> bool:
    """Return whether a file still is in an earlier state.

    Disks get new numbers at each boot. So on another machine, or after another boot, the number of the disk is not
    compared.

    Args:
        before: The earlier state; None counts as another state.
        now: The present state; None counts as another state.
        where: The machine on which the earlier state was taken (`machine`).
    """
    if before is None or now is None:
        return False
    return tuple(before) == now if where == machine() else tuple(before[1:]) == now[1:]


@functools.cache
def machine() -> str:
    """Return a name of this machine and its current boot."""
    try:
        return f"{platform.node()} {BOOT.read_text().strip()}"
    except OSError:
        return platform.node()
