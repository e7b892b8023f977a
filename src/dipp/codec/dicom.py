"""DICOM pictures, if pydicom is installed: their stored values, and nothing else of the file.

Only the tags that say how values are stored are used: rows, columns, bits and photometric interpretation. In particular
the tags of windows and of rescaling are ignored, because some devices compute them from the values of the picture. A
window applies to the stored values. For values of a physical unit, such as Hounsfield's, the caller converts the ends
of the window: stored = (value − intercept)/slope.

Text that is burnt into the pixels, a name for example, is a part of the picture like any other.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dipp.errors import DippError, installing

FRONT = 132
"""Number of bytes from the start of a file to the end of `MAGIC`."""
MAGIC = b"DICM"
"""Bytes by which a DICOM file is recognised."""
DEFLATED = "1.2.840.10008.1.2.1.99"
"""Transfer syntax of files that are compressed as a whole, whose size after unpacking has no bound."""
COLOURS = ("RGB", "YBR_FULL", "YBR_FULL_422", "YBR_ICT", "YBR_RCT")
"""Supported photometric interpretations of colour pictures."""
GREYS = ("MONOCHROME1", "MONOCHROME2")
"""Supported photometric interpretations of grey pictures."""


def recognised(front: bytes) -> bool:
    """Return whether the first `FRONT` bytes of a file are those of a DICOM file."""
    return front[FRONT - len(MAGIC) : FRONT] == MAGIC


def _deflated(content: bytes) -> bool:
    """Return whether a file is compressed as a whole, by its file meta information (group 0002) alone.

    The answer must not depend on pixels, because a dataset release names the pictures that it skips.
    """
    from pydicom.filereader import read_dataset

    front = io.BytesIO(content[FRONT:])
    meta = read_dataset(front, False, True, stop_when=lambda tag, _type, _length: tag.group != 2)
    return str(meta.get("TransferSyntaxUID", "")) == DEFLATED


@dataclass(frozen=True, eq=False)
class Dicom:
    """A DICOM file of one frame."""

    _dataset: Any
    """The file as pydicom reads it."""

    @classmethod
    def open(cls, source: str | Path | bytes) -> Dicom:
        """Read a file.

        Args:
            source: Path or content of the file.

        Raises:
            DippError: pydicom is not installed, or the file does not hold one picture in a supported format.
        """
        try:
            import pydicom
        except ImportError:
            raise DippError("image", "is DICOM, which needs pydicom", installing("dicom")) from None
        content = source if isinstance(source, bytes) else Path(source).read_bytes()
        if _deflated(content):
            raise DippError("image", "is a deflated DICOM file, which is not supported", "save it uncompressed")
        picture = cls(pydicom.dcmread(io.BytesIO(content)))
        if picture._dataset.PhotometricInterpretation not in (*GREYS, *COLOURS):
            # The tag is not quoted: a dataset publishes why it skips pictures, and a tag may hold any text.
            raise DippError("image", "is DICOM in other colours than grey, RGB and YBR", "save it as PNG")
        if int(picture._dataset.get("NumberOfFrames", 1) or 1) != 1:
            raise DippError("image", "has several frames", "save each frame as a file")
        if picture._dataset.BitsAllocated not in (8, 16, 32) or "PixelData" not in picture._dataset:
            raise DippError("image", "is DICOM without whole numbers of 8, 16 or 32 bits", "save it as PNG")
        return picture

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels."""
        return int(self._dataset.Columns), int(self._dataset.Rows)

    @property
    def colour(self) -> bool:
        """Whether the picture is in colour."""
        return self._dataset.PhotometricInterpretation in COLOURS

    @property
    def inverted(self) -> bool:
        """Whether small values are bright."""
        return bool(self._dataset.PhotometricInterpretation == "MONOCHROME1")

    @property
    def wide(self) -> bool:
        """Whether the picture's values are not stored as numbers from 0 to 255."""
        return bool(self._dataset.BitsAllocated != 8 or self._dataset.get("PixelRepresentation", 0))

    def values(self) -> NDArray[Any]:
        """Return the stored values, (H, W) or (H, W, 3). YBR is converted to RGB.

        Raises:
            DippError: The file is compressed in a way that pydicom cannot read, or has another number of values than
                its header says.
        """
        from pydicom.pixels import pixel_array

        try:
            values: NDArray[Any] = np.asarray(pixel_array(self._dataset))
        except (NotImplementedError, RuntimeError):
            raise DippError(
                "image", "is DICOM in a compression that pydicom cannot read", "save it uncompressed"
            ) from None
        width, height = self.size
        if values.shape != ((height, width, 3) if self.colour else (height, width)):
            raise DippError("image", "is DICOM with another number of values than its header says", "get it again")
        return values
