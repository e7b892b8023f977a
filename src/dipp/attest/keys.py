"""Make and read Ed25519 keys in PEM files: NAME has the private key, NAME.pub the public one."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from dipp.errors import DippError

OTHERS = stat.S_IRWXG | stat.S_IRWXO


def make(path: Path) -> tuple[Path, str]:
    """Make a pair of keys, and return the path of the public key and its id.

    Args:
        path: File of the private key, which only its owner can read. The public key goes to the same name with .pub.

    Raises:
        DippError: One of the files exists already, or cannot be written.
    """
    public = public_of(path)
    key = Ed25519PrivateKey.generate()
    private_pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public_pem = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    if public.exists():
        raise DippError("key", f"{public} exists already", "choose another name")
    _write(path, private_pem, 0o600)
    try:
        _write(public, public_pem, 0o644)
    except DippError:
        with contextlib.suppress(OSError):
            path.unlink()
        raise
    return public, key_id(key.public_key())


def public_of(path: Path) -> Path:
    """Return the path of the public key that belongs to the private key at `path`."""
    return path.with_name(path.name + ".pub")


def _write(path: Path, content: bytes, mode: int) -> None:
    """Write a new file, and raise if it exists."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    except FileExistsError:
        raise DippError("key", f"{path} exists already", "choose another name") from None
    except OSError as error:
        raise DippError("key", f"{path} cannot be written ({error.strerror})") from None
    with os.fdopen(handle, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def private(path: Path) -> Ed25519PrivateKey:
    """Read a private key.

    Args:
        path: The file that `make` wrote without an ending.

    Raises:
        DippError: The file is not a private key of `make`, or other users can read it.
    """
    content = _read(path)
    if content.startswith(b"-----BEGIN PUBLIC KEY-----"):
        raise DippError("key", f"{path} is the public key", "give the private one, whose name has no .pub")
    if path.stat().st_mode & OTHERS:
        raise DippError("key", f"{path} can be read by other users", f"run chmod 600 {path}")
    with contextlib.suppress(ValueError, TypeError, UnsupportedAlgorithm):
        key = serialization.load_pem_private_key(content, None)
        if isinstance(key, Ed25519PrivateKey):
            return key
    raise DippError("key", f"{path} is not a private key that dipp keygen made", "give another file")


def public(path: Path) -> Ed25519PublicKey:
    """Read a public key.

    Args:
        path: The file that `make` wrote with the ending .pub.

    Raises:
        DippError: The file is not a public key of `make`.
    """
    with contextlib.suppress(ValueError, UnsupportedAlgorithm):
        key = serialization.load_pem_public_key(_read(path))
        if isinstance(key, Ed25519PublicKey):
            return key
    raise DippError("key", f"{path} is not a public key that dipp keygen made", "give the file whose name ends in .pub")


def key_id(key: Ed25519PublicKey) -> str:
    """Return the id of a public key, which people compare: the SHA-256 of its 32 bytes in hex digits."""
    return hashlib.sha256(key.public_bytes_raw()).hexdigest()


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise DippError("key", f"{path} cannot be read ({error.strerror})") from None
