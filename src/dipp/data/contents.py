"""What a published shard holds: all that a manifest says of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from dipp.data.store import sha256

if TYPE_CHECKING:
    from dipp.data.shards import Shard


class Skipped(NamedTuple):
    """A position of the source that has no image in the shard."""

    position: int
    reason: str


class Contents(NamedTuple):
    """What a published shard holds. A worker sends it to the driver."""

    name: str
    """Name of the file."""
    bytes: int
    """Size of the file."""
    sha256: str
    images: int
    first: int
    """First position of the source that the shard answers for."""
    positions: int
    """Number of positions that it answers for."""
    skipped: tuple[Skipped, ...]
    pixels: int
    """Pixels of all images."""
    smallest: int | None
    """Units of the smallest image; None if there is no image."""
    payload_bits: int
    grey: int
    """Number of grey images."""
    largest: tuple[int, int] | None = None
    """Height and width of the image with the most units; None if there is no image."""

    @classmethod
    def of(cls, path: Path, shard: Shard) -> Contents:
        """Return what a shard holds that was read from a path."""
        return cls(
            path.name,
            shard.size,
            sha256(path),
            len(shard),
            shard.first,
            shard.positions,
            shard.skipped,
            int(shard.sizes.sum()),
            None if shard.smallest is None else shard.release.plan.unit.count(shard.smallest),
            shard.payload_bits,
            len(shard.grey),
            None if shard.largest is None else shard.largest.shape[:2],
        )

    @classmethod
    def from_json(cls, values: list[Any]) -> Contents:
        """Return the contents that were written as a JSON list."""
        found = cls(*values)
        size = None if found.largest is None else (found.largest[0], found.largest[1])
        return found._replace(skipped=tuple(Skipped(*one) for one in found.skipped), largest=size)
