"""Redacted pictures as files, and the names that such files may have."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from dipp import files
from dipp.codec.archive import Archive
from dipp.errors import DippError
from dipp.redaction.record import Record, beside

SUFFIXES = {
    "JPEG": (".jpg", ".jpeg", ".jpe", ".jfif"),
    "PNG": (".png",),
    "TIFF": (".tif", ".tiff"),
    "WebP": (".webp",),
    "DICOM": (".dcm", ".dicom", ""),
}
"""Allowed endings of file names by the format that is written; the first is the usual one."""
ENDINGS = {ending for endings in SUFFIXES.values() for ending in endings if ending} | {
    ".avif",
    ".heic",
    ".heif",
    ".jp2",
    ".j2k",
}
"""Endings of the names of pictures that can be redacted."""
ARCHIVE = ".dipp"


@dataclass(frozen=True)
class RedactedPicture:
    """A picture whose regions were replaced, and its record."""

    content: bytes = field(repr=False)
    """The file, as bytes."""
    record: Record
    """What was done to the picture."""
    archive: Archive | None = field(default=None, repr=False)
    """The surroundings and the answers about regions as a `.dipp` file; None for ε = 0."""

    @property
    def kind(self) -> str:
        """Format of the file: JPEG, PNG, TIFF, WebP or DICOM."""
        return str(self.record.facts["output"]["kind"])

    def save(self, path: str | Path) -> Path:
        """Write the file, and its record beside it as NAME.record.json.

        If there is an archive and the name ends in .dipp, only the archive is written: it holds its own certificate.

        Args:
            path: Path of the file.

        Returns:
            The path of the record, or of the archive.

        Raises:
            DippError: The ending of the name belongs to another format, or a file cannot be written.
        """
        target = Path(path)
        if target.suffix.lower() == ARCHIVE and self.archive is not None:
            self.archive.save(target)
            return target
        require_suffix(target, self.kind)
        self.record.facts["output"]["name"] = target.name
        with files.atomic(target) as part:
            part.write_bytes(self.content)
        self.record.save(beside(target))
        return beside(target)


def require_suffix(path: Path, kind: str) -> None:
    """Raise if the ending of a path does not belong to a format, such as JPEG.

    Args:
        path: The path.
        kind: The format.
    """
    if path.suffix.lower() not in SUFFIXES[kind]:
        raise DippError("output", f"must end in {SUFFIXES[kind][0]} for a {kind} file, got {path.name}")


def named(name: str, kind: str) -> str:
    """Return the name of a redacted picture: the given name, with a new ending if that of `kind` is another one.

    Args:
        name: The name of the original.
        kind: Format of the redacted picture.
    """
    path = PurePosixPath(name)
    return name if path.suffix.lower() in SUFFIXES[kind] else str(path.with_suffix(SUFFIXES[kind][0]))
