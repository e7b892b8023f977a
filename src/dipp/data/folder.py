"""The folder of a dataset release as a reader sees it: the names of its files, and its manifest."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from dipp.errors import DippError

MANIFEST = "manifest.json"
"""Name of the manifest."""
PAPERS = ("README.md", "croissant.json", "deployment.yaml")
"""Files that `dipp.papers` writes into a release: card, metadata, and a draft for a registry."""
ATTESTATION = "attestation.json"
"""File that `dipp.attest` writes into a release."""
FORMAT, REDACTED = "dipp dataset", "dipp redacted dataset"
"""Formats of a manifest: of encoded and of redacted pictures."""
RUN = ".run"
"""Name of a run's own folder, and first part of the name of a folder that is being removed."""
SHARD = re.compile(r"shard-\d{6,}\.(parquet|json)")
"""Names of shards."""
PICTURES = "pictures"
"""Folder of the redacted pictures of a release, which belongs to the release alone."""


def shard_name(number: int, suffix: str = ".parquet") -> str:
    """Return the file name of a shard.

    Args:
        number: Number of the shard, from 0.
        suffix: Ending of the name; .parquet by default.
    """
    return f"shard-{number:06d}{suffix}"


def sha256(path: Path) -> str:
    """Return the hex SHA-256 of a file.

    Args:
        path: The file.
    """
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest of a finished release of encoded pictures.

    Args:
        folder: The release.

    Raises:
        DippError: The manifest is missing, damaged or newer, or the release has redacted pictures.
    """
    manifest = manifest_of(folder)
    if manifest["format"] == REDACTED:
        raise DippError(
            str(folder),
            f"has ordinary files in {folder / PICTURES}, and nothing to decode",
            f"open them with any program, and check them by dipp check {folder}",
        )
    return manifest


def manifest_of(folder: Path) -> dict[str, Any]:
    """Return the manifest of a finished release.

    Args:
        folder: The release.

    Raises:
        DippError: The manifest is missing, damaged, or of a newer version.
    """
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        if (
            not isinstance(manifest, dict)
            or manifest["format"] not in (FORMAT, REDACTED)
            or not isinstance(manifest["version"], int)
        ):
            raise DippError(str(folder), f"has a {MANIFEST} that dipp did not write")
    except FileNotFoundError:
        unfinished = "the run is not finished: run the same command again"
        remedy = unfinished if (folder / RUN).exists() else "name the folder of a dataset"
        raise DippError(str(folder), f"has no {MANIFEST}", remedy) from None
    except (OSError, ValueError, KeyError, RecursionError) as error:
        if isinstance(error, DippError):
            raise
        raise DippError(str(folder), f"has a {MANIFEST} that cannot be read", "get it again") from None
    if manifest["version"] > 1:
        raise DippError(str(folder), f"was written by a newer dipp (manifest {manifest['version']})", "upgrade dipp")
    return manifest


def remains(folder: Path) -> list[str]:
    """Return the names of folders that a killed run left in a finished release; they hold names of source files.

    Args:
        folder: The release.
    """
    return sorted(path.name for path in folder.iterdir() if path.name == RUN or path.name.startswith(f"{RUN}-"))


def shard_entries(manifest: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the file name of each shard in a manifest, and everything that the manifest states of it.

    Args:
        manifest: The manifest.

    Raises:
        DippError: A name is not the name of a shard, but a path for example.
    """
    shards: Iterable[dict[str, Any]] = manifest["shards"]
    for entry in shards:
        name = entry["name"]
        if not isinstance(name, str) or not SHARD.fullmatch(name):
            raise DippError(MANIFEST, f"has an invalid name of a shard, {name!r}")
        yield name, entry
