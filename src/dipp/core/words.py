"""Counts in words, for texts that people read."""

from __future__ import annotations


def counted(count: int, thing: str) -> str:
    """Return a count with its noun in the singular or plural, such as "1 picture" or "2,000 pictures".

    Args:
        count: The count.
        thing: The noun in the singular.
    """
    return f"{count:,} {thing}{'' if count == 1 else 's'}"
