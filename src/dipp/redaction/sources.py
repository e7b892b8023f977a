"""Files of pictures as redaction sees them: a source is opened, loses what is hidden, gets a fill, and is written.

| file | what is hidden in one piece | what comes out |
|---|---|---|
| JPEG | an MCU (`JpegSource`) | JPEG: coefficients of all other MCUs are those of the file |
| PNG, TIFF, lossless WebP | a pixel (`RasterSource`) | the same format: all other pixels are those of the file |
| DICOM (`dicom`) | a pixel | DICOM, with hardly a tag |
| lossy WebP, AVIF, HEIC, JPEG 2000, JPEG in TIFF, if accepted | a pixel | WebP, PNG, PNG, PNG, TIFF: decoded pixels |

Of several pages or frames, the first is taken; the record says that others were dropped. Files are recognised by what
they begin with, and no other reader of Pillow is ever opened.
"""

from __future__ import annotations

import io
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from dipp.errors import DippError
from dipp.redaction import colour, hidden, others, png, tiff
from dipp.redaction.jpeg import blocks, coefficients, painting
from dipp.redaction.jpeg.coefficients import Jpeg
from dipp.redaction.outlines import Mask
from dipp.redaction.paint import Fill
from dipp.redaction.raster import Raster, filled, reduced
from dipp.redaction.regions import Size

ITS_OWN = (
    "The encoder of the original coded every MCU from its own pixels alone, as libjpeg and cameras do (mozjpeg and "
    "jpegli do not), and chose its quantisation tables, its chroma sampling, and whether it is grey, without looking "
    "at what regions show."
)
NEVER_LOSSY = (
    "The original was never compressed with loss (near-lossless WebP is), nor reduced to a palette, before it was "
    "saved without: otherwise pixels outside a region may depend on what it shows."
)
LOSSY = (
    "The original was compressed with loss as {kind}: nearly every pixel outside the regions may depend on what they "
    "show. The caller accepted that."
)
OTHERS = "The original held other pictures beside the first (pages, frames, views). They were dropped."
PALETTE = (
    "The original has a palette. If its colours were reduced to it, pixels outside the regions may depend on what they "
    "show; take the original from before."
)
NO_PROFILE = "The original had a colour profile that is no standard one. It was dropped; colours are taken for sRGB."


STRIP = 16
"""Rows of MCUs that are decoded at a time."""


@dataclass(frozen=True, eq=False)
class Source(ABC):
    """A picture that is to be redacted."""

    kind: str
    """Format of the file that is written."""
    assumptions: tuple[str, ...]
    """What must be true of the original for the certificate to say what it seems to."""
    orientation: int
    """EXIF orientation, 1 to 8, which is kept; 1 where the format has none."""

    @property
    @abstractmethod
    def size(self) -> Size:
        """Width and height as they are stored."""

    @property
    @abstractmethod
    def cell(self) -> Size:
        """Width and height of what is hidden in one piece."""

    @abstractmethod
    def marked(self) -> NDArray[Any]:
        """Return the decoded values (H, W, C). They are private, unless the file was redacted."""

    def warnings(self) -> tuple[str, ...]:
        """Return what may be wrong with the original."""
        return (OTHERS,) if OTHERS in self.assumptions else ()

    def levels(self) -> NDArray[np.uint8]:
        """Return the pixels (H, W, 3) that answers about regions are given from; a grey value is repeated.

        They are private, unless the file was redacted. Each depends on the stored values of its own cell alone.

        Raises:
            DippError: The file has pixels of more than eight bits, or is DICOM.
        """
        raise DippError("epsilon", f"must be 0 for regions of a {self.kind} file", "convert it to PNG")

    @abstractmethod
    def redacted(self, cells: Mask, fill: Fill) -> bytes:
        """Return the file with some cells filled; what they show is never read.

        Args:
            cells: (rows, columns): which cells are hidden.
            fill: What is painted there.
        """

    def distance(self, cells: Mask, fill: Fill) -> float:
        """Return by how many of 255 levels some cells differ from what a fill paints there."""
        again, own = open_source(self.redacted(cells, fill)).marked(), self.marked()
        if (again.shape, again.dtype) != (own.shape, own.dtype):
            return math.inf
        around = own[~self.covered(cells)]
        level = max(1.0, float(np.ptp(around)) / 255) if around.size and own.dtype.itemsize > 1 else 1.0
        return float(np.abs(again.astype(np.int64) - own.astype(np.int64)).max(initial=0)) / level

    def cells(self, mask: Mask) -> Mask:
        """Return the cells in which a mask (H, W) has a pixel."""
        across, down = self.cell
        height, width = mask.shape
        padded = np.pad(mask, ((0, -height % down), (0, -width % across)))
        shape = padded.shape[0] // down, down, padded.shape[1] // across, across
        return np.asarray(padded.reshape(shape).any(axis=(1, 3)))

    def covered(self, cells: Mask) -> Mask:
        """Return the pixels (H, W) of some cells."""
        (across, down), (width, height) = self.cell, self.size
        return cells.repeat(down, axis=0).repeat(across, axis=1)[:height, :width]


