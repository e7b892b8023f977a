"""Shards: Parquet files of privatised images that describe themselves.

    payload  binary   the image's indices, as an archive packs them (`format.packing`), filled up to whole bytes
    label    int64, or string where the source had text; null without a label, or if labels were dropped
    width, height     int32
    id       int64    the image's number in the dataset, which also names its common randomness

The key `dipp` of the schema's metadata is JSON: the shard's plan, model and public seed, as a `.dipp` file without
images (base64); the certificate of the shard's worst unit; which positions of the source the shard covers, and which of
them were skipped and why; and, if there are any, the ids of grey pictures. So a shard can be checked and decoded
without any other file. The key `huggingface` names the classes for `datasets`.

A shard is written without compression and without a dictionary of payloads, because they do not compress. Reading a
shard from an untrusted source takes little more memory than its size: compression is refused before a row is read
(`footer`), and rows are read a few at a time, until they take more than the file can honestly hold.
"""

from __future__ import annotations

import base64
import functools
import json
import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dipp.core.geometry import MAX_PIXELS, Geometry
from dipp.data import footer
from dipp.data.contents import SkippedPosition
from dipp.data.sources import ROWS_PER_READ, Labels
from dipp.errors import FILE, DippError
from dipp.format.archive import WORK, Archive
from dipp.format.bytes import Integers, damaged
from dipp.format.header import parameters_from_bytes
from dipp.format.parameters import PublicParameters
from dipp.privacy.certificate import Certificate

VERSION = 1
METADATA, FEATURES = b"dipp", b"huggingface"
"""Keys of the metadata in the schema: dipp's own, and the key of Hugging Face's `datasets`."""
MAX_ROWS = 1 << 20
"""Largest number of images in a shard."""
ROW_BYTES = 256
"""Bytes of memory that an image may take beyond twice the file's size: sizes and labels are written once for many
images."""
BATCH_BYTES = 1 << 30
"""Largest memory of the rows that are read at a time: each value of a dictionary could be as large as the file."""
MAX_CONTAINER = 1 << 12
"""Largest number of row groups, columns and other elements of a list in the footer."""


def claim_of(certificate: Certificate | None) -> dict[str, float] | None:
    """Return the ε and ρ of a certificate, as a shard states them; None without a certificate.

    Args:
        certificate: The certificate.
    """
    return None if certificate is None else {"epsilon": certificate.epsilon, "rho": certificate.rho}


