"""Redactions are charged to the odometer: what lies outside a region is released as it is.

Two redactions of one picture with other regions leave hidden what both of them hide, and nothing else. So the odometer
keeps the mask of every redaction, and tells a user who redacts a picture again what is left.
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
from dipp.redaction.sources import Source

LOGGER = logging.getLogger("dipp.odometer")
COMMAND = "redact"


@dataclass(frozen=True)
class Remainder:
    """What all releases of a picture without a certificate leave hidden."""

    releases: int
    pixels: int
    """Pixels that every one of them hides."""
    share: float
    """Their share of the picture."""


def charge(
    meter: Meter, name: str, content: bytes, source: Source, mask: Mask, asked: Certificate | None = None
) -> None:
    """Charge the release of everything that a mask (H, W) does not hide; warn if earlier releases hid others.

    `asked` is the certificate of what is told about the regions: a row of its own, with its finite ε.
    """
    meter.prepare()
    made = row(meter, 0, name, content, source, mask)
    different = differs(meter.odometer, made.picture, mask)
    rows = [made]
    if asked is not None:
        rows.append(Charge(1, made.picture, asked.epsilon, asked.rho, made.name, asked.unit))
    meter.charge(fresh_release(), COMMAND, rows)
    if different:
        LOGGER.warning(f"odometer: {name} was released before with other regions: {different}")


def differs(odometer: Odometer, mark: bytes, mask: Mask) -> str:
    """Return what a release that hides a mask (H, W) changes about what earlier ones hid, in words; empty for nothing.

    Two things can happen: what is hidden now was shown before, or what is shown now was hidden until now.
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


def row(meter: Meter, number: int, name: str, content: bytes, source: Source, mask: Mask) -> Charge:
    """Return the row of the odometer for the release of everything that a mask (H, W) does not hide.

    Args:
        meter: The odometer.
        number: Number of the picture in the release.
        name: Its name, which is kept if names are kept.
        content: Its file.
        source: The picture, as it was opened.
        mask: The pixels that are hidden.
    """
    mark, loss = meter.mark(_known_by(content, source)), 0.0 if mask.all() else math.inf
    return Charge(number, mark, loss, loss, name if meter.names else None, hidden=packed(mask))


def left(odometer: Odometer, mark: bytes, now: Mask | None = None) -> Remainder | None:
    """Return what is still hidden of a picture; None if nothing of it was ever released without a certificate.

    Args:
        odometer: The odometer.
        mark: The mark by which the picture is known.
        now: Pixels (H, W) that a release hides which is not charged yet; None if there is none.
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
    """Return a mask (H, W) as the odometer keeps it."""
    return zlib.compress(json.dumps([*mask.shape, runs(mask)]).encode())


def unpacked(row: bytes) -> Mask:
    """Return a mask that `packed` has packed."""
    height, width, lengths = json.loads(zlib.decompress(row))
    return mask_of_runs(lengths, height, width)


def _known_by(content: bytes, source: Source) -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
    """Return the values by which `dipp encode` knows the picture too; its own, where encode does not read the file."""
    try:
        return pictures.known_by(content)
    except DippError:
        return source.marked()
