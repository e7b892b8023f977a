"""Regions with ε above 0: what they are as units, what is asked about them, and what is made of the answers.

1. The regions are painted without being read, as for ε = 0 (`sources`). The pixels of that file are public: the *base*.
2. Each region is asked about what it shows beyond the base (`codec.asking`). This reads private pixels once.
3. What was told is added to the base, and pasted into the file. Outside the regions, nothing changes by a bit.

A pixel belongs to a region if its cell meets it: in a JPEG, every pixel of the MCUs that the region meets. Its levels
depend on the stored values of its own cell alone (`Source.levels`). So a change of a region's cells changes pixels of
that region alone: the unit of the certificate is what was hidden.

Regions with one id are one unit, and so are regions that share a cell: a change of one may change both.
"""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any

import numpy as np

from dipp.codec import asking
from dipp.codec.archive import Archive
from dipp.core.regions import Place, Regions
from dipp.errors import DippError
from dipp.redaction.outlines import Margin, Mask
from dipp.redaction.paint import Fill, Painter, Pasted
from dipp.redaction.regions import PlacedRegions
from dipp.redaction.sources import Source, open_source

if TYPE_CHECKING:
    from dipp.models.denoiser import Denoiser


def unit_of(source: Source, placed: PlacedRegions, margin: Margin) -> Regions | None:
    """Return the regions of a picture as a unit: a place for each; None if there are none."""
    masks = [source.covered(source.cells(one.mask(margin))) for one in placed.each()]
    if not masks:
        return None
    joined = [*range(len(masks))]
    owner = np.full(masks[0].shape, -1, np.int64)
    first_of: dict[str, int] = {}
    for number, (region, mask) in enumerate(zip(placed.regions, masks, strict=True)):
        met = {joined[other] for other in np.unique(owner[mask]).tolist() if other >= 0}
        if region.id is not None:
            met.add(joined[first_of.setdefault(region.id, number)])
        least = min(met | {number})
        joined = [least if one in met or one == number else one for one in joined]
        owner[mask] = number
    numbers = {root: at for at, root in enumerate(dict.fromkeys(joined))}
    return Regions(tuple(Place.of(numbers[root], mask) for root, mask in zip(joined, masks, strict=True)))


def base_of(source: Source, cells: Mask, fill: Fill) -> Any:
    """Return the public pixels (H, W, 3) of a picture whose regions were painted without reading them."""
    return open_source(source.redacted(cells, fill), accept_lossy=True).levels()


def shown(denoiser: Denoiser, archive: Archive, base: Any) -> Fill:
    """Return the fill that shows what the answers of an archive tell."""
    return Pasted(asking.decoded(denoiser, archive, base))


def denoiser_of(fill: Fill, model: str, device: str) -> Denoiser:
    """Return the denoiser whose words are asked by: the painter's own, if there is one."""
    from dipp import models

    found = fill.denoiser if isinstance(fill, Painter) else models.load(model, device)
    if found.books is None or found.channels != 3 or found.latents is not None:
        raise DippError("model", f"must have words of 3 channels to ask regions, got {model}", "name another denoiser")
    return found


def spelt(archive: Archive) -> str:
    """Return the answers as a record has them: the file of the archive without its surroundings, in base64."""
    return base64.b64encode(asking.alone(archive).to_bytes()).decode()


def read(text: str) -> Archive:
    """Return the answers of a record."""
    try:
        return Archive.from_bytes(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError) as error:
        if isinstance(error, DippError):
            raise
        raise DippError("record", "has damaged answers", "get it again") from None
