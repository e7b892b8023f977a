"""Sources of many small files: a folder of images, or members of tar files (`tars`).

The files are listed once, in an Arrow file with the schema `SCHEMA` that every worker maps, so that the memory of a run
does not grow with the number of pictures. Listing reads only names, sizes, times and labels, and no picture. The
listing holds file names, so it is kept in the run's own folder, which is removed at the end.

A picture that is listed twice (a file under two names, a member that was appended to its tar again) is released once:
every repetition gets a problem, and is not read.
"""

from __future__ import annotations

import hashlib
import itertools
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from dipp.data import rows
from dipp.data.repeats import Identity, Register, identity
from dipp.data.sources import CHANGED, MAX_FILE_BYTES, Columns, Label, Labels, Source, SourcePicture
from dipp.data.states import State, machine, same, state_of
from dipp.errors import DippError

SCHEMA = pa.schema(
    {
        "path": pa.binary(),
        "name": pa.binary(),
        "offset": pa.int64(),
        "size": pa.int64(),
        "state": pa.list_(pa.uint64(), len(State._fields)),
        "label": pa.int64(),
        "problem": pa.string(),
    }
)
"""Columns of the listing: the fields of a row."""
IMAGE_SUFFIXES = {".jpg", ".jpeg", ".png", ".ppm", ".pgm", ".pbm", ".pnm", ".bmp", ".gif", ".tif", ".tiff", ".webp"}
"""Suffixes of pictures in a tar shard, whose samples have other members as well."""
MODIFIED = State._fields.index("modified")
"""Index of the time of modification in a state."""
LINK = "is a link to another picture of the source"
"""Problem of a link to another listed file."""
AGAIN = "was listed before: it is another name of a file, or a second member of the same name"
"""Problem of a repetition."""


class Entry(NamedTuple):
    """A row of the listing: where one picture is."""

    path: bytes
    """The file that holds the picture."""
    name: bytes
    """Name of the picture, for the terminal only."""
    offset: int
    """Where the picture starts in the file, in bytes."""
    size: int
    """Length of the picture in bytes."""
    state: Sequence[int]
    """State of that file when it was listed."""
    label: int | None = None
    """Number of the class; None if there is no label."""
    problem: str = ""
    """Why the picture cannot be used; empty if it can."""


IdentifiedEntry = tuple[Entry, Identity | None]
"""A row of the listing, and the identity of its picture (`repeats`), or None if the picture has a problem."""


