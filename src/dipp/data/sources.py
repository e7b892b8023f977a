"""Sources: where the private pictures of a dataset come from, read by position and never all at once.

A source is a numbered sequence of pictures. It pickles to a few bytes and reads any range by itself, in any process on
any machine that sees the same files, so that pixels never pass through a driver, a queue or an object store. For each
picture a source gives the content, the label and, for the terminal only, the name. A bad picture has a problem instead
of its content; only a source that cannot be read at all raises. If the state (`states`) of a file has changed since the
source was opened, the file is not read: a picture that has moved to another position would be released twice.

Each kind of source recognises itself, in the order of `formats.RECOGNISERS`:

| source | how it is recognised |
|---|---|
| folder of images, whose sub-folders are the classes | any other folder (`listing`) |
| CIFAR-10, CIFAR-100 | folder with `batches.meta`; with `meta`, `train` and `test` (`cifar_source`) |
| Parquet with an image column | `.parquet`, or a folder of them (`tables`) |
| Hugging Face `datasets` | folder of `save_to_disk`; or a hub id, read from the hub (`saved`, `hub`) |
| WebDataset | `.tar`, or a folder of them (`tars`) |
"""

from __future__ import annotations

import hashlib
import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dipp.data.folder import manifest_of
from dipp.data.states import state_at
from dipp.errors import DippError
from dipp.models.denoiser import MAX_PICTURE

Label = int | str | None
"""Number of a class, or text; None if a picture has no label."""
Content = bytes | NDArray[np.uint8]
"""The bytes of a picture file, or pixels (H, W, C)."""

MAX_FILE_BYTES = 20 * MAX_PICTURE
"""Largest size of a picture file; larger ones are not read. Which pictures were skipped is public, and the size of a
compressed file depends on its pixels. So the limit must allow every picture of an allowed size, whatever its pixels.
The largest such file takes 18 bytes for each pixel, in a PPM of plain text (three numbers of five digits, and a space
after each); 16-bit RGBA takes 8."""
ROWS_PER_READ = 64
"""Number of rows of a table that are read at a time."""
CHANGED = "was changed after the run began"
"""Problem of a picture whose file has changed."""
PACKED = {".zip", ".gz", ".tgz", ".bz2", ".xz", ".zst", ".7z", ".rar"}
"""Suffixes of files that have to be unpacked first."""
TRAIN = "train"
"""Split of a dataset that is used by default."""


class SourcePicture(NamedTuple):
    """One picture of a source."""

    position: int
    """Number of the picture in the source, from 0."""
    content: Content | None
    """The picture; None if there is a problem."""
    label: Label = None
    """Label of the picture; None without a label."""
    problem: str = ""
    """Why the picture cannot be used; empty if it can. It goes into the manifest, so it must not contain a name."""


@dataclass(frozen=True)
class Labels:
    """The kind of labels that a source has."""

    text: bool = False
    """Whether labels are text; otherwise they are whole numbers."""
    names: tuple[str, ...] = ()
    """Names of the classes 0, 1, …; empty if they are not known."""


@dataclass(frozen=True)
class Columns:
    """The columns of a table, and the split of a dataset, that are used."""

    image: str | None = None
    """Column of the pictures; None chooses the only such column, or else the column called image."""
    label: str | None = None
    """Column of the labels; None chooses the column called label, if there is one."""
    split: str | None = None
    """Split of a dataset. None is train if a dataset is known to have splits, and otherwise all of it."""
    labelled: bool = True
    """Whether labels are wanted. If not, their column may have any type."""

    @property
    def part(self) -> str:
        """Split to use of a dataset that is known to have splits."""
        return TRAIN if self.split is None else self.split

    def refuse_split(self, location: str) -> None:
        """Raise if a split is named for a source without splits, because all of the source would be released.

        Args:
            location: Path or hub id of the source.

        Raises:
            DippError: A split is named.
        """
        if self.split is not None:
            is_folder = self.split and Path(location, self.split).is_dir()
            folder = f"name the folder {Path(location, self.split)}"
            remedy = folder if is_folder else "leave --split out to release all of it"
            raise DippError("split", f"must be a split of {location}, got {self.split}", remedy)

    def refuse_columns(self, location: str) -> None:
        """Raise if a column is named for a source that is not a table.

        Args:
            location: Path or hub id of the source.

        Raises:
            DippError: A column is named.
        """
        for option, name in (("image-column", self.image), ("label-column", self.label)):
            if name is not None:
                raise DippError(option, f"needs a table, got {location}", "leave it out")


