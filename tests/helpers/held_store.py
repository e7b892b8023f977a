"""A store that stops a run after some shards until a file exists, so that tests can kill it without a race."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from dipp.data.store import Store


@dataclass(frozen=True, kw_only=True)
class HeldStore(Store):
    """A store that publishes `held_at` shards, and no more before the file `gate` exists."""

    held_at: int
    gate: Path

    def publish(self, token: str, number: int, write: Callable[[BinaryIO], object]) -> None:
        """Wait for the gate if needed, and publish. Workers may count the same shards, so each adds one."""
        while len(self.shards()) >= self.held_at and not self.gate.exists():
            time.sleep(0.01)
        super().publish(token, number, write)
