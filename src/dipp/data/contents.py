"""What a manifest says of a published shard."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from dipp.data.folder import sha256

if TYPE_CHECKING:
    from dipp.data.shards import Shard


class SkippedPosition(NamedTuple):
    """A position of the source that has no image in its shard."""

    position: int
    reason: str
    """Why the picture was skipped. It is public, so it contains no name."""


class Contents(NamedTuple):
    """What a published shard holds. A worker sends it to the process that runs the engine."""

    name: str
    """Name of the file."""
    bytes: int
    """Size of the file."""
    sha256: str
    """Hex SHA-256 of the file."""
    images: int
    """Number of images."""
    first: int
    """First position of the source that the shard covers."""
    positions: int
    """Number of positions that the shard covers."""
    skipped: tuple[SkippedPosition, ...]
    """Covered positions that have no image."""
    pixels: int
    """Number of pixels of all images together."""
    smallest: int | None
    """Number of units of the smallest image; None if there is no image."""
    payload_bits: int
    """Bits of all coded indices."""
    grey: int
    """Number of grey images."""
    largest: tuple[int, int] | None = None
    """Height and width of the image with the most units; None if there is no image."""

    @classmethod
    def of(cls, path: Path, shard: Shard) -> Contents:
        """Return what a shard holds.

        Args:
            path: File of the shard.
            shard: The shard that was read from it.
        """
        return cls(
            path.name,
            shard.size,
            sha256(path),
            len(shard),
            shard.first,
            shard.positions,
            shard.skipped,
            int(shard.sizes.sum()),
            None if shard.smallest is None else shard.parameters.plan.unit.count(shard.smallest),
            shard.payload_bits,
            len(shard.grey),
            None if shard.largest is None else shard.largest.shape[:2],
        )

    @classmethod
    def from_json(cls, values: list[Any]) -> Contents:
        """Return the contents that were written as a JSON list.

        Args:
            values: The values of the fields, in their order.
        """
        contents = cls(*values)
        size = None if contents.largest is None else (contents.largest[0], contents.largest[1])
        return contents._replace(skipped=tuple(SkippedPosition(*entry) for entry in contents.skipped), largest=size)