@dataclass(frozen=True, eq=False)
class Shard:
    """A shard that was read and checked, except for the packed indices, which are checked when they are unpacked."""

    parameters: PublicParameters
    """Public parameters that the shard was written with."""
    claim: dict[str, float] | None
    """ε and ρ that the file states, which must equal those of `certificate`; None without a certificate."""
    first: int
    """First position of the source that the shard covers."""
    positions: int
    """Number of positions that the shard covers."""
    skipped: tuple[SkippedPosition, ...]
    """Covered positions that have no image."""
    ids: Integers
    """Numbers of the images in the dataset, ascending."""
    widths: Integers
    """Width of each image in pixels."""
    heights: Integers
    """Height of each image in pixels."""
    labels: pa.Array
    """Label of each image; null if it is missing."""
    payloads: pa.Array
    """Packed indices of each image."""
    size: int
    """Size of the file in bytes."""
    grey: frozenset[int]
    """Ids of the images whose source was grey."""
    names: tuple[str, ...]
    """Names of the classes; empty if they have no names."""

    @classmethod
    def read(cls, path: Path) -> Shard:
        """Read and check a file, which may come from an untrusted source.

        Args:
            path: The file.

        Raises:
            DippError: The file is missing, damaged, compressed, no shard, or states a certificate that its plan does
                not have.
        """
        try:
            return cls._read(path)
        except (OSError, pa.ArrowException) as error:
            reason = getattr(error, "strerror", None) or "no Parquet"
            raise DippError(path.name, f"cannot be read ({reason})", "get it again") from None
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
            if isinstance(error, DippError):
                raise error.within(path.name) from None
            raise DippError(path.name, "is not a shard of a dipp dataset") from None

    @classmethod
    def _read(cls, path: Path) -> Shard:
        """Read and check a file; exceptions of any kind may leave this function."""
        size = path.stat().st_size
        footer.require_uncompressed(path)
        with pq.ParquetFile(path, page_checksum_verification=True, thrift_container_size_limit=MAX_CONTAINER) as file:
            _check_form(file, size)
            metadata = file.schema_arrow.metadata
            facts = json.loads(metadata[METADATA])
            if facts["version"] > VERSION:
                raise DippError(FILE, f"was written by a newer dipp (shard format {facts['version']})", "upgrade dipp")
            table = _rows(file, size)
        if any(table[name].null_count for name in ("payload", "width", "height", "id")):
            raise damaged("a value is missing")
        ids, widths, heights = (
            table[name].to_numpy().astype(np.int64, copy=False) for name in ("id", "width", "height")
        )
        shard = cls(
            parameters_from_bytes(base64.b64decode(facts["archive"], validate=True)),
            facts["certificate"],
            int(facts["first"]),
            int(facts["positions"]),
            tuple(SkippedPosition(int(position), str(reason)) for position, reason in facts["skipped"]),
            ids,
            widths,
            heights,
            table["label"].combine_chunks(),
            table["payload"].combine_chunks(),
            size,
            frozenset(map(operator.index, facts.get("grey", ()))),
            _names(metadata.get(FEATURES, b"{}")),
        )
        shard._check()
        return shard

    def _check(self) -> None:
        """Raise if positions, sizes or the certificate are not consistent."""
        covered = [*self.ids.tolist(), *(position for position, _ in self.skipped)]
        if len(covered) != self.positions or len(set(covered)) != self.positions or (np.diff(self.ids) <= 0).any():
            raise damaged("images are missing or there twice")
        if covered and not self.first <= min(covered) <= max(covered) < self.first + self.positions:
            raise damaged("it holds images of another shard")
        if (self.widths < 1).any() or (self.heights < 1).any() or (self.sizes > MAX_PIXELS).any():
            raise damaged("an image has an impossible size")
        # As for an archive, limit the number of sizes times steps, because each costs the arithmetic of a layout.
        if len(set(self.geometries())) * len(self.parameters.plan.steps) > max(WORK, 8 * self.size):
            raise damaged("its images do not fit into it")
        if not self.grey <= set(self.ids.tolist()):
            raise damaged("it names grey images that it does not have")
        if self.claim != claim_of(self.certificate):
            raise DippError(FILE, "states another certificate than its plan has", "do not trust the file")

    @functools.cached_property
    def certificate(self) -> Certificate | None:
        """Certificate of the worst unit, computed for the smallest image; None if the coding has none."""
        return self.parameters.certificate(self.smallest)

    @functools.cached_property
    def smallest(self) -> Geometry | None:
        """Geometry of the image with the fewest units; None if there is no image."""
        return self.parameters.plan.unit.smallest(set(self.geometries()))

    @functools.cached_property
    def largest(self) -> Geometry | None:
        """Geometry of the image with the most units; None if there is no image."""
        return self.parameters.plan.unit.largest(set(self.geometries()))

    def __len__(self) -> int:
        """Number of images."""
        return len(self.ids)

    @property
    def sizes(self) -> Integers:
        """Pixels of each image."""
        return self.widths * self.heights

    @property
    def payload_bits(self) -> int:
        """Bits of all coded indices, without padding and checksums, counted as for an archive."""
        lengths: dict[Geometry, list[int]] = {}
        for geometry, payload in zip(self.geometries(), self.payloads.to_pylist(), strict=True):
            lengths.setdefault(geometry, []).append(len(payload))
        return sum(self.parameters.layout(geometry).payload_bits(sizes) for geometry, sizes in lengths.items())

    def geometry(self, image: int) -> Geometry:
        """Return the height, width and channels of an image.

        Args:
            image: Row of the image in the shard.
        """
        return self.parameters.geometry(int(self.heights[image]), int(self.widths[image]))

    def geometries(self) -> list[Geometry]:
        """Return the geometry of each image."""
        geometry_of = functools.cache(self.parameters.geometry)
        return [geometry_of(*size) for size in zip(self.heights.tolist(), self.widths.tolist(), strict=True)]

    @property
    def labelled(self) -> bool:
        """Whether an image has a label."""
        return bool(self.labels.null_count < len(self.labels))

    def greys(self) -> list[bool]:
        """Return whether the source of each image was grey."""
        return [number in self.grey for number in self.ids.tolist()]

    def rows(self, images: Sequence[int]) -> Integers:
        """Return the indices of images of one geometry, with a row for each image.

        Args:
            images: Rows of the images in the shard.
        """
        chosen: list[bytes] = [self.payloads[image].as_py() for image in images]
        return self.parameters.layout(self.geometry(images[0])).rows(chosen)

    def all_rows(self) -> Iterator[Integers]:
        """Yield the indices of every image, in order: int32, because indices have at most 22 bits."""
        for _, run in groupby(range(len(self)), key=self.geometries().__getitem__):
            yield from self.rows(list(run)).astype(np.int32)

    def archive(self) -> Archive:
        """Return the images as an archive, numbered from 0. This applies every check of an archive to the shard."""
        return Archive.build(self.parameters, self.geometries(), list(self.all_rows()), grey=self.greys())