@dataclass(frozen=True)
class Files(Source):
    """A source of pictures in the files that a listing names."""

    listing: Path
    """The Arrow file."""
    count: int
    """Number of rows."""
    labels: Labels | None
    fingerprint: str
    machine: str = field(default_factory=machine)
    """The machine on which the states were taken, with its boot."""

    def __len__(self) -> int:
        return self.count

    def read(self, start: int, stop: int) -> Iterator[SourcePicture]:
        """Yield the files. A file that is gone or forbidden becomes a problem of its record; other faults raise."""
        for position, entry in enumerate(self.entries(start, stop), start):
            problem = entry.problem or _problem_of(entry.size)
            content = None
            if not problem:
                try:
                    content = self._content(entry)
                    problem = CHANGED if content is None else ""
                except (FileNotFoundError, IsADirectoryError, PermissionError) as error:
                    problem = f"cannot be opened ({error.strerror})"
                except OSError as error:
                    problem = f"has a file {_text(entry.name)} that cannot be read ({error.strerror})"
                    raise DippError("src", problem) from None
            yield SourcePicture(position, content, entry.label, problem)

    def _content(self, entry: Entry) -> bytes | None:
        """Return the bytes of a picture; None if its file is not in the listed state before and after reading."""
        with open(entry.path, "rb") as file:  # noqa: PTH123 - names need not be valid text
            file.seek(entry.offset)
            before = state_of(os.fstat(file.fileno()))
            content = file.read(entry.size) if same(entry.state, before, self.machine) else None
            return content if state_of(os.fstat(file.fileno())) == before else None

    def name(self, position: int) -> str:
        """Return the file's name below the source, without unprintable characters, which could control a terminal."""
        (entry,) = self.entries(position, position + 1)
        return "".join(letter if letter.isprintable() else "?" for letter in _text(entry.name))

    def file(self, position: int) -> str:
        """Return the file's path below the source.

        The path of a member of a tar begins with the name of the tar without its ending.
        """
        (entry,) = self.entries(position, position + 1)
        return _text(entry.name) if entry.path.endswith(entry.name) else str(Path(*_member_parts(entry)))

    def places(self, column: str | None = None) -> Iterator[Path]:
        """Yield the path of each file; of a member, as if its tar were unpacked into a folder of its name."""
        if column is not None:
            yield from super().places(column)
        for entry in self.entries(0, self.count):
            path = Path(os.fsdecode(entry.path))
            yield path if entry.path.endswith(entry.name) else path.parent.joinpath(*_member_parts(entry))

    def _labels(self) -> Iterator[Label]:
        """Yield the labels of the listing, without reading a file."""
        return (entry.label for entry in self.entries(0, self.count))

    def entries(self, start: int, stop: int) -> Iterator[Entry]:
        """Yield rows `start` … `stop` − 1 of the listing.

        Args:
            start: Number of the first row.
            stop: Number after the last row.
        """
        return (Entry(**row) for row in rows.read(self.listing, start, stop))


def open_folder(root: Path, scratch: Path) -> Files:
    """List the pictures of a folder in the order of names: its own files, then those of each class.

    A class is a sub-folder, with everything below it. Hidden files and folders are left out.

    Args:
        root: The folder.
        scratch: Folder for the listing.

    Raises:
        DippError: The folder has no files, or two classes are links to the same pictures.
    """
    with os.scandir(root) as entries:
        classes = sorted(entry.name for entry in entries if _is_folder(entry) and not entry.name.startswith("."))
    labels = Labels(names=tuple(map(_text, map(os.fsencode, classes)))) if classes else None
    folders = [(root, None), *((root / name, number) for number, name in enumerate(classes))]
    _refuse_folders_twice(root, classes)
    return listing_of(_folder_entries(root, folders), scratch, labels, "a picture")


def _refuse_folders_twice(root: Path, classes: list[str]) -> None:
    """Raise if two classes lead to the same pictures, which would be released twice."""
    folders = sorted(((root / name).resolve().parts, name) for name in classes)
    for (folder, name), (below, other) in itertools.pairwise(folders):
        if below[: len(folder)] == folder:
            raise DippError("src", f"has the same pictures in {name} and {other}, and would release them twice")


def _folder_entries(root: Path, folders: Iterable[tuple[Path, int | None]]) -> Iterator[IdentifiedEntry]:
    """Yield the files of folders, each with the label of its files.

    Of a folder whose label is None, only the files directly in it are listed; otherwise also those in its sub-folders.
    """
    for folder, label in folders:
        for path in _walk(folder, deep=label is not None):
            name = os.path.relpath(path, root)
            size, state = 0, State(0, 0, 0, 0, 0)
            identified: Identity | None = None
            try:
                facts = os.stat(path)  # noqa: PTH116
                size, state = facts.st_size, state_of(facts)
                problem = LINK if _links_to_listed(path, root) else ""
                identified = None if problem else identity(facts)  # the target of a link is released, not the link
            except OSError as error:
                problem = f"is not a file that can be found ({error.strerror})"
            yield Entry(os.fsencode(path), os.fsencode(name), 0, size, state, label, problem), identified


