"""What the fixture `run` of conftest.py gives."""

from __future__ import annotations

from collections.abc import Callable

Command = Callable[..., tuple[int, str, str]]
"""The arguments of `dipp` → its exit code, and what it says on its two streams."""
