"""The header of a `.dipp` file: all that is public about an archive, in about 128 bytes.

`docs/format.md` describes every byte. Reading never trusts: each number has a range, each count is compared with what
the file can hold before anything is allocated, and every header has one spelling only, so that a header that is read
and written again comes back byte for byte.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dipp.channels import Channel, Gaussian, Huber, Laplace, Logistic, Sign
from dipp.errors import DippError
from dipp.plan import DIFFC, PAPER, SHARP, THRIFTY, Mechanism, Plan, Step
from dipp.randomness import SEED_BYTES

MAGIC = b"DIPP"
VERSION = 1
MODEL_BYTES = 32
CHANNEL_NUMBERS: tuple[type[Channel], ...] = (Laplace, Gaussian, Logistic, Huber, Sign)
"""A channel's number in the file is its place here."""
ORDERED, SEPARATE, DELTA, SHORT_GAINS = 0x10, 0x20, 0x40, 0x80
MAX_STEPS = 4096
MAX_ZETA_CODES = 256
"""Different zeta codes of a plan: each has a table that takes milliseconds to make."""
MAX_CHANNELS = 16
MAX_PIXELS = (1 << 31) - 1
MAX_PERIOD = (1 << 16) - 1
MAX_ALPHA_PART = (1 << 15) - 1
MAX_FLOAT = (2 - 2.0**-23) * 2.0**127
MAX_VARINT_BYTES = 10
MAX_COLUMN_WIDTH = 32

Integers = NDArray[np.int64]


