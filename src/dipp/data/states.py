"""The state of a file, by which a change is noticed.

A time alone tells little: two files of one time can exchange their names, and a program can set the time of what it has
replaced. Device and inode say which file it is. The system sets the time of the last change (ctime) itself, at every
write, rename or `utime`, and no program can set it back. Where even that fails, `survey` compares what was read.
"""

from __future__ import annotations

import functools
import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

WORD = (1 << 64) - 1
BOOT = Path("/proc/sys/kernel/random/boot_id")
"""Where Linux says which boot this is."""


class State(NamedTuple):
    """What the system says of a file: each number modulo 2⁶⁴, times in nanoseconds."""

    device: int
    inode: int
    changed: int
    modified: int
    size: int


def state_of(facts: os.stat_result) -> State:
    """Return the state in what `stat` gave."""
    numbers = (facts.st_dev, facts.st_ino, facts.st_ctime_ns, facts.st_mtime_ns, facts.st_size)
    return State(*(number & WORD for number in numbers))


def state_at(path: Path) -> State | None:
    """Return the state of the file at a path; None if there is none."""
    try:
        return state_of(path.stat())
    except OSError:
        return None


def same(before: Sequence[int] | None, now: State | None, where: str) -> bool:
    """Return whether a file is in the state that it had on the machine `where`.

    Each machine numbers devices for itself, at each boot: on another, they are not compared.
    """
    if before is None or now is None:
        return False
    return tuple(before) == now if where == machine() else tuple(before[1:]) == now[1:]


@functools.cache
def machine() -> str:
    """Return a name of this machine and its boot."""
    try:
        return f"{platform.node()} {BOOT.read_text().strip()}"
    except OSError:
        return platform.node()
