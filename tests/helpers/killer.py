"""`Killer`: kills a run at its n-th touch of the disk, as SIGKILL would."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

TOUCHES = ("fsync", "link", "mkdir", "open", "rename", "rmdir", "unlink")
"""Between two of these nothing changes that anybody could see."""


class Killed(BaseException):
    """No error: nothing may catch it."""


class Killer:
    """Kills what runs at its n-th touch of the disk. Whatever it does after that has no effect, as after SIGKILL."""

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
        """Whether the call lasted until it was killed."""
        self.left = touches
        try:
            call()
        except Killed:
            return True
        finally:
            self.left = None
        return False
