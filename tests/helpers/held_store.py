"""A store that lets a run get so far and no further, until it is told: who kills a run need not hurry."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from dipp.data.store import Store


@dataclass(frozen=True, kw_only=True)
class HeldStore(Store):
    """A store that publishes `held_at` shards, and no other before the file `gate` exists."""

    held_at: int
    gate: Path

    def publish(self, token: str, number: int, write: Callable[[BinaryIO], object]) -> None:
        """Wait, as long as it takes, and publish. (Workers may see the same number of shards: each adds one.)"""
        while len(self.shards()) >= self.held_at and not self.gate.exists():
            time.sleep(0.01)
        super().publish(token, number, write)
