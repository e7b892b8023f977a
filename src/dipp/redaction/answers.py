"""Regions with ε above 0: their units, the questions that they answer, and the picture that the answers show.

1. The regions are painted without being read, as for ε = 0 (`sources`). The pixels of that file are public: the *base*.
2. Each region answers questions about what it shows beyond the base (`codec.asking`). This reads private pixels once.
3. The answers are added to the base, and pasted into the file. Outside the regions, nothing changes by a bit.

A pixel belongs to a region if the pixel's cell meets the region: in a JPEG, every pixel of the MCUs that the region
meets. The levels of a pixel depend on the stored values of its own cell alone (`Original.levels`). So a change of a
region's cells changes pixels of that region alone: the unit of the certificate is what was hidden.

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
from dipp.redaction.paint import Fill, Painter, PastedFill
from dipp.redaction.regions import PlacedRegions
from dipp.redaction.sources import Original, open_source

if TYPE_CHECKING:
    from dipp.models.denoiser import Denoiser


def unit_of(source: Original, placed: PlacedRegions, margin: Margin) -> Regions | None:
    """Return the unit of a certificate about a picture's regions; None if there are no regions.

    The unit holds a place for each region. Places of regions with one id, or with a common cell, get the same number:
    they are protected together.

    Args:
        source: The picture.
        placed: Its regions.
        margin: How far each region grows.
    """
    masks = [source.covered(source.cells(region.mask(margin))) for region in placed.singles()]
    if not masks:
        return None
    roots = [*range(len(masks))]  # of each region, the first region with which it forms a unit
    owner = np.full(masks[0].shape, -1, np.int64)
    first_of: dict[str, int] = {}
    for number, (region, mask) in enumerate(zip(placed.regions, masks, strict=True)):
        met = {roots[other] for other in np.unique(owner[mask]).tolist() if other >= 0}
        if region.id is not None:
            met.add(roots[first_of.setdefault(region.id, number)])
        least = min(met | {number})
        roots = [least if root in met or root == number else root for root in roots]
        owner[mask] = number
    numbers = {root: at for at, root in enumerate(dict.fromkeys(roots))}
    return Regions(tuple(Place.of(numbers[root], mask) for root, mask in zip(roots, masks, strict=True)))


def base_of(source: Original, cells: Mask, fill: Fill) -> Any:
    """Return the public pixels (H, W, 3), uint8, of a picture whose hidden cells were painted without being read.

    Args:
        source: The original picture.
        cells: Mask of the hidden cells.
        fill: Function that paints the hidden cells.
    """
    return open_source(source.redacted(cells, fill), accept_lossy=True).levels()


def shown(denoiser: Denoiser, archive: Archive, base: Any) -> Fill:
    """Return a fill that pastes pixels of a public picture: the base, with the answers of an archive added.

    Args:
        denoiser: The denoiser whose words are the answers.
        archive: The answers.
        base: Public pixels (H, W, 3), to which the answers add.
    """
    return PastedFill(asking.decoded(denoiser, archive, base))


def denoiser_of(fill: Fill, model: str, device: str) -> Denoiser:
    """Return the denoiser whose words are the candidates of questions: by default that of `fill`.

    Args:
        fill: What is painted in regions.
        model: Folder or hub id of the denoiser to load for a fill without one.
        device: Device for that denoiser.

    Raises:
        DippError: The denoiser has no words of 3 channels.
    """
    from dipp import models

    denoiser = fill.denoiser if isinstance(fill, Painter) else models.load(model, device)
    if denoiser.books is None or denoiser.channels != 3 or denoiser.latents is not None:
        raise DippError("model", f"must have words of 3 channels to ask regions, got {model}", "name another denoiser")
    return denoiser


def spelt(archive: Archive) -> str:
    """Return the answers of an archive as text for a record: the file without the surroundings, in base64."""
    return base64.b64encode(asking.alone(archive).to_bytes()).decode()


def read(text: str) -> Archive:
    """Return the answers that `spelt` has written into a record; raise if the text is damaged."""
    try:
        return Archive.from_bytes(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError) as error:
        if isinstance(error, DippError):
            raise
        raise DippError("record", "has damaged answers", "get it again") from None
