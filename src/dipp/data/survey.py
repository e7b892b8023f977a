"""The survey of a source: every picture is read once before the first is encoded, and its digest is kept.

What is read later must have the same digest, however the file looks from outside. So each position of the source
releases the picture that was there when all were charged to the odometer, or none: pictures that exchange their places
are not released twice, and no other content is released uncharged.

The digests stay in the run's own folder, which is its owner's alone and is removed at the end.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from dipp.data import rows
from dipp.data.sources import Content

DIGEST_BYTES = 32
SCHEMA = pa.schema({"digest": pa.binary(DIGEST_BYTES), "problem": pa.string()})
FILE = "survey.arrow"


class Sight(NamedTuple):
    """What was seen at a position of the source."""

    digest: bytes | None
    """Digest of the picture's content; None if there is a problem."""
    problem: str
    """Why the picture cannot be used; empty if nothing was found."""


def digest(content: Content) -> bytes:
    """Return the digest of a picture's file, or of its pixels."""
    if isinstance(content, bytes):
        return hashlib.blake2b(content, digest_size=DIGEST_BYTES).digest()
    return hashlib.blake2b(repr(content.shape).encode() + content.tobytes(), digest_size=DIGEST_BYTES).digest()


@dataclass(frozen=True)
class Survey:
    """The survey of a run that was begun."""

    path: Path
    positions: int

    @property
    def done(self) -> bool:
        """Whether all pictures were seen."""
        return self.path.is_file()

    def read(self, start: int, stop: int) -> list[Sight]:
        """Return what was seen at positions start … stop − 1."""
        return [Sight(**row) for row in rows.read(self.path, start, stop)]

    def bad(self) -> list[tuple[int, str]]:
        """Return the positions that have a problem, and which."""
        seen = rows.read(self.path, 0, self.positions)
        return [(position, row["problem"]) for position, row in enumerate(seen) if row["problem"]]

    @contextlib.contextmanager
    def writing(self) -> Iterator[Callable[[Sight], None]]:
        """Yield a function that adds the sight of the next position; all are kept after the block, or none."""
        with rows.writing(self.path, SCHEMA) as add:
            yield lambda sight: add(sight._asdict())
