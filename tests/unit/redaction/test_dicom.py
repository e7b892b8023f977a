"""DICOM stays DICOM: values outside regions do not change, and few tags are kept."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pydicom
import pytest
from helpers import dicoms
from helpers.redaction import BOX, inside, pair, saved, scene
from helpers.refusals import refused
from pydicom.dataset import Dataset
from pydicom.encaps import encapsulate
from pydicom.sequence import Sequence
from pydicom.uid import JPEGBaseline8Bit, RLELossless

import dipp
from dipp.redaction import Record, check
from dipp.redaction.record import beside

pytestmark = pytest.mark.usefixtures("one_thread")

KEPT = {
    *("SOPClassUID", "SOPInstanceUID", "Modality", "DeidentificationMethod", "Rows", "Columns", "SamplesPerPixel"),
    *("PhotometricInterpretation", "PlanarConfiguration", "BitsAllocated", "BitsStored", "HighBit"),
    *("PixelRepresentation", "PixelData"),
}
VALUES: dict[str, Any] = {
    "8 bits": lambda pixels: pixels[..., 0],
    "16 bits": lambda pixels: pixels[..., 0].astype(np.uint16) * 13 + 100,
    "16 bits, signed": lambda pixels: pixels[..., 0].astype(np.int16) * 9 - 1000,
    "colour": lambda pixels: pixels,
}


def dicom(values: np.ndarray[Any, Any], **tags: Any) -> bytes:
    """Return a DICOM file with a patient, an overlay, an icon and a private tag."""
    made = dicoms.dataset(values, "SECRET^Jane")
    made.PatientID, made.StudyDate, made.WindowCenter = "SECRET", "20250101", "77"
    made.add_new(0x60003000, "OW", b"SECRET overlay  ")
    icon = Dataset()
    icon.Rows = icon.Columns = 2
    icon.PixelData = b"SECRET  "
    icon["PixelData"].VR = "OW"
    made.IconImageSequence = Sequence([icon])
    made.private_block(0x0009, "SECRET", create=True).add_new(1, "LO", "SECRET")
    return dicoms.written(made, **tags)


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("fill", ["paint", "grey", "black"])
def test_files_that_differ_in_a_box_become_the_same_bytes(fill: str, name: str, tmp_path: Any) -> None:
    """Names, dates and overlays differ too."""
    first, second = (VALUES[name](pixels) for pixels in pair())
    files = [dicom(first), dicom(second, PatientName="Other", StudyDate="20200101")]
    made = [dipp.redact(content, regions=[BOX], fill=fill, device="cpu") for content in files]
    assert made[0].content == made[1].content
    assert made[0].record.to_json() == made[1].record.to_json()
    assert b"SECRET" in files[0]
    assert b"SECRET" not in made[0].content
    read = pydicom.dcmread(io.BytesIO(made[0].content))
    assert {element.keyword for element in read} <= KEPT
    outside = ~inside(first.shape)
    np.testing.assert_array_equal(read.pixel_array[outside], first[outside])
    assert (read.pixel_array[~outside] != first[~outside]).any()
    path = tmp_path / "out.dcm"
    made[0].save(path)
    assert check(path, Record.read(beside(path)), "cpu").repainted == "same bytes"


def test_tags_say_what_was_done() -> None:
    content = dicom(VALUES["8 bits"](scene()), BurnedInAnnotation="YES")
    read = pydicom.dcmread(io.BytesIO(dipp.redact(content, regions=[BOX], fill="grey").content))
    assert "Regions replaced unread" in read.DeidentificationMethod
    assert "BurnedInAnnotation" not in read
    assert "PatientIdentityRemoved" not in read
    assert read.SOPInstanceUID != "1.2.3"
    assert all(len(word) <= 64 for word in read.DeidentificationMethod)


@pytest.mark.parametrize("kind", [np.uint16, np.int16])
def test_bits_above_those_that_are_stored_are_dropped(kind: type[np.generic]) -> None:
    """Old files keep overlays in these bits."""
    values = (scene()[..., 0].astype(np.int32) * 7 - (900 if kind is np.int16 else 0)).astype(kind)
    overlaid = (values.view(np.uint16) & 0xFFF) | np.uint16(0x5000)
    content = dicom(overlaid.view(kind), BitsStored=12, HighBit=11)
    made = dipp.redact(content, regions=[BOX], fill="grey").content
    raw = np.frombuffer(pydicom.dcmread(io.BytesIO(made)).PixelData, kind).reshape(values.shape)
    outside = ~inside(values.shape)
    np.testing.assert_array_equal(raw[outside], values[outside])
    assert (raw.view(np.uint16)[outside] != overlaid[outside]).all()


def test_files_that_are_compressed_without_loss() -> None:
    plain = VALUES["8 bits"](scene())
    read = pydicom.dcmread(io.BytesIO(dicom(plain)))
    read.compress(RLELossless)
    file = io.BytesIO()
    read.save_as(file)
    redacted = dipp.redact(file.getvalue(), regions=[BOX], fill="grey")
    assert redacted.content == dipp.redact(dicom(plain), regions=[BOX], fill="grey").content


def test_what_was_compressed_with_loss_needs_to_be_accepted() -> None:
    content = dicom(VALUES["8 bits"](scene()), LossyImageCompression="01")
    with refused("image", "lossy"):
        dipp.redact(content, regions=[BOX], fill="grey")
    redacted = dipp.redact(content, regions=[BOX], fill="grey", accept_lossy=True)
    assert any("with loss as DICOM" in assumption for assumption in redacted.record.facts["certificate"]["assumptions"])


def test_colours_that_two_pixels_share_need_to_be_accepted() -> None:
    """If one of two neighbours lies in a region, their common colour tells of it."""
    made = dicoms.dataset(np.ascontiguousarray(scene()[:, :130]), "SECRET^Jane")
    made.PhotometricInterpretation = "YBR_FULL_422"
    made.PixelData = bytes(range(256)) * 84 + bytes(83 * 130 * 2 - 256 * 84)
    with refused("image", "lossy"):
        dipp.redact(dicoms.written(made), regions=[BOX], fill="grey")
    assert dipp.redact(dicoms.written(made), regions=[BOX], fill="grey", accept_lossy=True).kind == "DICOM"


def test_jpeg_in_dicom_is_compressed_with_loss() -> None:
    read = pydicom.dcmread(io.BytesIO(dicom(VALUES["8 bits"](scene()))))
    read.file_meta.TransferSyntaxUID = JPEGBaseline8Bit
    read.PixelData = encapsulate([saved(VALUES["8 bits"](scene()), "JPEG")])
    read["PixelData"].is_undefined_length = True
    file = io.BytesIO()
    read.save_as(file)
    with refused("image", "lossy"):
        dipp.redact(file.getvalue(), regions=[BOX], fill="grey")


@pytest.mark.parametrize(
    ("tags", "why"),
    [
        ({"NumberOfFrames": "2"}, "frames"),
        ({"HighBit": 6}, "lowest"),
        ({"Rows": 9999}, "file"),
    ],
)
def test_what_cannot_be_used_gets_one_clear_line(tags: dict[str, Any], why: str) -> None:
    with refused("image", why):
        dipp.redact(dicom(VALUES["8 bits"](scene()), **tags), regions=[BOX], fill="grey")


@pytest.mark.parametrize("fill", ["paint", "grey", "black"])
@pytest.mark.parametrize(("kind", "bits"), [(np.uint16, 12), (np.int16, 12), (np.int16, 16), (np.uint32, 20)])
def test_a_region_that_covers_everything_is_filled_with_values_that_can_be_stored(
    kind: type[np.generic], bits: int, fill: str
) -> None:
    values = (np.arange(40 * 30).reshape(40, 30) % 1000).astype(kind)
    content = dicom(values, BitsStored=bits, HighBit=bits - 1)
    redacted = dipp.redact(content, regions=[(0, 0, 30, 40)], fill=fill, device="cpu")
    found = np.frombuffer(pydicom.dcmread(io.BytesIO(redacted.content)).PixelData, kind)
    least = -(1 << bits - 1) if np.issubdtype(kind, np.signedinteger) else 0
    (value,) = np.unique(found).tolist()
    wanted = least if fill == "black" else least + (1 << bits) / 2
    assert abs(value - wanted) <= 1


def test_black_is_black_where_small_values_are_bright() -> None:
    values = scene()[..., 0].astype(np.uint16) * 13 + 100
    redacted = dipp.redact(dicom(values, PhotometricInterpretation="MONOCHROME1"), regions=[BOX], fill="black")
    found = pydicom.dcmread(io.BytesIO(redacted.content))
    assert found.PhotometricInterpretation == "MONOCHROME1"
    left, top, width, height = BOX
    assert (found.pixel_array[top : top + height, left : left + width] > 2800).all()
