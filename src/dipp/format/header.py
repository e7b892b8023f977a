"""The header of a `.dipp` file: all that is public about an archive, in about 128 bytes.

`docs/format.md` describes every byte. Reading never trusts: each number has a range, each count is compared with what
the file can hold before anything is allocated, and every header has one spelling only, so that a header that is read
and written again comes back byte for byte.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from dipp.codes import CODES, Flat, Functional, StepLimited
from dipp.core.beacon import MAX_VALUE, MIN_VALUE, Beacon
from dipp.core.channels import CHANNELS, Channel
from dipp.core.code import Code
from dipp.core.masks import MAX_PERIOD
from dipp.core.plan import MAX_PIXELS, Coding, Plan, SensingStep, Step
from dipp.core.randomness import SEED_BYTES
from dipp.errors import DippError
from dipp.format import source
from dipp.format.bytes import ByteReader, Integers, checked, column, damaged, varint
from dipp.format.release import MAX_STEPS, MODEL_BYTES, Release
from dipp.format.source import NO_MARKS, Flags, Marks
from dipp.privacy.ledger import MAX_CHANNELS

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
MAX_ALPHA_PART = (1 << 15) - 1
MAX_FLOAT = (2 - 2.0**-23) * 2.0**127
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
        gains, short = _float_column([step.snr_gain for step in plan.steps])
        flags = _channel_number(plan.channel)
        flags |= ORDERED * (not plan.code.fixed_length) | SEPARATE * plan.separate
        flags |= DELTA * (release.delta is not None) | SHORT_GAINS * short
        return b"".join(
            (
                bytes([flags]) + bytes.fromhex(release.model) + release.seed,
                _channel_bytes(plan.channel) + _alpha_bytes(plan.code) + varint(release.channels),
                self._doubles(),
                _timesteps(plan),
                gains,
                *_sizes(plan),
            )
        )

    def _version_2(self) -> bytes:
        release, plan = self.release, self.release.plan
        names = ("clip", "snr_gain") if plan.sensing else ("snr_gain",)
        floats = [_float_column([getattr(step, name) for step in plan.steps]) for name in names]
        flags = SENSING * plan.sensing | SEPARATE * plan.separate | DELTA * (release.delta is not None)
        flags |= SHORT_GAINS * all(short for _, short in floats)
        if not flags & SHORT_GAINS:
            floats = [_float_column([getattr(step, name) for step in plan.steps], short=False) for name in names]
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
                varint(_channel_number(plan.channel)) + _channel_bytes(plan.channel),
                varint(_code_number(plan.code)) + _rational(plan.code.score_alpha) + varint(release.channels),
                self._doubles(),
                _tilts(plan) if plan.sensing else _timesteps(plan),
                *(content for content, _ in floats),
                *_sizes(plan),
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
    coding = Coding(_read_channel(reader, flags & CHANNEL_BITS), _read_code(reader, bool(flags & ORDERED)))
    channels = reader.varint("channels", 1, MAX_CHANNELS)
    claim, delta = _read_doubles(reader, coding, flags)
    times = _read_timesteps(reader)
    (gains,) = _read_floats(reader, ("snr_gain",), len(times) - 1, bool(flags & SHORT_GAINS))
    sizes = _read_sizes(reader, coding.code, len(gains))
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
    channel = _read_channel(reader, reader.varint("channel", 0, 255))
    coding = Coding(channel, _read_numbered_code(reader))
    channels = reader.varint("channels", 1, MAX_CHANNELS)
    claim, delta = _read_doubles(reader, coding, flags)
    short, code = bool(flags & SHORT_GAINS), coding.code
    if flags & SENSING:
        count = reader.varint("steps", 1, MAX_STEPS)
        # All digits of the tilt, by which the certificate is computed; it is mostly the same for all steps.
        tilts = _read_floats(reader, ("tilt",), count, None)
        floats = tilts + _read_floats(reader, ("clip", "snr_gain"), count, short)
        steps: tuple[Step, ...] | tuple[SensingStep, ...] = tuple(
            map(SensingStep, *floats, *_read_sizes(reader, code, count))
        )
    else:
        times = _read_timesteps(reader)
        (gains,) = _read_floats(reader, ("snr_gain",), len(times) - 1, short)
        steps = tuple(map(Step, times[:-1], times[1:], gains, *_read_sizes(reader, code, len(gains))))
    table = fields[TABLE].hex() if TABLE in fields else None
    plan = Plan(coding, steps, bool(flags & SEPARATE))
    beacon = Beacon.from_bytes(fields[BEACON]) if BEACON in fields else None
    window, marks = source.read(fields[SOURCE]) if SOURCE in fields else (None, NO_MARKS)
    release = Release(plan, model, seed, channels, delta, table, SEED_GIVEN in fields, beacon, window)
    return release, claim, marks


def _read_doubles(reader: ByteReader, coding: Coding, flags: int) -> tuple[Claim | None, float | None]:
    claim = struct.unpack("<2d", reader.take(16)) if coding.certified else None
    return claim, struct.unpack("<d", reader.take(8))[0] if flags & DELTA else None


def _channel_number(channel: Channel) -> int:
    if CHANNELS.get(getattr(channel, "number", -1)) is not type(channel):
        raise DippError(f"channel: {channel.name} has no number in the file format")
    return channel.number


def _is_whole(kind: type[Channel], parameter: str) -> bool:
    """Whether a channel's parameter is a whole number: its default says so, for all values."""
    return isinstance(getattr(kind, parameter), int)


