"""The survey of a source: every picture is read once before the first is encoded, and its digest is kept.

A picture that is read later must have the same digest, even if the state of its file has not changed. So each position
of the source releases the picture that was there when all pictures were charged to the odometer, or none: pictures that
exchange their places are not released twice, and no other content is released uncharged.

The digests stay in the run's own folder, which belongs to its owner alone and is removed at the end.
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
"""Bytes of a digest."""
SCHEMA = pa.schema({"digest": pa.binary(DIGEST_BYTES), "problem": pa.string()})
"""Columns of the file of a survey."""
FILE = "survey.arrow"
"""Name of the file of a survey."""


class SurveyEntry(NamedTuple):
    """What a survey keeps of a position of the source."""

    digest: bytes | None
    """Digest of the picture's content; None if there is a problem."""
    problem: str
    """Why the picture cannot be used; empty if it can."""


def digest(content: Content) -> bytes:
    """Return the digest of a picture.

    Args:
        content: Bytes of the picture's file, or pixels.

    Returns:
        32 bytes.
    """
    if isinstance(content, bytes):
        return hashlib.blake2b(content, digest_size=DIGEST_BYTES).digest()
    return hashlib.blake2b(repr(content.shape).encode() + content.tobytes(), digest_size=DIGEST_BYTES).digest()


@dataclass(frozen=True)
class Survey:
    """The survey of a run."""

    path: Path
    """Arrow file with a row for each position."""
    positions: int
    """Number of positions of the source."""

    @property
    def done(self) -> bool:
        """Whether the survey is complete."""
        return self.path.is_file()

    def read(self, start: int, stop: int) -> list[SurveyEntry]:
        """Return what the survey keeps of positions `start` … `stop` − 1.

        Args:
            start: First position.
            stop: Position after the last.
        """
        return [SurveyEntry(**row) for row in rows.read(self.path, start, stop)]

    def bad(self) -> list[tuple[int, str]]:
        """Return each position whose picture cannot be used, with the problem."""
        entries = rows.read(self.path, 0, self.positions)
        return [(position, row["problem"]) for position, row in enumerate(entries) if row["problem"]]

    @contextlib.contextmanager
    def writing(self) -> Iterator[Callable[[SurveyEntry], None]]:
        """Yield a function that adds the next position. The file is written at the end of the block, as a whole."""
        with rows.writing(self.path, SCHEMA) as add:
            yield lambda sight: add(sight._asdict())
