"""Report on archives, datasets and audits, as dictionaries and as text."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dipp.core import units
from dipp.core.beacon import NOTHING, Beacon
from dipp.core.latents import Latents
from dipp.core.unit import Size
from dipp.errors import DippError, NoCertificateError
from dipp.format.archive import Archive
from dipp.privacy import advice, statements
from dipp.privacy.certificate import Certificate
from dipp.privacy.printing import lower, upper

if TYPE_CHECKING:
    from dipp.attest.checks import ReleaseCheck
    from dipp.audit import Audit
    from dipp.audit.exact import ExactAudit
    from dipp.audit.law import Law
    from dipp.audit.mechanism import MechanismAudit
    from dipp.audit.suite import CodingAudit

SIZES = 4
"""Largest number of different image sizes that are listed."""
UNCHECKED = "computed from the shards; --verify unpacks all that was coded, and compares the plan with its model"
NO_CERTIFICATE = "none: this coding is not differentially private"


def archive_text(source: Archive, checked: ReleaseCheck | None = None) -> str:
    """Return the facts of an archive as text.

    Args:
        source: The archive.
        checked: The result of its check, which adds the ledger and the checks. By default it was not checked.
    """
    facts = source.facts()
    statement = source.certificate.statement() if facts["certificate"] else NO_CERTIFICATE
    return "\n".join(
        (
            *_head(facts, statement, _sizes(source)),
            f"mechanism    {facts['coding']}, α = {facts['alpha']}",
            f"schedule     {source.parameters.plan.words(source.parameters.channels)}",
            *source_lines(facts),
            f"model        {facts['model']}",
            f"seed         {_seed(facts)}",
            f"file         {len(source.to_bytes()):,} bytes",
            *(("", source.certificate.table(), f"consistent: {checked.reason}") if checked else ()),
        )
    )


def source_lines(facts: dict[str, Any]) -> list[str]:
    """Return lines about the source of the pictures: window, latents and grey images, if there are any."""
    lines = []
    if window := facts.get("window"):
        low, high = window.split(":")
        lines.append(
            f"window       stored values of {low} are black, {high} white; eight-bit images are taken as they are"
        )
    if facts.get("latents"):
        shape = Latents(**facts["latents"])
        lines.append(
            f"latents      of a VAE, one for {shape.factor}×{shape.factor} pixels, in {shape.channels} channels"
        )
        lines.append(f"prompt       {facts['prompt']!r}" if facts.get("prompt") else "prompt       none")
    if facts.get("grey"):
        lines.append(f"grey         {facts['grey']} of {facts['images']} images, by the mode of their files")
    return lines


def _seed(facts: dict[str, Any]) -> str:
    """Return the public seed in words, with its origin."""
    chosen = {True: "given by the caller", False: "drawn by the encoder"}
    beacon = facts.get("beacon")
    if beacon is None:
        return f"{facts['seed']}, {chosen[facts['seed_given']]}"
    public = Beacon(beacon["round"], bytes.fromhex(beacon["value"]), bytes.fromhex(beacon["own"]))
    if public.seed.hex() != facts["seed"]:
        raise DippError("seed", "does not follow from its beacon", "do not trust the file")
    mixed = f"16 bytes {chosen[facts['seed_given']]}" if public.own != NOTHING else "nothing else"
    return (
        f"{facts['seed']}, which follows from round {public.round} of a public beacon and {mixed}; the value of that "
        f"round, to be compared with what was published: {public.value.hex()}"
    )


def dataset_text(folder: Path, facts: dict[str, Any], checked: ReleaseCheck | None = None) -> str:
    """Return the facts of a released dataset as text.

    Args:
        folder: Folder of the dataset.
        facts: Its manifest.
        checked: The result of its check, which adds the ledger and the checks. By default it was not checked.

    Raises:
        DippError: The manifest is damaged.
    """
    try:
        shards, skipped, labels = len(facts["shards"]), len(facts["skipped"]), facts["labels"]
        lines = [
            *release_lines(facts),
            f"shards       {shards}{', each consistent' if checked else ''}",
            f"skipped      {skipped}",
            f"labels       {'none' if labels is None else 'released as they are'}",
            *source_lines(facts),
            f"not hidden   {facts['not_hidden']}",
            f"model        {facts['model']}",
            f"seed         {_seed(facts)}",
            f"files        {sum(shard['bytes'] for shard in facts['shards']):,} bytes",
            *(("", *_ledger(facts), f"consistent: {checked.reason}") if checked else (UNCHECKED,)),
        ]
    except (KeyError, TypeError, ValueError):
        raise DippError(str(folder), "has a damaged manifest", "get it again") from None
    return "\n".join(lines)


def _ledger(facts: dict[str, Any]) -> tuple[str, ...]:
    """Return the table of a dataset's certificate, as one text; nothing without a certificate."""
    claim = facts["certificate"]
    return () if claim is None else (Certificate.from_json(json.dumps(claim)).table(),)


