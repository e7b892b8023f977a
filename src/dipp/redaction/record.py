"""The record of a redaction: what was hidden, which file was written, what is promised; and the check of a record.

A record follows from public numbers and from the file that was written. It holds nothing of the original, not even a
digest, because a digest of something that can be guessed tells which guess is right.

**The check needs no trust in the sender.** Redaction never reads a region, and what it writes decodes to the same
surroundings. So the redacted file, redacted again with the same regions, is the same file: byte by byte. Anybody with
the file and its record can see that the content of the regions follows from their surroundings, and from nothing else.
(Painting computes with floats: another machine may round differently, and then the check says by how much.)
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dipp import __version__, files
from dipp.codec.archive import Archive
from dipp.errors import DippError
from dipp.models import embedded
from dipp.redaction import answers, paint
from dipp.redaction.formats import own
from dipp.redaction.formats.reading import File
from dipp.redaction.outlines import Margin, Mask, mask_of_runs, runs
from dipp.redaction.regions import PlacedRegions, Region
from dipp.redaction.sources import Original, open_source

FORMAT, VERSION = "dipp redaction", 1
SUFFIX = ".record.json"
PUBLIC = ("position", "size", "kind", "unit", "number")
"""Facts about regions that a record makes public."""
NOT_COVERED = "What no region covers is not protected: what a detector missed, hair, clothes, places, other pictures."
CHOSEN = "Whoever has the file learns where regions are, of which kind and how many: declaring them told that."
UNIT = (
    "A region is every pixel of the cells that it meets (in a JPEG: of the MCUs), as they are stored. Regions with one "
    "id, or that share a cell, are one unit, which pays ε for all that it answers."
)
TOLERANCE = 2
"""Largest difference, in grey levels, by which painting may differ on another machine."""


@dataclass(frozen=True)
class Record:
    """What was done to one picture: the JSON that is written beside it."""

    facts: dict[str, Any]

    @classmethod
    def of(
        cls,
        name: str,
        content: bytes,
        source: Original,
        placed: PlacedRegions,
        cells: Mask,
        *,
        margin: Margin,
        fill: str,
        model: str | None,
        archive: Archive | None = None,
    ) -> Record:
        """Return the record of a file that was just made.

        Args:
            name: Name of the file.
            content: Bytes of the file.
            source: The original picture.
            placed: The regions of the original.
            cells: (rows, columns): which cells of the source are hidden.
            margin: How far each region grew.
            fill: Name of the fill.
            model: Identity of the denoiser that painted; None if none did.
            archive: Answers about the regions; None for ε = 0.
        """
        width, height = placed.size
        across, down = source.cell
        return cls(
            {
                "format": FORMAT,
                "version": VERSION,
                "dipp": __version__,
                "output": {
                    "name": name,
                    **_digest(content),
                    "kind": source.kind,
                    "size": [width, height],
                    "orientation": source.orientation,
                },
                "regions": [own.entry(region) for region in _numbered(placed.regions)],
                "turned": placed.turned,
                "margin": {"pixels": margin.pixels, "share": margin.share},
                "hidden": {"cell": [across, down], "runs": runs(cells), "pixels": int(source.covered(cells).sum())},
                "fill": fill,
                "model": model,
                **({} if archive is None else {"answers": answers.spelt(archive)}),
                "certificate": certificate(placed.regions, source.assumptions, archive),
            }
        )

    def about(self, content: bytes) -> Record:
        """Return this record for another file of the same picture, which was redacted with the same options."""
        output = {**self.facts["output"], **_digest(content)}
        return Record({**self.facts, "output": output})

    @classmethod
    def read(cls, path: Path) -> Record:
        """Return the record in a file.

        Raises:
            DippError: The file cannot be read, or is not a record of this version.
        """
        content = File.open(path).json
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise DippError(path.name, "is not a record of dipp redact")
        if content.get("version") != VERSION:
            raise DippError(
                path.name, f"must be a record of version {VERSION}, got {content.get('version')!s:.20}", "upgrade dipp"
            )
        return cls(content)

    def to_json(self) -> str:
        """Return the record as the text of its file."""
        return json.dumps(self.facts, indent=1, ensure_ascii=False) + "\n"

    def save(self, path: Path) -> None:
        """Write the record to a file."""
        with files.atomic(path) as part:
            part.write_text(self.to_json(), encoding="utf-8")

    @property
    def kinds(self) -> Counter[str]:
        """Number of regions of each kind."""
        return Counter(str(region["kind"]) for region in self.facts["regions"])

    @property
    def share(self) -> float:
        """Share of the picture's pixels that is hidden, 0 to 1."""
        width, height = self.facts["output"]["size"]
        return float(self.facts["hidden"]["pixels"] / (width * height))


def _numbered(regions: Sequence[Region]) -> list[Region]:
    """Return regions with numbers in place of their ids, because an id may be a name and the record is public."""
    ids = list(dict.fromkeys(region.id for region in regions if region.id is not None))
    return [region if region.id is None else replace(region, id=str(ids.index(region.id) + 1)) for region in regions]


def certificate(
    regions: Sequence[Region], assumptions: Sequence[str], archive: Archive | None = None
) -> dict[str, Any]:
    """Return the certificate of regions as JSON: ε = 0 for each, or the ε of their answers. Pixels outside have none.

    *Proof.* Two pictures that differ in a region alone, and are compressed alike, become the same file (`hidden`). So
    the law of what is released does not depend on the region: ε = 0, for any number of regions. Regions with one id are
    one unit, what belongs to one person. If regions answer questions, everything else that is released follows from
    such a file, so the price is that of the archive (`codec.asking`).

    Args:
        regions: The regions of a picture.
        assumptions: Assumptions about the original.
        archive: Answers about the regions; None for ε = 0.
    """
    if archive is not None:
        answered = archive.certificate
        stated = [CHOSEN, NOT_COVERED, UNIT, *answered.assumptions, *assumptions]
        units = answered.unit.total(0, 1)
        return {**promise(len(regions), units, stated), "epsilon": answered.epsilon, "rho": answered.rho}
    named = {region.id for region in regions if region.id is not None}
    return promise(
        len(regions), len(named) + sum(region.id is None for region in regions), [CHOSEN, NOT_COVERED, *assumptions]
    )


