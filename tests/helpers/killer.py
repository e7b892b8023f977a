"""`Killer` ends a run at its n-th write to the disk, as SIGKILL would."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

TOUCHES = ("fsync", "link", "mkdir", "open", "rename", "rmdir", "unlink")
"""Functions that touch the disk. Between two calls of them nothing visible changes."""


class Killed(BaseException):
    """Raised in place of SIGKILL. It is no `Exception`, so that nothing catches it."""


class Killer:
    """Ends a run at its n-th touch of the disk; afterwards the run cannot change the disk any more."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.left: int | None = None
        for name in TOUCHES:
            patch.setattr(os, name, self._mortal(getattr(os, name)))

    def _mortal(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def touch(*arguments: Any, **options: Any) -> Any:
            if self.left is not None:
                self.left -= 1
                if self.left < 0:
                    raise Killed
            return function(*arguments, **options)

        return touch

    def kills(self, call: Callable[[], object], touches: int) -> bool:
        """Return whether a call ran until it was killed."""
        self.left = touches
        try:
            call()
        except Killed:
            return True
        finally:
            self.left = None
        return False
