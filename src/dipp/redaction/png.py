"""PNG files as whole numbers of 8 or 16 bits: read without loss, and written in one fixed way.

Only chunks that decide the numbers are read: header, palette, transparency and data. From other chunks, only the EXIF
orientation and the colour profile are read. An animation gives its still picture. A palette may have been computed
from the whole picture, so pictures with a palette become RGB. Pillow is not used, because it cuts 16-bit colour to 8.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dipp.compiling import compiled
from dipp.errors import DippError
from dipp.models.denoiser import require_pixels
from dipp.redaction.jpeg.segments import exif_of, orientation
from dipp.redaction.raster import Raster

SIGNATURE = b"\x89PNG\r\n\x1a\n"
GREY, RGB, PALETTE, GREY_ALPHA, RGBA = 0, 2, 3, 4, 6
CHANNELS = {GREY: 1, RGB: 3, PALETTE: 1, GREY_ALPHA: 2, RGBA: 4}
DEPTHS = {GREY: (1, 2, 4, 8, 16), RGB: (8, 16), PALETTE: (1, 2, 4, 8), GREY_ALPHA: (8, 16), RGBA: (8, 16)}
KINDS = {1: GREY, 2: GREY_ALPHA, 3: RGB, 4: RGBA}
PASSES = ((0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1))
"""Passes of the interlacing Adam7: first row and column, and steps between rows and columns."""
LEVEL = 6
"""Compression level of zlib."""
SRGB, OTHER = b"\1\x0d\0\1", b"no profile"
"""Content of the chunk cICP for sRGB; and a value for all other colours, which is not a valid ICC profile."""
USUAL = {
    b"gAMA": (45455).to_bytes(4, "big"),
    b"cHRM": b"".join(value.to_bytes(4, "big") for value in (31270, 32900, 64000, 33000, 30000, 60000, 15000, 6000)),
}
"""Content of the chunks of gamma and primaries that stand for sRGB."""

Values = NDArray[Any]


def _damaged() -> DippError:
    """Return the error about a file that is not a whole PNG."""
    return DippError("image", "is not a whole PNG", "get it again")


def read(content: bytes) -> Raster:
    """Return the picture of a PNG file.

    Raises:
        DippError: The file is damaged or too large.
    """
    chunks: dict[bytes, bytes] = {}
    data = []
    for name, body in _chunks(content):
        if name == b"IDAT":
            data.append(body)
        else:
            chunks.setdefault(name, body)
    header = chunks.get(b"IHDR", b"")
    if len(header) != 13:
        raise _damaged()
    width, height = int.from_bytes(header[:4], "big"), int.from_bytes(header[4:8], "big")
    depth, kind, _, _, interlaced = header[8:]
    if kind not in CHANNELS or depth not in DEPTHS[kind] or header[10:12] != b"\0\0" or interlaced > 1:
        raise _damaged()
    require_pixels(width, height)
    values = _values(b"".join(data), width, height, depth, kind, bool(interlaced))
    values = _coloured(values, depth, kind, chunks)
    turned = orientation(chunks[b"eXIf"]) if b"eXIf" in chunks else 1
    return Raster(values, turned, _profile(chunks), b"acTL" in chunks, kind == PALETTE)


def _profile(chunks: dict[bytes, bytes]) -> bytes:
    """Return the ICC profile of a file: empty for sRGB, and `OTHER` for colours that are stated in another way."""
    if (told := chunks.get(b"cICP")) is not None:
        return b"" if told == SRGB else OTHER
    if b"iCCP" not in chunks and b"sRGB" not in chunks:
        usual = {name: chunks[name] for name in USUAL if name in chunks}
        return b"" if all(USUAL[name] == body for name, body in usual.items()) else OTHER
    _, _, packed = chunks.get(b"iCCP", b"").partition(b"\0")
    try:
        return zlib.decompressobj().decompress(packed[1:], 1 << 20) if packed else b""
    except zlib.error:
        return b""


def _chunks(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the name and the content of each chunk before the end; raise if a checksum is wrong."""
    position = len(SIGNATURE)
    while True:
        length, name = int.from_bytes(content[position : position + 4], "big"), content[position + 4 : position + 8]
        body = content[position + 8 : position + 8 + length]
        check = content[position + 8 + length : position + 12 + length]
        if len(check) != 4 or zlib.crc32(name + body) != int.from_bytes(check, "big"):
            raise _damaged()
        if name == b"IEND":
            return
        yield name, body
        position += 12 + length