def _check_form(file: pq.ParquetFile, size: int) -> None:
    """Raise if the columns are not those of a shard, or if there are more rows than the file can hold."""
    columns = file.schema_arrow
    forms = [schema(Labels(text=text)) for text in (False, True)]
    if not any(columns.equals(form, check_metadata=False) for form in forms):
        raise DippError(FILE, "has other columns than a dipp shard")
    # Each image takes at least one byte of the file.
    if file.metadata.num_rows > min(size, MAX_ROWS):
        raise damaged("its images do not fit into it")


def _rows(file: pq.ParquetFile, size: int) -> pa.Table:
    """Return all rows, read a few at a time; raise once they take more memory than such a file can need."""
    batches, budget = [], 2 * size + ROW_BYTES * file.metadata.num_rows
    for batch in file.iter_batches(max(1, min(ROWS_PER_READ, BATCH_BYTES // size)), use_threads=False):
        batches.append(batch)
        budget -= batch.nbytes
        if budget < 0:
            raise damaged("its images do not fit into it")
    return pa.Table.from_batches(batches, file.schema_arrow).combine_chunks()


def schema(labels: Labels | None) -> pa.Schema:
    """Return the columns of a shard.

    Args:
        labels: The kind of the released labels; None if no labels are released.
    """
    kind = pa.string() if labels is not None and labels.text else pa.int64()
    return pa.schema(
        [
            pa.field("payload", pa.binary(), nullable=False),
            pa.field("label", kind),
            pa.field("width", pa.int32(), nullable=False),
            pa.field("height", pa.int32(), nullable=False),
            pa.field("id", pa.int64(), nullable=False),
        ]
    )


def features_of(labels: Labels | None) -> bytes:
    """Return the columns and the class names, as JSON in the format of Hugging Face's `datasets`."""
    values = {"payload": "binary", "label": "int64", "width": "int32", "height": "int32", "id": "int64"}
    features: dict[str, Any] = {name: {"dtype": kind, "_type": "Value"} for name, kind in values.items()}
    if labels is not None and labels.text:
        features["label"]["dtype"] = "string"
    elif labels is not None and labels.names:
        features["label"] = {"names": list(labels.names), "_type": "ClassLabel"}
    return json.dumps({"info": {"features": features}}).encode()


def _names(features: bytes) -> tuple[str, ...]:
    """Return the class names in the JSON that `features_of` writes."""
    label = json.loads(features).get("info", {}).get("features", {}).get("label", {})
    return tuple(map(str, label.get("names", ())))
