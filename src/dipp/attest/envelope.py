"""Envelopes: a payload with its Ed25519 signature, in the format Dead Simple Signing Envelope (DSSE 1.0).

    {"payloadType": TYPE, "payload": BASE64, "signatures": [{"keyid": ID, "sig": BASE64}]}

The signature is over "DSSEv1", the type and the payload, each after its length and separated by blanks. So no type can
be taken for a payload, and the JSON of a payload is parsed only after its signature was checked.
"""

from __future__ import annotations

import base64
import json
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from dipp.attest.keys import key_id
from dipp.errors import DippError

TYPE = "application/vnd.in-toto+json"


def sign(payload: bytes, key: Ed25519PrivateKey) -> bytes:
    """Return an envelope: the payload with its signature by a key, as JSON.

    Args:
        payload: The bytes to sign.
        key: Private key of the signer.
    """
    signature = {"keyid": key_id(key.public_key()), "sig": _text(key.sign(_signed(TYPE, payload)))}
    return json.dumps({"payloadType": TYPE, "payload": _text(payload), "signatures": [signature]}).encode() + b"\n"


def verify(data: bytes, key: Ed25519PublicKey) -> bytes:
    """Return the payload of an envelope, and raise if this key has not signed it.

    Args:
        data: The bytes of the envelope.
        key: Public key of the signer.

    Raises:
        DippError: The bytes are not an envelope, or its signature is wrong or by another key.
    """
    try:
        content = json.loads(data)
        kind, payload = content["payloadType"], base64.b64decode(content["payload"], validate=True)
        signatures = [
            (each.get("keyid"), base64.b64decode(each["sig"], validate=True)) for each in content["signatures"]
        ]
        message = _signed(kind, payload)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise DippError("attestation", "is not one of dipp's", "get it again") from None
    mine = key_id(key)
    for _, signature in signatures:
        try:
            key.verify(signature, message)
        except InvalidSignature:
            continue
        if kind != TYPE:
            raise DippError("attestation", f"has another type of payload ({kind!s:.60})", "get it again")
        return payload
    if any(name == mine for name, _ in signatures):
        raise DippError("attestation", "has a wrong signature: it was changed after it was signed", "do not trust it")
    raise DippError("attestation", f"is not signed by this key ({mine[:16]}…)", "give the public key of its signer")


def _signed(kind: Any, payload: bytes) -> bytes:
    """Return the bytes that are signed (DSSE's pre-authentication encoding) for a payload of a type, `kind`."""
    name = kind.encode()
    return b" ".join((b"DSSEv1", str(len(name)).encode(), name, str(len(payload)).encode(), payload))


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
