"""The order in which a seed is drawn and private files are read."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from dipp.core import randomness

_watched: list[tuple[Path, list[str]]] = []


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and _watched and isinstance(arguments[0], str | bytes):
        folder, order = _watched[-1]
        if os.path.realpath(os.fsdecode(arguments[0])).startswith(f"{os.path.realpath(folder)}{os.sep}"):
            order.append("picture")


sys.addaudithook(_hook)  # an audit hook stays for the life of the process; it records only while something is watched


@contextlib.contextmanager
def order_of_events(folder: Path) -> Iterator[list[str]]:
    """Return the order in which, within a `with` block, Python draws seeds and opens files of a folder."""
    order: list[str] = []
    real = randomness.fresh_seed

    def drawn() -> bytes:
        order.append("seed")
        return real()

    _watched.append((folder, order))
    try:
        with mock.patch.object(randomness, "fresh_seed", drawn):
            yield order
    finally:
        _watched.pop()
