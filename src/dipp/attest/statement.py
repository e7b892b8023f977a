"""Statements: what a signer says of a release, in in-toto's format (Statement v1).

The subject is the `.dipp` file, or the manifest of a dataset, by its SHA-256; the manifest has the SHA-256 of every
shard. The predicate, `PREDICATE`, says:

| | |
|---|---|
| `dipp` | version of dipp that made the statement |
| `issued`, `expires` | when it was made, and when it ends (null: never); UTC |
| `certificate` | ε, ρ, δ, the unit, the price by size, and the ledger that they follow from |
| `plan` | coding and steps |
| `model`, `seed`, `seed_given`, `beacon` | identity of the denoiser, and the public seed with its origin |
| `images` | how many |
| `record` | of a redaction alone: its whole record, which has the SHA-256 of the picture |

To sign is to say: this was encoded by dipp as it stands, from pictures that the public numbers do not depend on. So
everything that can be computed is computed again (`checks.check`) before it is signed, and again when it is verified.
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
from dipp.attest.checks import Checked, Reference
from dipp.data.store import ATTESTATION, MANIFEST, Store, sha256
from dipp.errors import DippError
from dipp.privacy.certificate import Certificate

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "urn:dipp:release:v1"
PLAN = ("coding", "channel", "code", "alpha", "schedule")
COPIED = ("model", "seed", "seed_given", "beacon", "images")
NUMBERS = ("epsilon", "rho", "delta", "unit", "units", "hidden", "releases")
"""The parts of a certificate that must be the same when it is computed again. All other numbers follow from the ledger
(`Certificate.from_json`); words may be put better by a later version."""
PATIENCE = timedelta(minutes=10)
"""How far two clocks may differ."""


@dataclass(frozen=True)
class Attestation:
    """A statement whose signature, subject and date were checked."""

    key: str
    """Id of the key that signed it."""
    issued: datetime
    expires: datetime | None
    predicate: dict[str, Any]
    checked: Checked
    """What was found about the release itself."""


def now() -> datetime:
    """The time."""
    return datetime.now(UTC).replace(microsecond=0)


def place_of(release: Path) -> Path:
    """Name of the attestation of a release, by default."""
    return release / ATTESTATION if release.is_dir() else release.with_name(f"{release.name}.{ATTESTATION}")


def expiry(text: str) -> datetime:
    """The date on which a statement ends, from YYYY-MM-DD: the first moment of that day, in UTC."""
    try:
        ends = datetime.combine(date.fromisoformat(text), datetime.min.time(), UTC)
    except ValueError:
        raise DippError("expires", f"a date YYYY-MM-DD is needed, got {text}") from None
    if ends <= now():
        raise DippError("expires", f"a date in the future is needed, got {text}")
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
    """Check a release, write a signed statement about it, and return where.

    Args:
        release: A .dipp file, a folder that `privatize` wrote, or the record that `redact` wrote beside a picture.
        key: The private key.
        output: Where the statement goes; by default attestation.json in a folder, or beside a file.
        expires: The moment from which the statement is void.
        against: The model to compare the plan with, if it is not the one that ships with dipp.
        overwrite: Replace a file that is not a statement by the same key.

    Raises:
        DippError: A check failed, or the plan could not be compared with its model.
    """
    signer, target = keys.private(key), output or place_of(release)
    _refuse_parts(target, release, key)
    if not _signed_by(target, signer.public_key()):
        files.require_new(target, overwrite=overwrite)
    checked = checks.check(release, against)
    if checked.verified is None:
        raise DippError(
            "model", f"{release} names a model that does not ship with dipp", "name it with --model to sign"
        )
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
    content = envelope.seal(json.dumps(statement, ensure_ascii=False).encode(), signer)
    with files.atomic(target) as part:
        part.write_bytes(content)
    return target


def _refuse_parts(target: Path, release: Path, key: Path) -> None:
    """Refuse to write a statement in the place of what it is about, or of a key."""
    held = [release / MANIFEST, *Store(release).shards()] if release.is_dir() else [release]
    for path in (key, keys.public_of(key), *held):
        if target.exists() and path.exists() and target.samefile(path):
            what = "what is signed" if path in held else "a key"
            raise DippError("output", f"{target} is {what}", "name another file")


def _signed_by(place: Path, signer: Ed25519PublicKey) -> bool:
    """Whether a file is an attestation by this key."""
    try:
        envelope.unseal(place.read_bytes(), signer)
    except (OSError, DippError):
        return False
    return True


def verify(release: Path, key: Path, attestation: Path | None = None, against: Reference | None = None) -> Attestation:
    """Check that the owner of a key has signed exactly this release, and that the statement follows from it.

    Args:
        release: A .dipp file, a folder that `privatize` wrote, or the record that `redact` wrote beside a picture.
        key: The public key of the signer.
        attestation: The signed statement; by default attestation.json in a folder, or beside a file.
        against: The model to compare the plan with, if it is not the one that ships with dipp.

    Raises:
        DippError: The signature, the date, the statement or the release is not as it should be.
    """
    signer = keys.public(key)
    place = attestation or place_of(release)
    try:
        data = place.read_bytes()
    except OSError as error:
        raise DippError("attestation", f"{place} cannot be read ({error.strerror})") from None
    subject = release / MANIFEST if release.is_dir() else release
    if not subject.is_file():
        raise DippError(str(release), "there is no such release")
    digests, issued, expires, predicate = _read(envelope.unseal(data, signer))
    if sha256(subject) not in digests:
        raise DippError(str(subject), "this is not what was signed; it was changed, or belongs to another attestation")
    if expires is not None and now() >= expires:
        raise DippError("attestation", f"it has expired on {expires:%Y-%m-%d}", "ask its signer for a new one")
    if issued > now() + PATIENCE:
        raise DippError("attestation", f"it was issued in the future, on {issued:%Y-%m-%d}", "look at your clock")
    checked = checks.check(release, against)
    if not _follows(predicate, _stated(checked)):
        raise DippError(str(release), "what was signed does not follow from it", "do not trust its signer")
    return Attestation(keys.key_id(signer), issued, expires, predicate, checked)


def _read(payload: bytes) -> tuple[list[str], datetime, datetime | None, dict[str, Any]]:
    """Return what a signed payload says: digests of its subjects, when it was issued, when it expires, the rest."""
    try:
        statement = json.loads(payload)
        if (statement["_type"], statement["predicateType"]) != (STATEMENT, PREDICATE):
            raise DippError("attestation", "it is signed, but speaks of something else than a release of dipp")
        digests = [one["digest"]["sha256"] for one in statement["subject"]]
        said = statement["predicate"]
        if not isinstance(said["dipp"], str) or any(name not in said for name in ("certificate", "plan", *COPIED)):
            raise TypeError
        expires = None if said["expires"] is None else _time(said["expires"])
        return digests, _time(said["issued"]), expires, said
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        if isinstance(error, DippError):
            raise
        raise DippError(
            "attestation", "it is signed, but not one that this version of dipp can read", "upgrade"
        ) from None


def _stated(checked: Checked) -> dict[str, Any]:
    """Return what a statement says of a release."""
    facts = checked.facts
    return {
        "certificate": facts["certificate"],
        "plan": {name: facts.get(name) for name in PLAN},
        **{name: facts.get(name) for name in COPIED},
        **({"record": facts["record"]} if "record" in facts else {}),
    }


def _follows(said: dict[str, Any], facts: dict[str, Any]) -> bool:
    """Whether all numbers that were signed follow from the release, and those of the certificate from its ledger."""
    if "record" in facts:  # a redaction: ε = 0 has no ledger
        return bool({name: said.get(name) for name in facts} == json.loads(json.dumps(facts)))
    try:
        Certificate.from_json(json.dumps(said["certificate"]))
    except (DippError, OverflowError):
        return False
    return bool(_comparable({name: said[name] for name in facts}) == _comparable(facts))


def _comparable(facts: dict[str, Any]) -> Any:
    """The facts without words, as JSON gives them back."""
    numbers = {name: facts["certificate"].get(name) for name in NUMBERS}
    return json.loads(json.dumps({**facts, "certificate": numbers}))


def _time(text: str) -> datetime:
    """A moment, with its zone."""
    if not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", text):
        raise TypeError
    return datetime.fromisoformat(text)