def release_lines(facts: dict[str, Any]) -> list[str]:
    """Return lines with the certificate, the rate and the number of images of a release, from its facts."""
    claim = facts["certificate"]
    pixels = f", {facts['pixels']:,} pixels in all"
    lines = _head(facts, NO_CERTIFICATE if claim is None else promise(claim), pixels)
    if (counted := facts.get("subjects")) is None:
        return lines
    from dipp.data import subjects  # imported here, because it loads Arrow

    return [*lines, f"subjects     {subjects.words(counted)}"]


def promise(claim: Mapping[str, Any]) -> str:
    """Return a certificate in one line of words, from the dictionary that `Certificate.to_dict` made."""
    return Certificate.from_json(json.dumps(claim)).statement()


def advice_facts(facts: dict[str, Any]) -> dict[str, Any]:
    """Return the grade of a release's ε, whether people are recognisable, and its warnings, for JSON."""
    claim = facts["certificate"]
    if claim is None:
        return {"grade": None, "recognisable": True, "warnings": []}
    first, warnings = advice.Headline.of(claim), advice.release_warnings(claim, facts["pixels"], facts["images"])
    return {"grade": first.grade.name, "recognisable": not first.covers_all, "warnings": list(warnings)}


def size_facts(claim: Mapping[str, Any] | None, size: Size) -> dict[str, Any]:
    """Return the price of any object of a size, as a dictionary for JSON.

    Args:
        claim: A certificate as a dictionary that `Certificate.to_dict` made; None without a certificate.
        size: Width and height of the object in pixels.

    Raises:
        NoCertificateError: There is no certificate.

    """
    if claim is None:
        raise NoCertificateError("size", "has no price, because this coding is not differentially private")
    priced = Certificate.from_json(json.dumps(claim)).for_object(*size)
    at = {} if priced.delta is None else {"epsilon_at_delta": priced.epsilon_at_delta}
    return {"width": size[0], "height": size[1], "epsilon": priced.epsilon, "rho": priced.rho, **at}


def size_text(facts: Mapping[str, Any]) -> str:
    """Return the price of an object from `size_facts` as a line of a report."""
    named = advice.objects((facts["width"], facts["height"]))
    return f"size         ε = {upper(facts['epsilon'])} for {named}, wherever it lies"


def _advice_lines(facts: dict[str, Any]) -> list[str]:
    """Return lines about what the ε of a release is worth, and its warnings."""
    claim, given = facts["certificate"], advice_facts(facts)
    lines = []
    if claim is not None:
        first = advice.Headline.of(claim)
        lines.append(f"bound        {given['grade']}: {first.bound}")
        lines += [f"measured     {first.measured}"] if first.measured else []
        listed = statements.prices((price["window"], price["epsilon"]) for price in claim["by_size"])
        lines.append(f"by size      {listed}{units.from_dict(claim['unit']).beyond}")
        whole = facts["whole"]
        if whole is not None:
            size = f"height × width {whole['height']}×{whole['width']}"
            lines.append(f"whole        ε = {upper(whole['epsilon'])} for everything in the largest image, {size}")
    lines.append(f"recognisable {'yes' if claim is None else advice.Headline.of(claim).recognisable}")
    return lines + [f"{'' if number else 'warnings':<12} {text}" for number, text in enumerate(given["warnings"])]


def _sizes(source: Archive) -> str:
    """Return the most frequent sizes of the images of an archive, in words."""
    counts: Counter[tuple[int, int]] = Counter()
    for images, height, width in source.runs.tolist():
        counts[height, width] += images
    if len(counts) == 1:
        return ", height × width " + "×".join(map(str, next(iter(counts))))
    named = [f"{count:,} of {height}×{width}" for (height, width), count in counts.most_common(SIZES)]
    more = f" and {len(counts) - SIZES:,} sizes more" if len(counts) > SIZES else ""
    return f", height × width: {', '.join(named)}{more}" if named else ""


