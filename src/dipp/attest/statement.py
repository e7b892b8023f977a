"""Sign and verify statements about releases, in the format of in-toto (Statement v1).

The subject is the `.dipp` file, or the manifest of a dataset, by its SHA-256; the manifest has the SHA-256 of every
shard. The predicate, `PREDICATE`, has these fields:

| | |
|---|---|
| `dipp` | version of dipp that made the statement |
| `issued`, `expires` | when it was made, and when it ends (null: never); UTC |
| `certificate` | ε, ρ, δ, the unit, the price by size, and the ledger that they follow from |
| `plan` | coding and steps |
| `model`, `seed`, `seed_given`, `beacon` | identity of the denoiser, and the public seed with its origin |
| `images` | number of images |
| `record` | for redactions only: the whole record, which has the SHA-256 of the picture |

The signer says: unchanged dipp encoded this, and the public numbers do not depend on the pictures. Everything that can
be computed again is checked (`checks.check`) before it is signed, and once more when it is verified.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from dipp import __version__, files
from dipp.attest import checks, envelope, keys
from dipp.attest.checks import Reference, ReleaseCheck
from dipp.data.folder import ATTESTATION, MANIFEST, sha256
from dipp.data.store import Store
from dipp.errors import DippError
from dipp.privacy.certificate import Certificate

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "urn:dipp:release:v1"
PLAN = ("coding", "channel", "code", "alpha", "schedule")
COPIED = ("model", "seed", "seed_given", "beacon", "images")
NUMBERS = ("epsilon", "rho", "delta", "unit", "units", "hidden", "releases")
"""Fields of a certificate that must be equal when it is computed again.

