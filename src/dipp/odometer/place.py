"""Choose the folder of the odometer, keep its secret key, and compute the marks by which it recognises pictures.

The folder has two files:

    odometer.sqlite   the charges of releases (`accounts`)
    key               32 secret bytes, which only the owner can read

The environment variable DIPP_ODOMETER names the folder; otherwise it is dipp/odometer in XDG_DATA_HOME, by
default ~/.local/share/dipp/odometer.

A picture's *mark* is HMAC-SHA256 of its pixels under the key. Equal pixels of equal size have equal marks, in any file,
folder or format. Somebody with the database but without the key learns neither the pixels of a mark
nor whether they are those of a guessed picture.
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
"""Environment variable that names the folder of the odometer."""
KEY_BYTES = 32
CONTEXT = b"dipp odometer 1 "
"""First bytes of each authenticated message, which no other use of a key has."""


def folder() -> Path:
    """Return the folder of this user's odometer.

    Raises:
        DippError: The user has no home folder, and the environment names no other.
    """
    if chosen := os.environ.get(VARIABLE):
        return Path(chosen)
    data = Path(os.environ.get("XDG_DATA_HOME", ""))
    if not data.is_absolute():  # the specification says to ignore relative paths
        try:
            data = Path.home() / ".local" / "share"
        except RuntimeError:
            raise DippError(
                "odometer", "has no folder, because this user has no home", f"name a folder in {VARIABLE}"
            ) from None
    return data / "dipp" / "odometer"


def make_key(path: Path) -> bytes:
    """Write a new secret key to a new file that only its owner can read, and return the key.

    A file or link of this name is removed first, since its permissions could let others read the key. The caller makes
    sure that no other process makes a key at the same time.

    Args:
        path: The file.

    Returns:
        The key.
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
    """Return the secret key; b"" if no key was made yet."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def proof(key: bytes) -> bytes:
    """Return a digest of the key, by which the database notices another key."""
    return hmac.digest(key, CONTEXT + b"proof", "sha256")


def mark(key: bytes, pixels: NDArray[Any]) -> bytes:
    """Return the mark of a picture: HMAC-SHA256 of its pixels under the key.

    Args:
        key: The secret key.
        pixels: Pixels (H, W, C) of dtype uint8, or deep values that a window maps to pixels. A grey picture has the
            mark of the picture with three equal channels.
    """
    kind = b"picture" if pixels.dtype == np.uint8 else b"values"
    pixels = np.repeat(pixels, 3, axis=2) if pixels.shape[2] == 1 else np.ascontiguousarray(pixels)
    digest = hmac.new(key, CONTEXT + kind + struct.pack("<3I", *pixels.shape), hashlib.sha256)
    digest.update(pixels.data)
    return digest.digest()
