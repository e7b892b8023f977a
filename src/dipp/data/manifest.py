"""Releases as a whole: the manifest or the single archive of all published shards, and their verification."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from dipp import __version__
from dipp.core.geometry import MAX_PIXELS, Geometry
from dipp.data import subjects
from dipp.data.contents import Contents
from dipp.data.shards import Shard
from dipp.data.sources import Labels
from dipp.data.store import FORMAT, Store, read_manifest, remains, sha256, shard_entries
from dipp.data.subjects import BySubject
from dipp.errors import FILE, DippError
from dipp.format.archive import Archive, whole_facts
from dipp.format.bytes import Integers
from dipp.format.release import Release
from dipp.privacy.certificate import WORDS

ENTRY = ("name", "bytes", "sha256", "images", "first", "positions")
"""What a manifest says of each shard."""


def not_hidden(labelled: bool, grey: bool = False) -> str:
    """What a release reveals that its certificate does not cover, in words."""
    labels = ("which of them are grey, " if grey else "") + ("their labels, " if labelled else "")
    return f"number, order, widths and heights of the images, {labels}which of the source were skipped and why"


def manifest(
    store: Store, labels: Labels | None, known: Iterable[Contents] = (), grouped: BySubject | None = None
) -> dict[str, Any]:
    """Return the manifest of the published shards.

    Args:
        store: Where the shards are.
        labels: The labels of the release; None if none are released.
        known: Contents of shards that were read before; all others are read here.
        grouped: The source, if its subjects are counted.
    """
    read = {contents.name: contents for contents in known}
    shards = [read.get(path.name) or Contents.of(path, Shard.read(path)) for path in store.shards()]
    if not shards:
        raise DippError("dst", "there is no shard")
    # The smallest image has the worst certificate.
    worst = min(shards, key=lambda shard: MAX_PIXELS + 1 if shard.smallest is None else shard.smallest)
    shown = Shard.read(store.folder / worst.name)
    sizes = {shard.largest for shard in shards if shard.largest is not None}
    pixels, size = (sum(getattr(shard, name) for shard in shards) for name in ("pixels", "bytes"))
    bits = sum(shard.payload_bits for shard in shards)
    grey = sum(shard.grey for shard in shards)
    rates = {"payload_bpp": bits / pixels if pixels else None, "file_bpp": 8 * size / pixels if pixels else None}
    return {
        "format": FORMAT,
        "version": 1,
        "dipp": __version__,
        **shown.archive().facts(),
        "whole": whole_facts(shown.certificate, (shown.release.geometry(*largest) for largest in sizes)),
        **rates,
        "images": sum(shard.images for shard in shards),
        "grey": grey,
        "positions": sum(shard.positions for shard in shards),
        "pixels": pixels,
        "subjects": None
        if grouped is None
        else grouped.facts(shown.certificate, subjects.sizes_of(store, shown.release.geometry)),
        "labels": None if labels is None else {"names": list(labels.names)},
        "not_hidden": not_hidden(labels is not None, grey > 0),
        "skipped": [one._asdict() for shard in shards for one in shard.skipped],
        "shards": [{name: getattr(shard, name) for name in ENTRY} for shard in shards],
    }


def verify(folder: Path, *, payloads: bool = True) -> dict[str, Any]:
    """Check every shard of a release against its manifest and its own certificate; return the facts of the shards.

    It is checked that each file has its checksum; that all shards have the same plan, model and seed; that they answer
    for positions 0 … N − 1, each once; and that the manifest is what these shards give, so that nothing in it
    is believed. With `payloads`, those of each shard must unpack, and together pass as an archive; and nothing of an
    unfinished run may be left.
    """
    stated = read_manifest(folder)
    if payloads and (left := remains(folder)):
        raise DippError(
            str(folder), f"{left[0]} of a killed run is left, with names of files", "remove it, then give DST away"
        )
    store, position = Store(folder), 0
    try:
        entries = list(shard_entries(stated))
        if [name for name, _ in entries] != [path.name for path in store.shards()]:
            raise DippError(FILE, "shards are missing, or there are others")
        labels = None if stated["labels"] is None else Labels(names=tuple(stated["labels"]["names"]))
        release: Release | None = None
        contents: list[Contents] = []
        for name, entry in entries:
            path = folder / name
            if sha256(path) != entry["sha256"]:
                raise DippError(name, "its checksum is wrong", "get it again")
            shard = Shard.read(path)
            release = release or shard.release
            if shard.release != release:
                raise DippError(name, "it belongs to another release")
            if shard.first != position:
                raise DippError(name, f"it starts at {shard.first}, where {position} is needed")
            position += shard.positions
            if shard.names != (() if labels is None else labels.names) or (labels is None and shard.labelled):
                raise DippError(name, "its labels are not those of the manifest")
            if payloads:
                shard.archive()  # applies every check of an archive
            contents.append(Contents.of(path, shard))
        computed = manifest(store, labels, contents)
    except (KeyError, TypeError, AttributeError):
        raise DippError(str(folder), "its manifest is damaged", "get it again") from None
    except DippError as error:
        raise error.within(folder) from None
    left_out = {"dipp", "not_hidden", "subjects"}
    mine, its = (_without_words(facts) for facts in (computed, stated))
    wrong = [key for key, value in mine.items() if key not in left_out and its.get(key) != value]
    if wrong or position != computed["positions"]:
        raise DippError(str(folder), f"{', '.join(wrong) or 'positions'} of the manifest is not what the shards hold")
    try:
        told = subjects.checked(stated.get("subjects"), computed)
    except DippError as error:
        raise error.within(folder) from None
    return {**computed, "dipp": stated.get("dipp"), "subjects": told}


def _without_words(facts: dict[str, Any]) -> dict[str, Any]:
    """The facts without those parts of the certificate that are words, which a later version may put better."""
    found = facts.get("certificate")
    if not isinstance(found, dict):
        return facts
    return {**facts, "certificate": {key: value for key, value in found.items() if key not in WORDS}}


def archive(store: Store) -> Archive:
    """Return the images of all shards as one archive, which is put together in memory."""
    geometries: list[Geometry] = []
    rows: list[Integers] = []
    grey: list[bool] = []
    for shard in map(Shard.read, store.shards()):
        release = shard.release
        if shard.ids.tolist() != list(range(len(rows), len(rows) + len(shard))):
            raise DippError(
                "dst", "an archive numbers its images without gaps", "run the command again with --overwrite"
            )
        geometries += shard.geometries()
        rows.extend(shard.all_rows())
        grey += shard.greys()
    return Archive.build(release, geometries, rows, grey=grey)
