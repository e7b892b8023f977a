"""The record of a run, which is written before a picture is read, and found again when the run is resumed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dipp.data.recording import recorded, restored
from dipp.data.sources import Source
from dipp.data.store import Store

VERSION = 3
"""Version of the format of the record."""


@dataclass(frozen=True)
class Run:
    """The record of a run: what it releases, and from which source."""

    purpose: dict[str, Any]
    """Options that the purpose of the run keeps (`Purpose.begun`)."""
    source: Source
    """The source, with the states of its files when the run began."""
    place: str
    """Path or hub id of the source."""
    shard_size: int
    """Positions of the source in each shard."""
    labelled: bool
    """Whether labels are released."""

    def to_json(self) -> dict[str, Any]:
        """Return the record as a dictionary for JSON."""
        return {
            "version": VERSION,
            "purpose": self.purpose,
            "source": recorded(self.source),
            "place": self.place,
            "shard_size": self.shard_size,
            "labelled": self.labelled,
        }

    @staticmethod
    def known(record: dict[str, Any], store: Store) -> bool:
        """Return whether a record has the present version of the format.

        Args:
            record: The record.
            store: The folder of the run, for the error.

        Raises:
            DippError: The record is damaged.
        """
        if "version" not in record:
            raise store.damaged()
        return bool(record["version"] == VERSION)

    @classmethod
    def from_json(cls, record: dict[str, Any], store: Store) -> Run:
        """Return the run that a record describes.

        Args:
            record: The record.
            store: The folder of the run, for the error.

        Raises:
            DippError: The record is damaged.
        """
        try:
            return cls(
                dict(record["purpose"]),
                restored(record["source"]),
                str(record["place"]),
                int(record["shard_size"]),
                bool(record["labelled"]),
            )
        except (KeyError, TypeError, ValueError, AttributeError):
            raise store.damaged() from None
