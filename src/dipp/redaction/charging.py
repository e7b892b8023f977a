"""Charges of redactions on the odometer: what lies outside of the regions is released as it is.

Two redactions of one picture with different regions leave hidden what both of them hide, and nothing else. So the
odometer keeps the mask of every redaction, and warns a user who redacts a picture again of what the two leave hidden.
"""

from __future__ import annotations

import json
import logging
import math
import zlib
from dataclasses import dataclass

import numpy as np

from dipp.codec import pictures
from dipp.errors import DippError
from dipp.odometer import Charge, Meter, Odometer, fresh_release
from dipp.privacy.certificate import Certificate
from dipp.redaction.outlines import Mask, mask_of_runs, runs
from dipp.redaction.sources import Original

LOGGER = logging.getLogger("dipp.odometer")
COMMAND = "redact"


@dataclass(frozen=True)
class Remainder:
    """The pixels that all redactions of a picture leave hidden."""

    releases: int
    """Number of the redactions, and of other releases without a certificate."""
    pixels: int
    """Number of pixels that every one of these releases hides."""
    share: float
    """Share of the picture's pixels that every one hides, 0 to 1."""


def charge(
    meter: Meter, name: str, content: bytes, source: Original, mask: Mask, asked: Certificate | None = None
) -> None:
    """Charge the release of all pixels that a mask does not hide; warn if earlier releases hid different pixels.

    Args:
        meter: The odometer.
        name: Name of the picture, for the warning.
        content: File of the picture.
        source: The picture, as it was opened.
        mask: (H, W): which pixels are hidden.
        asked: Certificate of the answers about the regions, which gets a row of its own; None for ε = 0.
    """
    meter.prepare()
    outside = row(meter, 0, name, content, source, mask)
    different = differs(meter.odometer, outside.picture, mask)
    rows = [outside]
    if asked is not None:
        rows.append(Charge(1, outside.picture, asked.epsilon, asked.rho, outside.name, asked.unit))
    meter.charge(fresh_release(), COMMAND, rows)
    if different:
        LOGGER.warning(f"odometer: {name} was released before with other regions: {different}")


def differs(odometer: Odometer, mark: bytes, mask: Mask) -> str:
    """Return in words how the hidden pixels of a new release differ from those that all earlier releases hid.

    The text is empty if no pixel that is hidden now was shown before, and no pixel that is shown now was always hidden.

    Args:
        odometer: The odometer.
        mark: The mark by which the odometer knows the picture.
        mask: (H, W): which pixels the new release hides.
    """
    before, after = left(odometer, mark), left(odometer, mark, mask)
    if before is None or after is None:
        return ""
    now = int(mask.sum())
    if after.pixels < now:
        return f"of {now} pixels that are hidden now, only {after.pixels} were hidden each time"
    if after.pixels < before.pixels:
        return f"{before.pixels - after.pixels} pixels that were hidden each time are shown now"
    return ""


def row(meter: Meter, number: int, name: str, content: bytes, source: Original, mask: Mask) -> Charge:
    """Return the row of the odometer for the release of everything that a mask (H, W) does not hide.

    Args:
        meter: The odometer.
        number: Number of the picture in the release.
        name: Name of the picture, which the odometer keeps only if it keeps names.
        content: File of the picture.
        source: The picture, as it was opened.
        mask: The pixels that are hidden.
    """
    mark, loss = meter.mark(_known_by(content, source)), 0.0 if mask.all() else math.inf
    return Charge(number, mark, loss, loss, name if meter.names else None, hidden=packed(mask))


def left(odometer: Odometer, mark: bytes, now: Mask | None = None) -> Remainder | None:
    """Return which pixels all redactions of a picture leave hidden; None without any.

    A release without a certificate counts as a redaction that hides nothing.

    Args:
        odometer: The odometer.
        mark: The mark by which the odometer knows the picture.
        now: Mask (H, W) of the pixels that a new redaction hides, not charged yet; None without a new redaction.
    """
    rows = odometer.hidden(mark)
    if not rows:
        return None
    masks = [unpacked(row) for row in rows if row is not None]
    if len(masks) == len(rows) and now is not None:
        masks.append(now)
    if len(masks) < len(rows) or len({mask.shape for mask in masks}) != 1:
        return Remainder(len(rows), 0, 0.0)
    common = np.logical_and.reduce(masks)
    return Remainder(len(rows), int(common.sum()), float(common.mean()))


def packed(mask: Mask) -> bytes:
    """Return a mask (H, W) as compressed bytes, for the odometer."""
    return zlib.compress(json.dumps([*mask.shape, runs(mask)]).encode())


def unpacked(row: bytes) -> Mask:
    """Return the mask (H, W) in the bytes that `packed` returned."""
    height, width, lengths = json.loads(zlib.decompress(row))
    return mask_of_runs(lengths, height, width)


def _known_by(content: bytes, source: Original) -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
    """Return the pixels by which the odometer knows a picture: as `dipp encode` reads them, or else as stored."""
    try:
        return pictures.known_by(content)
    except DippError:
        return source.decoded()
