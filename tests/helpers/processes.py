"""Other processes, by /proc and pidfds: to wait for one to end takes no clock."""

from __future__ import annotations

import contextlib
import os
import select
from collections.abc import Iterator
from pathlib import Path


def children(pid: int) -> list[int]:
    """The processes that a process has started and not outlived, in order; none, if it is gone."""
    tasks = Path(f"/proc/{pid}/task/{pid}/children")
    try:
        return [int(child) for child in tasks.read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


@contextlib.contextmanager
def watched(pids: list[int]) -> Iterator[list[int]]:
    """A handle of each process, open while it is needed, for `wait_for_end`; those that are gone have none."""
    handles = []
    try:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                handles.append(os.pidfd_open(pid))
        yield handles
    finally:
        for handle in handles:
            os.close(handle)


def wait_for_end(handles: list[int]) -> None:
    """Return when all these processes have ended, whichever process is their parent."""
    for handle in handles:
        select.select([handle], [], [])
