"""`dipp keygen`, `dipp sign` and `dipp verify`: sign who released what, and check that."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from dipp.cli.options import EXIT_NOT_COMPARED, AsJson, ComparedOptions, Overwrite

REDACTED = "ε = 0 for what the regions hide; the rest was released as it was"
ReleaseDescription = Annotated[
    Path,
    typer.Argument(help="A .dipp file, a folder that `dipp privatize` wrote, or the record of a redacted picture."),
]


def keygen(
    key: Annotated[
        Path, typer.Argument(help="File of the new private key; the public key gets this name with .pub added.")
    ],
) -> None:
    """Make a pair of Ed25519 keys: a private key that signs and stays with you, and a public key for everybody."""
    from dipp.attest import keys

    public, name = keys.make(key)
    typer.echo(f"private key  {key} (keep it to yourself)\npublic key   {public}\nid           {name}")


def sign(
    release: ReleaseDescription,
    compared: ComparedOptions,
    key: Annotated[Path, typer.Option(help="Your private key.")],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="File of the attestation.", show_default="attestation.json in or beside the release"
        ),
    ] = None,
    expires: Annotated[str | None, typer.Option(help="Date from which the attestation is void, YYYY-MM-DD.")] = None,
    overwrite: Overwrite = False,
) -> None:
    """Check a release as `info --verify` does, and sign a statement of its certificate, plan, model and version.

    A release is refused if its plan cannot be compared with its model: name the model with --model. An attestation by
    the same key is replaced without --overwrite.
    """
    from dipp.attest import statement

    ends = None if expires is None else statement.expiry(expires)
    attestation = statement.sign(release, key, output, ends, compared.against(), overwrite=overwrite)
    typer.echo(f"attested in  {attestation}")


def verify(
    release: ReleaseDescription,
    compared: ComparedOptions,
    key: Annotated[Path, typer.Option(help="Public key of a signer whom you trust.")],
    attestation: Annotated[
        Path | None,
        typer.Option(help="File of the attestation.", show_default="attestation.json in or beside the release"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check that the owner of a key has signed exactly this release, and that the statement follows from it.

    The release itself is checked as `info --verify` checks it. Exit code 4: nothing wrong was found, but there was no
    model to compare the plan with; give --model.
    """
    from dipp.attest import statement
    from dipp.report import promise

    verified = statement.verify(release, key, attestation, compared.against())
    exit_code = EXIT_NOT_COMPARED if verified.checked.verified is None else 0
    if as_json:
        typer.echo(json.dumps({"key": verified.key, **verified.checked.verdict, "statement": verified.predicate}))
        raise typer.Exit(exit_code)
    ends = "" if verified.expires is None else f", until {verified.expires:%Y-%m-%d}"
    claim = verified.predicate["certificate"]
    typer.echo(
        f"signed       by the key {verified.key}, on {verified.issued:%Y-%m-%d}{ends}\n"
        f"certificate  {REDACTED if 'record' in verified.predicate else promise(claim)}\n"
        f"with         dipp {verified.predicate['dipp']}, model {verified.predicate['model']}\n"
        f"consistent   {verified.checked.reason}: that is the signer's word"
    )
    raise typer.Exit(exit_code)
