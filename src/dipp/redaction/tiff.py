"""TIFF files of one page as whole numbers of 8 or 16 bits: read without loss, and written in one fixed way.

Pillow reads pictures of 8 bits, and grey ones of 16 bits. It cuts 16-bit colour to 8 bits, so this module reads that
itself, uncompressed or deflated. A written file is a header, a dozen tags and one deflated strip.
"""

from __future__ import annotations

import io
import struct
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from dipp.errors import DippError
from dipp.models.denoiser import require_pixels
from dipp.redaction.raster import Raster

MAGICS = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
"""First bytes of files: TIFF and BigTIFF, in both byte orders."""
LOSSLESS = ("raw", "tiff_lzw", "tiff_adobe_deflate", "tiff_deflate", "packbits", "group3", "group4", "tiff_ccitt")
"""Compressions without loss, by Pillow's names."""
LOSSY = ("jpeg", "tiff_jpeg", "webp")
WIDTH, HEIGHT, BITS, COMPRESSION, PHOTOMETRIC, STRIPS, ORIENTATION = 256, 257, 258, 259, 262, 273, 274
SAMPLES, ROWS, COUNTS, PLANAR, PREDICTOR, EXTRA, FORMAT, PROFILE = 277, 278, 279, 284, 317, 338, 339, 34675
PLAIN, DEFLATE, OLD_DEFLATE = 1, 8, 32946
WHITE_IS_ZERO, BLACK_IS_ZERO, RGB = 0, 1, 2
"""Values of the tag `PHOTOMETRIC`, which says what numbers mean as colours."""
UNKNOWN, ASSOCIATED = 0, 1
"""Values of the tag `EXTRA`, which says what further channels mean."""
LEVEL = 6
"""Compression level of zlib."""


def is_lossy(image: Image.Image) -> bool:
    """Return whether a TIFF file is compressed with loss; raise if its compression is unknown."""
    used = str(image.info.get("compression", "raw"))
    if used not in (*LOSSLESS, *LOSSY):
        raise DippError("image", f"is a TIFF compressed by {used:.20}, which is not supported", "save it plain")
    return used in LOSSY


def require_known(tags: Any) -> None:
    """Raise if the values of a TIFF have a meaning that Pillow does not keep: the new file would look different."""
    kind, extra, bits = tags.get(PHOTOMETRIC), tags.get(EXTRA, ()), max(tags.get(BITS, (1,)))
    wrong = (
        "alpha that colours are multiplied by"
        if ASSOCIATED in extra
        else "channels that are no colour"
        if UNKNOWN in extra
        else "16 bits in which 0 is white"
        if kind == WHITE_IS_ZERO and bits > 8
        else "16 bits that are neither grey nor RGB"
        if kind not in (WHITE_IS_ZERO, BLACK_IS_ZERO, RGB) and bits > 8
        else ""
    )
    if wrong:
        raise DippError("image", f"is a TIFF with {wrong}, which is not supported", "save it as PNG")


def deep_colour(content: bytes, image: Any) -> NDArray[np.uint16] | None:
    """Return the values (H, W, C) of a TIFF in 16-bit colour; None for every other TIFF.

    Args:
        content: The file.
        image: The file as Pillow has opened it.

    Raises:
        DippError: The file is in 16-bit colour and is damaged, or stores it in a way that is not supported.
    """
    tags = image.tag_v2
    channels, bits = tags.get(SAMPLES, 1), tags.get(BITS, (1,))
    if channels < 2 or max(bits) <= 8:
        return None
    plain = tags.get(COMPRESSION) in (PLAIN, DEFLATE, OLD_DEFLATE) and tags.get(PLANAR, 1) == 1
    predictor = tags.get(PREDICTOR, 1)
    if set(bits) != {16} or channels not in (3, 4) or not plain or predictor not in (1, 2) or STRIPS not in tags:
        raise DippError("image", "must hold its colour of 16 bits in strips, plain or deflated", "save it as PNG")
    width, height = int(tags[WIDTH]), int(tags[HEIGHT])
    require_pixels(width, height)
    line, rows = 2 * channels * width, min(int(tags.get(ROWS, height)), height)
    data = b""
    for at, (start, size) in enumerate(zip(tags[STRIPS], tags[COUNTS], strict=True)):
        wanted = line * min(rows, height - at * rows)
        part = content[start : start + size]
        try:
            data += part if tags[COMPRESSION] == PLAIN else zlib.decompressobj().decompress(part, max(1, wanted))
        except zlib.error:
            break
    if len(data) != line * height:
        raise DippError("image", "is not a whole TIFF", "get it again")
    order = "<u2" if content[:2] == b"II" else ">u2"
    values = np.frombuffer(data, order).astype(np.uint16).reshape(height, width, channels)
    return np.cumsum(values, axis=1, dtype=np.uint16) if predictor == 2 else values


def write(picture: Raster) -> bytes:
    """Return the TIFF file of a picture, which is the same for the same picture."""
    height, width, channels = picture.values.shape
    depth = picture.values.dtype.itemsize
    strip = zlib.compress(np.ascontiguousarray(picture.values, f"<u{depth}").tobytes(), LEVEL)
    start = 8
    extra = start + len(strip) + len(strip) % 2
    room = io.BytesIO()

    def stored(values: bytes) -> int:
        """Keep values that do not fit into an entry, and return their position in the file."""
        at = extra + room.tell()
        room.write(values + bytes(len(values) % 2))
        return at

    short, long, undefined = 3, 4, 7
    bits = struct.pack(f"<{channels}H", *(channels * (8 * depth,)))
    formats = struct.pack(f"<{channels}H", *(channels * (1,)))
    entries = [
        (WIDTH, long, 1, width),
        (HEIGHT, long, 1, height),
        (BITS, short, channels, stored(bits) if channels > 2 else int.from_bytes(bits, "little")),
        (COMPRESSION, short, 1, DEFLATE),
        (PHOTOMETRIC, short, 1, 2 if channels > 2 else 1),
        (STRIPS, long, 1, start),
        (ORIENTATION, short, 1, picture.orientation),
        (SAMPLES, short, 1, channels),
        (ROWS, long, 1, height),
        (COUNTS, long, 1, len(strip)),
        (PLANAR, short, 1, 1),
        *([(EXTRA, short, 1, 2)] if picture.alpha else []),
        (FORMAT, short, channels, stored(formats) if channels > 2 else int.from_bytes(formats, "little")),
        *([(PROFILE, undefined, len(picture.profile), stored(picture.profile))] if picture.profile else []),
    ]
    directory = struct.pack("<H", len(entries)) + b"".join(struct.pack("<HHII", *entry) for entry in entries)
    offset = extra + room.tell()
    head = b"II*\0" + struct.pack("<I", offset)
    return head + strip + bytes(len(strip) % 2) + room.getvalue() + directory + bytes(4)
