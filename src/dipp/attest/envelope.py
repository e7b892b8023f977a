"""Envelopes: a payload and its Ed25519 signature, as the Dead Simple Signing Envelope (DSSE 1.0) has them.

    {"payloadType": TYPE, "payload": BASE64, "signatures": [{"keyid": ID, "sig": BASE64}]}

What is signed is "DSSEv1", the type and the payload, each with its length before it and blanks between: so neither can
be taken for the other, and JSON is parsed only after its bytes were found to be the signer's.
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


def seal(payload: bytes, key: Ed25519PrivateKey) -> bytes:
    """The payload with its signature, as JSON."""
    signature = {"keyid": key_id(key.public_key()), "sig": _text(key.sign(_signed(TYPE, payload)))}
    return json.dumps({"payloadType": TYPE, "payload": _text(payload), "signatures": [signature]}).encode() + b"\n"


def unseal(data: bytes, key: Ed25519PublicKey) -> bytes:
    """The payload of an envelope that this key has signed; any other is refused."""
    try:
        content = json.loads(data)
        kind, payload = content["payloadType"], base64.b64decode(content["payload"], validate=True)
        signatures = [(one.get("keyid"), base64.b64decode(one["sig"], validate=True)) for one in content["signatures"]]
        message = _signed(kind, payload)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise DippError("attestation", "this is none of dipp's", "get it again") from None
    mine = key_id(key)
    for _, signature in signatures:
        try:
            key.verify(signature, message)
        except InvalidSignature:
            continue
        if kind != TYPE:
            raise DippError("attestation", f"it speaks of something else ({kind!s:.60})")
        return payload
    if any(name == mine for name, _ in signatures):
        raise DippError("attestation", "its signature is wrong; it was changed after it was signed")
    raise DippError("attestation", f"it is not signed by this key ({mine[:16]}…)")


def _signed(kind: Any, payload: bytes) -> bytes:
    """The bytes that are signed (DSSE's pre-authentication encoding)."""
    name = kind.encode()
    return b" ".join((b"DSSEv1", str(len(name)).encode(), name, str(len(payload)).encode(), payload))


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
