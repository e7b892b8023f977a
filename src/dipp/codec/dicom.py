"""DICOM pictures, if pydicom is there: their stored values, and nothing else of the file.

Every tag but those that say how the values are stored (rows, columns, bits, photometric interpretation) is left alone.
In particular the tags of windows and of rescaling are not applied: they are written for each picture, and some devices
compute them from its values. A window is over the stored values. Where values of a physical unit are meant, as
Hounsfield's, the caller converts its ends: stored = (value − intercept)/slope.

Text that is burnt into the pixels, a name for example, is a part of the picture like any other.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dipp.errors import DippError

FRONT = 132
"""Bytes up to the end of the mark `DICM`."""
MARK = b"DICM"
DEFLATED = "1.2.840.10008.1.2.1.99"
"""Transfer syntax of files that are compressed as a whole, and could grow without bound."""
COLOURS = ("RGB", "YBR_FULL", "YBR_FULL_422", "YBR_ICT", "YBR_RCT")
GREYS = ("MONOCHROME1", "MONOCHROME2")


def recognised(front: bytes) -> bool:
    """Return whether the first `FRONT` bytes of a file are those of DICOM."""
    return front[FRONT - len(MARK) : FRONT] == MARK


def _deflated(content: bytes) -> bool:
    """Whether a file is compressed as a whole, by its front matter alone (group 0002), where no pixel is.

    Whether a picture is refused must not depend on its pixels, because a dataset says which ones were skipped.
    """
    from pydicom.filereader import read_dataset

    front = io.BytesIO(content[FRONT:])
    meta = read_dataset(front, False, True, stop_when=lambda tag, _type, _length: tag.group != 2)
    return str(meta.get("TransferSyntaxUID", "")) == DEFLATED


@dataclass(frozen=True, eq=False)
class Dicom:
    """A DICOM file of one frame."""

    _dataset: Any

    @classmethod
    def open(cls, source: str | Path | bytes) -> Dicom:
        """Read the file, and refuse what is not one picture."""
        try:
            import pydicom
        except ImportError:
            raise DippError("image", "DICOM needs pydicom", 'in a checkout of dipp, pip install ".[dicom]"') from None
        content = source if isinstance(source, bytes) else Path(source).read_bytes()
        if _deflated(content):
            raise DippError("image", "a deflated DICOM file is not read", "save it uncompressed")
        found = cls(pydicom.dcmread(io.BytesIO(content)))
        if found._dataset.PhotometricInterpretation not in (*GREYS, *COLOURS):
            # Not what it is: a dataset gives the reasons of what it skips, and a tag may hold any text.
            raise DippError("image", "DICOM in grey, RGB or YBR is needed", "save it as PNG")
        if int(found._dataset.get("NumberOfFrames", 1) or 1) != 1:
            raise DippError("image", "a single picture is needed, this has several frames", "save them as files")
        if found._dataset.BitsAllocated not in (8, 16, 32) or "PixelData" not in found._dataset:
            raise DippError("image", "DICOM with whole numbers of 8, 16 or 32 bits is needed", "save it as PNG")
        return found

    @property
    def size(self) -> tuple[int, int]:
        """Width and height."""
        return int(self._dataset.Columns), int(self._dataset.Rows)

    @property
    def colour(self) -> bool:
        """Whether it is in colour."""
        return self._dataset.PhotometricInterpretation in COLOURS

    @property
    def inverted(self) -> bool:
        """Whether small values are bright."""
        return bool(self._dataset.PhotometricInterpretation == "MONOCHROME1")

    @property
    def wide(self) -> bool:
        """Whether its values are others than 0 … 255."""
        return bool(self._dataset.BitsAllocated != 8 or self._dataset.get("PixelRepresentation", 0))

    def values(self) -> NDArray[Any]:
        """The stored values, (H, W) or (H, W, 3); YBR becomes RGB."""
        from pydicom.pixels import pixel_array

        try:
            found: NDArray[Any] = np.asarray(pixel_array(self._dataset))
        except (NotImplementedError, RuntimeError):
            raise DippError(
                "image", "this DICOM is compressed in a way that pydicom cannot read", "save it plain"
            ) from None
        width, height = self.size
        if found.shape != ((height, width, 3) if self.colour else (height, width)):
            raise DippError("image", "this DICOM has other values than its header says", "get it again")
        return found
