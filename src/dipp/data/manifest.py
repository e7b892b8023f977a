"""Whole releases: the manifest or the single archive of all published shards, and their verification."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from dipp import __version__
from dipp.core.geometry import MAX_PIXELS, Geometry
from dipp.data import subjects
from dipp.data.contents import Contents
from dipp.data.folder import FORMAT, read_manifest, remains, sha256, shard_entries
from dipp.data.shards import Shard
from dipp.data.sources import Labels
from dipp.data.store import Store
from dipp.data.subjects import BySubject
from dipp.errors import FILE, DippError
from dipp.format.archive import Archive, whole_facts
from dipp.format.bytes import Integers
from dipp.format.parameters import PublicParameters
from dipp.privacy.certificate import SENTENCES

ENTRY = ("name", "bytes", "sha256", "images", "first", "positions")
"""Fields that a manifest states of each shard."""


def not_hidden(labelled: bool, grey: bool = False) -> str:
    """Return in words what a release reveals beyond what its certificate covers.

    Args:
        labelled: Whether labels are released.
        grey: Whether a picture is grey, so that the release says which are.
    """
    labels = ("which of them are grey, " if grey else "") + ("their labels, " if labelled else "")
    return f"number, order, widths and heights of the images, {labels}which of the source were skipped and why"


def manifest(
    store: Store, labels: Labels | None, known: Iterable[Contents] = (), grouped: BySubject | None = None
) -> dict[str, Any]:
    """Return the manifest of the published shards.

    Args:
        store: The folder of the shards.
        labels: The kind of the released labels; None if no labels are released.
        known: Contents of shards that were read before; all others are read here.
        grouped: The source, if its subjects are counted.

    Raises:
        DippError: There is no shard, or a shard cannot be read.
    """
    read = {contents.name: contents for contents in known}
    shards = [read.get(path.name) or Contents.of(path, Shard.read(path)) for path in store.shards()]
    if not shards:
        raise DippError("dst", "has no shard")
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
        "whole": whole_facts(shown.certificate, (shown.parameters.geometry(*largest) for largest in sizes)),
        **rates,
        "images": sum(shard.images for shard in shards),
        "grey": grey,
        "positions": sum(shard.positions for shard in shards),
        "pixels": pixels,
        "subjects": None
        if grouped is None
        else grouped.facts(shown.certificate, subjects.sizes_of(store, shown.parameters.geometry)),
        "labels": None if labels is None else {"names": list(labels.names)},
        "not_hidden": not_hidden(labels is not None, grey > 0),
        "skipped": [skipped._asdict() for shard in shards for skipped in shard.skipped],
        "shards": [{name: getattr(shard, name) for name in ENTRY} for shard in shards],
    }


def verify(folder: Path, *, payloads: bool = True) -> dict[str, Any]:
    """Check every shard of a release against its manifest and its own certificate.

    Each file must have its checksum. All shards must have the same plan, model and seed. They must cover positions 0 …
    N − 1, each once. The manifest must equal the manifest that these shards give, so that nothing in it is believed.

    Args:
        folder: The release.
        payloads: Whether to check in addition that all payloads unpack and together pass as an archive, and that
            nothing of an unfinished run is left. True by default.

    Returns:
        The facts that follow from the shards.

    Raises:
        DippError: A check fails.
    """
    stated = read_manifest(folder)
    if payloads and (remnants := remains(folder)):
        raise DippError(
            str(folder), f"has {remnants[0]} of a killed run, with names of files", "remove it, then give DST away"
        )
    store, position = Store(folder), 0
    try:
        entries = list(shard_entries(stated))
        if [name for name, _ in entries] != [path.name for path in store.shards()]:
            raise DippError(FILE, "has other shards than its manifest")
        labels = None if stated["labels"] is None else Labels(names=tuple(stated["labels"]["names"]))
        parameters: PublicParameters | None = None
        contents: list[Contents] = []
        for name, entry in entries:
            path = folder / name
            if sha256(path) != entry["sha256"]:
                raise DippError(name, "has a wrong checksum", "get it again")
            shard = Shard.read(path)
            parameters = parameters or shard.parameters
            if shard.parameters != parameters:
                raise DippError(name, "belongs to another release")
            if shard.first != position:
                raise DippError(name, f"must start at position {position}, got {shard.first}")
            position += shard.positions
            if shard.names != (() if labels is None else labels.names) or (labels is None and shard.labelled):
                raise DippError(name, "has other labels than the manifest")
            if payloads:
                shard.archive()  # applies every check of an archive
            contents.append(Contents.of(path, shard))
        computed = manifest(store, labels, contents)
    except (KeyError, TypeError, AttributeError):
        raise DippError(str(folder), "has a damaged manifest", "get it again") from None
    except DippError as error:
        raise error.within(folder) from None
    left_out = {"dipp", "not_hidden", "subjects"}
    expected, actual = (_without_words(facts) for facts in (computed, stated))
    wrong = [key for key, value in expected.items() if key not in left_out and actual.get(key) != value]
    if wrong or position != computed["positions"]:
        fields = ", ".join(wrong) or "positions"
        raise DippError(str(folder), f"states {fields} in its manifest that do not follow from its shards")
    try:
        checked = subjects.checked(stated.get("subjects"), computed)
    except DippError as error:
        raise error.within(folder) from None
    return {**computed, "dipp": stated.get("dipp"), "subjects": checked}


def _without_words(facts: dict[str, Any]) -> dict[str, Any]:
    """Return the facts without the wording of the certificate, which a later version may change."""
    certificate = facts.get("certificate")
    if not isinstance(certificate, dict):
        return facts
    return {**facts, "certificate": {key: value for key, value in certificate.items() if key not in SENTENCES}}


def archive(store: Store) -> Archive:
    """Return the images of all shards as one archive, which is put together in memory.

    Args:
        store: The folder of the shards.

    Raises:
        DippError: The images are not numbered without gaps.
    """
    geometries: list[Geometry] = []
    rows: list[Integers] = []
    grey: list[bool] = []
    for shard in map(Shard.read, store.shards()):
        parameters = shard.parameters
        if shard.ids.tolist() != list(range(len(rows), len(rows) + len(shard))):
            raise DippError("dst", "has gaps in the numbers of its images", "run the command again with --overwrite")
        geometries += shard.geometries()
        rows.extend(shard.all_rows())
        grey += shard.greys()
    return Archive.build(parameters, geometries, rows, grey=grey)
