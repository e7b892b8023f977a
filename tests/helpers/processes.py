"""Other processes, by /proc and pidfds, so that tests wait for their end without a clock."""

from __future__ import annotations

import contextlib
import os
import select
from collections.abc import Iterator
from pathlib import Path


def children(pid: int) -> list[int]:
    """Return the living processes that a process has started, in order; none if it has ended."""
    tasks = Path(f"/proc/{pid}/task/{pid}/children")
    try:
        return [int(child) for child in tasks.read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


@contextlib.contextmanager
def watched(pids: list[int]) -> Iterator[list[int]]:
    """Open a handle of each living process for `wait_for_end`, within this context."""
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
