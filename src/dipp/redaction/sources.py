"""Files of pictures as redaction sees them: a source is opened, its hidden cells are filled, and it is written again.

| file | cell, which is hidden as a whole | what is written |
|---|---|---|
| JPEG | an MCU (`JpegOriginal`) | JPEG: the coefficients of all other MCUs do not change |
| PNG, TIFF, lossless WebP | a pixel (`RasterOriginal`) | the same format: all other pixels do not change |
| DICOM (`dicom`) | a pixel | DICOM with few tags |
| lossy WebP, AVIF, HEIC, JPEG 2000, JPEG in TIFF, if accepted | a pixel | WebP, PNG, PNG, PNG, TIFF: decoded pixels |

Only the first page or frame is kept; the record says that others were dropped. Files are recognised by their first
bytes, and no other reader of Pillow is ever opened.
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
"""Number of rows of MCUs that are decoded at a time."""


@dataclass(frozen=True, eq=False)
class Original(ABC):
    """A picture to redact."""

    kind: str
    """Format of the file that is written."""
    assumptions: tuple[str, ...]
    """Assumptions about the original on which the certificate depends."""
    orientation: int
    """EXIF orientation, 1 to 8, which is kept; 1 for formats without one."""

    @property
    @abstractmethod
    def size(self) -> Size:
        """Width and height of the picture as it is stored."""

    @property
    @abstractmethod
    def cell(self) -> Size:
        """Width and height of a cell in pixels: the smallest part that is hidden as a whole."""

    @abstractmethod
    def decoded(self) -> NDArray[Any]:
        """Return the decoded values (H, W, C). They are private unless the file was redacted."""

    def warnings(self) -> tuple[str, ...]:
        """Return warnings about the original for its owner, one sentence each."""
        return (OTHERS,) if OTHERS in self.assumptions else ()

    def levels(self) -> NDArray[np.uint8]:
        """Return the pixels (H, W, 3) from which regions answer questions; a grey value is repeated.

        They are private unless the file was redacted. Each depends on the stored values of its own cell alone.

        Raises:
            DippError: The file has pixels of more than eight bits, or is DICOM.
        """
        raise DippError("epsilon", f"must be 0 for regions of a {self.kind} file", "convert it to PNG")

    @abstractmethod
    def redacted(self, cells: Mask, fill: Fill) -> bytes:
        """Return the file with hidden cells replaced by a fill; what these cells show is never read.

        Args:
            cells: (rows, columns): which cells are hidden.
            fill: What is painted in them.
        """

    def distance(self, cells: Mask, fill: Fill) -> float:
        """Return by how much this file differs at most from a fill in the given cells, in grey levels of 0 to 255.

        Args:
            cells: (rows, columns): which cells are hidden.
            fill: What is painted in them.
        """
        again, before = open_source(self.redacted(cells, fill)).decoded(), self.decoded()
        if (again.shape, again.dtype) != (before.shape, before.dtype):
            return math.inf
        around = before[~self.covered(cells)]
        level = max(1.0, float(np.ptp(around)) / 255) if around.size and before.dtype.itemsize > 1 else 1.0
        return float(np.abs(again.astype(np.int64) - before.astype(np.int64)).max(initial=0)) / level

    def cells(self, mask: Mask) -> Mask:
        """Return the mask (rows, columns) of the cells that contain a pixel of a mask (H, W)."""
        across, down = self.cell
        height, width = mask.shape
        padded = np.pad(mask, ((0, -height % down), (0, -width % across)))
        shape = padded.shape[0] // down, down, padded.shape[1] // across, across
        return np.asarray(padded.reshape(shape).any(axis=(1, 3)))

    def covered(self, cells: Mask) -> Mask:
        """Return the mask (H, W) of the pixels in a mask of cells (rows, columns)."""
        (across, down), (width, height) = self.cell, self.size
        return cells.repeat(down, axis=0).repeat(across, axis=1)[:height, :width]


@dataclass(frozen=True, eq=False)
class JpegOriginal(Original):
    """A JPEG file to redact, as its quantised coefficients."""

    picture: Jpeg = field(repr=False)

    @property
    def size(self) -> Size:
        """Width and height of the picture as it is stored."""
        return self.picture.width, self.picture.height

    @property
    def cell(self) -> Size:
        """Width and height of an MCU in pixels."""
        tall, wide = self.picture.mcu
        return wide, tall

    def decoded(self) -> NDArray[Any]:
        """Return the pixels (H, W, 3) of the file as Pillow decodes them."""
        with Image.open(io.BytesIO(coefficients.write(self.picture)), formats=["JPEG"]) as image:
            return np.asarray(image.convert("RGB"))

    def levels(self) -> NDArray[np.uint8]:
        """Return the pixels (H, W, 3), decoded with coarse colours repeated and not interpolated."""
        (width, height), (wide, tall) = self.size, self.cell
        rows, columns = -(-height // tall), -(-width // wide)
        strips = [
            np.rint(blocks.pixels(self.picture, top, min(top + STRIP, rows), 0, columns)).astype(np.uint8)
            for top in range(0, rows, STRIP)
        ]
        return _coloured(np.concatenate(strips)[:height, :width])

    def redacted(self, cells: Mask, fill: Fill) -> bytes:
        """Return the file with hidden MCUs replaced by a fill, coded with the quantisation tables of the file."""
        return coefficients.write(painting.filled(painting.erased(self.picture, cells), cells, fill))

    def distance(self, cells: Mask, fill: Fill) -> float:
        """Return by how much this file differs at most from a fill in the given cells, in grey levels of 0 to 255.

        DCT coefficients are compared, because a fill that differs by a hundredth of a level may be rounded to the next
        quantisation step. Half a step of each difference is not counted, because rounding explains it.
        """
        most = 0.0
        for part in painting.painted(painting.erased(self.picture, cells), cells, fill):
            component = self.picture.components[part.component]
            down, across = coefficients.blocks_of(self.picture, component)
            inside = slice(max(0, down - part.place[0].start)), slice(max(0, across - part.place[1].start))
            steps = np.abs(component.blocks[part.place] - part.coefficients) - 0.5
            levels = np.where(part.covered, steps * component.quantisation, 0.0)[inside]
            most = max(most, float(levels.max(initial=0.0)))
        return most


def _coloured(values: Any) -> NDArray[np.uint8]:
    """Return values with one channel or three as pixels (H, W, 3)."""
    coloured: NDArray[np.uint8] = np.concatenate([values] * 3, axis=2) if values.shape[2] == 1 else values
    return coloured


class PixelOriginal(Original):
    """A file that stores each pixel by itself, so that a cell is one pixel."""

    @property
    def size(self) -> Size:
        """Width and height of the picture as it is stored."""
        height, width = self.decoded().shape[:2]
        return width, height

    @property
    def cell(self) -> Size:
        """Width and height of a cell: one pixel."""
        return 1, 1


@dataclass(frozen=True, eq=False)
class RasterOriginal(PixelOriginal):
    """A file whose pixels are decoded and written again without loss."""

    picture: Raster = field(repr=False)
    write: Callable[[Raster], bytes] = field(repr=False)
    """Function that returns the file of a picture."""

    def decoded(self) -> NDArray[Any]:
        """Return the stored pixels (H, W, C) of the file."""
        return self.picture.values

    def warnings(self) -> tuple[str, ...]:
        """Return warnings about the original. The record omits a palette, because a region may decide it."""
        return (*super().warnings(), *([PALETTE] if self.picture.palette else []))

    def levels(self) -> NDArray[np.uint8]:
        """Return the pixels (H, W, 3) without alpha; raise if they have 16 bits."""
        if self.picture.values.dtype != np.uint8:
            raise DippError("epsilon", "must be 0 for regions of 16-bit pixels", "reduce them to 8 bits")
        return _coloured(self.picture.values[..., :-1] if self.picture.alpha else self.picture.values)

    def redacted(self, cells: Mask, fill: Fill) -> bytes:
        """Return the file with hidden pixels replaced by a fill; they become opaque."""
        known = reduced(replace(self.picture, values=hidden.without(self.picture.values, cells)), cells)
        return self.write(replace(known, values=filled(known.values, cells, fill, alpha=known.alpha)))


def written_as(content: bytes) -> str:
    """Return the format in which a picture is written, such as JPEG, from the first bytes of its file.

    Raises:
        DippError: The format of the file is not supported.
    """
    from dipp.redaction import dicom

    if content[:3] == b"\xff\xd8\xff":
        return "JPEG"
    if content.startswith(png.SIGNATURE) or any(recognises(content) for _, recognises, _ in others.LOSSY):
        return "PNG"
    if content[:4] in tiff.MAGICS:
        return "TIFF"
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "WebP"
    if dicom.recognised(content):
        return dicom.KIND
    raise DippError("image", "must be JPEG, PNG, TIFF, WebP, AVIF, HEIC, JPEG 2000 or DICOM", "convert it to PNG first")


def open_source(content: bytes, *, accept_lossy: bool = False) -> Original:
    """Return the picture of a file.

    Args:
        content: The file.
        accept_lossy: Whether a lossy compression that mixes pixels across the picture is accepted.

    Raises:
        DippError: The format of the file is not supported, the file is damaged, or its lossy compression is not
            accepted.
    """
    from dipp.redaction import dicom

    kind = written_as(content)
    if kind == "JPEG":
        picture = coefficients.read(content)
        others.require_one_orientation(content, "JPEG", picture.orientation)
        profile, notes = _profile(picture.profile)
        return JpegOriginal("JPEG", (ITS_OWN, *notes), picture.orientation, replace(picture, profile=profile))
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
    """Raise if a file is compressed by the format `lossy` and that is not accepted; None is a file without loss.

    Args:
        lossy: Name of the format with loss; None for a file without loss.
        accepted: Whether loss is accepted.
    """
    if lossy is not None and not accepted:
        raise DippError(
            "image",
            f"is {lossy}, compressed with loss across the whole picture, so pixels outside a region tell of it",
            "take the original, or accept that with --accept-lossy",
        )


def _raster(
    kind: str, picture: Raster, write: Callable[[Raster], bytes], lossy: str | None = None, *, accepted: bool = False
) -> RasterOriginal:
    """Return the source of a picture that is written as `kind`; `lossy` is the lossy format of the original."""
    require_accepted(lossy, accepted=accepted)
    profile, notes = _profile(picture.profile)
    about = NEVER_LOSSY if lossy is None else LOSSY.format(kind=lossy)
    notes = (*notes, OTHERS) if picture.others else notes
    return RasterOriginal(kind, (about, *notes), picture.orientation, replace(picture, profile=profile), write)


def _profile(profile: bytes) -> tuple[bytes, tuple[str, ...]]:
    """Return our own profile in place of a file's profile, and notes about that for the record."""
    space = colour.standard(profile) if profile else colour.SRGB
    return (b"", (NO_PROFILE,)) if space is None else (colour.profile(space), ())
