"""Ed25519 keys in PEM files: NAME is private and for its owner alone, NAME.pub is for everybody."""

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
    """Make a pair of keys; the place of the public one, and its id. A file that is there is never replaced."""
    public = public_of(path)
    key = Ed25519PrivateKey.generate()
    private_pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public_pem = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    if public.exists():
        raise DippError("key", f"{public} exists", "choose another name")
    _write(path, private_pem, 0o600)
    try:
        _write(public, public_pem, 0o644)
    except DippError:
        with contextlib.suppress(OSError):
            path.unlink()
        raise
    return public, key_id(key.public_key())


def public_of(path: Path) -> Path:
    """Where the public key lies that was made with a private one."""
    return path.with_name(path.name + ".pub")


def _write(path: Path, content: bytes, mode: int) -> None:
    """Write a file that is not there yet."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    except FileExistsError:
        raise DippError("key", f"{path} exists", "choose another name") from None
    except OSError as error:
        raise DippError("key", f"{path} cannot be written ({error.strerror})") from None
    with os.fdopen(handle, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def private(path: Path) -> Ed25519PrivateKey:
    """Read a private key, which nobody else may be able to read."""
    content = _read(path)
    if content.startswith(b"-----BEGIN PUBLIC KEY-----"):
        raise DippError("key", f"{path} is the public key", "give the private one, whose name has no .pub")
    if path.stat().st_mode & OTHERS:
        raise DippError("key", f"{path} can be read by others", f"chmod 600 {path}")
    with contextlib.suppress(ValueError, TypeError, UnsupportedAlgorithm):
        found = serialization.load_pem_private_key(content, None)
        if isinstance(found, Ed25519PrivateKey):
            return found
    raise DippError("key", f"{path} is no private key that dipp keygen made")


def public(path: Path) -> Ed25519PublicKey:
    """Read a public key."""
    with contextlib.suppress(ValueError, UnsupportedAlgorithm):
        found = serialization.load_pem_public_key(_read(path))
        if isinstance(found, Ed25519PublicKey):
            return found
    raise DippError("key", f"{path} is no public key that dipp keygen made", "its name ends in .pub")


def key_id(key: Ed25519PublicKey) -> str:
    """Hex SHA-256 of the 32 bytes of a public key: what people compare."""
    return hashlib.sha256(key.public_bytes_raw()).hexdigest()


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise DippError("key", f"{path} cannot be read ({error.strerror})") from None
