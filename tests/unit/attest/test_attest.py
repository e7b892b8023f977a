"""Test that a verified attestation is of exactly this release, signer and time, and that others are refused."""

from __future__ import annotations

import base64
import copy
import dataclasses
import json
import math
import stat
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from helpers.archives import build, small_plan
from helpers.codecs import pictures
from helpers.commands import Command
from helpers.datasets import save_table
from helpers.refusals import printed, refused
from hypothesis import given
from hypothesis import strategies as st

import dipp
from dipp.attest import checks, envelope, keys, statement
from dipp.attest.checks import Reference, ReleaseCheck
from dipp.codec.codec import Codec
from dipp.data.choices import Choices
from dipp.data.engines import LocalEngine
from dipp.data.privatize import privatize
from dipp.errors import DippError
from dipp.models import embedded
from dipp.planning.presets import DIFFC
from experiments.comparisons.unclipped import SHARP

pytestmark = pytest.mark.usefixtures("one_thread", "quick")


@pytest.fixture
def key(tmp_path: Path) -> Path:
    keys.make(tmp_path / "me")
    return tmp_path / "me"


@pytest.fixture(scope="module")
def codec(quick: None) -> Codec:
    """Return a codec on the model that ships, whose table plans are compared with before they are signed."""
    del quick
    return Codec.from_pretrained(epsilon=2)


@pytest.fixture(scope="module")
def encoded(codec: Codec) -> bytes:
    return codec.encode(pictures(2, 4, 5)).to_bytes()


@pytest.fixture
def made(encoded: bytes, tmp_path: Path) -> Path:
    (tmp_path / "a.dipp").write_bytes(encoded)
    return tmp_path / "a.dipp"


@pytest.fixture(scope="module")
def dataset(codec: Codec, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dataset")
    source = save_table(folder / "s.parquet", 6)
    privatize(str(source), folder / "out", codec, str(embedded.FOLDER), LocalEngine(1), Choices(shard_size=3))
    return folder / "out"


def content(place: Path) -> dict[str, Any]:
    """Return the statement in an attestation without checking it."""
    facts: dict[str, Any] = json.loads(base64.b64decode(json.loads(place.read_bytes())["payload"]))
    return facts


# Keys.


def test_only_the_owner_can_read_a_private_key(tmp_path: Path, run: Command) -> None:
    code, out, err = run("keygen", tmp_path / "me")
    assert code == 0, err
    public = keys.public(tmp_path / "me.pub")
    assert keys.key_id(public) in out
    assert stat.S_IMODE((tmp_path / "me").stat().st_mode) == 0o600
    assert keys.private(tmp_path / "me").public_key() == public
    before = (tmp_path / "me").read_bytes()
    code, _, err = run("keygen", tmp_path / "me")
    assert code == 1
    assert "exists already; choose another name" in err
    assert (tmp_path / "me").read_bytes() == before
    (tmp_path / "me").unlink()
    assert run("keygen", tmp_path / "me")[0] == 1
    assert not (tmp_path / "me").exists(), "a half of a pair is no pair"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o666])
def test_a_private_key_that_others_can_read_is_not_used(mode: int, key: Path, made: Path, run: Command) -> None:
    key.chmod(mode)
    code, _, err = run("sign", made, "--key", key)
    assert code == 1
    assert "chmod 600" in err


def test_a_public_key_cannot_sign(key: Path, made: Path) -> None:
    """The remedy does not suggest to change the permissions of a public key."""
    with refused("key", "me.pub"):
        statement.sign(made, key.with_name("me.pub"))


