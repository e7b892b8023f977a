"""Write and read the header's field about the source: the window of deep pictures, and which images are grey."""

from __future__ import annotations

import struct

import numpy as np
from numpy.typing import NDArray

from dipp.core.geometry import MAX_PIXELS
from dipp.core.window import Window
from dipp.format.bytes import damaged

WINDOW, ALL_GREY, SOME_GREY = 1, 2, 4
"""Bits of the first byte of the field: a window follows, all images are grey, some are."""
FIELD_BYTES = (1, 9 + MAX_PIXELS)
"""The least and the largest number of bytes of the field."""

Flags = NDArray[np.bool_]
Marks = tuple[int, bytes]
"""Which images are grey, as files store it: the first byte of the field, and one bit per image if only some are."""
NO_MARKS: Marks = (0, b"")


def to_bytes(window: Window | None, grey: Flags) -> bytes | None:
    """Return the bytes of the field; None if there is no window and no image is grey.

    Args:
        window: The window; None without one.
        grey: Whether each image is grey.
    """
    kind = WINDOW * (window is not None) | (ALL_GREY if grey.all() else SOME_GREY) * bool(grey.any())
    ends = b"" if window is None else struct.pack("<2i", window.low, window.high)
    which = np.packbits(grey).tobytes() if kind & SOME_GREY else b""
    return bytes([kind]) + ends + which if kind else None


def read(content: bytes) -> tuple[Window | None, Marks]:
    """Read the window, and the marks that say which images are grey; `read_grey` unpacks the marks.

    Args:
        content: The bytes of the field.

    Returns:
        The window, None without one, and the packed marks, which can be checked once the number of images is known.

    Raises:
        DippError: The field is invalid.
    """
    kind, rest = content[0], content[1:]
    if kind not in (1, 2, 3, 4, 5) or (kind & WINDOW and len(rest) < 8):
        raise damaged("its field about the source is invalid")
    ends, which = (rest[:8], rest[8:]) if kind & WINDOW else (b"", rest)
    return Window(*struct.unpack("<2i", ends)) if ends else None, (kind, which)


def read_grey(marks: Marks, images: int) -> Flags:
    """Return whether each image is grey, or an empty array if no image is.

    Args:
        marks: The marks that `read` returned.
        images: Number of images.

    Raises:
        DippError: The marks do not fit the number of images.
    """
    kind, which = marks
    if len(which) != (-(-images // 8) if kind & SOME_GREY else 0):
        raise damaged("it does not say of each image whether it is grey")
    if not kind & SOME_GREY:
        if kind & ALL_GREY and not images:
            raise damaged("it says that all images are grey, and has no images")
        return np.full(images if kind & ALL_GREY else 0, True)
    bits = np.unpackbits(np.frombuffer(which, np.uint8))
    grey: Flags = bits[:images].astype(bool)
    if bits[images:].any() or grey.all() or not grey.any():
        raise damaged("it does not say of each image whether it is grey")
    return grey