def _values(packed: bytes, width: int, height: int, depth: int, kind: int, interlaced: bool) -> Values:
    """Return the stored numbers (H, W, C) of a file, from its packed data."""
    channels = CHANNELS[kind]
    passes = PASSES if interlaced else ((0, 0, 1, 1),)
    shapes = [(-(-(height - top) // down), -(-(width - left) // across)) for top, left, down, across in passes]
    sizes = [rows * (1 + -(-columns * channels * depth // 8)) if rows and columns else 0 for rows, columns in shapes]
    inflate = zlib.decompressobj()
    try:
        raw = inflate.decompress(packed, sum(sizes))
    except zlib.error:
        raise _damaged() from None
    if len(raw) != sum(sizes):
        raise _damaged()
    values = np.zeros((height, width, channels), np.uint16 if depth == 16 else np.uint8)
    position = 0
    for (top, left, down, across), (rows, columns), size in zip(passes, shapes, sizes, strict=True):
        if size:
            part = np.frombuffer(raw, np.uint8, size, position).reshape(rows, -1)
            lines, wrong = _unfiltered(part, max(1, channels * depth // 8))
            if wrong:
                raise _damaged()
            values[top::down, left::across] = _unpacked(lines, columns, channels, depth)
            position += size
    return values


def _unpacked(lines: NDArray[np.uint8], columns: int, channels: int, depth: int) -> Values:
    """Return the numbers (rows, columns, channels) in the bytes of unfiltered lines."""
    if depth == 16:
        return lines.view(">u2").reshape(len(lines), columns, channels)
    if depth == 8:
        return lines.reshape(len(lines), columns, channels)
    shifts = np.arange(8 - depth, -1, -depth, dtype=np.uint8)
    spread = (lines[:, :, None] >> shifts) & np.uint8((1 << depth) - 1)
    return spread.reshape(len(lines), -1)[:, : columns * channels].reshape(len(lines), columns, channels)


def _coloured(values: Values, depth: int, kind: int, chunks: dict[bytes, bytes]) -> Values:
    """Return numbers of 8 or 16 bits, with palette entries as colours, and with alpha if anything is transparent."""
    clear = chunks.get(b"tRNS")
    if kind == PALETTE:
        colours = np.zeros((256, 4), np.uint8)
        colours[:, 3] = 255
        table = np.frombuffer(chunks.get(b"PLTE", b"")[:768], np.uint8)
        if table.size % 3 or not table.size:
            raise _damaged()
        colours[: table.size // 3, :3] = table.reshape(-1, 3)
        if clear is not None:
            colours[: min(256, len(clear)), 3] = np.frombuffer(clear[:256], np.uint8)
        return colours[values[..., 0], : 3 if clear is None else 4]
    key = None
    if clear is not None and kind in (GREY, RGB):
        if len(clear) != 2 * CHANNELS[kind]:
            raise _damaged()
        key = (values == np.frombuffer(clear, ">u2").astype(values.dtype)).all(axis=2)
    if depth < 8:
        values = values * np.uint8(255 // ((1 << depth) - 1))
    if key is not None:
        opaque = np.where(key, values.dtype.type(0), np.iinfo(values.dtype).max).astype(values.dtype)
        values = np.concatenate([values, opaque[..., None]], axis=2)
    return values


def write(picture: Raster) -> bytes:
    """Return the PNG file of a picture, which is the same for the same picture."""
    values = picture.values
    height, width, channels = values.shape
    depth = 8 * values.dtype.itemsize
    header = width.to_bytes(4, "big") + height.to_bytes(4, "big") + bytes((depth, KINDS[channels], 0, 0, 0))
    lines = np.ascontiguousarray(values, ">u2" if depth == 16 else np.uint8).view(np.uint8).reshape(height, -1)
    content = SIGNATURE + _chunk(b"IHDR", header)
    if picture.profile:
        content += _chunk(b"iCCP", b"icc\0\0" + zlib.compress(picture.profile, LEVEL))
    if picture.orientation != 1:
        content += _chunk(b"eXIf", exif_of(picture.orientation))
    content += _chunk(b"IDAT", zlib.compress(_filtered(lines, channels * depth // 8).tobytes(), LEVEL))
    return content + _chunk(b"IEND", b"")


def _chunk(name: bytes, body: bytes) -> bytes:
    """Return a chunk with its length and its checksum."""
    return len(body).to_bytes(4, "big") + name + body + zlib.crc32(name + body).to_bytes(4, "big")


@compiled()
def _predicted(kind: int, left: int, above: int, corner: int) -> int:
    """Return the prediction of a filter, 0 to 4, for a byte from its neighbours."""
    if kind == 1:
        return left
    if kind == 2:
        return above
    if kind == 3:
        return (left + above) // 2
    if kind == 4:
        guess = left + above - corner
        a, b, c = abs(guess - left), abs(guess - above), abs(guess - corner)
        if a <= b and a <= c:
            return left
        return above if b <= c else corner
    return 0


@compiled()
def _unfiltered(lines: Any, step: int) -> Any:
    """Return lines (rows, bytes) with their filters undone, and whether the number of a filter is invalid.

    `step` is the number of bytes of a pixel, at least 1.
    """
    rows, length = lines.shape[0], lines.shape[1] - 1
    out = np.zeros((rows, length), np.uint8)
    for row in range(rows):
        kind = lines[row, 0]
        if kind > 4:
            return out, True
        for at in range(length):
            left = np.int64(out[row, at - step]) if at >= step else 0
            above = np.int64(out[row - 1, at]) if row else 0
            corner = np.int64(out[row - 1, at - step]) if row and at >= step else 0
            out[row, at] = (lines[row, at + 1] + _predicted(kind, left, above, corner)) & 255
    return out, False


@compiled()
def _filtered(lines: Any, step: int) -> Any:
    """Return lines, each filtered by the filter with the smallest sum of magnitudes, and preceded by its number."""
    rows, length = lines.shape
    out = np.zeros((rows, length + 1), np.uint8)
    trial = np.zeros(length, np.uint8)
    for row in range(rows):
        least = np.int64(1) << 60
        for kind in range(5):
            total = np.int64(0)
            for at in range(length):
                left = np.int64(lines[row, at - step]) if at >= step else 0
                above = np.int64(lines[row - 1, at]) if row else 0
                corner = np.int64(lines[row - 1, at - step]) if row and at >= step else 0
                byte = (np.int64(lines[row, at]) - _predicted(kind, left, above, corner)) & 255
                trial[at] = byte
                total += byte if byte < 128 else 256 - byte
            if total < least:
                least = total
                out[row, 0] = kind
                out[row, 1:] = trial
    return out
