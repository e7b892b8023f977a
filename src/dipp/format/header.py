"""The header of a `.dipp` file: all that is public about an archive, in about 128 bytes.

`docs/format.md` describes every byte. Reading never trusts: each number has a range, each count is compared with what
the file can hold before anything is allocated, and every header has one spelling only, so that a header that is read
and written again comes back byte for byte.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, field

import numpy as np

from dipp.core.beacon import MAX_VALUE, MIN_VALUE, Beacon
from dipp.core.geometry import MAX_CHANNELS, MAX_PIXELS
from dipp.core.plan import Coding, Plan, SensingStep, Step
from dipp.core.randomness import SEED_BYTES
from dipp.errors import DippError
from dipp.format import source
from dipp.format.bytes import ByteReader, Integers, column, damaged, varint
from dipp.format.codings import (
    alpha_to_bytes,
    channel_number,
    channel_to_bytes,
    code_number,
    rational_to_bytes,
    read_channel,
    read_code,
    read_numbered_code,
)
from dipp.format.release import MAX_STEPS, MODEL_BYTES, Release
from dipp.format.source import NO_MARKS, Flags, Marks
from dipp.format.steps import (
    float_column,
    read_floats,
    read_sizes,
    read_timesteps,
    sizes_to_bytes,
    tilts_to_bytes,
    timesteps_to_bytes,
)

MAGIC = b"DIPP"
VERSION = 2
"""The newest version of the format. What version 1 can say is still written in version 1."""
SENSING, ORDERED, SEPARATE, DELTA, SHORT_GAINS = 0x01, 0x10, 0x20, 0x40, 0x80
SEED_GIVEN, BEACON, SOURCE, TABLE = 1, 2, 3, 4
"""Keys of the fields of format 2."""
FIELD_BYTES = {
    SEED_GIVEN: (0, 0),
    BEACON: (SEED_BYTES + 8 + MIN_VALUE, SEED_BYTES + 8 + MAX_VALUE),
    SOURCE: source.FIELD_BYTES,
    TABLE: (32, 32),
}
"""Fields that this version of dipp knows, and their least and largest lengths."""
MAX_FIELDS = 255
"""As many as there are keys: whoever has more than are known here has an unknown one among them."""
CHANNEL_BITS = 0x0F
TRAILER_BYTES = 4

Claim = tuple[float, float]
"""Pure ε and ρ, as a file states them."""


@dataclass(frozen=True, eq=False)
class Header:
    """What the front of a file says."""

    release: Release
    runs: Integers
    """A row (images, height, width) for each run of images of one size."""
    claim: Claim | None
    """Pure ε and ρ of the certificate; None where the coding has none."""
    grey: Flags = field(default_factory=lambda: np.zeros(0, bool))
    """Which images are grey; empty, if none is."""

    def to_bytes(self) -> bytes:
        """The header as it stands in the file, in the version that it takes."""
        version = 2 if self.grey.any() else self.release.version
        front = MAGIC + bytes([version])
        body = self._version_1() if version == 1 else self._version_2()
        return front + body + varint(len(self.runs)) + b"".join(map(column, self.runs.T))

    def _version_1(self) -> bytes:
        release, plan = self.release, self.release.plan
        gains, short = float_column([step.snr_gain for step in plan.steps])
        flags = channel_number(plan.channel)
        flags |= ORDERED * (not plan.code.fixed_length) | SEPARATE * plan.separate
        flags |= DELTA * (release.delta is not None) | SHORT_GAINS * short
        return b"".join(
            (
                bytes([flags]) + bytes.fromhex(release.model) + release.seed,
                channel_to_bytes(plan.channel) + alpha_to_bytes(plan.code) + varint(release.channels),
                self._doubles(),
                timesteps_to_bytes(plan),
                gains,
                *sizes_to_bytes(plan),
            )
        )

    def _version_2(self) -> bytes:
        release, plan = self.release, self.release.plan
        names = ("clip", "snr_gain") if plan.sensing else ("snr_gain",)
        floats = [float_column([getattr(step, name) for step in plan.steps]) for name in names]
        flags = SENSING * plan.sensing | SEPARATE * plan.separate | DELTA * (release.delta is not None)
        flags |= SHORT_GAINS * all(short for _, short in floats)
        if not flags & SHORT_GAINS:
            floats = [float_column([getattr(step, name) for step in plan.steps], short=False) for name in names]
        fields = {SEED_GIVEN: b"" if release.seed_given else None}
        fields |= {BEACON: None if release.beacon is None else release.beacon.to_bytes()}
        fields |= {SOURCE: source.to_bytes(release.window, self.grey)}
        fields |= {TABLE: None if release.table is None else bytes.fromhex(release.table)}
        stored = [(key, value) for key, value in sorted(fields.items()) if value is not None]
        return b"".join(
            (
                bytes([flags]) + bytes.fromhex(release.model) + release.seed,
                varint(len(stored)),
                *(varint(key) + varint(len(value)) + value for key, value in stored),
                varint(channel_number(plan.channel)) + channel_to_bytes(plan.channel),
                varint(code_number(plan.code)) + rational_to_bytes(plan.code.score_alpha) + varint(release.channels),
                self._doubles(),
                tilts_to_bytes(plan) if plan.sensing else timesteps_to_bytes(plan),
                *(content for content, _ in floats),
                *sizes_to_bytes(plan),
            )
        )

    def _doubles(self) -> bytes:
        """Claim and δ, where there are any."""
        doubles = [*(self.claim or ()), *([] if self.release.delta is None else [self.release.delta])]
        return struct.pack(f"<{len(doubles)}d", *doubles)

    @classmethod
    def read(cls, reader: ByteReader) -> Header:
        """Read a header and leave the reader behind it. A claim that does not follow from the plan is refused."""
        version = check_kind(reader.take(len(MAGIC) + 1))
        release, claim, marks = _read_version_1(reader) if version == 1 else _read_version_2(reader)
        # A run has an image, and an image has a byte or, after the first of a run, at least a bit.
        count = reader.varint("runs", 0, reader.left)
        images = reader.column("images", count, 1, 8 * reader.left)
        sides = [reader.column(name, count, 1, MAX_PIXELS) for name in ("height", "width")]
        runs = np.stack([images, *sides], axis=1)
        if (runs[1:, 1:] == runs[:-1, 1:]).all(axis=1).any():
            raise damaged("runs of one size are listed apart")
        found = cls(release, runs, claim, source.read_grey(marks, int(images.sum())))
        if release.version < version and not found.grey.any():
            raise damaged("format 1 would have done")
        if claim != release.claim(found.smallest):
            raise DippError("the certificate in the file is not the one of its plan; do not trust the file")
        return found

    @property
    def smallest(self) -> int | None:
        """Pixels of the smallest image, whose certificate is the worst; None, if there is no image."""
        return int((self.runs[:, 1] * self.runs[:, 2]).min()) if len(self.runs) else None


def release_to_bytes(release: Release) -> bytes:
    """A release without its images, as the file of none: shards and unfinished runs carry it."""
    content = Header(release, np.zeros((0, 3), np.int64), release.claim(None)).to_bytes()
    return content + checksum(content)


def release_from_bytes(data: bytes) -> Release:
    """The release that `release_to_bytes` wrote."""
    content = unsealed(memoryview(data))
    reader = ByteReader(content)
    header = Header.read(reader)
    if len(header.runs) or reader.left:
        raise damaged("it speaks of images, where a release alone is needed")
    return header.release


def checksum(content: bytes | memoryview) -> bytes:
    """The last bytes of a file: the CRC-32 of all that comes before."""
    return zlib.crc32(content).to_bytes(TRAILER_BYTES, "little")


def unsealed(data: memoryview, *, verify: bool = True) -> memoryview:
    """A file without its checksum, which must be right; verify = False does not compute it."""
    check_kind(bytes(data[: len(MAGIC) + 1]))
    content, trailer = data[:-TRAILER_BYTES], data[-TRAILER_BYTES:]
    if verify and checksum(content) != bytes(trailer):
        raise damaged("its checksum is wrong")
    return content


def check_kind(front: bytes) -> int:
    """Refuse what is no archive, or a newer one, by the first bytes of the file; its version of the format."""
    if front[: len(MAGIC)] != MAGIC[: len(front)] or not front:
        raise DippError("this is not a dipp archive")
    version = front[len(MAGIC)] if len(front) > len(MAGIC) else VERSION
    if version > VERSION:
        raise DippError(f"written by a newer dipp (format {version}); upgrade")
    if version < 1:
        raise DippError("this is not a dipp archive")
    return version


def _read_version_1(reader: ByteReader) -> tuple[Release, Claim | None, Marks]:
    flags = reader.take(1)[0]
    model, seed = reader.take(MODEL_BYTES).hex(), reader.take(SEED_BYTES)
    coding = Coding(read_channel(reader, flags & CHANNEL_BITS), read_code(reader, bool(flags & ORDERED)))
    channels = reader.varint("channels", 1, MAX_CHANNELS)
    claim, delta = _read_doubles(reader, coding, flags)
    times = read_timesteps(reader)
    (gains,) = read_floats(reader, ("snr_gain",), len(times) - 1, bool(flags & SHORT_GAINS))
    sizes = read_sizes(reader, coding.code, len(gains))
    steps = tuple(map(Step, times[:-1], times[1:], gains, *sizes))
    return Release(Plan(coding, steps, bool(flags & SEPARATE)), model, seed, channels, delta), claim, NO_MARKS


def _read_version_2(reader: ByteReader) -> tuple[Release, Claim | None, Marks]:
    flags = reader.take(1)[0]
    if flags & ~(SENSING | SEPARATE | DELTA | SHORT_GAINS):
        raise damaged("it has flags that mean nothing")
    model, seed = reader.take(MODEL_BYTES).hex(), reader.take(SEED_BYTES)
    fields: dict[int, bytes] = {}
    for _ in range(reader.varint("fields", 0, MAX_FIELDS)):
        key = reader.varint("field", max(fields, default=0) + 1, MAX_FIELDS)
        if key not in FIELD_BYTES:
            raise DippError(f"written by a newer dipp (field {key} of the header); upgrade")
        fields[key] = reader.take(reader.varint("length", *FIELD_BYTES[key]))
    channel = read_channel(reader, reader.varint("channel", 0, 255))
    coding = Coding(channel, read_numbered_code(reader))
    channels = reader.varint("channels", 1, MAX_CHANNELS)
    claim, delta = _read_doubles(reader, coding, flags)
    short, code = bool(flags & SHORT_GAINS), coding.code
    if flags & SENSING:
        count = reader.varint("steps", 1, MAX_STEPS)
        # All digits of the tilt, by which the certificate is computed; it is mostly the same for all steps.
        tilts = read_floats(reader, ("tilt",), count, None)
        floats = tilts + read_floats(reader, ("clip", "snr_gain"), count, short)
        steps: tuple[Step, ...] | tuple[SensingStep, ...] = tuple(
            map(SensingStep, *floats, *read_sizes(reader, code, count))
        )
    else:
        times = read_timesteps(reader)
        (gains,) = read_floats(reader, ("snr_gain",), len(times) - 1, short)
        steps = tuple(map(Step, times[:-1], times[1:], gains, *read_sizes(reader, code, len(gains))))
    table = fields[TABLE].hex() if TABLE in fields else None
    plan = Plan(coding, steps, bool(flags & SEPARATE))
    beacon = Beacon.from_bytes(fields[BEACON]) if BEACON in fields else None
    window, marks = source.read(fields[SOURCE]) if SOURCE in fields else (None, NO_MARKS)
    release = Release(plan, model, seed, channels, delta, table, SEED_GIVEN in fields, beacon, window)
    return release, claim, marks


def _read_doubles(reader: ByteReader, coding: Coding, flags: int) -> tuple[Claim | None, float | None]:
    claim = struct.unpack("<2d", reader.take(16)) if coding.certified else None
    return claim, struct.unpack("<d", reader.take(8))[0] if flags & DELTA else None