@dataclass(frozen=True, eq=False)
class JpegSource(Source):
    """A JPEG file, as coefficients."""

    picture: Jpeg = field(repr=False)

    @property
    def size(self) -> Size:
        """Width and height as they are stored."""
        return self.picture.width, self.picture.height

    @property
    def cell(self) -> Size:
        """Width and height of an MCU."""
        tall, wide = self.picture.mcu
        return wide, tall

    def marked(self) -> NDArray[Any]:
        """Return the decoded pixels of the file, as other programs have them."""
        with Image.open(io.BytesIO(coefficients.write(self.picture)), formats=["JPEG"]) as image:
            return np.asarray(image.convert("RGB"))

    def levels(self) -> NDArray[np.uint8]:
        """Return the pixels as decoders have them that repeat colours and do not interpolate them."""
        (width, height), (wide, tall) = self.size, self.cell
        rows, columns = -(-height // tall), -(-width // wide)
        strips = [
            np.rint(blocks.pixels(self.picture, top, min(top + STRIP, rows), 0, columns)).astype(np.uint8)
            for top in range(0, rows, STRIP)
        ]
        return _coloured(np.concatenate(strips)[:height, :width])

    def redacted(self, cells: Mask, fill: Fill) -> bytes:
        """Return the file with some MCUs coded anew, with its own quantisation tables."""
        return coefficients.write(painting.filled(painting.erased(self.picture, cells), cells, fill))

    def distance(self, cells: Mask, fill: Fill) -> float:
        """Return by how many levels some cells differ from what a fill paints there.

        That is the largest difference of an orthonormal DCT coefficient, less half a step of its quantisation, by which
        rounding moves it. A painting that is off by a hundredth of a level may be rounded to the next step.
        """
        most = 0.0
        for part in painting.painted(painting.erased(self.picture, cells), cells, fill):
            one = self.picture.components[part.component]
            down, across = coefficients.blocks_of(self.picture, one)
            inside = slice(max(0, down - part.place[0].start)), slice(max(0, across - part.place[1].start))
            steps = np.abs(one.blocks[part.place] - part.coefficients) - 0.5
            levels = np.where(part.covered, steps * one.quantisation, 0.0)[inside]
            most = max(most, float(levels.max(initial=0.0)))
        return most


def _coloured(values: Any) -> NDArray[np.uint8]:
    """Return pixels (H, W, 3) of values with one channel or three."""
    found: NDArray[np.uint8] = np.concatenate([values] * 3, axis=2) if values.shape[2] == 1 else values
    return found


class PixelSource(Source):
    """A file whose pixels are stored one by one."""

    @property
    def size(self) -> Size:
        """Width and height as they are stored."""
        height, width = self.marked().shape[:2]
        return width, height

    @property
    def cell(self) -> Size:
        """One pixel."""
        return 1, 1


@dataclass(frozen=True, eq=False)
class RasterSource(PixelSource):
    """A file whose pixels can be written as they are."""

    picture: Raster = field(repr=False)
    write: Callable[[Raster], bytes] = field(repr=False)

    def marked(self) -> NDArray[Any]:
        """Return the pixels of the file."""
        return self.picture.values

    def warnings(self) -> tuple[str, ...]:
        """Return what may be wrong with the original. The record does not tell of a palette: a region may decide it."""
        return (*super().warnings(), *([PALETTE] if self.picture.palette else []))

    def levels(self) -> NDArray[np.uint8]:
        """Return the pixels without alpha."""
        if self.picture.values.dtype != np.uint8:
            raise DippError("epsilon", "must be 0 for regions of 16-bit pixels", "reduce them to 8 bits")
        return _coloured(self.picture.values[..., :-1] if self.picture.alpha else self.picture.values)

    def redacted(self, cells: Mask, fill: Fill) -> bytes:
        """Return the file with some pixels filled; they become opaque."""
        known = reduced(replace(self.picture, values=hidden.without(self.picture.values, cells)), cells)
        return self.write(replace(known, values=filled(known.values, cells, fill, alpha=known.alpha)))


def written_as(content: bytes) -> str:
    """Return the format in which a picture is written, by the first bytes of its file.

    Raises:
        DippError: The format is not one of those above.
    """
    from dipp.redaction import dicom

    if content[:3] == b"\xff\xd8\xff":
        return "JPEG"
    if content.startswith(png.SIGNATURE) or any(recognises(content) for _, recognises, _ in others.LOSSY):
        return "PNG"
    if content[:4] in tiff.MARKS:
        return "TIFF"
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "WebP"
    if dicom.recognised(content):
        return dicom.KIND
    raise DippError("image", "must be JPEG, PNG, TIFF, WebP, AVIF, HEIC, JPEG 2000 or DICOM", "convert it to PNG first")


def open_source(content: bytes, *, accept_lossy: bool = False) -> Source:
    """Return the picture of a file.

    Raises:
        DippError: The format is not one of those above, the file is damaged, or it is
            compressed with loss in a way that mixes pixels, and that is not accepted.
    """
    from dipp.redaction import dicom

    kind = written_as(content)
    if kind == "JPEG":
        picture = coefficients.read(content)
        others.require_one_orientation(content, "JPEG", picture.orientation)
        profile, notes = _profile(picture.profile)
        return JpegSource("JPEG", (ITS_OWN, *notes), picture.orientation, replace(picture, profile=profile))
    if kind == "TIFF":
        raster, lossy = others.of_tiff(content)
        return _raster("TIFF", raster, tiff.write, "JPEG in TIFF" if lossy else None, accepted=accept_lossy)
    if kind == "WebP":
        used = "WebP" if others.is_lossy_webp(content) else None
        return _raster("WebP", others.of_webp(content), others.webp, used, accepted=accept_lossy)
    if kind == dicom.KIND:
        return dicom.read(content, accept_lossy=accept_lossy)
    for name, recognises, read in others.LOSSY:
        if recognises(content):
            require_accepted(name, accepted=accept_lossy)
            return _raster("PNG", read(content), png.write, name, accepted=accept_lossy)
    raster = png.read(content)
    others.require_one_orientation(content, "PNG", raster.orientation)
    return _raster("PNG", raster, png.write)


def require_accepted(lossy: str | None, *, accepted: bool) -> None:
    """Raise if a file is compressed with loss by some format, and that is not accepted."""
    if lossy is not None and not accepted:
        raise DippError(
            "image",
            f"is {lossy}, compressed with loss across the whole picture, so pixels outside a region tell of it",
            "take the original, or accept that with --accept-lossy",
        )


def _raster(
    kind: str, picture: Raster, write: Callable[[Raster], bytes], lossy: str | None = None, *, accepted: bool = False
) -> RasterSource:
    require_accepted(lossy, accepted=accepted)
    profile, notes = _profile(picture.profile)
    about = NEVER_LOSSY if lossy is None else LOSSY.format(kind=lossy)
    notes = (*notes, OTHERS) if picture.others else notes
    return RasterSource(kind, (about, *notes), picture.orientation, replace(picture, profile=profile), write)


def _profile(given: bytes) -> tuple[bytes, tuple[str, ...]]:
    """Return our own profile for a file's, and what is to be said of it."""
    space = colour.standard(given) if given else colour.SRGB
    return (b"", (NO_PROFILE,)) if space is None else (colour.profile(space), ())
