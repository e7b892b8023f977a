"""The parts of a release that `dipp.load` reads: its shards, or its only archive."""

from __future__ import annotations

import functools
import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dipp.core.geometry import Geometry
from dipp.data.folder import sha256
from dipp.data.shards import Shard
from dipp.data.sources import Label
from dipp.errors import DippError
from dipp.format.archive import Archive
from dipp.format.bytes import Integers
from dipp.format.parameters import PublicParameters
from dipp.privacy.certificate import Certificate


class Part(ABC):
    """A part of a release: one file of images, in rows 0 … images − 1."""

    images: int

    @property
    @abstractmethod
    def digest(self) -> str:
        """Hex SHA-256 of the file."""

    @property
    @abstractmethod
    def parameters(self) -> PublicParameters:
        """Public parameters of the encoding."""

    @property
    @abstractmethod
    def certificate(self) -> Certificate | None:
        """Certificate of the part; None if the coding has none."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Bytes of the file."""

    @abstractmethod
    def geometry(self, row: int) -> Geometry:
        """Return the height, width and channels of the image in a row."""

    @abstractmethod
    def number(self, row: int) -> int:
        """Return the number by which sender and receiver draw the same randomness for the image in a row."""

    @abstractmethod
    def label(self, row: int) -> Label:
        """Return the label of the image in a row; None if it is missing."""

    @property
    @abstractmethod
    def missing(self) -> Label:
        """The value that `dipp.load` returns for a missing label."""

    @abstractmethod
    def grey(self, row: int) -> bool:
        """Return whether the source of the image in a row was grey."""

    @abstractmethod
    def rows(self, rows: Sequence[int]) -> Integers:
        """Return the indices of images of one geometry: an integer array with a row for each image."""


class ShardPart(Part):
    """A shard, which is read when it is first needed, and then checked against its entry in the manifest."""

    def __init__(self, path: Path, entry: dict[str, Any], classes: tuple[str, ...]) -> None:
        self.path, self.images, self._stated, self._classes = path, entry["images"], entry["sha256"], classes

    @functools.cached_property
    def _shard(self) -> Shard:
        """The shard, read and checked against the manifest."""
        if self.path.is_file() and sha256(self.path) != self._stated:
            raise DippError(self.path.name, "has a wrong checksum", "get it again")
        shard = Shard.read(self.path)
        if len(shard) != self.images:
            raise DippError(self.path.name, f"must have {self.images} images by the manifest, got {len(shard)}")
        if shard.names != self._classes:
            raise DippError(self.path.name, "has other names of classes than the manifest", "get it again")
        return shard

    @property
    def digest(self) -> str:
        """Hex SHA-256 that the manifest states; it is checked when the shard is read."""
        return str(self._stated)

    @property
    def missing(self) -> Label:
        """The value that `dipp.load` returns for a missing label: −1, or the empty text."""
        return "" if self._shard.labels.type == "string" else -1

    @property
    def parameters(self) -> PublicParameters:
        """The public parameters that the shard states."""
        return self._shard.parameters

    @property
    def certificate(self) -> Certificate | None:
        """The certificate that is computed from the shard."""
        return self._shard.certificate

    @property
    def size(self) -> int:
        """Bytes of the shard."""
        return self._shard.size

    def geometry(self, row: int) -> Geometry:
        """Return the geometry of the image in a row."""
        return self._shard.geometry(row)

    def number(self, row: int) -> int:
        """Return the number of the image in a row, which the shard states."""
        return int(self._shard.ids[row])

    def label(self, row: int) -> Label:
        """Return the label of the image in a row."""
        label: Label = self._shard.labels[row].as_py()
        return label

    def grey(self, row: int) -> bool:
        """Return whether the source of the image in a row was grey."""
        return self.number(row) in self._shard.grey

    def rows(self, rows: Sequence[int]) -> Integers:
        """Return the indices of images of one geometry, with a row for each image."""
        return self._shard.rows(rows)


class ArchivePart(Part):
    """An archive, which is the only part of its release and has no labels."""

    def __init__(self, archive: Archive) -> None:
        self.archive, self.images = archive, len(archive)

    @functools.cached_property
    def digest(self) -> str:
        """Hex SHA-256 of the bytes of the archive."""
        return hashlib.sha256(self.archive.to_bytes()).hexdigest()

    @property
    def parameters(self) -> PublicParameters:
        """The public parameters that the file states."""
        return self.archive.parameters

    @property
    def certificate(self) -> Certificate | None:
        """The certificate that is computed from the file."""
        return self.archive.certificate if self.parameters.plan.coding.certified else None

    @property
    def size(self) -> int:
        """Bytes of the archive."""
        return self.archive.size

    def geometry(self, row: int) -> Geometry:
        """Return the geometry of the image in a row."""
        return self.archive.geometry(row)

    def number(self, row: int) -> int:
        """Return the row, because the images of an archive are numbered by their rows."""
        return row

    def label(self, row: int) -> Label:  # noqa: ARG002
        """Return None: an archive has no labels."""
        return None

    @property
    def missing(self) -> Label:
        """None: an archive has no labels."""
        return None

    def grey(self, row: int) -> bool:
        """Return whether the source of the image in a row was grey."""
        return bool(self.archive.grey[row])

    def rows(self, rows: Sequence[int]) -> Integers:
        """Return the indices of images of one geometry, with a row for each image."""
        return np.stack([self.archive.image_indices(row) for row in rows])
