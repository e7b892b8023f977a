"""Write a shard: its columns, its metadata, and the certificate that it states."""

from __future__ import annotations

import base64
import functools
import json
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import BinaryIO, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dipp.core.geometry import Geometry
from dipp.data.contents import SkippedPosition
from dipp.data.shards import FEATURES, METADATA, VERSION, claim_of, features_of, schema
from dipp.data.sources import Label, Labels
from dipp.format.bytes import Integers
from dipp.format.header import parameters_to_bytes
from dipp.format.parameters import PublicParameters
from dipp.privacy.ledger import Ledger


class Image(NamedTuple):
    """A privatised image, before it is written."""

    number: int
    """Number in the dataset, which also selects the common randomness."""
    geometry: Geometry
    label: Label
    """Label of the image; None if it has no label."""
    indices: Integers
    """Selected indices, in the order of steps and chunks."""
    grey: bool = False
    """Whether the source of the image was grey, so that its channels are views of one value."""


def write(
    file: BinaryIO,
    parameters: PublicParameters,
    labels: Labels | None,
    images: Sequence[Image],
    first: int,
    positions: int,
    skipped: Iterable[SkippedPosition],
    recorded: Ledger | None = None,
) -> None:
    """Write a shard, with its images in the order of their numbers.

    Args:
        file: The open file.
        parameters: Public parameters of the encoding.
        labels: The kind of the released labels; None if no labels are released.
        images: The images.
        first: First position of the source that the shard covers.
        positions: Number of positions that the shard covers.
        skipped: The covered positions that have no image.
        recorded: The ledger that the encoder wrote while it worked. If it differs from the ledger of the plan, nothing
            is written.

    Raises:
        DippError: The two ledgers differ.
    """
    images = sorted(images, key=lambda image: image.number)
    layout_of = functools.cache(parameters.layout)
    payloads: list[bytes] = []
    for geometry, run in groupby(images, key=lambda image: image.geometry):
        rows = np.stack([image.indices for image in run])
        payloads += layout_of(geometry).payloads(rows)
    smallest = parameters.plan.unit.smallest({image.geometry for image in images})
    parameters.require_recorded(smallest, recorded)
    facts = {
        "version": VERSION,
        "archive": base64.b64encode(parameters_to_bytes(parameters)).decode(),
        "certificate": claim_of(parameters.certificate(smallest)),
        "first": first,
        "positions": positions,
        "skipped": sorted(skipped),
    }
    if grey := [image.number for image in images if image.grey]:
        facts["grey"] = grey
    metadata = {METADATA: json.dumps(facts).encode(), FEATURES: features_of(labels)}
    columns = {
        "payload": payloads,
        "label": [image.label for image in images],
        "width": [image.geometry.width for image in images],
        "height": [image.geometry.height for image in images],
        "id": [image.number for image in images],
    }
    table = pa.Table.from_pydict(columns, schema(labels).with_metadata(metadata))
    pq.write_table(
        table,
        file,
        compression="none",
        use_dictionary=["label", "width", "height"],
        column_encoding={"payload": "DELTA_LENGTH_BYTE_ARRAY", "id": "DELTA_BINARY_PACKED"},
        write_statistics=False,
        write_page_checksum=True,
    )
