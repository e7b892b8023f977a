"""Colour spaces: which standard one an ICC profile describes, and a profile of our own for it.

The bytes of a profile are never copied: it may name a device, or hold anything. A profile of a standard space is
replaced by a profile that we make. For sRGB it is left out, because pictures without a profile are sRGB. Any other
profile is dropped, the colours are then taken for sRGB, and the record says so.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass

Triple = tuple[float, float, float]

D50: Triple = (0.9642, 1.0, 0.8249)
PROBES = (0.02, 0.1, 0.25, 0.5, 0.75, 0.9)
"""Stored values, 0 to 1, at which two curves are compared."""
CURVE_TOLERANCE, PRIMARY_TOLERANCE = 0.006, 0.003


@dataclass(frozen=True)
class ColourSpace:
    """A standard colour space: its primaries relative to the white D50, and its curve."""

    name: str
    primaries: tuple[Triple, Triple, Triple]
    curve: bytes
    """Curve from stored values to light, as a field of an ICC profile."""


def _number(value: float) -> bytes:
    """Return a number in the fixed-point format of ICC, s15Fixed16."""
    return struct.pack(">i", round(value * 65536))


PIECEWISE = (
    b"para"
    + bytes(4)
    + struct.pack(">HH", 3, 0)
    + b"".join(_number(value) for value in (2.4, 1 / 1.055, 0.055 / 1.055, 1 / 12.92, 0.04045))
)
"""The curve of sRGB."""
GAMMA = b"curv" + bytes(4) + struct.pack(">IH", 1, 563) + bytes(2)
"""The curve of Adobe RGB: 563/256."""
SRGB = ColourSpace("sRGB", ((0.4360, 0.2225, 0.0139), (0.3851, 0.7169, 0.0971), (0.1431, 0.0606, 0.7141)), PIECEWISE)
DISPLAY_P3 = ColourSpace(
    "Display P3", ((0.5151, 0.2412, -0.0011), (0.2920, 0.6922, 0.0419), (0.1571, 0.0666, 0.7841)), PIECEWISE
)
ADOBE_RGB = ColourSpace(
    "Adobe RGB (1998)", ((0.6097, 0.3111, 0.0195), (0.2053, 0.6257, 0.0609), (0.1492, 0.0632, 0.7446)), GAMMA
)
SPACES = (SRGB, DISPLAY_P3, ADOBE_RGB)


def standard(profile: bytes) -> ColourSpace | None:
    """Return the standard space that an ICC profile describes; None for other spaces and for invalid profiles."""
    try:
        tags = _tags(profile)
        if profile[16:20] != b"RGB " or any(name in tags for name in (b"A2B0", b"A2B1")):
            return None
        primaries = tuple(_triple(tags[name]) for name in (b"rXYZ", b"gXYZ", b"bXYZ"))
        curves = [_curve(tags[name]) for name in (b"rTRC", b"gTRC", b"bTRC")]
        for space in SPACES:
            wanted = _curve(space.curve)
            near = all(
                abs(a - b) < PRIMARY_TOLERANCE
                for stated, standard_one in zip(primaries, space.primaries, strict=True)
                for a, b in zip(stated, standard_one, strict=True)
            )
            if near and all(abs(curve(x) - wanted(x)) < CURVE_TOLERANCE for curve in curves for x in PROBES):
                return space
    except (KeyError, IndexError, ValueError, struct.error, ZeroDivisionError, OverflowError):
        return None
    return None


def profile(space: ColourSpace) -> bytes:
    """Return the bytes of our own ICC profile for a standard space; empty for sRGB."""
    if space is SRGB:
        return b""
    bodies = {
        b"desc": _text(space.name),
        b"cprt": _text("CC0"),
        b"wtpt": b"XYZ " + bytes(4) + b"".join(map(_number, D50)),
        b"rXYZ": b"XYZ " + bytes(4) + b"".join(map(_number, space.primaries[0])),
        b"gXYZ": b"XYZ " + bytes(4) + b"".join(map(_number, space.primaries[1])),
        b"bXYZ": b"XYZ " + bytes(4) + b"".join(map(_number, space.primaries[2])),
        b"rTRC": space.curve,
        b"gTRC": space.curve,
        b"bTRC": space.curve,
    }
    table, data, start = struct.pack(">I", len(bodies)), b"", 128 + 4 + 12 * len(bodies)
    for name, body in bodies.items():
        table += name + struct.pack(">II", start + len(data), len(body))
        data += body + bytes(-len(body) % 4)
    head = struct.pack(">I4s4s4s4s4s", start + len(data), bytes(4), b"\x04\x30\0\0", b"mntr", b"RGB ", b"XYZ ")
    head += struct.pack(">6H", 2000, 1, 1, 0, 0, 0) + b"acsp" + bytes(28) + b"".join(map(_number, D50))
    return head.ljust(128, b"\0") + table + data


def _text(text: str) -> bytes:
    """Return an English text as the content of a field of an ICC profile."""
    coded = text.encode("utf-16-be")
    return b"mluc" + bytes(4) + struct.pack(">II", 1, 12) + b"enUS" + struct.pack(">II", len(coded), 28) + coded


def _tags(profile: bytes) -> dict[bytes, bytes]:
    """Return the contents of the fields (tags) of an ICC profile, by their four-byte names."""
    (count,) = struct.unpack_from(">I", profile, 128)
    tags = {}
    for number in range(min(count, 100)):
        name, start, size = struct.unpack_from(">4sII", profile, 132 + 12 * number)
        tags[name] = profile[start : start + size]
    return tags


def _triple(tag: bytes) -> Triple:
    """Return the X, Y and Z that a field of an ICC profile contains."""
    x, y, z = (value / 65536 for value in struct.unpack_from(">3i", tag, 8))
    return x, y, z


def _curve(tag: bytes) -> Callable[[float], float]:
    """Return the curve in a field of an ICC profile: a table, a power, or a line followed by a power."""
    if tag[:4] == b"curv":
        (count,) = struct.unpack_from(">I", tag, 8)
        if count == 0:
            return lambda x: x
        if count == 1:
            gamma = struct.unpack_from(">H", tag, 12)[0] / 256
            return lambda x: float(x**gamma)
        table = struct.unpack_from(f">{count}H", tag, 12)
        return lambda x: table[round(x * (count - 1))] / 65535
    if tag[:4] != b"para":
        raise ValueError("not a curve")
    (kind,) = struct.unpack_from(">H", tag, 8)
    lengths = {0: 1, 3: 5, 4: 7}
    values = [value / 65536 for value in struct.unpack_from(f">{lengths[kind]}i", tag, 12)]
    if kind == 0:
        return lambda x: float(x ** values[0])
    gamma, a, b, c, d, e, f = (*values, 0.0, 0.0)[:7]
    return lambda x: float((a * x + b) ** gamma + e if x >= d else c * x + f)
