"""Numbers of things in words."""

from __future__ import annotations


def counted(count: int, thing: str) -> str:
    """Return a number of things in words: 1 picture, 2 pictures."""
    return f"{count:,} {thing}{'' if count == 1 else 's'}"
