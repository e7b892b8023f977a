"""DICOM files of one frame: the stored values are redacted, and only the tags that decode them stay.

| what | what happens to it |
|---|---|
| PixelData | values outside the regions stay as they are; they are written uncompressed. YBR becomes RGB |
| bits above those that are stored | set to zero, or to the sign, by pydicom: old files keep overlays there |
| overlays (60xx), icons, curves, private tags, names, dates, identifiers | dropped |
| identifier of the file | made from the redacted values |
| DeidentificationMethod | says what was done |
| BurnedInAnnotation, PatientIdentityRemoved | not written: nobody has looked at what the regions do not cover |

Tags of windows and of rescaling are dropped: some devices compute them from the values of the whole picture.
"""

from __future__ import annotations

import hashlib
import io
import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dipp import __version__
from dipp.codec.dicom import FRONT, MAGIC, Dicom
from dipp.errors import DippError
from dipp.models.denoiser import require_pixels
from dipp.redaction import hidden
from dipp.redaction.outlines import Mask
from dipp.redaction.paint import Fill
from dipp.redaction.raster import filled
from dipp.redaction.sources import LOSSY, NEVER_LOSSY, PixelOriginal, require_accepted

KIND = "DICOM"
SECONDARY_CAPTURE = "1.2.840.10008.5.1.4.1.1.7"
PLAIN = "1.2.840.10008.1.2.1"
"""Transfer syntax Explicit VR Little Endian, in which files are written."""
LOSSLESS = {
    *(
        f"1.2.840.10008.1.2{end}"
        for end in ("", ".1", ".2", ".5", ".4.57", ".4.70", ".4.80", ".4.90", ".4.201", ".4.202")
    )
}
"""Transfer syntaxes without loss."""
SHARED = "YBR_FULL_422"
"""Colour format in which two neighbours share a colour, so that a pixel outside a region may tell of one inside."""
STORED = "The device chose how values are stored (bits, sign, grey or colour) without looking at what regions show."
METHOD = ("Regions replaced unread", "All attributes but those of pixels removed")
"""What DeidentificationMethod says, in values of at most 64 characters."""


def recognised(content: bytes) -> bool:
    """Return whether a file begins as DICOM files do: with a preamble and the letters DICM."""
    return content[FRONT - len(MAGIC) : FRONT] == MAGIC


@dataclass(frozen=True, eq=False)
class DicomOriginal(PixelOriginal):
    """A DICOM file to redact, as its stored values."""

    values: NDArray[Any] = field(repr=False)
    """Stored values, (H, W, C)."""
    inverted: bool
    """Whether small values are bright."""
    bits: int
    """Number of bits of a value that are used."""

    def decoded(self) -> NDArray[Any]:
        """Return the stored values."""
        return self.values

    def redacted(self, cells: Mask, fill: Fill) -> bytes:
        """Return the file with hidden pixels replaced by a fill, within the range of the bits that are used."""
        known = hidden.without(self.values, cells)
        least = -(1 << self.bits - 1) if self.values.dtype.kind == "i" else 0
        span = least, least + (1 << self.bits) - 1
        shown = _inverted(fill) if self.inverted else fill
        return write(filled(known, cells, shown, alpha=False, span=span), inverted=self.inverted, bits=self.bits)


def _inverted(fill: Fill) -> Fill:
    """Return the same fill for inverted values: small values are shown bright."""
    return lambda known, unknown, part: -fill(-known, unknown, part)


def read(content: bytes, *, accept_lossy: bool) -> DicomOriginal:
    """Return the picture of a DICOM file.

    Args:
        content: The file.
        accept_lossy: Whether a file that was compressed with loss is accepted.

    Raises:
        DippError: The file is damaged, has several frames, or is compressed with loss and that is not accepted.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            opened = Dicom.open(content)
            tags = opened._dataset
            syntax = str(tags.file_meta.get("TransferSyntaxUID", ""))
            lossy = syntax not in LOSSLESS or str(tags.get("LossyImageCompression", "00")) == "01"
            lossy = lossy or tags.PhotometricInterpretation == SHARED
            require_accepted("lossy DICOM" if lossy else None, accepted=accept_lossy)
            bits, allocated = int(tags.BitsStored), int(tags.BitsAllocated)
            if not 1 <= bits <= allocated or int(tags.HighBit) != bits - 1:
                raise DippError("image", "is DICOM whose values do not begin at the lowest bit", "save it again")
            require_pixels(*opened.size)
            values = opened.values()
        except DippError:
            raise
        except Exception:  # every file has its own ways to be damaged
            raise DippError("image", "is not a whole DICOM file", "get it again") from None
    about = LOSSY.format(kind="DICOM") if lossy else NEVER_LOSSY
    values = values[..., None] if values.ndim == 2 else values
    return DicomOriginal(KIND, (about, STORED), 1, values, opened.inverted, bits)


def write(values: NDArray[Any], *, inverted: bool, bits: int) -> bytes:
    """Return the DICOM file of values (H, W, C), which is the same for the same values.

    Args:
        values: Stored values, grey or RGB.
        inverted: Whether small values are bright.
        bits: Number of bits of a value that are used.
    """
    from pydicom.dataset import FileDataset, FileMetaDataset

    height, width, channels = values.shape
    plain = np.ascontiguousarray(values, values.dtype.newbyteorder("<")).tobytes()
    digest = hashlib.sha256(f"{values.shape} {values.dtype.str} {inverted} {bits} ".encode() + plain).digest()
    name = f"2.25.{int.from_bytes(digest[:16], 'big')}"
    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID, meta.MediaStorageSOPInstanceUID = SECONDARY_CAPTURE, name
    meta.TransferSyntaxUID = PLAIN
    dataset: Any = FileDataset("", {}, file_meta=meta, preamble=bytes(128))
    dataset.SOPClassUID, dataset.SOPInstanceUID, dataset.Modality = SECONDARY_CAPTURE, name, "OT"
    dataset.DeidentificationMethod = [*METHOD, f"dipp {__version__}"]
    dataset.Rows, dataset.Columns, dataset.SamplesPerPixel = height, width, channels
    if channels == 3:
        dataset.PhotometricInterpretation, dataset.PlanarConfiguration = "RGB", 0
    else:
        dataset.PhotometricInterpretation = "MONOCHROME1" if inverted else "MONOCHROME2"
    dataset.BitsAllocated, dataset.BitsStored, dataset.HighBit = 8 * values.dtype.itemsize, bits, bits - 1
    dataset.PixelRepresentation = int(values.dtype.kind == "i")
    dataset.PixelData = plain + bytes(len(plain) % 2)
    dataset["PixelData"].VR = "OB" if values.dtype.itemsize == 1 else "OW"
    file = io.BytesIO()
    dataset.save_as(file, enforce_file_format=True)
    return file.getvalue()
