"""Writing the papers of a release: into its folder, or for a single file into a folder beside it."""

from __future__ import annotations

import json
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


def write(release: Path, words: Words, output: Path | None = None) -> list[Path]:
    """Write the papers, in place of those that are there, and say where; a release without certificate has two."""
    released = Released.read(release, words)
    target = output or folder_of(release)
    try:
        target.mkdir(exist_ok=True)
    except OSError as error:
        raise DippError(f"output: {target} cannot be made ({error.strerror})") from None
    base = "../" if target == folder_of(release) and not released.is_dataset else ""
    text_labels = released.is_dataset and _text_labels(release / released.parts[0].name)
    metadata = croissant.metadata(released, base, text_labels)
    texts = {CARD: card(released), CROISSANT: json.dumps(metadata, indent=1, ensure_ascii=False) + "\n"}
    if released.certificate is not None:
        texts[REGISTRY] = registry.text(released)
    for name, text in texts.items():
        with files.atomic(target / name) as part:
            part.write_text(text, encoding="utf-8")
    return [target / name for name in texts]


def _text_labels(shard: Path) -> bool:
    """Whether labels are text."""
    return bool(Shard.read(shard).labels.type == "string")