def _channel_bytes(channel: Channel) -> bytes:
    """The channel's parameter, if it has one: a whole number or a 32-bit float."""
    if channel.parameter is None:
        return b""
    value = getattr(channel, channel.parameter)
    if _is_whole(type(channel), channel.parameter):
        return varint(checked(channel.parameter, value, 1, MAX_PERIOD))
    if value > MAX_FLOAT or struct.unpack("<f", struct.pack("<f", value))[0] != value:
        raise DippError(f"{channel.parameter}: a 32-bit float is needed, got {value}")
    return struct.pack("<f", value)


def _read_channel(reader: ByteReader, number: int) -> Channel:
    if number not in CHANNELS:
        raise damaged(f"there is no channel {number}")
    kind = CHANNELS[number]
    if kind.parameter is None:
        return kind()
    if _is_whole(kind, kind.parameter):
        return kind(reader.varint(kind.parameter, 1, MAX_PERIOD))  # type: ignore[call-arg]
    return kind(struct.unpack("<f", reader.take(4))[0])  # type: ignore[call-arg]


def _alpha_bytes(code: Code) -> bytes:
    """α: numerator and denominator, or 0 for ∞. With the flag for the order, that is all of a code in format 1."""
    if type(code) is Functional:
        return varint(0)
    if type(code) not in (Flat, StepLimited):
        raise DippError(f"code: {code.name} has no place in format 1 of the file")
    return _rational(code.score_alpha)


def _rational(alpha: Fraction) -> bytes:
    parts = (checked("alpha", part, 1, MAX_ALPHA_PART) for part in (alpha.numerator, alpha.denominator))
    return b"".join(map(varint, parts))


def _read_rational(reader: ByteReader, numerator: int) -> Fraction:
    alpha = Fraction(numerator, reader.varint("alpha", 1, MAX_ALPHA_PART))
    if alpha.numerator != numerator:
        raise damaged("alpha is not in lowest terms")
    return alpha


def _read_code(reader: ByteReader, ordered: bool) -> Code:
    numerator = reader.varint("alpha", 0, MAX_ALPHA_PART)
    if not numerator:
        if not ordered:
            raise DippError("alpha: ∞ without the Poisson order is a code that this version of dipp does not have")
        return Functional()
    alpha = _read_rational(reader, numerator)
    return StepLimited(alpha) if ordered else Flat(alpha)


def _code_number(code: Code) -> int:
    if CODES.get(code.name) is not type(code):
        raise DippError(f"code: {code.name} has no number in the file format")
    return code.number


def _read_numbered_code(reader: ByteReader) -> Code:
    number = reader.varint("code", 0, 255)
    alpha = _read_rational(reader, reader.varint("alpha", 1, MAX_ALPHA_PART))
    kinds = {kind.number: kind for kind in CODES.values()}
    if number not in kinds:
        raise damaged(f"there is no code {number}")
    return kinds[number].at(alpha)


def _tilts(plan: Plan) -> bytes:
    """Number of steps, and all digits of their tilts, from which the certificate is computed: mostly all the same."""
    tilts = [step.tilt for step in plan.steps if isinstance(step, SensingStep)]
    return varint(len(tilts)) + _float_column(tilts, short=False)[0]


def _timesteps(plan: Plan) -> bytes:
    """Number of steps, the first timestep, and the timesteps that each step takes."""
    along = [step for step in plan.steps if isinstance(step, Step)]
    steps = (varint(step.start - step.end) for step in along)
    return varint(len(along)) + varint(along[0].start) + b"".join(steps)


def _read_timesteps(reader: ByteReader) -> list[int]:
    count = reader.varint("steps", 1, MAX_STEPS)
    times = [reader.varint("start", 1, (1 << 16) - 1)]
    for _ in range(count):
        times.append(times[-1] - reader.varint("timesteps", 1, times[-1]))
    return times


def _float_column(values: Sequence[float], short: bool | None = None) -> tuple[bytes, bool]:
    """32-bit floats as a column of their bits, or of the upper half of these, if the lower half of all is zero."""
    bits = np.array([int.from_bytes(struct.pack("<f", value), "little") for value in values], np.int64)
    short = not (bits & 0xFFFF).any() if short is None else short
    return column(bits >> 16 * short), short


def _read_floats(reader: ByteReader, names: Sequence[str], count: int, short: bool | None) -> list[tuple[float, ...]]:
    """Columns of floats that are short if all are (None: never)."""
    columns = [reader.column(name, count, 1, (1 << (16 if short else 32)) - 1) for name in names]
    if short is False and not any((values & 0xFFFF).any() for values in columns):
        raise damaged(f"{names[-1]} has too many bytes")
    patterns = ((values << 16 * bool(short)).astype(np.uint32).astype("<u4").tobytes() for values in columns)
    return [struct.unpack(f"<{count}f", pattern) for pattern in patterns]


def _sizes(plan: Plan) -> list[bytes]:
    """Chunk sizes, index bits and, where indices are entropy coded, the parameters of their codes."""
    names = ["chunk_size", "index_bits"] + ["exponent_units"] * (not plan.code.fixed_length)
    return [column(np.array([getattr(step, name) for step in plan.steps])) for name in names]


def _read_sizes(reader: ByteReader, code: Code, count: int) -> tuple[list[int], list[int], list[int]]:
    sizes = reader.column("chunk_size", count, 1, (1 << 32) - 1).tolist()
    bits = reader.column("index_bits", count, 1, 255).tolist()
    exponents = [0] * count if code.fixed_length else reader.column("exponent_units", count, 1, 255).tolist()
    return sizes, bits, exponents
