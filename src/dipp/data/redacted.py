"""Releases of redacted pictures: lists of the published pictures, their manifest, and their verification.

The pictures are ordinary files in `pictures/`, which any program opens. So `dipp.load` has nothing to decode: it
refuses such a release, and says where the pictures are.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from dipp import __version__
from dipp.data.contents import Contents, SkippedPosition
from dipp.data.folder import PICTURES, REDACTED, manifest_of, remains, sha256, shard_entries
from dipp.data.sources import Label, Labels
from dipp.data.store import Store
from dipp.errors import FILE, DippError
from dipp.redaction import record as records
from dipp.redaction.record import SUFFIX, Record

FORMAT, VERSION = "dipp redacted shard", 1
"""Format and version of a list."""
ENTRY = ("name", "sha256", "images", "first", "positions")
"""Fields that a manifest states of each list."""
NOT_HIDDEN = (
    "everything that no region covers, as it was; names, folders, formats, sizes and number of the pictures; "
    "positions, sizes, kinds and number of the regions; which pictures of the source were skipped and why"
)
"""What a release of redacted pictures reveals, in words."""
LABELS = "; labels"
"""What a release with labels reveals in addition."""


@dataclass(frozen=True)
class ListedPicture:
    """A published redacted picture, as the list of its shard states it."""

    position: int
    """Position in the source."""
    name: str
    """Path below the folder of pictures."""
    label: Label
    """Label of the picture; None without a label."""
    length: int
    """Size of the file in bytes."""
    sha256: str
    """Hex SHA-256 of the file."""
    record: str
    """Hex SHA-256 of the file of its record."""
    size: tuple[int, int]
    """Width and height in pixels."""
    kinds: dict[str, int]
    """Number of its regions, by kind."""
    units: int
    """Number of its regions, where regions with the same id count once."""
    hidden: int
    """Number of hidden pixels."""
    fill: str
    """What is painted in place of the regions."""
    model: str | None
    """Identity of the denoiser that painted; None without a denoiser."""
    assumptions: tuple[str, ...]
    """What the certificate of the picture assumes, in words."""

    @classmethod
    def of(cls, position: int, name: str, label: Label, content: bytes, text: bytes) -> ListedPicture:
        """Return what a list states of a picture and its record.

        Args:
            position: Position in the source.
            name: Path below the folder of pictures.
            label: Label of the picture; None without a label.
            content: Bytes of the picture's file.
            text: Bytes of the file of its record.
        """
        facts: dict[str, Any] = json.loads(text)
        width, height = facts["output"]["size"]
        certificate = facts["certificate"]
        return cls(
            position,
            name,
            label,
            len(content),
            hashlib.sha256(content).hexdigest(),
            hashlib.sha256(text).hexdigest(),
            (width, height),
            dict(sorted(Counter(region["kind"] for region in facts["regions"]).items())),
            certificate["unit"]["units"],
            facts["hidden"]["pixels"],
            facts["fill"],
            facts["model"],
            tuple(certificate["assumptions"]),
        )


@dataclass(frozen=True)
class Listing:
    """The list of the redacted pictures in a shard, in the order of the source."""

    first: int
    """First position of the source that the list covers."""
    positions: int
    """Number of positions that the list covers."""
    pictures: tuple[ListedPicture, ...]
    skipped: tuple[SkippedPosition, ...] = field(default=())
    """Covered positions that have no picture."""

    def to_json(self) -> str:
        """Return the list as JSON, the text of its file."""
        facts = {
            "format": FORMAT,
            "version": VERSION,
            "first": self.first,
            "positions": self.positions,
            "pictures": [asdict(picture) for picture in self.pictures],
            "skipped": [skipped._asdict() for skipped in self.skipped],
        }
        return json.dumps(facts, indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def read(cls, path: Path) -> Listing:
        """Read a list.

        Args:
            path: The file.

        Raises:
            DippError: The file is missing, damaged, or no list.
        """
        try:
            facts = json.loads(path.read_text(encoding="utf-8"))
            if (facts["format"], facts["version"]) != (FORMAT, VERSION):
                raise DippError(path.name, f"must be a list of version {VERSION}", "upgrade dipp")
            pictures = tuple(
                ListedPicture(**{**entry, "size": tuple(entry["size"]), "assumptions": tuple(entry["assumptions"])})
                for entry in facts["pictures"]
            )
            skipped = tuple(SkippedPosition(**entry) for entry in facts["skipped"])
            return cls(int(facts["first"]), int(facts["positions"]), pictures, skipped)
        except OSError as error:
            raise DippError(path.name, f"cannot be read ({error.strerror})") from None
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            if isinstance(error, DippError):
                raise
            raise DippError(path.name, "is not a whole list", "get it again") from None

    def contents(self, path: Path) -> Contents:
        """Return what the list holds, as a worker reports it.

        Args:
            path: The file of the list.
        """
        size = sum(picture.length for picture in self.pictures)
        pixels = sum(picture.size[0] * picture.size[1] for picture in self.pictures)
        count = len(self.pictures)
        digest = sha256(path)
        return Contents(
            path.name, size, digest, count, self.first, self.positions, self.skipped, pixels, None, 8 * size, 0
        )


def manifest(store: Store, labels: Labels | None) -> dict[str, Any]:
    """Return the manifest of all published shards, which are lists of redacted pictures.

    Args:
        store: The folder of the lists.
        labels: The kind of the released labels; None if no labels are released.
    """
    paths = store.shards()
    lists = [Listing.read(path) for path in paths]
    pictures = [picture for listing in lists for picture in listing.pictures]
    shards = [listing.contents(path) for listing, path in zip(lists, paths, strict=True)]
    return {
        "format": REDACTED,
        "version": 1,
        "dipp": __version__,
        "certificate": certificate(pictures),
        "images": len(pictures),
        "positions": sum(listing.positions for listing in lists),
        "pixels": sum(shard.pixels for shard in shards),
        "bytes": sum(shard.bytes for shard in shards),
        "hidden_pixels": sum(picture.hidden for picture in pictures),
        "kinds": dict(sorted(sum((Counter(picture.kinds) for picture in pictures), Counter()).items())),
        "without_regions": sum(not picture.units for picture in pictures),
        "fills": sorted({picture.fill for picture in pictures}),
        "models": sorted({picture.model for picture in pictures if picture.model}),
        "labels": None if labels is None else {"names": list(labels.names)},
        "not_hidden": NOT_HIDDEN + (LABELS if labels is not None else ""),
        "skipped": [skipped._asdict() for listing in lists for skipped in listing.skipped],
        "shards": [{name: getattr(shard, name) for name in ENTRY} for shard in shards],
    }


def certificate(pictures: Sequence[ListedPicture]) -> dict[str, Any]:
    """Return the certificate of all regions of a release, which follows from that of each picture.

    *Claim.* The release has ε = 0 for each unit, and for all regions together.

    *Proof.* Each picture is a function of what lies outside of its own regions and of public numbers, so the law of the
    whole release does not depend on any region, nor on all of them together. Regions with the same id are one unit
    within a picture; a unit has ε = 0 whatever its number of regions.

    Args:
        pictures: The published pictures.
    """
    regions = sum(sum(picture.kinds.values()) for picture in pictures)
    units = sum(picture.units for picture in pictures)
    return records.promise(regions, units, sorted({line for picture in pictures for line in picture.assumptions}))


def verify(folder: Path, device: str = "auto") -> dict[str, Any]:
    """Check every picture of a release against its record, its list and the manifest.

    Args:
        folder: The release.
        device: Device of the denoiser that paints again; "auto" by default.

    Returns:
        The manifest.

    Raises:
        DippError: A file is missing, changed or not listed, or a fact does not follow from the files.
    """
    stated = manifest_of(folder)
    if stated["format"] != REDACTED:
        raise DippError(str(folder), "has no redacted pictures", "use dipp info --verify to check it")
    if remnants := remains(folder):
        raise DippError(
            str(folder), f"has {remnants[0]} of a killed run, with names of files", "remove it, then give DST away"
        )
    store = Store(folder, ".json")
    try:
        entries = list(shard_entries(stated))
        if [name for name, _ in entries] != [path.name for path in store.shards()]:
            raise DippError(FILE, "has other shards than its manifest")
        names = set(_checked(folder, (folder / name for name, _ in entries), device))
        published = {path.relative_to(folder / PICTURES).as_posix() for path in _files(folder / PICTURES)}
        if published != names:
            raise DippError(min(published ^ names), "is in the folder without being listed")
        labels = None if stated["labels"] is None else Labels(names=tuple(stated["labels"]["names"]))
        computed = manifest(store, labels)
    except (KeyError, TypeError, AttributeError):
        raise DippError(str(folder), "has a damaged manifest", "get it again") from None
    except DippError as error:
        raise error.within(folder) from None
    wrong = [name for name, value in computed.items() if name != "dipp" and stated.get(name) != value]
    if wrong:
        raise DippError(str(folder), f"states {', '.join(wrong)} in its manifest that do not follow from its shards")
    return stated


def _files(folder: Path) -> Iterator[Path]:
    """Return all files below a folder."""
    return (path for path in folder.rglob("*") if not path.is_dir())


def _checked(folder: Path, lists: Iterable[Path], device: str) -> Iterator[str]:
    """Check all pictures that the given lists (`Listing`) contain, and yield the names of their files and records."""
    position = 0
    for path in lists:
        listing = Listing.read(path)
        entries: tuple[ListedPicture | SkippedPosition, ...] = (*listing.pictures, *listing.skipped)
        taken = sorted(entry.position for entry in entries)
        if listing.first != position or taken != list(range(position, position + listing.positions)):
            raise DippError(path.name, "has positions that do not follow those before")
        position += listing.positions
        for listed in listing.pictures:
            file = folder / PICTURES / listed.name
            if not file.resolve().is_relative_to((folder / PICTURES).resolve()):
                raise DippError(path.name, f"lists {listed.name}, which leads out of the folder")
            try:
                content, text = file.read_bytes(), records.beside(file).read_bytes()
            except OSError as error:
                raise DippError(listed.name, f"or its record cannot be read ({error.strerror})") from None
            if ListedPicture.of(listed.position, listed.name, listed.label, content, text) != listed:
                raise DippError(listed.name, "or its record is not what its list says")
            records.check(file, Record.read(records.beside(file)), device)
            yield from (listed.name, listed.name + SUFFIX)
