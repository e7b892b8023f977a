"""The type of the fixture `run` in conftest.py."""

from __future__ import annotations

from collections.abc import Callable

Command = Callable[..., tuple[int, str, str]]
"""Run `dipp` with arguments, and return its exit code, its output and its error stream."""