def _links_to_listed(path: str, root: Path) -> bool:
    """Return whether a path is a link to a listed file; hidden files, to which git-annex links, are not listed."""
    if not os.path.islink(path):  # noqa: PTH114
        return False
    below = os.path.relpath(os.path.realpath(path), root)
    return not any(part.startswith(".") for part in Path(below).parts)  # a link out of the source (..) is allowed


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Return whether an entry leads to a folder.

    Broken links, and links to a folder that contains the link, count as files.
    """
    try:
        if not entry.is_dir() or not entry.is_symlink():
            return entry.is_dir()
        return not Path(entry.path).parent.resolve().is_relative_to(Path(entry.path).resolve())
    except OSError:
        return False


def _walk(folder: Path, deep: bool) -> Iterator[str]:
    """Yield the files of a folder (if `deep`, also below it) in the order of their names, without hidden files.

    Only the names of one folder are in memory at a time.
    """
    try:
        with os.scandir(folder) as entries:
            listed = sorted((e.name, _is_folder(e), e.is_symlink()) for e in entries if not e.name.startswith("."))
    except OSError as error:
        raise DippError("src", f"has a folder {folder.name} that cannot be read ({error.strerror})") from None
    for name, is_folder, is_link in listed:
        if not is_folder:
            yield str(folder / name)
        elif deep and not is_link:
            yield from _walk(folder / name, deep)


def picture_folder(path: str, columns: Columns, scratch: Path) -> Files | None:
    """Open a folder of pictures. Every folder is accepted, so this format is tried after the others.

    Args:
        path: Path of the folder.
        columns: The columns and the split to use, which a folder does not have.
        scratch: Folder for the listing.
    """
    if not Path(path).is_dir():
        return None
    columns.refuse_split(path)
    columns.refuse_columns(path)
    return open_folder(Path(path).resolve(), scratch)


def listing_of(listed: Iterable[IdentifiedEntry], scratch: Path, labels: Labels | None, what: str) -> Files:
    """Write a listing of pictures into a file, and return the source that reads these pictures.

    Args:
        listed: The rows of the listing, each with the identity of its picture.
        scratch: Folder for the file.
        labels: The kind of labels; None without labels.
        what: What the source must have at least one of, for the error about an empty listing.

    Returns:
        The source.

    Raises:
        DippError: The listing is empty.
    """
    register, digest, count = Register(), hashlib.sha256(), 0

    def entries() -> Iterator[Entry]:
        nonlocal count
        for entry, identified in listed:
            register.add(identified)
            digest.update(repr((entry.name, entry.offset, entry.size, entry.state[MODIFIED], entry.label)).encode())
            count += 1
            yield entry

    listing = _write(entries(), scratch)
    if not count:
        raise DippError("src", f"must have {what}, got none")
    source = Files(listing, count, labels, digest.hexdigest())
    if later := frozenset(register.later()):
        numbered = enumerate(source.entries(0, count))
        marked = (entry._replace(problem=entry.problem or AGAIN) if row in later else entry for row, entry in numbered)
        source = replace(source, listing=_write(marked, scratch))
        listing.unlink()
    return source


def _write(entries: Iterable[Entry], scratch: Path) -> Path:
    """Write a listing into a new Arrow file in `scratch`, and return its path."""
    listing = rows.fresh(scratch, "listing")
    with rows.writing(listing, SCHEMA) as add:
        for entry in entries:
            add(entry._asdict())
    return listing


def _problem_of(size: int) -> str:
    """Return why a file of `size` bytes is not read; empty if it is read."""
    if not size:
        return "is empty (0 bytes)"
    return f"is larger than {MAX_FILE_BYTES >> 20} MiB" if size > MAX_FILE_BYTES else ""


def _text(name: bytes) -> str:
    """Return a file name as text, with invalid bytes escaped."""
    return name.decode(errors="backslashreplace")


def _member_parts(entry: Entry) -> tuple[str, str]:
    """Return the name of a tar without its ending, and the name of the member."""
    tar = Path(os.fsdecode(entry.path))
    return tar.stem, _text(entry.name).removeprefix(f"{tar.name}: ").lstrip("/")
