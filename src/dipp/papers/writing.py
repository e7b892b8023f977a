"""Writing the papers of a release: into its folder, or for a single file into a folder beside it."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import date
from pathlib import Path

from dipp import files
from dipp.data.shards import Shard
from dipp.data.store import PAPERS
from dipp.errors import DippError
from dipp.papers import croissant, registry
from dipp.papers.card import card
from dipp.papers.guarantee import Released, Words

CARD, CROISSANT, REGISTRY = PAPERS


def folder_of(release: Path) -> Path:
    """Where the papers of a release go, unless told otherwise."""
    return release if release.is_dir() else release.with_name(f"{release.name}.papers")


def write(release: Path, words: Words, output: Path | None = None, *, overwrite: bool = False) -> list[Path]:
    """Write the papers and say where; a release without certificate has two.

    They replace those that `dipp privatize` wrote and nobody has changed since. What else is there, such as papers that
    were filled in or edited, is replaced only with `overwrite`.
    """
    released = Released.read(release, words)
    target = output or folder_of(release)
    base = "../" if target == folder_of(release) and not released.is_dataset else ""
    text_labels = released.is_dataset and _text_labels(release / released.parts[0].name)
    texts = _texts(released, base, text_labels)
    draft = Released.read(release, Words())
    for name in texts:
        if not _is_draft(target / name, draft, base, text_labels):
            files.require_new(target / name, overwrite=overwrite)
    try:
        target.mkdir(exist_ok=True)
    except OSError as error:
        raise DippError(f"output: {target} cannot be made ({error.strerror})") from None
    for name, text in texts.items():
        with files.atomic(target / name) as part:
            part.write_text(text, encoding="utf-8")
    return [target / name for name in texts]


def _texts(released: Released, base: str, text_labels: bool) -> dict[str, str]:
    """The papers by their names. The files of the release are found behind `base`."""
    metadata = croissant.metadata(released, base, text_labels)
    texts = {CARD: card(released), CROISSANT: json.dumps(metadata, indent=1, ensure_ascii=False) + "\n"}
    if released.certificate is not None:
        texts[REGISTRY] = registry.text(released)
    return texts


def _is_draft(place: Path, draft: Released, base: str, text_labels: bool) -> bool:
    """Whether a paper is exactly what `dipp privatize` has written, on one of the days that it names."""
    try:
        found = place.read_text(encoding="utf-8")
        days = {date.fromisoformat(day) for day in re.findall(r"\d{4}-\d\d-\d\d", found)}
    except (OSError, ValueError):
        return False
    return any(_texts(replace(draft, day=day), base, text_labels)[place.name] == found for day in days)


def _text_labels(shard: Path) -> bool:
    """Whether labels are text."""
    return bool(Shard.read(shard).labels.type == "string")