class Reader:
    """Reads a buffer from front to back, and never beyond its end."""

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self.at = 0

    @property
    def left(self) -> int:
        """Bytes that are still to come."""
        return len(self._data) - self.at

    def take(self, count: int) -> bytes:
        """The next `count` bytes."""
        if count > self.left:
            raise damaged("it ends too early")
        self.at += count
        return bytes(self._data[self.at - count : self.at])

    def varint(self, name: str, low: int, high: int) -> int:
        """A number from low to high: seven bits a byte, the lowest first, no byte more than needed."""
        value = 0
        for place in range(MAX_VARINT_BYTES):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << 7 * place
            if byte < 0x80:
                break
        if byte >= 0x80 or (place and not byte):
            raise damaged(f"{name} has too many bytes")
        return self._within(name, value, low, high)

    def column(self, name: str, count: int, low: int, high: int) -> Integers:
        """`count` numbers from low to high: the smallest, the width of the differences to it, the differences.

        Whoever calls has made sure that the file is large enough for so many.
        """
        if not count:
            return np.zeros(0, np.int64)
        base = self.varint(name, low, high)
        if count == 1:
            return np.array([base])
        width = self._within(name, self.take(1)[0], 0, MAX_COLUMN_WIDTH)
        bits = np.unpackbits(np.frombuffer(self.take(-(-count * width // 8)), np.uint8))
        differences = np.zeros(count, np.int64)
        for place in bits[: count * width].reshape(count, width).T:
            differences = differences << 1 | place
        if bits[count * width :].any() or differences.min() or int(differences.max()).bit_length() != width:
            raise damaged(f"the column {name} is not packed as it should be")
        self._within(name, base + int(differences.max()), low, high)
        return differences + base

    @staticmethod
    def _within(name: str, value: int, low: int, high: int) -> int:
        if not low <= value <= high:
            raise damaged(f"{name} is {value}, where {low} to {high} is possible")
        return value


def varint(value: int) -> bytes:
    """The bytes that `Reader.varint` reads."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def column(values: Integers) -> bytes:
    """The bytes that `Reader.column` reads."""
    if len(values) < 2:
        return b"".join(varint(int(value)) for value in values)
    base = int(values.min())
    width = (int(values.max()) - base).bit_length()
    bits = (values - base)[:, None] >> np.arange(width)[::-1] & 1
    return varint(base) + bytes([width]) + np.packbits(bits.astype(np.uint8)).tobytes()


def damaged(reason: str) -> DippError:
    """What to raise for a file that nobody has written like this."""
    return DippError(f"the file is damaged or cut short: {reason}; get it again")


def checked(name: str, value: int, low: int, high: int) -> int:
    """The value, if it is from low to high."""
    if not low <= value <= high:
        raise DippError(f"{name}: {low} to {high} is needed, got {value}")
    return value


@dataclass(frozen=True, eq=False)
class Header:
    """What the front of a file says."""

    plan: Plan
    model: str
    """Hex SHA-256 over weights, network config and scheduler config of the denoiser."""
    seed: bytes
    """Public seed of the common randomness."""
    channels: int
    """Channels C of every image."""
    runs: Integers
    """A row (images, height, width) for each run of images of one size."""
    claim: tuple[float, float] | None
    """Pure ε and ρ of the certificate; None where the mechanism has none."""
    delta: float | None = None
    """δ of the budget, where an (ε, δ) was asked for."""

    def __post_init__(self) -> None:
        mechanism, steps = self.plan.mechanism, self.plan.steps
        if not re.fullmatch(f"[0-9a-f]{{{2 * MODEL_BYTES}}}", self.model):
            raise DippError(f"model: a SHA-256 in {2 * MODEL_BYTES} lower-case hex digits is needed, got {self.model}")
        if len(self.seed) != SEED_BYTES:
            raise DippError(f"seed: {SEED_BYTES} bytes are needed, got {len(self.seed)}")
        if self.delta is not None and not 0 < self.delta < 1:
            raise DippError(f"delta: a number between 0 and 1 is needed, got {self.delta}")
        checked("channels", self.channels, 1, MAX_CHANNELS)
        checked("steps", len(steps), 1, MAX_STEPS)
        if mechanism.ordered:
            checked("zeta codes", len({(step.index_bits, step.exponent_units) for step in steps}), 1, MAX_ZETA_CODES)
        for step in steps:
            checked("exponent_units", step.exponent_units, *((1, 255) if mechanism.ordered else (0, 0)))
        # The name is not stored, but follows: whoever names one of the presets gets that one.
        object.__setattr__(self, "plan", replace(self.plan, mechanism=_named(mechanism)))

    def to_bytes(self) -> bytes:
        """The header as it stands in the file."""
        plan = self.plan
        gains = np.array([int.from_bytes(struct.pack("<f", step.snr_gain), "little") for step in plan.steps])
        short = not (gains & 0xFFFF).any()
        flags = _channel_number(plan.mechanism.channel)
        flags |= ORDERED * plan.mechanism.ordered | SEPARATE * plan.separate
        flags |= DELTA * (self.delta is not None) | SHORT_GAINS * short
        doubles = [*(self.claim or ()), *([] if self.delta is None else [self.delta])]
        names = ["chunk_size", "index_bits"] + ["exponent_units"] * plan.mechanism.ordered
        return b"".join(
            (
                MAGIC + bytes([VERSION, flags]) + bytes.fromhex(self.model) + self.seed,
                _mechanism_bytes(plan.mechanism) + varint(self.channels),
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
    def read(cls, reader: Reader) -> Header:
        """Read a header and leave the reader behind it; whether its claim is true is for the archive to check."""
        check_kind(reader.take(len(MAGIC) + 1))
        flags = reader.take(1)[0]
        model, seed = reader.take(MODEL_BYTES).hex(), reader.take(SEED_BYTES)
        mechanism = _read_mechanism(reader, flags)
        channels = reader.varint("channels", 1, MAX_CHANNELS)
        claim = struct.unpack("<2d", reader.take(16)) if mechanism.certified else None
        delta = struct.unpack("<d", reader.take(8))[0] if flags & DELTA else None
        steps = tuple(_read_steps(reader, mechanism, bool(flags & SHORT_GAINS)))
        plan = Plan(mechanism, steps, bool(flags & SEPARATE))
        # A run has an image, and an image has a byte or, after the first of a run, at least a bit.
        count = reader.varint("runs", 0, reader.left)
        images = reader.column("images", count, 1, 8 * reader.left)
        sides = [reader.column(name, count, 1, MAX_PIXELS) for name in ("height", "width")]
        runs = np.stack([images, *sides], axis=1)
        if (runs[1:, 1:] == runs[:-1, 1:]).all(axis=1).any():
            raise damaged("runs of one size are listed apart")
        return cls(plan, model, seed, channels, runs, claim, delta)


def check_kind(front: bytes) -> None:
    """Refuse what is no archive, or a newer one, by the first bytes of the file."""
    if front[: len(MAGIC)] != MAGIC[: len(front)] or not front:
        raise DippError("this is not a dipp archive")
    version = front[len(MAGIC)] if len(front) > len(MAGIC) else VERSION
    if version > VERSION:
        raise DippError(f"written by a newer dipp (format {version}); upgrade")
    if version < VERSION:
        raise DippError("this is not a dipp archive")


def _named(mechanism: Mechanism) -> Mechanism:
    """The preset that it is, or the mechanism by the name of its channel."""
    for preset in (PAPER, DIFFC, SHARP, THRIFTY):
        if (mechanism.channel, mechanism.alpha, mechanism.ordered) == (preset.channel, preset.alpha, preset.ordered):
            return preset
    return replace(mechanism, name=mechanism.channel.name)


def _channel_number(channel: Channel) -> int:
    if type(channel) not in CHANNEL_NUMBERS:
        raise DippError(f"channel: {channel.name} has no number in the file format")
    return CHANNEL_NUMBERS.index(type(channel))


def _mechanism_bytes(mechanism: Mechanism) -> bytes:
    """The channel's parameter, if it has one, and α: numerator and denominator, or 0 for ∞."""
    channel, alpha = mechanism.channel, mechanism.alpha
    parameter = b""
    if isinstance(channel, Huber):
        if channel.k > MAX_FLOAT or struct.unpack("<f", struct.pack("<f", channel.k))[0] != channel.k:
            raise DippError(f"k: a 32-bit float is needed, got {channel.k}")
        parameter = struct.pack("<f", channel.k)
    if isinstance(channel, Sign):
        parameter = varint(checked("period", channel.period, 1, MAX_PERIOD))
    if alpha is None:
        return parameter + varint(0)
    parts = (checked("alpha", part, 1, MAX_ALPHA_PART) for part in (alpha.numerator, alpha.denominator))
    return parameter + b"".join(map(varint, parts))


def _read_mechanism(reader: Reader, flags: int) -> Mechanism:
    number = flags & 0x0F
    if number >= len(CHANNEL_NUMBERS):
        raise damaged(f"there is no channel {number}")
    channel = CHANNEL_NUMBERS[number]()
    if isinstance(channel, Huber):
        channel = Huber(struct.unpack("<f", reader.take(4))[0])
    if isinstance(channel, Sign):
        channel = Sign(reader.varint("period", 1, MAX_PERIOD))
    numerator = reader.varint("alpha", 0, MAX_ALPHA_PART)
    alpha = Fraction(numerator, reader.varint("alpha", 1, MAX_ALPHA_PART)) if numerator else None
    if alpha is not None and alpha.numerator != numerator:
        raise damaged("alpha is not in lowest terms")
    return _named(Mechanism("", channel, alpha, bool(flags & ORDERED)))


def _read_steps(reader: Reader, mechanism: Mechanism, short: bool) -> Iterable[Step]:
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
    exponents = reader.column("exponent_units", count, 1, 255).tolist() if mechanism.ordered else [0] * count
    floats = struct.unpack(f"<{count}f", patterns.astype("<u4").tobytes())
    return map(Step, times[:-1], times[1:], floats, sizes, bits, exponents)