class Source(ABC):
    """A numbered sequence of pictures: a frozen dataclass of plain values, so that it can be recorded and restored."""

    KINDS: ClassVar[dict[str, type[Source]]] = {}
    """Every kind of source, by the name of its class."""
    labels: Labels | None
    """The kind of labels; None if there are no labels."""
    fingerprint: str
    """Hex SHA-256 over the names, sizes and times of the files, which must be the same when a run is resumed. It is
    kept while a run lasts and never released, because guesses of names could be checked against it."""

    def __init_subclass__(cls) -> None:
        Source.KINDS[cls.__name__] = cls

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of pictures, good and bad."""

    @abstractmethod
    def read(self, start: int, stop: int) -> Iterator[SourcePicture]:
        """Yield pictures `start` … `stop` − 1 in order, good and bad.

        Args:
            start: First position.
            stop: Position after the last.

        Raises:
            DippError: The source cannot be read at all.
        """

    @abstractmethod
    def name(self, position: int) -> str:
        """Return the name of a picture, for the terminal only.

        Args:
            position: Position of the picture.
        """

    def file(self, position: int) -> str | None:  # noqa: ARG002
        """Return the path of a picture below the source, for releases with names; None if pictures are not files.

        Args:
            position: Position of the picture.
        """
        return None

    def places(self, column: str | None = None) -> Iterator[Path]:
        """Yield the path or name of each picture, by which its regions are found. No picture is read.

        Args:
            column: Column of a table that holds the names. By default the paths beside the pictures or, without paths,
                the number of the row, from 0.

        Raises:
            DippError: The source has no such names.
        """
        if column is not None:
            raise DippError("name-column", "needs a source that is a table", "leave it out")
        raise DippError("regions", "need pictures that are files", "save them as a folder or as Parquet first")

    def column_values(self, column: str, part: str | None = None) -> Iterator[Any]:  # noqa: ARG002
        """Yield the values of a column of a table, row by row.

        Args:
            column: Name of the column.
            part: For a column of structs, the field to yield; None yields whole values.

        Raises:
            DippError: The source is not a table, or has no such column.
        """
        raise DippError("regions", f"must be in a table to be given as column:{column}", "name a file of regions")

    def sizes(self) -> Iterator[tuple[int | None, int | None]]:
        """Yield width and height of each picture if a table has columns of these names, otherwise None."""
        return itertools.repeat((None, None), len(self))

    def kinds(self, column: str) -> tuple[str, ...]:  # noqa: ARG002
        """Return the class names in a column of annotated objects; empty if they are not known.

        Args:
            column: Name of the column.
        """
        return ()

    def values(self, column: str) -> Iterator[Label]:
        """Yield the value of each picture in a column, None where it is missing. No picture is read.

        A source that is not a table has one column, label, if its pictures have labels.

        Args:
            column: Name of the column.

        Raises:
            DippError: The source has no such column.
        """
        labels = self._labels() if column == "label" and self.labels is not None else None
        if labels is None:
            raise DippError(
                "subject", f"must be a column of the source, got {column}", "use a table, or label if there are labels"
            )
        return labels

    def _labels(self) -> Iterator[Label] | None:
        """Return the label of each picture; None if labels cannot be read without pictures."""
        return None


def open_source(location: str, columns: Columns, scratch: Path) -> Source:
    """Recognise and open the source at a path or hub id.

    Args:
        location: The path or hub id.
        columns: The columns and the split to use.
        scratch: Folder for a listing of the files, if one is needed.

    Raises:
        DippError: There is no such source, or it has not these columns or this split.
    """
    from dipp.data.formats import RECOGNISERS  # these modules import this one

    if columns.image is None and _is_release(Path(location)):  # a named column asks for the shards as a table
        raise DippError("src", f"is a release already: {Path(location).name}", "`dipp decode` makes pictures of it")
    for recognise in RECOGNISERS:
        if (source := recognise(location, columns, scratch)) is not None:
            return source
    packed = "unpack it first" if Path(location).suffix.lower() in PACKED else ""
    raise DippError("src", f"must be a folder, .parquet, .tar or hub id, got {Path(location).name}", packed)


def _is_release(path: Path) -> bool:
    """Return whether dipp wrote what is at a path: its payloads would be taken for pictures, all of them bad."""
    if path.suffix == ".dipp":
        return path.is_file()
    try:
        manifest_of(path)
    except DippError:
        return False
    return True


def files_of(location: str, suffix: str) -> list[Path]:
    """Return the file at a path, or the files of the folder there, if they have a suffix.

    Args:
        location: The path.
        suffix: The suffix, with its dot.

    Returns:
        Paths in the order of names, without hidden files; empty without any.
    """
    path = Path(location)
    if path.is_dir():
        return sorted(p for p in path.resolve().iterdir() if p.suffix == suffix and not p.name.startswith("."))
    return [path.resolve()] if path.is_file() and path.suffix == suffix else []


def fingerprint(paths: Iterable[Path], *more: str) -> str:
    """Return the hex SHA-256 over names, sizes and times of files, and over options.

    Args:
        paths: The files.
        more: Options that choose among their pictures.
    """
    digest = hashlib.sha256()
    for path in paths:
        state = state_at(path)
        stated = "" if state is None else f"{state.size}\0{state.modified}"
        digest.update(f"{path.name}\0{stated}\n".encode(errors="surrogateescape"))
    digest.update("\0".join(more).encode())
    return digest.hexdigest()


def ranges(counts: Sequence[int], start: int, stop: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield where a range of positions lies in files of several rows.

    Args:
        counts: Number of rows of each file.
        start: First position.
        stop: Position after the last.

    Yields:
        The number of a file, its first row in the range, the row after its last, and the position of its row 0.
    """
    first = 0
    for number, count in enumerate(counts):
        low, high = max(start - first, 0), min(stop - first, count)
        if low < high:
            yield number, low, high, first
        first += count
