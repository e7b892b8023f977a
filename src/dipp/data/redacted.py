"""Releases of redacted pictures: lists of what was published, the manifest of them, and their verification.

The pictures are ordinary files in `pictures/`, which any program opens. So there is nothing for `dipp.load` to decode:
it refuses such a release, and says where the pictures are.
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
from dipp.data.contents import Contents, Skipped
from dipp.data.sources import Label, Labels
from dipp.data.store import PICTURES, REDACTED, Store, manifest_of, remains, sha256, shard_entries
from dipp.errors import FILE, DippError
from dipp.redaction import record as records
from dipp.redaction.record import SUFFIX, Record

FORMAT, VERSION = "dipp redacted shard", 1
ENTRY = ("name", "sha256", "images", "first", "positions")
"""What a manifest says of each list."""
NOT_HIDDEN = (
    "everything that no region covers, as it was; names, folders, formats, sizes and number of the pictures; "
    "positions, sizes, kinds and number of the regions; which pictures of the source were skipped and why"
)
LABELS = "; labels"


@dataclass(frozen=True)
class Listed:
    """A picture that was published."""

    position: int
    name: str
    """Path below the folder of pictures."""
    label: Label
    length: int
    """Bytes of the file."""
    sha256: str
    record: str
    """Hex SHA-256 of its record."""
    size: tuple[int, int]
    """Width and height."""
    kinds: dict[str, int]
    """How many regions of each kind it has."""
    units: int
    """Number of regions, where those with one id count once."""
    hidden: int
    """Pixels that are hidden."""
    fill: str
    model: str | None
    assumptions: tuple[str, ...]

    @classmethod
    def of(cls, position: int, name: str, label: Label, content: bytes, text: bytes) -> Listed:
        """Return what a list says of a picture and its record."""
        facts: dict[str, Any] = json.loads(text)
        width, height = facts["output"]["size"]
        promised = facts["certificate"]
        return cls(
            position,
            name,
            label,
            len(content),
            hashlib.sha256(content).hexdigest(),
            hashlib.sha256(text).hexdigest(),
            (width, height),
            dict(sorted(Counter(region["kind"] for region in facts["regions"]).items())),
            promised["unit"]["units"],
            facts["hidden"]["pixels"],
            facts["fill"],
            facts["model"],
            tuple(promised["assumptions"]),
        )


@dataclass(frozen=True)
class Listing:
    """A shard of a redaction: the list of its pictures, in the order of the source."""

    first: int
    positions: int
    pictures: tuple[Listed, ...]
    skipped: tuple[Skipped, ...] = field(default=())

    def to_json(self) -> str:
        """Return the list as the text of its file."""
        facts = {
            "format": FORMAT,
            "version": VERSION,
            "first": self.first,
            "positions": self.positions,
            "pictures": [asdict(one) for one in self.pictures],
            "skipped": [one._asdict() for one in self.skipped],
        }
        return json.dumps(facts, indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def read(cls, path: Path) -> Listing:
        """Read a list.

        Raises:
            DippError: The file is missing, damaged, or not such a list.
        """
        try:
            facts = json.loads(path.read_text(encoding="utf-8"))
            if (facts["format"], facts["version"]) != (FORMAT, VERSION):
                raise DippError(path.name, f"a list of version {VERSION} is needed", "upgrade dipp")
            pictures = tuple(
                Listed(**{**one, "size": tuple(one["size"]), "assumptions": tuple(one["assumptions"])})
                for one in facts["pictures"]
            )
            skipped = tuple(Skipped(**one) for one in facts["skipped"])
            return cls(int(facts["first"]), int(facts["positions"]), pictures, skipped)
        except OSError as error:
            raise DippError(path.name, f"cannot be read ({error.strerror})") from None
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            if isinstance(error, DippError):
                raise
            raise DippError(path.name, "not a whole list", "get it again") from None

    def contents(self, path: Path) -> Contents:
        """Return what the list holds, as a worker tells it."""
        size = sum(one.length for one in self.pictures)
        pixels = sum(one.size[0] * one.size[1] for one in self.pictures)
        count = len(self.pictures)
        digest = sha256(path)
        return Contents(
            path.name, size, digest, count, self.first, self.positions, self.skipped, pixels, None, 8 * size, 0
        )


def manifest(store: Store, labels: Labels | None) -> dict[str, Any]:
    """Return the manifest of all published lists; `labels` is None if none are released."""
    paths = store.shards()
    lists = [Listing.read(path) for path in paths]
    pictures = [one for listing in lists for one in listing.pictures]
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
        "hidden_pixels": sum(one.hidden for one in pictures),
        "kinds": dict(sorted(sum((Counter(one.kinds) for one in pictures), Counter()).items())),
        "without_regions": sum(not one.units for one in pictures),
        "fills": sorted({one.fill for one in pictures}),
        "models": sorted({one.model for one in pictures if one.model}),
        "labels": None if labels is None else {"names": list(labels.names)},
        "not_hidden": NOT_HIDDEN + (LABELS if labels is not None else ""),
        "skipped": [one._asdict() for listing in lists for one in listing.skipped],
        "shards": [{name: getattr(shard, name) for name in ENTRY} for shard in shards],
    }


def certificate(pictures: Sequence[Listed]) -> dict[str, Any]:
    """Return what is promised for all regions of a release: what is promised for those of each picture.

    *Proof.* Each picture is a function of what lies outside of its own regions and of public numbers, so the law of the
    whole release does not depend on any region, nor on all of them together. Regions with one id are one unit within a
    picture; a unit has ε = 0 whatever its number of regions.
    """
    regions = sum(sum(one.kinds.values()) for one in pictures)
    units = sum(one.units for one in pictures)
    return records.promise(regions, units, sorted({line for one in pictures for line in one.assumptions}))


def verify(folder: Path, device: str = "auto") -> dict[str, Any]:
    """Check every picture of a release against its record, its list and the manifest; return the manifest.

    Raises:
        DippError: Something is missing, was changed, is there without being listed, or does not follow.
    """
    stated = manifest_of(folder)
    if stated["format"] != REDACTED:
        raise DippError(str(folder), "it holds no redacted pictures", "dipp info --verify checks it")
    if left := remains(folder):
        raise DippError(
            str(folder), f"{left[0]} of a killed run is left, with names of files", "remove it, then give DST away"
        )
    store = Store(folder, ".json")
    try:
        entries = list(shard_entries(stated))
        if [name for name, _ in entries] != [path.name for path in store.shards()]:
            raise DippError(FILE, "shards are missing, or there are others")
        names = set(_checked(folder, (folder / name for name, _ in entries), device))
        found = {path.relative_to(folder / PICTURES).as_posix() for path in _files(folder / PICTURES)}
        if found != names:
            raise DippError(min(found ^ names), "it is there without being listed")
        labels = None if stated["labels"] is None else Labels(names=tuple(stated["labels"]["names"]))
        computed = manifest(store, labels)
    except (KeyError, TypeError, AttributeError):
        raise DippError(str(folder), "its manifest is damaged", "get it again") from None
    except DippError as error:
        raise error.within(folder) from None
    wrong = [name for name, value in computed.items() if name != "dipp" and stated.get(name) != value]
    if wrong:
        raise DippError(str(folder), f"{', '.join(wrong)} of the manifest is not what the shards hold")
    return stated


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if not path.is_dir())


def _checked(folder: Path, lists: Iterable[Path], device: str) -> Iterator[str]:
    """Check the pictures of lists, and yield the names of their files."""
    position = 0
    for path in lists:
        listing = Listing.read(path)
        taken = sorted([*(one.position for one in listing.pictures), *(one.position for one in listing.skipped)])
        if listing.first != position or taken != list(range(position, position + listing.positions)):
            raise DippError(path.name, "its positions do not follow those before")
        position += listing.positions
        for one in listing.pictures:
            place = folder / PICTURES / one.name
            if not place.resolve().is_relative_to((folder / PICTURES).resolve()):
                raise DippError(path.name, f"{one.name} leads out of the folder")
            try:
                content, text = place.read_bytes(), records.beside(place).read_bytes()
            except OSError as error:
                raise DippError(one.name, f"it or its record cannot be read ({error.strerror})") from None
            if Listed.of(one.position, one.name, one.label, content, text) != one:
                raise DippError(one.name, "it or its record is not what its list says")
            records.check(place, Record.read(records.beside(place)), device)
            yield from (one.name, one.name + SUFFIX)
