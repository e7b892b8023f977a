"""Reports on archives, datasets and audits, as plain dictionaries and as text."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from dipp.errors import DippError
from dipp.format.archive import Archive
from dipp.privacy.certificate import UNIT

if TYPE_CHECKING:
    from dipp.audit import Audit

CONSISTENT = "the certificate follows from the file's public parameters; that its encoder was honest, no file can show"
NO_CERTIFICATE = "none: this coding is not differentially private"


def archive_facts(source: Archive, verify: bool = False) -> dict[str, Any]:
    """The facts of an archive, for JSON.

    Opening an archive has already computed its certificate again. `verify` adds a statement of that, and refuses an
    archive without a certificate.
    """
    facts = source.facts()
    if verify:
        source.certificate  # noqa: B018 - raises if there is none
        facts["verified"] = CONSISTENT
    return facts


def archive_text(source: Archive, verify: bool = False) -> str:
    """The facts of an archive as text; with `verify`, also the ledger from which the certificate was computed."""
    facts = archive_facts(source, verify)
    promise = source.certificate.statement() if facts["certificate"] else NO_CERTIFICATE
    steps = " → ".join(str(t) for t in (facts["schedule"][0]["start"], *(s["end"] for s in facts["schedule"])))
    return "\n".join(
        (
            *_head(facts, promise),
            f"mechanism    {facts['coding']}, α = {facts['alpha']}",
            f"schedule     {steps}",
            f"model        {facts['model']}",
            *(("", source.certificate.table(), f"verified: {CONSISTENT}") if verify else ()),
        )
    )


def dataset_facts(folder: Path, verify: bool = False) -> dict[str, Any]:
    """The facts of a released dataset, for JSON; with `verify`, every shard is checked first."""
    from dipp.data import manifest, store

    facts = manifest.verify(folder) if verify else store.read_manifest(folder)
    return {**facts, "verified": verify}


def dataset_text(folder: Path, facts: dict[str, Any]) -> str:
    """The facts of a released dataset, as text."""
    try:
        shards, skipped, labels = len(facts["shards"]), len(facts["skipped"]), facts["labels"]
        lines = [
            *release_lines(facts),
            f"shards       {shards}{', each verified' if facts['verified'] else ''}",
            f"skipped      {skipped}",
            f"labels       {'none' if labels is None else 'released as they are'}",
            f"not hidden   {facts['not_hidden']}",
            f"model        {facts['model']}",
        ]
    except (KeyError, TypeError, ValueError):
        raise DippError(f"{folder}: its manifest is damaged; get it again") from None
    return "\n".join(lines)


def release_lines(facts: dict[str, Any]) -> list[str]:
    """Lines of text with the certificate, the rate and the number of images of a release, from its facts."""
    claim = facts["certificate"]
    promise = NO_CERTIFICATE
    if claim is not None:
        promise = f"ε = {claim['epsilon']:.6g} pure, ρ = {claim['rho']:.6g} zCDP, per {UNIT}"
    return _head(facts, promise)


def _head(facts: dict[str, Any], promise: str) -> list[str]:
    """The first lines of a report; `promise` is the certificate in words."""
    rate = "none"
    if facts["payload_bpp"] is not None:
        rate = f"{facts['payload_bpp']:.4f} bits per pixel of payload, {facts['file_bpp']:.4f} of file"
    return [f"certificate  {promise}", f"rate         {rate}", f"images       {facts['images']}"]


def audit_text(found: Audit) -> str:
    """The result of an audit, as a table in text."""
    lines = [f"preset {found.preset}, per {UNIT}"]
    lines.append(f"{'audit':<42} {'claimed':>10} {'observed':>10} {'ratio':>8}")
    for number, one in enumerate((*found.exact, *found.model)):
        name = f"exact, {len(one.observed)} {one.kind} pairs" + ", the model" * (number >= len(found.exact))
        lines.append(f"{name + ', ε':<42} {one.claimed:10.4f} {max(one.observed):10.4f} {one.ratio:8.4f}")
        lines.append(f"{name + ', ρ':<42} {one.claimed_rho:10.4f} {max(one.rho):10.4f} {one.rho_ratio:8.4f}")
    box = found.black_box
    name = f"black box, {box['runs']} runs, ε at least"
    lines.append(f"{name:<42} {box['claimed']:10.4f} {box['observed']:10.4f} {box['ratio']:8.4f}")
    law, exact = found.law, (*found.exact, *found.model)
    wrong, draws = (law.wrong + sum(one.wrong for one in exact), law.draws + sum(one.draws for one in exact))
    lines.append(f"law of the indices: χ² of {law.images} × {law.runs} of them has a tail of {law.p:.2g}")
    lines.append(f"draws with known bytes: {wrong} of {draws} are not the exact ones")
    for name, control in found.controls.items():
        caught = "caught" if control["caught"] else "MISSED"
        observed = control["observed"] if isinstance(control["observed"], str) else f"{control['observed']:.4f}"
        lines.append(f"{'broken: ' + name:<50} {control['claimed']:6.4f} {observed:>25} {caught:>8}")
    lines.append(
        "passed: nothing tells more than is claimed" if found.passed else "FAILED: do not rely on certificates"
    )
    return "\n".join(lines)
