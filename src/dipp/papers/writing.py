"""Write the papers of a release into its folder, or for a single file into a folder beside it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from dipp import files
from dipp.data.folder import PAPERS, REDACTED, manifest_of
from dipp.data.shards import Shard
from dipp.errors import DippError
from dipp.papers import croissant, redaction, registry
from dipp.papers.card import card
from dipp.papers.guarantee import OwnerDetails, ReleaseDescription

CARD, CROISSANT, REGISTRY = PAPERS


def folder_of(release: Path) -> Path:
    """Return the default folder of the papers of a release."""
    return release if release.is_dir() else release.with_name(f"{release.name}.papers")


def write(release: Path, details: OwnerDetails, output: Path | None = None, *, overwrite: bool = False) -> list[Path]:
    """Write the papers of a release, and return their paths.

    There are three papers. A release without a certificate has no entry for the registry, and a release of redacted
    pictures has a card only. Papers that `dipp privatize` wrote and nobody has changed since are replaced; others, such
    as papers that were filled in, only with `overwrite`.

    Args:
        release: A folder that `dipp privatize` wrote, or a `.dipp` file.
        details: What only the owner of the release can say about it.
        output: Folder of the papers. By default `folder_of`.
        overwrite: Whether to replace files that somebody may have edited.

    Returns:
        Paths of the papers.

    Raises:
        DippError: The release cannot be read, or a file would be replaced.
    """
    target = output or folder_of(release)
    if release.is_dir() and (facts := manifest_of(release))["format"] == REDACTED:
        return [_write_card(facts, details, release, target, overwrite=overwrite)]
    released = ReleaseDescription.read(release, details)
    base = "../" if target == folder_of(release) and not released.is_dataset else ""
    text_labels = released.is_dataset and _text_labels(release / released.parts[0].name)
    texts = _texts(released, base, text_labels)
    draft = ReleaseDescription.read(release, OwnerDetails())
    for name in texts:
        if not _is_draft(target / name, draft, base, text_labels):
            files.require_new(target / name, overwrite=overwrite)
    try:
        target.mkdir(exist_ok=True)
    except OSError as error:
        raise DippError("output", f"{target} cannot be made ({error.strerror})", "name another folder") from None
    for name, text in texts.items():
        with files.atomic(target / name) as part:
            part.write_text(text, encoding="utf-8")
    return [target / name for name in texts]


def _write_card(facts: dict[str, Any], details: OwnerDetails, release: Path, target: Path, *, overwrite: bool) -> Path:
    """Write the card of a release of redacted pictures, and return its path."""
    named = replace(details, name=details.name or release.resolve().name)
    draft = replace(OwnerDetails(), name=release.resolve().name)
    path = target / CARD
    if not _is_written(path, lambda day: redaction.card(facts, draft, day)):
        files.require_new(path, overwrite=overwrite)
    target.mkdir(exist_ok=True)
    with files.atomic(path) as part:
        part.write_text(redaction.card(facts, named, datetime.now(UTC).date()), encoding="utf-8")
    return path


def _texts(released: ReleaseDescription, base: str, text_labels: bool) -> dict[str, str]:
    """Return the text of each paper by its file name; `base` stands before the names of the release's files."""
    metadata = croissant.metadata(released, base, text_labels)
    texts = {CARD: card(released), CROISSANT: json.dumps(metadata, indent=1, ensure_ascii=False) + "\n"}
    if released.certificate is not None:
        texts[REGISTRY] = registry.text(released)
    return texts


def _is_draft(path: Path, draft: ReleaseDescription, base: str, text_labels: bool) -> bool:
    """Return whether a paper is unchanged since `dipp privatize` wrote it.

    Args:
        path: File of the paper.
        draft: The release, without any details of its owner.
        base: Path or URL before the names of the release's files.
        text_labels: Whether labels are text.
    """
    return _is_written(path, lambda day: _texts(replace(draft, day=day), base, text_labels)[path.name])


def _is_written(path: Path, text: Callable[[date], str]) -> bool:
    """Return whether a file has exactly the text that `text` returns for one of the days named in the file."""
    try:
        content = path.read_text(encoding="utf-8")
        days = {date.fromisoformat(day) for day in re.findall(r"\d{4}-\d\d-\d\d", content)}
    except (OSError, ValueError):
        return False
    return any(text(day) == content for day in days)


def _text_labels(shard: Path) -> bool:
    """Return whether the labels of a shard are text."""
    return bool(Shard.read(shard).labels.type == "string")
