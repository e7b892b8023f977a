"""The header of a `.dipp` file: everything public about an archive, in about 128 bytes.

`docs/format.md` describes every byte. The reader trusts nothing: each number has a range, and each count is compared
with what the file can hold before anything is allocated. Every header has exactly one spelling, so a header that is
read and written again comes back byte for byte.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import astuple, dataclass, field

import numpy as np

from dipp.core import units
from dipp.core.beacon import MAX_VALUE, MIN_VALUE, Beacon
from dipp.core.geometry import MAX_CHANNELS, MAX_PIXELS, Geometry
from dipp.core.latents import MAX_PROMPT, Latents
from dipp.core.plan import Plan
from dipp.core.randomness import SEED_BYTES
from dipp.errors import FILE, DippError
from dipp.format import codings, source, steps
from dipp.format.bytes import ByteReader, Integers, column, damaged, newer, varint
from dipp.format.parameters import MODEL_BYTES, PublicParameters
from dipp.format.source import NO_MARKS, Flags

MAGIC = b"DIPP"
VERSION = 3
"""The version of the format. Formats 1 and 2 came before version 1.0, and are no longer read."""
LAST_OF_OLD = "89b0fc8"
"""The last commit of dipp that reads formats 1 and 2."""
SEED_GIVEN, BEACON, SOURCE, TABLE, DELTA, HIDDEN, LATENTS, PROMPT, SURROUNDINGS = range(1, 10)
"""Keys of the optional fields of a header."""
FIELD_BYTES = {
    SEED_GIVEN: (0, 0),
    BEACON: (SEED_BYTES + 8 + MIN_VALUE, SEED_BYTES + 8 + MAX_VALUE),
    SOURCE: source.FIELD_BYTES,
    TABLE: (32, 32),
    DELTA: (8, 8),
    HIDDEN: (8, 8),
    LATENTS: (3, 3),
    PROMPT: (1, MAX_PROMPT),
    SURROUNDINGS: (1, MAX_PIXELS),
}
"""The least and the largest number of bytes of each field that this version of dipp knows."""
MAX_FIELDS = 255
"""Largest number and largest key of fields in a header. A reader refuses keys that it does not know."""
MAX_UNIT_BYTES = 1 << 24
"""Largest number of bytes that describe a unit."""
TOGETHER, SEPARATE = 0, 1
"""How touched coordinates are dealt to chunks: channels of one pixel may share a chunk, or never do."""
TRAILER_BYTES = 4

Claim = tuple[float, float]
"""Pure ε and ρ of a certificate, as a file states them."""


@dataclass(frozen=True, eq=False)
class Header:
    """The content of a header: public parameters, sizes of the images, and the stated certificate."""

    parameters: PublicParameters
    runs: Integers
    """A row (images, height, width) for each run of images of one size."""
    claim: Claim | None
    """Pure ε and ρ of the certificate; None where the coding has none."""
    grey: Flags = field(default_factory=lambda: np.zeros(0, bool))
    """Whether each image is grey; empty if no image is."""

    def to_bytes(self) -> bytes:
        """Return the bytes of the header, from the first byte of the file on."""
        parameters, plan = self.parameters, self.parameters.plan
        unit = plan.unit.to_bytes()
        return b"".join(
            (
                MAGIC + bytes([VERSION]),
                bytes.fromhex(parameters.model) + parameters.seed,
                self._fields(),
                varint(len(unit)) + unit,
                varint(parameters.channels),
                codings.to_bytes(plan.coding),
                varint(SEPARATE if plan.separate else TOGETHER),
                struct.pack("<2d", *self.claim) if self.claim else b"",
                steps.to_bytes(plan),
                varint(len(self.runs)) + b"".join(map(column, self.runs.T)),
            )
        )

    def _fields(self) -> bytes:
        parameters = self.parameters
        fields = {
            SEED_GIVEN: b"" if parameters.seed_given else None,
            BEACON: None if parameters.beacon is None else parameters.beacon.to_bytes(),
            SOURCE: source.to_bytes(parameters.window, self.grey),
            TABLE: None if parameters.table is None else bytes.fromhex(parameters.table),
            DELTA: None if parameters.delta is None else struct.pack("<d", parameters.delta),
            HIDDEN: None if parameters.hidden is None else struct.pack("<2I", *parameters.hidden),
            LATENTS: None if parameters.latents is None else bytes(astuple(parameters.latents)),
            PROMPT: parameters.prompt.encode() or None,
            SURROUNDINGS: parameters.surroundings,
        }
        stored = [(key, value) for key, value in sorted(fields.items()) if value is not None]
        return varint(len(stored)) + b"".join(varint(key) + varint(len(value)) + value for key, value in stored)

    @classmethod
    def read(cls, reader: ByteReader) -> Header:
        """Read a header; the reader then stands at the first byte after the header.

        Raises:
            DippError: The header is damaged, or its certificate does not follow from its plan.
        """
        check_kind(reader.take(len(MAGIC) + 1))
        model, seed = reader.take(MODEL_BYTES).hex(), reader.take(SEED_BYTES)
        fields = _read_fields(reader)
        unit = units.from_bytes(reader.take(reader.varint("unit", 1, MAX_UNIT_BYTES)))
        channels = reader.varint("channels", 1, MAX_CHANNELS)
        coding = codings.read(reader)
        separate = reader.varint("deal", TOGETHER, SEPARATE) == SEPARATE
        claim = struct.unpack("<2d", reader.take(16)) if coding.certified else None
        plan = Plan(coding, steps.read(reader, coding.code), separate, unit)
        window, marks = source.read(fields[SOURCE]) if SOURCE in fields else (None, NO_MARKS)
        parameters = PublicParameters(
            plan,
            model,
            seed,
            channels,
            delta=struct.unpack("<d", fields[DELTA])[0] if DELTA in fields else None,
            table=fields[TABLE].hex() if TABLE in fields else None,
            seed_given=SEED_GIVEN in fields,
            beacon=Beacon.from_bytes(fields[BEACON]) if BEACON in fields else None,
            hidden=struct.unpack("<2I", fields[HIDDEN]) if HIDDEN in fields else None,
            window=window,
            latents=Latents(*fields[LATENTS]) if LATENTS in fields else None,
            prompt=_read_text(fields.get(PROMPT, b"")),
            surroundings=fields.get(SURROUNDINGS),
        )
        runs = _read_runs(reader)
        if plan.unit.surrounded and runs[:, 0].sum() > 1:
            raise damaged(f"{plan.unit.plural} belong to one image, and it has several")
        header = cls(parameters, runs, claim, source.read_grey(marks, int(runs[:, 0].sum())))
        if claim != parameters.claim(header.smallest):
            raise DippError(FILE, "states another certificate than its plan has", "do not trust it")
        return header

    @property
    def smallest(self) -> Geometry | None:
        """Geometry of the image with the fewest units, which has the largest price; None if there is no image."""
        sizes = np.unique(self.runs[:, 1] << 32 | self.runs[:, 2]).tolist()  # sides have 31 bits
        geometries = (self.parameters.geometry(size >> 32, size & 0xFFFFFFFF) for size in sizes)
        return self.parameters.plan.unit.smallest(geometries)


def parameters_to_bytes(parameters: PublicParameters) -> bytes:
    """Return public parameters as the bytes of a file without images. Shards and unfinished runs carry it."""
    content = Header(parameters, np.zeros((0, 3), np.int64), parameters.claim(None)).to_bytes()
    return content + checksum(content)


def parameters_from_bytes(data: bytes) -> PublicParameters:
    """Read the public parameters that `parameters_to_bytes` wrote.

    Raises:
        DippError: The bytes are something else, or damaged.
    """
    content = without_checksum(memoryview(data))
    reader = ByteReader(content)
    header = Header.read(reader)
    if len(header.runs) or reader.left:
        raise damaged("it describes images where only public parameters belong")
    return header.parameters


def checksum(content: bytes | memoryview) -> bytes:
    """Return the last four bytes of a file: the CRC-32 of all bytes before them."""
    return zlib.crc32(content).to_bytes(TRAILER_BYTES, "little")


def without_checksum(data: memoryview, *, verify: bool = True) -> memoryview:
    """Return the bytes of a file before its checksum, and check the checksum unless `verify` is False.

    Args:
        data: The bytes of the file.
        verify: Whether the checksum is checked; true by default.

    Raises:
        DippError: The file is not an archive, has another version, or a wrong checksum.
    """
    check_kind(bytes(data[: len(MAGIC) + 1]))
    content, trailer = data[:-TRAILER_BYTES], data[-TRAILER_BYTES:]
    if verify and checksum(content) != bytes(trailer):
        raise damaged("its checksum is wrong")
    return content


def check_kind(front: bytes) -> None:
    """Raise `DippError` if the first bytes of a file are not those of an archive in this version of the format."""
    if front[: len(MAGIC)] != MAGIC[: len(front)] or not front:
        raise DippError(FILE, "is not a dipp archive")
    version = front[len(MAGIC)] if len(front) > len(MAGIC) else VERSION
    if version > VERSION:
        raise newer(f"format {version}")
    if version in (1, 2):
        raise DippError(FILE, f"has format {version}, of before 1.0", f"read it with commit {LAST_OF_OLD} of dipp")
    if version != VERSION:
        raise DippError(FILE, "is not a dipp archive")


def _read_fields(reader: ByteReader) -> dict[int, bytes]:
    fields: dict[int, bytes] = {}
    for _ in range(reader.varint("fields", 0, MAX_FIELDS)):
        key = reader.varint("field", max(fields, default=0) + 1, MAX_FIELDS)
        if key not in FIELD_BYTES:
            raise newer(f"field {key} of the header")
        fields[key] = reader.take(reader.varint("length", *FIELD_BYTES[key]))
    return fields


def _read_text(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise damaged("its prompt is not UTF-8") from None


def _read_runs(reader: ByteReader) -> Integers:
    """Read the runs of images of one size, as rows (images, height, width)."""
    # A run has an image, and an image has a byte or, after the first of a run, at least a bit.
    count = reader.varint("runs", 0, reader.left)
    images = reader.column("images", count, 1, 8 * reader.left)
    sides = [reader.column(name, count, 1, MAX_PIXELS) for name in ("height", "width")]
    runs = np.stack([images, *sides], axis=1)
    if (runs[1:, 1:] == runs[:-1, 1:]).all(axis=1).any():
        raise damaged("runs of one size are listed apart")
    return runs
