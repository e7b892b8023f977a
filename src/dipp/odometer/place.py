"""Where the odometer is kept, and the marks by which it knows pictures again.

    odometer.sqlite   what was charged (`accounts`)
    key               32 secret bytes, for the owner alone

The environment variable DIPP_ODOMETER names the folder; otherwise it is dipp/odometer in XDG_DATA_HOME, by
default ~/.local/share/dipp/odometer.

A picture's *mark* is HMAC-SHA256 of its pixels under the key. Equal pixels of equal size have equal marks, whatever
their file, name, folder or format. Somebody with the database but without the key learns neither the pixels of a
mark nor whether they are those of a guessed picture.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dipp.core import randomness
from dipp.errors import DippError

VARIABLE = "DIPP_ODOMETER"
"""Environment variable that moves the odometer."""
KEY_BYTES = 32
CONTEXT = b"dipp odometer 1 "
"""Begins whatever is authenticated: keys of other purposes could not be confused with this one."""


def folder() -> Path:
    """The folder of this user's odometer."""
    if chosen := os.environ.get(VARIABLE):
        return Path(chosen)
    data = Path(os.environ.get("XDG_DATA_HOME", ""))
    if not data.is_absolute():  # the specification wants relative paths ignored
        try:
            data = Path.home() / ".local" / "share"
        except RuntimeError:
            raise DippError("odometer", "there is no home folder", f"name a place in {VARIABLE}") from None
    return data / "dipp" / "odometer"


def make_key(path: Path) -> bytes:
    """A new secret key in a new file, for the owner alone; the caller sees to it that nobody else makes one meanwhile.

    What had the name is removed: neither a link nor the mode of an older file may say who reads the key.
    """
    key = randomness.private_bytes(KEY_BYTES)
    path.unlink(missing_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(key)
        file.flush()
        os.fsync(file.fileno())
    return key


def read_key(path: Path) -> bytes:
    """The secret key; b"" if no key was made yet."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def proof(key: bytes) -> bytes:
    """What the database keeps of its key, to notice another one."""
    return hmac.digest(key, CONTEXT + b"proof", "sha256")


def mark(key: bytes, pixels: NDArray[Any]) -> bytes:
    """The mark of pixels (H, W, C), or of the values that a window made pixels of. Grey counts as equal channels."""
    kind = b"picture" if pixels.dtype == np.uint8 else b"values"
    pixels = np.repeat(pixels, 3, axis=2) if pixels.shape[2] == 1 else np.ascontiguousarray(pixels)
    found = hmac.new(key, CONTEXT + kind + struct.pack("<3I", *pixels.shape), hashlib.sha256)
    found.update(pixels.data)
    return found.digest()