def promise(regions: int, units: int, assumptions: Sequence[str]) -> dict[str, Any]:
    """Return the certificate of regions that were never read, as JSON; `certificate` has the proof.

    Args:
        regions: Number of regions.
        units: Number of units, where regions with one id count once.
        assumptions: Assumptions about the original.
    """
    return {
        "unit": {"kind": "region", "regions": regions, "units": units},
        "epsilon": 0.0 if regions else None,
        "rho": 0.0 if regions else None,
        "delta": 0.0 if regions else None,
        "outside": "released as it was",
        "public": list(PUBLIC),
        "assumptions": list(assumptions),
    }


def _digest(content: bytes) -> dict[str, Any]:
    """Return the SHA-256 and the length of a file."""
    return {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}


def beside(path: Path) -> Path:
    """Return the path of a picture's record by default: NAME.record.json in the same folder."""
    return path.with_name(path.name + SUFFIX)


@dataclass(frozen=True)
class RecordCheck:
    """The result of a check that found no contradiction; a contradiction raises an error instead."""

    regions: int
    """Number of regions in the record."""
    repainted: str
    """`same bytes`, or how much the painting differs on this machine, in words."""


def check(path: Path, record: Record, device: str = "auto") -> RecordCheck:
    """Check that a picture is the file of a record, and that its regions follow from their surroundings.

    Args:
        path: The redacted picture.
        record: Its record.
        device: Device of the denoiser that paints the regions again.

    Returns:
        What the check compared.

    Raises:
        DippError: The file is not that of the record, the record contradicts itself, or the content of a region does
            not follow from its surroundings and the record's answers.
    """
    try:
        return _check(path, record.facts, device)
    except (KeyError, TypeError, IndexError, AttributeError, OverflowError, ValueError) as error:
        if isinstance(error, DippError):
            raise
        raise DippError(path.name, "has a record that is not whole", "get it again") from None


def _check(path: Path, facts: dict[str, Any], device: str) -> RecordCheck:
    """Check a picture against the JSON of its record; if the JSON is damaged, this raises errors of many types."""
    content, stated = File.open(path).content, facts["output"]
    if hashlib.sha256(content).hexdigest() != stated["sha256"]:
        raise DippError(path.name, "is not the file of its record: it was changed, or belongs to another")
    source = open_source(content, accept_lossy=False)
    claimed = stated["kind"], tuple(stated["size"]), stated["orientation"], tuple(facts["hidden"]["cell"])
    if claimed != (source.kind, source.size, source.orientation, source.cell):
        raise DippError(path.name, "has another kind, size or orientation than its record", "do not trust it")
    about = File(Path(path.name), b"")
    regions = tuple(own.region(about, entry) for entry in facts["regions"])
    margin = Margin(float(facts["margin"]["pixels"]), float(facts["margin"]["share"]))
    cells = source.cells(PlacedRegions(regions, source.size, int(facts["turned"])).mask(margin))
    hidden = facts["hidden"]
    same = np.array_equal(cells, mask_of_runs(hidden["runs"], *cells.shape))
    if not same or hidden["pixels"] != int(source.covered(cells).sum()):
        raise DippError(path.name, "has a record whose regions do not cover what it says was hidden", "do not trust it")
    promised, archive = facts["certificate"], None
    if "answers" in facts:
        archive = answers.read(facts["answers"])
        placed = PlacedRegions(regions, source.size, int(facts["turned"]))
        if archive.parameters.plan.unit != answers.unit_of(source, placed, margin):
            raise DippError(path.name, "has a record whose answers are about other regions", "do not trust it")
    wanted = certificate(regions, (), archive)
    if any(promised[name] != wanted[name] for name in ("unit", "epsilon", "rho", "delta", "outside")):
        raise DippError(path.name, "has a record whose certificate does not follow from its regions", "do not trust it")
    fill = paint.fill(facts["fill"], str(embedded.FOLDER), device)
    if isinstance(fill, paint.Painter) and facts["model"] != fill.denoiser.identity:
        raise DippError(path.name, "was painted by another denoiser, so its regions cannot be painted again here")
    shown: paint.Fill = fill
    if archive is not None:
        denoiser = answers.denoiser_of(fill, str(embedded.FOLDER), device)
        shown = answers.shown(denoiser, archive, answers.base_of(source, cells, fill))
    exact = archive is None and not isinstance(fill, paint.Painter)
    return RecordCheck(len(regions), _repainted(path, content, source, cells, shown, exact=exact))


def _repainted(path: Path, content: bytes, source: Original, cells: Mask, fill: paint.Fill, *, exact: bool) -> str:
    """Return in words how a file and its second redaction differ; raise if they differ by more than rounding.

    `exact` says that no difference is allowed, because the fill rounds alike on every machine.
    """
    if content == source.redacted(cells, fill):
        return "same bytes"
    levels = source.distance(cells, fill)
    if levels > (0 if exact else TOLERANCE):
        raise DippError(path.name, "has regions that hold something which does not follow from their surroundings")
    if content != source.redacted(np.zeros_like(cells), paint.grey):
        raise DippError(path.name, "was not written by dipp redact in this form, and may hold more than its picture")
    return f"within {max(levels, 0.01):.2g} levels: painted on another machine, or by another version"
