"""Channels and codes in the header: which they are, and their parameters.

Format 1 names a code by a flag (whether its indices are ordered) and by α, format 2 by its number.
"""

from __future__ import annotations

import struct
from fractions import Fraction

from dipp.codes import CODES, Flat, Functional, StepLimited
from dipp.core.channels import CHANNELS, Channel
from dipp.core.code import Code
from dipp.core.masks import MAX_PERIOD
from dipp.errors import DippError
from dipp.format.bytes import ByteReader, checked, damaged, varint

MAX_ALPHA_PART = (1 << 15) - 1
MAX_FLOAT = (2 - 2.0**-23) * 2.0**127


def channel_number(channel: Channel) -> int:
    """The number of a channel, which must be one of the format's."""
    if CHANNELS.get(getattr(channel, "number", -1)) is not type(channel):
        raise DippError(f"channel: {channel.name} has no number in the file format")
    return channel.number


def _is_whole(kind: type[Channel], parameter: str) -> bool:
    """Whether a channel's parameter is a whole number: its default says so, for all values."""
    return isinstance(getattr(kind, parameter), int)


def channel_to_bytes(channel: Channel) -> bytes:
    """The channel's parameter, if it has one: a whole number or a 32-bit float."""
    if channel.parameter is None:
        return b""
    value = getattr(channel, channel.parameter)
    if _is_whole(type(channel), channel.parameter):
        return varint(checked(channel.parameter, value, 1, MAX_PERIOD))
    if value > MAX_FLOAT or struct.unpack("<f", struct.pack("<f", value))[0] != value:
        raise DippError(f"{channel.parameter}: a 32-bit float is needed, got {value}")
    return struct.pack("<f", value)


def read_channel(reader: ByteReader, number: int) -> Channel:
    """The channel of a number, with its parameter."""
    if number not in CHANNELS:
        raise damaged(f"there is no channel {number}")
    kind = CHANNELS[number]
    if kind.parameter is None:
        return kind()
    if _is_whole(kind, kind.parameter):
        return kind(reader.varint(kind.parameter, 1, MAX_PERIOD))  # type: ignore[call-arg]
    return kind(struct.unpack("<f", reader.take(4))[0])  # type: ignore[call-arg]


def alpha_to_bytes(code: Code) -> bytes:
    """α: numerator and denominator, or 0 for ∞. With the flag for the order, that is all of a code in format 1."""
    if type(code) is Functional:
        return varint(0)
    if type(code) not in (Flat, StepLimited):
        raise DippError(f"code: {code.name} has no place in format 1 of the file")
    return rational_to_bytes(code.score_alpha)


def rational_to_bytes(alpha: Fraction) -> bytes:
    """Numerator and denominator."""
    parts = (checked("alpha", part, 1, MAX_ALPHA_PART) for part in (alpha.numerator, alpha.denominator))
    return b"".join(map(varint, parts))


def _read_rational(reader: ByteReader, numerator: int) -> Fraction:
    alpha = Fraction(numerator, reader.varint("alpha", 1, MAX_ALPHA_PART))
    if alpha.numerator != numerator:
        raise damaged("alpha is not in lowest terms")
    return alpha


def read_code(reader: ByteReader, ordered: bool) -> Code:
    """The code of format 1."""
    numerator = reader.varint("alpha", 0, MAX_ALPHA_PART)
    if not numerator:
        if not ordered:
            raise DippError("alpha: ∞ without the Poisson order is a code that this version of dipp does not have")
        return Functional()
    alpha = _read_rational(reader, numerator)
    return StepLimited(alpha) if ordered else Flat(alpha)


def code_number(code: Code) -> int:
    """The number of a code, which must be one of the format's."""
    if CODES.get(code.name) is not type(code):
        raise DippError(f"code: {code.name} has no number in the file format")
    return code.number


def read_numbered_code(reader: ByteReader) -> Code:
    """The code of format 2."""
    number = reader.varint("code", 0, 255)
    alpha = _read_rational(reader, reader.varint("alpha", 1, MAX_ALPHA_PART))
    kinds = {kind.number: kind for kind in CODES.values()}
    if number not in kinds:
        raise damaged(f"there is no code {number}")
    return kinds[number].at(alpha)
