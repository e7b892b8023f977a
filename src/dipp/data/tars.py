"""Sources of tar files, also those that webdataset writes; `listing` lists and reads their pictures."""

from __future__ import annotations

import hashlib
import os
import posixpath
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from dipp.data.listing import IMAGE_SUFFIXES, Entry, Files, IdentifiedEntry, listing_of
from dipp.data.repeats import Identity, refuse_twice
from dipp.data.sources import Columns, Labels, files_of
from dipp.data.states import state_of
from dipp.errors import DippError

LABEL_SUFFIX = ".cls"
"""Suffix of the member of a sample that holds its label."""
MAX_LABEL_BYTES = 32
"""Largest size of the member of a label."""


def open_tars(paths: list[Path], scratch: Path) -> Files:
    """List tar shards: every image member is a picture, and the number in its sample's .cls member is its label.

    Args:
        paths: The tar files.
        scratch: Folder for the listing.

    Raises:
        DippError: A tar is compressed or damaged, is given twice, or no tar has an image member.
    """
    refuse_twice(paths)
    source = listing_of((entry for path in paths for entry in _tar_entries(path)), scratch, Labels(), "an image member")
    labelled = any(entry.label is not None for entry in source.entries(0, len(source)))
    return source if labelled else replace(source, labels=None)


def tar_files(path: str, columns: Columns, scratch: Path) -> Files | None:
    """Open a tar shard, or a folder of them.

    Args:
        path: Path of the file or folder.
        columns: The columns and the split to use, which a tar does not have.
        scratch: Folder for the listing.
    """
    paths = files_of(path, ".tar")
    if not paths:
        return None
    columns.refuse_split(path)
    columns.refuse_columns(path)
    return open_tars(paths, scratch)


def _tar_entries(path: Path) -> Iterator[IdentifiedEntry]:
    """Yield the pictures of one tar.

    Members of a sample follow each other, and share their names up to the first dot.
    """
    state = state_of(path.stat())
    sample: tuple[str, str] | None = None
    waiting: list[tuple[Entry, Identity]] = []
    label: int | None = None
    try:
        with tarfile.open(path, "r:") as tar:
            for member in tar:
                tar.members = []  # type: ignore[attr-defined] # otherwise tarfile keeps every member
                stem, dot, suffix = member.name.rpartition("/")[2].partition(".")
                key = (member.name.rpartition("/")[0], stem)
                if key != sample:
                    yield from ((entry._replace(label=label), identified) for entry, identified in waiting)
                    sample, waiting, label = key, [], None
                if dot + suffix == LABEL_SUFFIX and member.isreg():
                    stream = tar.extractfile(member) if member.size <= MAX_LABEL_BYTES else None
                    label = _whole_number(stream.read() if stream else b"")
                elif Path(member.name).suffix.lower() in IMAGE_SUFFIXES:
                    problem = "" if member.isreg() and not member.issparse() else "is not a plain file in the tar"
                    name = os.fsencode(f"{path.name}: {member.name}")
                    file = os.fsencode(path)
                    entry = Entry(file, name, member.offset_data, member.size, state, None, problem)
                    waiting.append((entry, _member(path, member.name)))
            yield from ((entry._replace(label=label), identified) for entry, identified in waiting)
    except (tarfile.TarError, OSError, ValueError, OverflowError) as error:
        raise DippError(
            "src", f"has a file {path.name} that is no whole, uncompressed tar ({error})", "unpack it, or fetch again"
        ) from None


def _member(path: Path, name: str) -> Identity:
    """Return the identity of a member of a tar: a digest of its name, which should occur once in the tar."""
    whole = os.fsencode(path) + b"\0" + os.fsencode(posixpath.normpath(name).lstrip("/"))
    digest = hashlib.blake2b(whole, digest_size=15).digest()
    return int.from_bytes(digest[:7], "little"), int.from_bytes(digest[7:], "little")


def _whole_number(text: bytes) -> int | None:
    """Return the label in a .cls member; None if it is no whole number of 64 bits."""
    try:
        value = int(text)
    except ValueError:
        return None
    return value if abs(value) < 1 << 63 else None