def _head(facts: dict[str, Any], statement: str, sizes: str) -> list[str]:
    """Return the first lines of a report.

    Args:
        facts: The facts of a release.
        statement: Its certificate in words.
        sizes: The sizes of its images in words, which follow their number.
    """
    rate = "none"
    if facts["payload_bpp"] is not None:
        rate = f"{facts['payload_bpp']:.4f} bits per pixel of payload, {facts['file_bpp']:.4f} of file"
    return [
        f"certificate  {statement}",
        *_advice_lines(facts),
        f"rate         {rate}",
        f"images       {facts['images']:,}{sizes}",
    ]


def audit_text(audit: Audit) -> str:
    """Return an audit as text: a table for each coding, one for a real plan, and the verdict."""
    lines = [f"preset {audit.preset}, per {audit.unit.words}"]
    for name, coding in audit.codings.items():
        lines += ["", name, *_exact_lines(coding.exact), *_counted_lines(coding), *_control_lines(coding)]
    if audit.model:
        lines += ["", "the model", *_exact_lines(audit.model), _draws_line(audit.model)]
    verdict = "passed: nothing tells more than is claimed" if audit.passed else "FAILED: do not rely on certificates"
    return "\n".join([*lines, "", verdict])


def mechanism_text(audit: MechanismAudit) -> str:
    """Return the audit of a mechanism as text: a row for each pair of pictures, and the verdict."""
    lines = [f"{audit.name}, {audit.runs} releases of each picture, ε per pixel", ""]
    lines.append(
        f"{'pictures that differ in a pixel':<34} {'claimed':>10} {'at least':>10}  released numbers that it moves"
    )
    for pair in audit.pairs:
        moved = f"{pair.moved} of {pair.released}"
        lines.append(f"{pair.pair:<34} {upper(audit.claimed):>10} {lower(pair.epsilon):>10}  {moved}")
    if audit.passed:
        verdict = "passed: nothing was found beyond the claim, which does not prove it"
    else:
        verdict = (
            f"FAILED: it reveals at least ε = {lower(audit.worst.epsilon)} of a pixel, and claims "
            f"{upper(audit.claimed)}; the pixel moves {audit.worst.moved} of the numbers that it releases"
        )
    return "\n".join([*lines, "", verdict])


def _exact_lines(exact: Sequence[ExactAudit]) -> list[str]:
    """Return a table of the exact losses and divergences between pairs of pictures, by the kind of pairs."""
    lines = [f"{'audit':<42} {'claimed':>10} {'observed':>10} {'ratio':>8}"]
    for pairs in exact:
        name = f"exact, {len(pairs.observed)} {pairs.kind} pairs"
        lines.append(
            f"{name + ', ε':<42} {upper(pairs.claimed):>10} {lower(max(pairs.observed)):>10} {pairs.ratio:8.4f}"
        )
        lines.append(
            f"{name + ', ρ':<42} {upper(pairs.claimed_rho):>10} {lower(max(pairs.rho)):>10} {pairs.rho_ratio:8.4f}"
        )
    return lines


def _counted_lines(coding: CodingAudit) -> list[str]:
    """Return lines about the parts of a coding's audit that count outcomes."""
    box, law = coding.black_box, coding.law
    name = f"black box, {box['runs']} runs, ε at least"
    return [
        f"{name:<42} {upper(box['claimed']):>10} {lower(box['observed']):>10} {box['ratio']:8.4f}",
        f"law of the indices: χ² of {law.images} × {law.runs} of them has a tail of {law.p:.2g}",
        _draws_line((*coding.exact, law)),
    ]


def _draws_line(drawn: Iterable[ExactAudit | Law]) -> str:
    """Return a line that says how many draws of an audit, made from known random bytes, were not the exact ones."""
    counts = [(part.wrong, part.draws) for part in drawn]
    return f"draws with known bytes: {sum(w for w, _ in counts)} of {sum(d for _, d in counts)} are not the exact ones"


def _control_lines(coding: CodingAudit) -> list[str]:
    """Return lines about deliberately broken encoders: whether the audit caught each."""
    lines = []
    for name, control in coding.controls.items():
        caught = "caught" if control["caught"] else "MISSED"
        observed = control["observed"] if isinstance(control["observed"], str) else lower(control["observed"])
        lines.append(f"{'broken: ' + name:<50} {upper(control['claimed']):>7} {observed:>25} {caught:>8}")
    return lines
