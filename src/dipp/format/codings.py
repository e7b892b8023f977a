"""Write and read channels and codes in the header: each is a number, followed by its parameters."""

from __future__ import annotations

from fractions import Fraction

from dipp.codes import CODES
from dipp.core.channels import CHANNELS, Channel
from dipp.core.code import Code
from dipp.core.masks import MAX_PERIOD
from dipp.core.plan import Coding
from dipp.errors import DippError
from dipp.format.bytes import ByteReader, checked, damaged, newer, varint

MAX_NUMBER = 255
"""Largest number of a channel, of a code and of a kind of steps."""
MAX_ALPHA_PART = (1 << 15) - 1
"""Largest numerator and denominator of a rational parameter."""


def to_bytes(coding: Coding) -> bytes:
    """Return the bytes of a coding: number and parameters of its channel, then those of its code."""
    return _channel_to_bytes(coding.channel) + _code_to_bytes(coding.code)


def read(reader: ByteReader) -> Coding:
    """Read the coding that `to_bytes` wrote."""
    return Coding(_read_channel(reader), _read_code(reader))


def _channel_to_bytes(channel: Channel) -> bytes:
    if CHANNELS.get(getattr(channel, "number", -1)) is not type(channel):
        raise DippError(
            "channel", f"must have a number in the file format, got {channel.name}", "register its class in CHANNELS"
        )
    if channel.parameter is None:
        return varint(channel.number)
    value = checked(channel.parameter, getattr(channel, channel.parameter), 1, MAX_PERIOD)
    return varint(channel.number) + varint(value)


def _read_channel(reader: ByteReader) -> Channel:
    number = reader.varint("channel", 0, MAX_NUMBER)
    if number not in CHANNELS:
        raise newer(f"channel {number}")
    kind = CHANNELS[number]
    if kind.parameter is None:
        return kind()
    return kind(reader.varint(kind.parameter, 1, MAX_PERIOD))  # type: ignore[call-arg]


def _code_to_bytes(code: Code) -> bytes:
    if CODES.get(code.name) is not type(code) or not hasattr(code, "number"):
        raise DippError(
            "code", f"must have a number in the file format, got {code.name}", "register its class in CODES"
        )
    values = ((name, getattr(code, name)) for name in code.parameters)
    return varint(code.number) + b"".join(_rational_to_bytes(name, value) for name, value in values)


def _read_code(reader: ByteReader) -> Code:
    number = reader.varint("code", 0, MAX_NUMBER)
    kinds = {kind.number: kind for kind in CODES.values() if hasattr(kind, "number")}
    if number not in kinds:
        raise newer(f"code {number}")
    return kinds[number](*(_read_rational(reader, name) for name in kinds[number].parameters))


def _rational_to_bytes(name: str, value: Fraction) -> bytes:
    parts = (checked(name, part, 1, MAX_ALPHA_PART) for part in (value.numerator, value.denominator))
    return b"".join(map(varint, parts))


def _read_rational(reader: ByteReader, name: str) -> Fraction:
    numerator, denominator = (reader.varint(name, 1, MAX_ALPHA_PART) for _ in range(2))
    value = Fraction(numerator, denominator)
    if value.numerator != numerator:
        raise damaged(f"{name} is not in lowest terms")
    return value
