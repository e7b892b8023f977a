"""The header of a `.dipp` file: all that is public about an archive, in about 128 bytes.

`docs/format.md` describes every byte. Reading never trusts: each number has a range, each count is compared with what
the file can hold before anything is allocated, and every header has one spelling only, so that a header that is read
and written again comes back byte for byte.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dipp.codes import Flat, Functional, StepLimited
from dipp.core.channels import CHANNELS, Channel
from dipp.core.code import Code
from dipp.core.masks import MAX_PERIOD
from dipp.core.plan import MAX_PIXELS, Coding, Plan, Step
from dipp.core.randomness import SEED_BYTES
from dipp.errors import DippError
from dipp.format.bytes import ByteReader, Integers, checked, column, damaged, varint
from dipp.format.release import MAX_STEPS, MODEL_BYTES, Release
from dipp.privacy.ledger import MAX_CHANNELS

MAGIC = b"DIPP"
VERSION = 1
ORDERED, SEPARATE, DELTA, SHORT_GAINS = 0x10, 0x20, 0x40, 0x80
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

    def to_bytes(self) -> bytes:
        """The header as it stands in the file."""
        release, plan = self.release, self.release.plan
        gains = np.array([int.from_bytes(struct.pack("<f", step.snr_gain), "little") for step in plan.steps])
        short = not (gains & 0xFFFF).any()
        flags = _channel_number(plan.channel)
        flags |= ORDERED * (not plan.code.fixed_length) | SEPARATE * plan.separate
        flags |= DELTA * (release.delta is not None) | SHORT_GAINS * short
        doubles = [*(self.claim or ()), *([] if release.delta is None else [release.delta])]
        names = ["chunk_size", "index_bits"] + ["exponent_units"] * (not plan.code.fixed_length)
        return b"".join(
            (
                MAGIC + bytes([VERSION, flags]) + bytes.fromhex(release.model) + release.seed,
                _channel_bytes(plan.channel) + _alpha_bytes(plan.code) + varint(release.channels),
                struct.pack(f"<{len(doubles)}d", *doubles),
                varint(len(plan.steps)) + varint(plan.steps[0].start),
                *(varint(step.start - step.end) for step in plan.steps),
                column(gains >> 16 * short),
                *(column(np.array([getattr(step, name) for step in plan.steps])) for name in names),
                varint(len(self.runs)),
                *map(column, self.runs.T),
            )
        )

    @classmethod
    def read(cls, reader: ByteReader) -> Header:
        """Read a header and leave the reader behind it. A claim that does not follow from the plan is refused."""
        check_kind(reader.take(len(MAGIC) + 1))
        flags = reader.take(1)[0]
        model, seed = reader.take(MODEL_BYTES).hex(), reader.take(SEED_BYTES)
        coding = Coding(_read_channel(reader, flags & CHANNEL_BITS), _read_code(reader, bool(flags & ORDERED)))
        channels = reader.varint("channels", 1, MAX_CHANNELS)
        claim = struct.unpack("<2d", reader.take(16)) if coding.certified else None
        delta = struct.unpack("<d", reader.take(8))[0] if flags & DELTA else None
        steps = tuple(_read_steps(reader, coding.code, bool(flags & SHORT_GAINS)))
        release = Release(Plan(coding, steps, bool(flags & SEPARATE)), model, seed, channels, delta)
        # A run has an image, and an image has a byte or, after the first of a run, at least a bit.
        count = reader.varint("runs", 0, reader.left)
        images = reader.column("images", count, 1, 8 * reader.left)
        sides = [reader.column(name, count, 1, MAX_PIXELS) for name in ("height", "width")]
        runs = np.stack([images, *sides], axis=1)
        if (runs[1:, 1:] == runs[:-1, 1:]).all(axis=1).any():
            raise damaged("runs of one size are listed apart")
        found = cls(release, runs, claim)
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


def check_kind(front: bytes) -> None:
    """Refuse what is no archive, or a newer one, by the first bytes of the file."""
    if front[: len(MAGIC)] != MAGIC[: len(front)] or not front:
        raise DippError("this is not a dipp archive")
    version = front[len(MAGIC)] if len(front) > len(MAGIC) else VERSION
    if version > VERSION:
        raise DippError(f"written by a newer dipp (format {version}); upgrade")
    if version < VERSION:
        raise DippError("this is not a dipp archive")


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
    """α: numerator and denominator, or 0 for ∞. With the flag for the order, that is all of a code in this format."""
    alpha = code.score_alpha
    if type(code) is Functional:
        return varint(0)
    if type(code) not in (Flat, StepLimited):
        raise DippError(f"code: {code.name} has no place in format {VERSION} of the file")
    parts = (checked("alpha", part, 1, MAX_ALPHA_PART) for part in (alpha.numerator, alpha.denominator))
    return b"".join(map(varint, parts))


def _read_code(reader: ByteReader, ordered: bool) -> Code:
    numerator = reader.varint("alpha", 0, MAX_ALPHA_PART)
    if not numerator:
        if not ordered:
            raise DippError("alpha: ∞ without the Poisson order is a code that this version of dipp does not have")
        return Functional()
    alpha = Fraction(numerator, reader.varint("alpha", 1, MAX_ALPHA_PART))
    if alpha.numerator != numerator:
        raise damaged("alpha is not in lowest terms")
    return StepLimited(alpha) if ordered else Flat(alpha)


def _read_steps(reader: ByteReader, code: Code, short: bool) -> Iterable[Step]:
    count = reader.varint("steps", 1, MAX_STEPS)
    times = [reader.varint("start", 1, (1 << 16) - 1)]
    for _ in range(count):
        times.append(times[-1] - reader.varint("timesteps", 1, times[-1]))
    gains = reader.column("snr_gain", count, 1, (1 << (16 if short else 32)) - 1)
    if not short and not (gains & 0xFFFF).any():
        raise damaged("snr_gain has too many bytes")
    patterns = (gains << 16 * short).astype(np.uint32)
    sizes = reader.column("chunk_size", count, 1, (1 << 32) - 1).tolist()
    bits = reader.column("index_bits", count, 1, 255).tolist()
    exponents = [0] * count if code.fixed_length else reader.column("exponent_units", count, 1, 255).tolist()
    floats = struct.unpack(f"<{count}f", patterns.astype("<u4").tobytes())
    return map(Step, times[:-1], times[1:], floats, sizes, bits, exponents)
