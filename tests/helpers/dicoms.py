"""DICOM files with given values."""

from __future__ import annotations

import io
from typing import Any

from numpy.typing import NDArray
from pydicom.dataset import FileDataset, FileMetaDataset
from pydicom.uid import ExplicitVRLittleEndian, SecondaryCaptureImageStorage


def dataset(values: NDArray[Any], patient: str) -> Any:
    """Return a secondary capture of values (H, W) or (H, W, 3), with a patient's name."""
    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID, meta.MediaStorageSOPInstanceUID = SecondaryCaptureImageStorage, "1.2.3"
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    made: Any = FileDataset("", {}, file_meta=meta, preamble=bytes(128))
    made.SOPClassUID, made.SOPInstanceUID = SecondaryCaptureImageStorage, "1.2.3"
    made.PatientName = patient
    made.Rows, made.Columns = values.shape[:2]
    made.SamplesPerPixel = 1 if values.ndim == 2 else 3
    made.PhotometricInterpretation = "MONOCHROME2" if values.ndim == 2 else "RGB"
    if values.ndim == 3:
        made.PlanarConfiguration = 0
    made.BitsAllocated = made.BitsStored = 8 * values.dtype.itemsize
    made.HighBit, made.PixelRepresentation = made.BitsStored - 1, int(values.dtype.kind == "i")
    plain = values.tobytes()
    made.PixelData = plain + bytes(len(plain) % 2)
    made["PixelData"].VR = "OB" if values.dtype.itemsize == 1 else "OW"
    return made


def written(made: Any, **tags: Any) -> bytes:
    """Return a dataset with more tags as the bytes of a file."""
    for name, value in tags.items():
        setattr(made, name, value)
    file = io.BytesIO()
    made.save_as(file, enforce_file_format=True)
    return file.getvalue()