@pytest.mark.parametrize("kind", ["missing", "garbage", "rsa", "swapped"])
def test_bad_keys_are_refused_in_one_line(kind: str, key: Path, made: Path, run: Command) -> None:
    statement.sign(made, key)
    private, public = key, key.with_name("me.pub")
    match kind:
        case "missing":
            private, public = key.with_name("none"), key.with_name("none.pub")
        case "garbage":
            private.write_bytes(b"\xff garbage")
            public.write_bytes(b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n")
        case "rsa":
            _rsa(private, public)
        case "swapped":
            public.chmod(0o600)
            private, public = public, private
    for arguments in (("sign", made, "--key", private), ("verify", made, "--key", public)):
        code, out, err = run(*arguments)
        assert code == 1
        assert not out
        assert err.startswith(printed("key"))
        assert len(err.strip().splitlines()) == 1


def _rsa(private: Path, public: Path) -> None:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    made = rsa.generate_private_key(65537, 2048)
    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    private.write_bytes(made.private_bytes(pem, pkcs8, serialization.NoEncryption()))
    subject = serialization.PublicFormat.SubjectPublicKeyInfo
    public.write_bytes(made.public_key().public_bytes(pem, subject))


# What is signed.


def test_envelopes_follow_dsse(key: Path) -> None:
    """The signature is verified by another library, over the bytes of the specification."""
    sealed = json.loads(envelope.sign(b'{"a": 1}', keys.private(key)))
    assert sealed["payloadType"] == "application/vnd.in-toto+json"
    assert base64.b64decode(sealed["payload"]) == b'{"a": 1}'
    signed = b'DSSEv1 28 application/vnd.in-toto+json 8 {"a": 1}'
    (signature,) = sealed["signatures"]
    keys.public(key.with_name("me.pub")).verify(base64.b64decode(signature["sig"]), signed)
    assert signature["keyid"] == keys.key_id(keys.public(key.with_name("me.pub")))


def test_a_statement_has_all_public_facts_of_its_release(made: Path, key: Path) -> None:
    statement_content = content(statement.sign(made, key, expires=datetime(2100, 1, 1, tzinfo=UTC)))
    facts = dipp.open(made).facts()
    assert statement_content["_type"] == "https://in-toto.io/Statement/v1"
    assert statement_content["subject"][0]["name"] == "a.dipp"
    predicate = statement_content["predicate"]
    assert predicate["dipp"] == dipp.__version__
    assert predicate["certificate"] == json.loads(json.dumps(facts["certificate"]))
    assert predicate["certificate"]["releases"][0]["selections"], "the ledger"
    assert predicate["plan"]["schedule"] == facts["schedule"]
    assert predicate["model"] == facts["model"]
    assert predicate["seed"] == facts["seed"]
    assert predicate["expires"] == "2100-01-01T00:00:00+00:00"


def test_a_signed_release_is_verified(made: Path, key: Path, run: Command) -> None:
    code, out, err = run("sign", made, "--key", key, "--expires", "2100-01-01")
    assert code == 0, err
    assert "a.dipp.attestation.json" in out
    public = key.with_name("me.pub")
    code, out, err = run("verify", made, "--key", public)
    assert code == 0, err
    assert keys.key_id(keys.public(public)) in out
    assert "until 2100-01-01" in out
    assert "per one pixel" in out
    code, out, _ = run("verify", made, "--key", public, "--json")
    assert json.loads(out)["statement"]["certificate"]["epsilon"] == dipp.open(made).certificate.epsilon


def test_signing_replaces_only_an_attestation_by_the_same_key(made: Path, key: Path, tmp_path: Path) -> None:
    place = statement.sign(made, key)
    assert statement.sign(made, key, expires=datetime(2100, 1, 1, tzinfo=UTC)) == place
    keys.make(tmp_path / "other")
    (tmp_path / "mine.txt").write_text("mine")
    for signer, target in ((tmp_path / "other", place), (key, tmp_path / "mine.txt")):
        before = target.read_bytes()
        with refused("output", "already"):
            statement.sign(made, signer, target)
        assert target.read_bytes() == before
        assert statement.sign(made, signer, target, overwrite=True) == target


@pytest.mark.parametrize("victim", ["a.dipp", "me", "me.pub", "hard link"])
def test_signing_replaces_neither_the_release_nor_a_key(victim: str, made: Path, key: Path, run: Command) -> None:
    target = made.with_name(victim)
    if victim == "hard link":
        target.hardlink_to(made)
    before = target.read_bytes()
    code, _, err = run("sign", made, "--key", key, "-o", target, "--overwrite")
    assert code == 1
    assert err.startswith(printed("output", f"{target} is "))
    assert target.read_bytes() == before


def test_signing_replaces_no_part_of_a_dataset(dataset: Path, key: Path) -> None:
    for target in (dataset / "manifest.json", dataset / "shard-000001.parquet"):
        with refused("output", "signed"):
            statement.sign(dataset, key, target, overwrite=True)


def test_datasets_are_signed_by_their_manifest(dataset: Path, key: Path, run: Command) -> None:
    """Every shard is checked by the checksums in the manifest."""
    public = key.with_name("me.pub")
    assert run("sign", dataset, "--key", key)[0] == 0
    place = dataset / "attestation.json"
    try:
        assert content(place)["subject"][0]["name"] == "manifest.json"
        code, out, err = run("verify", dataset, "--key", public)
        assert code == 0, err
        assert "certificate  ε" in out
        assert run("info", dataset, "--verify")[0] == 0
        shard = min(dataset.glob("shard-*"))
        before = shard.read_bytes()
        shard.write_bytes(before[:-1])
        try:
            code, _, err = run("verify", dataset, "--key", public)
            assert code == 1
            assert "checksum" in err
        finally:
            shard.write_bytes(before)
    finally:
        place.unlink()


def test_a_release_without_certificate_is_not_signed(key: Path, tmp_path: Path, run: Command) -> None:
    build(small_plan(DIFFC), [(4, 5, 3)]).save(tmp_path / "d.dipp")
    code, _, err = run("sign", tmp_path / "d.dipp", "--key", key)
    assert code == 1
    assert "no certificate" in err
    assert not (tmp_path / "d.dipp.attestation.json").exists()


# What is refused.


def change(place: Path, edit: Callable[[dict[str, Any]], None]) -> None:
    """Change the statement, and keep the signature."""
    sealed = json.loads(place.read_bytes())
    statement_content = json.loads(base64.b64decode(sealed["payload"]))
    edit(statement_content)
    sealed["payload"] = base64.b64encode(json.dumps(statement_content).encode()).decode()
    place.write_text(json.dumps(sealed))


def refusal_of(made: Path, key: Path, run: Command) -> str:
    code, out, err = run("verify", made, "--key", key.with_name(key.name + ".pub"))
    assert code == 1
    assert not out
    assert len(err.strip().splitlines()) == 1
    return err


def test_the_signature_of_another_key_is_refused(made: Path, key: Path, tmp_path: Path, run: Command) -> None:
    keys.make(tmp_path / "other")
    statement.sign(made, key)
    assert "is not signed by this key" in refusal_of(made, tmp_path / "other", run)
    # Whose id stands beside it does not matter.
    sealed = json.loads(statement.place_of(made).read_bytes())
    sealed["signatures"][0]["keyid"] = keys.key_id(keys.public(tmp_path / "other.pub"))
    statement.place_of(made).write_text(json.dumps(sealed))
    assert "has a wrong signature" in refusal_of(made, tmp_path / "other", run)
    del sealed["signatures"][0]["keyid"]
    statement.place_of(made).write_text(json.dumps(sealed))
    statement.verify(made, key.with_name("me.pub"))


@pytest.mark.parametrize("what", ["epsilon", "expires", "subject", "model"])
def test_a_changed_statement_is_refused(what: str, made: Path, key: Path, run: Command) -> None:
    place = statement.sign(made, key, expires=datetime(2100, 1, 1, tzinfo=UTC))

    def edit(found: dict[str, Any]) -> None:
        match what:
            case "epsilon":
                found["predicate"]["certificate"]["epsilon"] /= 2
            case "expires":
                found["predicate"]["expires"] = None
            case "subject":
                found["subject"][0]["digest"]["sha256"] = "0" * 64
            case "model":
                found["predicate"]["model"] = "0" * 64

    change(place, edit)
    assert "has a wrong signature: it was changed" in refusal_of(made, key, run)


def test_the_attestation_of_another_file_is_refused(made: Path, key: Path, run: Command) -> None:
    """The other file opens, and has the same certificate."""
    statement.sign(made, key)
    build(small_plan(SHARP), [(4, 5, 3)] * 2, salt=1).save(made)
    assert "is not the file that was signed" in refusal_of(made, key, run)


def test_an_expired_statement_is_refused(made: Path, key: Path, run: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    statement.sign(made, key, expires=datetime(2100, 1, 1, tzinfo=UTC))
    moments = {"2099-12-31T23:59:59+00:00": None, "2100-01-01T00:00:00+00:00": "expired on 2100-01-01"}
    for moment, said in moments.items():
        monkeypatch.setattr(statement, "now", lambda moment=moment: datetime.fromisoformat(moment))
        if said is None:
            statement.verify(made, key.with_name("me.pub"))
        else:
            assert said in refusal_of(made, key, run)
    monkeypatch.setattr(statement, "now", lambda: datetime(2001, 1, 1, tzinfo=UTC))
    assert "issued in the future" in refusal_of(made, key, run)


def test_a_signed_lie_is_refused(made: Path, key: Path, run: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """The signature is right, but the ε does not follow from the file, or the statement is about something else."""
    check = checks.check

    def lying(release: Path, against: Reference | None) -> ReleaseCheck:
        found = check(release, against)
        facts = {**found.facts, "certificate": {**found.facts["certificate"], "epsilon": 0.1}}
        return dataclasses.replace(found, facts=facts)

    with monkeypatch.context() as patch:
        patch.setattr(checks, "check", lying)
        statement.sign(made, key)
    assert "does not agree with what was signed" in refusal_of(made, key, run)
    others: list[Any] = [
        {"_type": "else"},
        {},
        [],
        {"_type": statement.STATEMENT, "predicateType": statement.PREDICATE},
    ]
    for other in others:
        place = statement.place_of(made)
        place.write_bytes(envelope.sign(json.dumps(other).encode(), keys.private(key)))
        assert "is signed, but" in refusal_of(made, key, run)


ODD: list[Any] = [None, 0, 1, "", "x", [], [[]], {}, {"a": 1}, math.inf, 10**400, "2100-13-45T00:00:00+00:00"]


def places(node: Any, *at: str | int) -> Iterator[tuple[str | int, ...]]:
    """Yield the path to every part of a statement, and in lists to the first item."""
    yield at
    parts: Any = node.items() if isinstance(node, dict) else enumerate(node[:1]) if isinstance(node, list) else ()
    for name, part in parts:
        yield from places(part, *at, name)


def with_part(node: Any, at: tuple[str | int, ...], value: Any) -> Any:
    """Return the statement with another value at a path, or without that part if the value is `...`."""
    if not at:
        return value
    changed = copy.copy(node)
    if value is ... and len(at) == 1:
        del changed[at[0]]
    else:
        changed[at[0]] = with_part(node[at[0]], at[1:], value)
    return changed


@pytest.mark.slow
def test_any_edited_statement_is_refused_or_has_the_same_numbers(made: Path, key: Path) -> None:
    """A key may have signed anything. An edited statement passes only if its sentences alone differ."""
    place, words = statement.sign(made, key), {"name", "dipp", "assumptions", "not_covered"}
    honest = content(place)
    verified, passed = statement.verify(made, key.with_name("me.pub")), 0
    cases = [b"no JSON", b"\xff", b"[" * 10_000]
    for at in places(honest):
        odd = [value for value in (*ODD, ...) if at or value is not ...]
        cases += [json.dumps(with_part(honest, at, value)).encode() for value in odd]
    for case in cases:
        place.write_bytes(envelope.sign(case, keys.private(key)))
        said = ""
        try:
            found = statement.verify(made, key.with_name("me.pub")).predicate
        except DippError as error:
            said = str(error)
        else:
            passed += 1
            for one in (found, verified.predicate):
                one["dipp"] = ""
                one["certificate"] = {n: v for n, v in one["certificate"].items() if n not in words}
            assert found == verified.predicate
        assert "\n" not in said
    assert 0 < passed < len(cases) / 5


def test_missing_files_are_refused_in_one_line(made: Path, key: Path, tmp_path: Path, run: Command) -> None:
    assert "cannot be read" in refusal_of(made, key, run)
    statement.sign(made, key)
    made.unlink()
    assert "does not exist" in refusal_of(made, key, run)
    for date in ("tomorrow", "2001-01-01", "2100-13-01"):
        code, _, err = run("sign", made, "--key", key, "--expires", date)
        assert code == 1
        assert err.startswith(printed("expires", "must be a date"))
    del tmp_path


WORDS = st.sampled_from(["payload", "payloadType", "signatures", "sig"])
SHAPES = st.recursive(
    st.none() | st.text(max_size=9), lambda inner: st.lists(inner) | st.dictionaries(WORDS, inner), max_leaves=9
)
SOMEBODY = Ed25519PrivateKey.from_private_bytes(bytes(32)).public_key()


@pytest.mark.slow
@given(st.binary(max_size=60) | SHAPES.map(lambda one: json.dumps(one).encode()))
def test_bytes_that_are_not_an_envelope_are_refused(data: bytes) -> None:
    with refused("attestation", "dipp's"):
        envelope.verify(data, SOMEBODY)