All other numbers follow from the ledger (`Certificate.from_json`), and a later version may word its sentences
differently.
"""
PATIENCE = timedelta(minutes=10)
"""Largest difference between the clocks of signer and verifier."""


@dataclass(frozen=True)
class Attestation:
    """A statement whose signature, subject and date were checked."""

    key: str
    """Id of the key that signed the statement."""
    issued: datetime
    expires: datetime | None
    predicate: dict[str, Any]
    checked: ReleaseCheck
    """The result of the check of the release itself."""


def now() -> datetime:
    """Return the present time in UTC, in whole seconds."""
    return datetime.now(UTC).replace(microsecond=0)


def place_of(release: Path) -> Path:
    """Return the default path of the attestation of a release."""
    return release / ATTESTATION if release.is_dir() else release.with_name(f"{release.name}.{ATTESTATION}")


def expiry(text: str) -> datetime:
    """Return the first moment of a day in UTC, at which a statement ends.

    Args:
        text: The day as YYYY-MM-DD.

    Raises:
        DippError: The text is not a date in the future.
    """
    try:
        ends = datetime.combine(date.fromisoformat(text), datetime.min.time(), UTC)
    except ValueError:
        raise DippError("expires", f"must be a date YYYY-MM-DD, got {text}") from None
    if ends <= now():
        raise DippError("expires", f"must be a date in the future, got {text}")
    return ends


def sign(
    release: Path,
    key: Path,
    output: Path | None = None,
    expires: datetime | None = None,
    against: Reference | None = None,
    *,
    overwrite: bool = False,
) -> Path:
    """Check a release, write a signed statement about it, and return the path of the statement.

    Args:
        release: A .dipp file, a folder that `privatize` wrote, or the record that `redact` wrote beside a picture.
        key: File of the private key.
        output: Path of the statement. By default attestation.json in a folder, or beside a file.
        expires: The moment from which the statement is invalid. By default it stays valid.
        against: The model to compare the plan with. By default the one that ships with dipp.
        overwrite: Whether to replace a file that is not a statement by the same key.

    Returns:
        Path of the statement.

    Raises:
        DippError: A check failed, or the plan could not be compared with its model.
    """
    signer, target = keys.private(key), output or place_of(release)
    _refuse_parts(target, release, key)
    if not _signed_by(target, signer.public_key()):
        files.require_new(target, overwrite=overwrite)
    checked = checks.check(release, against)
    if checked.verified is None:
        raise DippError("model", f"of {release} does not ship with dipp", "name it with --model to sign")
    statement = {
        "_type": STATEMENT,
        "subject": [{"name": checked.subject.name, "digest": {"sha256": sha256(checked.subject)}}],
        "predicateType": PREDICATE,
        "predicate": {
            "dipp": __version__,
            "issued": now().isoformat(),
            "expires": None if expires is None else expires.isoformat(),
            **_stated(checked),
        },
    }
    content = envelope.sign(json.dumps(statement, ensure_ascii=False).encode(), signer)
    with files.atomic(target) as part:
        part.write_bytes(content)
    return target


def _refuse_parts(target: Path, release: Path, key: Path) -> None:
    """Raise if a statement would replace a part of its release, or a key."""
    held = [release / MANIFEST, *Store(release).shards()] if release.is_dir() else [release]
    for path in (key, keys.public_of(key), *held):
        if target.exists() and path.exists() and target.samefile(path):
            what = "the release that is signed" if path in held else "a key"
            raise DippError("output", f"{target} is {what}", "name another file")


def _signed_by(path: Path, signer: Ed25519PublicKey) -> bool:
    """Return whether a file is an attestation that this key has signed."""
    try:
        envelope.verify(path.read_bytes(), signer)
    except (OSError, DippError):
        return False
    return True


def verify(release: Path, key: Path, attestation: Path | None = None, against: Reference | None = None) -> Attestation:
    """Check that the owner of a key has signed exactly this release, and that the statement follows from it.

    Args:
        release: A .dipp file, a folder that `privatize` wrote, or the record that `redact` wrote beside a picture.
        key: File of the signer's public key.
        attestation: File of the signed statement. By default attestation.json in a folder, or beside a file.
        against: The model to compare the plan with. By default the one that ships with dipp.

    Returns:
        The statement, and the result of the check of its release.

    Raises:
        DippError: The signature is wrong, the statement has expired, or the release is another or inconsistent.
    """
    signer = keys.public(key)
    path = attestation or place_of(release)
    try:
        data = path.read_bytes()
    except OSError as error:
        problem = f"{path} cannot be read ({error.strerror})"
        raise DippError("attestation", problem, "name it with --attestation") from None
    subject = release / MANIFEST if release.is_dir() else release
    if not subject.is_file():
        raise DippError(str(release), "does not exist")
    digests, issued, expires, predicate = _read(envelope.verify(data, signer))
    if sha256(subject) not in digests:
        raise DippError(
            str(subject), "is not the file that was signed", "get it again, or the attestation that belongs to it"
        )
    if expires is not None and now() >= expires:
        raise DippError("attestation", f"expired on {expires:%Y-%m-%d}", "ask its signer for a new one")
    if issued > now() + PATIENCE:
        raise DippError("attestation", f"was issued in the future, on {issued:%Y-%m-%d}", "check your clock")
    checked = checks.check(release, against)
    if not _follows(predicate, _stated(checked)):
        raise DippError(str(release), "does not agree with what was signed", "do not trust its signer")
    return Attestation(keys.key_id(signer), issued, expires, predicate, checked)


def _read(payload: bytes) -> tuple[list[str], datetime, datetime | None, dict[str, Any]]:
    """Return what a signed payload states: digests of its subjects, times of issue and of expiry, and its predicate."""
    try:
        statement = json.loads(payload)
        if (statement["_type"], statement["predicateType"]) != (STATEMENT, PREDICATE):
            raise DippError("attestation", "is signed, but not about a release of dipp", "get another one")
        digests = [subject["digest"]["sha256"] for subject in statement["subject"]]
        predicate = statement["predicate"]
        if not isinstance(predicate["dipp"], str) or any(
            name not in predicate for name in ("certificate", "plan", *COPIED)
        ):
            raise TypeError
        expires = None if predicate["expires"] is None else _time(predicate["expires"])
        return digests, _time(predicate["issued"]), expires, predicate
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        if isinstance(error, DippError):
            raise
        raise DippError("attestation", "is signed, but this version of dipp cannot read it", "upgrade dipp") from None


def _stated(checked: ReleaseCheck) -> dict[str, Any]:
    """Return the fields of a statement's predicate that follow from a release."""
    facts = checked.facts
    return {
        "certificate": facts["certificate"],
        "plan": {name: facts.get(name) for name in PLAN},
        **{name: facts.get(name) for name in COPIED},
        **({"record": facts["record"]} if "record" in facts else {}),
    }


def _follows(predicate: dict[str, Any], facts: dict[str, Any]) -> bool:
    """Return whether all signed numbers follow from a release, and those of its certificate from the ledger.

    Args:
        predicate: The signed fields.
        facts: The fields that follow from the release (`_stated`).
    """
    if "record" in facts:  # a redaction: ε = 0 has no ledger
        return bool({name: predicate.get(name) for name in facts} == json.loads(json.dumps(facts)))
    try:
        Certificate.from_json(json.dumps(predicate["certificate"]))
    except (DippError, OverflowError):
        return False
    return bool(_comparable({name: predicate[name] for name in facts}) == _comparable(facts))


def _comparable(facts: dict[str, Any]) -> Any:
    """Return the comparable facts about a release: without sentences, and with the types that JSON gives."""
    numbers = {name: facts["certificate"].get(name) for name in NUMBERS}
    return json.loads(json.dumps({**facts, "certificate": numbers}))


def _time(text: str) -> datetime:
    """Return a moment in UTC from its text in ISO format."""
    if not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", text):
        raise TypeError
    return datetime.fromisoformat(text)
