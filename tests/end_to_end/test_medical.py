"""Grey, 16-bit and DICOM pictures, and networks of one channel, through the commands."""

from __future__ import annotations

import dataclasses
import io
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pydicom
import pytest
from helpers import dicoms
from helpers.commands import Command
from helpers.datasets import save_model, smooth_pictures, tiny_codec
from helpers.networks import tiny_network
from helpers.refusals import refused
from PIL import Image
from pydicom.uid import (
    DeflatedExplicitVRLittleEndian,
    RLELossless,
)

import dipp
from dipp.codec import pictures
from dipp.codec.dicom import DEFLATED
from dipp.core.window import Window
from dipp.data.choices import Choices
from dipp.data.engines import LocalEngine
from dipp.data.privatize import privatize
from dipp.data.shards import Shard
from dipp.data.sources import Columns
from dipp.data.store import Store
from dipp.training import public_pictures

pytestmark = pytest.mark.usefixtures("one_thread", "quick")

NAME = "Doe^Jane"
SCAN = (np.arange(64).reshape(8, 8) * 10 + 100).astype(np.uint16)
"""A scan of low range: of sixteen bits, the upper eight hold nothing but 0, 1 and 2."""


def dicom(values: np.ndarray[Any, Any], **tags: Any) -> bytes:
    """Return a DICOM file of these values, with a patient's name and with a window of its own."""
    return dicoms.written(dicoms.dataset(values, NAME), **tags)


# DICOM.


def test_dicom_is_read_by_its_stored_values_and_the_caller_s_window() -> None:
    window = Window(100, 730)
    picture = pictures.read_picture(dicom(SCAN), 3, window)
    np.testing.assert_array_equal(picture.pixels[..., 1], window.levels(SCAN))
    assert picture.grey
    signed = dicom(SCAN.astype(np.int16) - 400)
    np.testing.assert_array_equal(pictures.read(signed, 1, Window(-300, 330))[..., 0], window.levels(SCAN))
    with refused("image", "more than eight bits", remedy="--window LOW:HIGH"):
        pictures.read(dicom(SCAN))


@pytest.mark.parametrize(
    "tags",
    [
        {"WindowCenter": 40, "WindowWidth": 400},
        {"RescaleSlope": 7, "RescaleIntercept": -1024},
        {"SmallestImagePixelValue": 100, "LargestImagePixelValue": 730},
        {"BurnedInAnnotation": "YES", "Modality": "CT", "PatientID": "1"},
    ],
    ids=lambda tags: next(iter(tags)),
)
def test_no_tag_that_differs_from_picture_to_picture_changes_a_pixel(tags: dict[str, Any]) -> None:
    """Devices write such tags for each picture, and compute some of them from its values."""
    window = Window(0, 1000)
    plain, tagged = (pictures.read(dicom(SCAN, **more), 3, window) for more in ({}, tags))
    np.testing.assert_array_equal(plain, tagged)


def test_dicom_of_eight_bits_inverted_or_in_colour_is_read() -> None:
    grey = (SCAN // 4).astype(np.uint8)
    np.testing.assert_array_equal(pictures.read(dicom(grey))[..., 2], grey)
    inverted = {"PhotometricInterpretation": "MONOCHROME1"}
    np.testing.assert_array_equal(pictures.read(dicom(grey, **inverted), 1)[..., 0], 255 - grey)
    window = Window(100, 730)
    np.testing.assert_array_equal(pictures.read(dicom(SCAN, **inverted), 1, window)[..., 0], 255 - window.levels(SCAN))
    colour = np.stack([grey, 255 - grey, grey // 2], axis=2)
    picture = pictures.read_picture(dicom(colour), 3)
    np.testing.assert_array_equal(picture.pixels, colour)
    assert not picture.grey
    luminance = np.asarray(Image.fromarray(colour).convert("L"))
    np.testing.assert_array_equal(pictures.read(dicom(colour), 1)[..., 0], luminance)


def test_compressed_dicom_is_read_or_refused() -> None:
    made = pydicom.dcmread(io.BytesIO(dicom(SCAN)))
    made.compress(RLELossless)
    stream = io.BytesIO()
    pydicom.dcmwrite(stream, made)
    np.testing.assert_array_equal(
        pictures.read(stream.getvalue(), 1, Window(100, 730)), pictures.read(dicom(SCAN), 1, Window(100, 730))
    )
    made = pydicom.dcmread(io.BytesIO(dicom(SCAN)))
    made.file_meta.TransferSyntaxUID = DeflatedExplicitVRLittleEndian
    stream = io.BytesIO()
    pydicom.dcmwrite(stream, made)
    with refused("image", "deflated"):  # a few deflated bytes could expand to any size
        pictures.read(stream.getvalue(), 1, Window(100, 730))


def test_no_pixel_decides_whether_a_picture_is_refused() -> None:
    """Values that happen to spell the name of a compression are still values."""
    grey = np.zeros((4, 32), np.uint8)
    grey[1, : len(DEFLATED)] = np.frombuffer(DEFLATED.encode(), np.uint8)
    np.testing.assert_array_equal(pictures.read(dicom(grey), 1)[..., 0], grey)


@pytest.mark.parametrize(
    ("tags", "word"),
    [
        ({"NumberOfFrames": 2}, "several frames"),
        ({"PhotometricInterpretation": "PALETTE COLOR"}, "grey, RGB and YBR"),
        ({"Rows": 65_000, "Columns": 65_000}, "must have 1 pixel to 64 megapixels, got 65000×65000"),
        ({"BitsAllocated": 1}, "8, 16 or 32 bits"),
        ({"Rows": 9}, "damaged"),
        ({"PixelData": b"\0\0"}, "damaged"),
    ],
    ids=str,
)
def test_other_dicom_is_refused_in_one_line(tags: dict[str, Any], word: str) -> None:
    with refused("image", word):
        pictures.read(dicom(SCAN, **tags), 3, Window(0, 1000))


def test_no_text_of_a_tag_is_in_the_reason() -> None:
    """A dataset states the reasons for skipped pictures, and this tag may contain anything."""
    with refused("image", "grey, RGB and YBR") as error:
        pictures.read(dicom(SCAN, PhotometricInterpretation="DOE JANE"), 3, Window(0, 1000))
    assert "DOE" not in str(error.value)


def test_dicom_without_pydicom_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pydicom", None)
    with refused("image", "pydicom", remedy='pip install ".[dicom]"'):
        pictures.read(dicom_bytes())


def dicom_bytes() -> bytes:
    return bytes(128) + b"DICM"


# Commands.


@pytest.fixture(scope="module")
def public(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return smooth_pictures(tmp_path_factory.mktemp("public"))


def one_channel(folder: Path) -> Path:
    save_model(folder)
    tiny_network(channels=1).save_pretrained(folder / "unet", safe_serialization=True)
    return folder


@pytest.fixture(scope="module", params=[3, 1], ids=["colour", "one channel"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    return save_model(folder) if request.param == 3 else one_channel(folder)


def test_a_dicom_scan_becomes_a_picture_that_is_not_black(
    model: Path, public: Path, tmp_path: Path, run: Command
) -> None:
    """The scan is encoded, decoded and audited on networks of one channel and of three."""
    code, said, _ = run("calibrate", model, public, "--count", 6, "--overwrite")
    assert code == 0, said
    scan, coded = tmp_path / "scan.dcm", tmp_path / "scan.dipp"
    scan.write_bytes(dicom(SCAN))
    asked = ("encode", scan, "-o", coded, "--model", model, "--epsilon", 4)
    code, _, complaint = run(*asked)
    assert code == 1
    assert complaint.count("\n") == 1
    assert "scan.dcm" in complaint
    assert "more than eight bits" in complaint
    assert not coded.exists()
    code, said, told = run(*asked, "--window", "100:730")
    assert code == 0, told
    assert "window       stored values of 100 are black, 730 white; eight-bit images are taken as they are" in said
    assert "burnt-in names" in said
    assert NAME.encode() not in coded.read_bytes()
    code, said, _ = run("info", coded, "--json")
    facts = json.loads(said)
    assert facts["window"] == "100:730"
    three = json.loads((model / "unet" / "config.json").read_text())["in_channels"] == 3
    assert facts["grey"] == int(three)
    assert run("info", coded, "--verify", "--model", model)[0] == 0
    assert run("decode", coded, "-o", tmp_path / "scan.png", "--model", model)[0] == 0
    with Image.open(tmp_path / "scan.png") as shown:
        assert (shown.mode, shown.size) == ("L", (8, 8))
    assert run("plan", "--model", model, "--epsilon", 4)[0] == 0


def test_two_windows_of_a_scan_are_two_releases_of_it(public: Path, tmp_path: Path, run: Command) -> None:
    model, scan = save_model(tmp_path / "model"), tmp_path / "scan.png"
    assert run("calibrate", model, public, "--count", 6)[0] == 0
    Image.fromarray(SCAN).save(scan)
    for number, window in enumerate(("100:730", "full")):
        options = ("--model", model, "--epsilon", 4, "--window", window)
        assert run("encode", scan, "-o", tmp_path / f"{number}.dipp", *options)[0] == 0
    code, said, _ = run("odometer", scan)
    assert code == 0
    assert "2 releases" in said


def test_a_dataset_may_mix_grey_colour_and_sixteen_bits(model: Path, tmp_path: Path) -> None:
    """With grey, colour and 16-bit pictures in one folder, grey ones come out grey, and all have the same window."""
    source = tmp_path / "source"
    source.mkdir()
    colour = np.random.default_rng(0).integers(0, 256, (8, 8, 3), np.uint8)
    Image.fromarray(colour).save(source / "0.png")
    Image.fromarray(colour[..., 0]).save(source / "1.png")
    Image.fromarray(SCAN).save(source / "2.png")
    (source / "3.dcm").write_bytes(dicom(SCAN))
    codec = dataclasses.replace(tiny_codec(model), budget=None)
    three = codec.denoiser.channels == 3

    def released(name: str, window: Window | None) -> Any:
        return privatize(str(source), tmp_path / name, codec, str(model), LocalEngine(1), Choices(window=window))

    bare = released("bare", None)
    assert [position for position, _, _ in bare.skipped] == [2, 3]
    assert all("--window" in reason for _, reason, _ in bare.skipped)
    made = released("out", Window(100, 730))
    assert not made.skipped
    assert made.facts["window"] == "100:730"
    assert made.facts["grey"] == 3 * three
    assert ("which of them are grey" in made.facts["not_hidden"]) == three
    (shard,) = (Shard.read(path) for path in Store(tmp_path / "out").shards())
    assert shard.greys() == [False, *[three] * 3]
    found = list(dipp.load(tmp_path / "out", model))
    assert {tuple(picture.shape) for picture in found} == {(codec.denoiser.channels, 8, 8)}
    if three:
        assert (found[0][0] != found[0][1]).any()
        assert all((picture == picture[:1]).all() for picture in found[1:])
    released("one.dipp", Window(100, 730))
    assert dipp.open(tmp_path / "one.dipp").grey.tolist() == [False, *[three] * 3]


def test_a_run_cannot_be_resumed_with_another_window(tmp_path: Path) -> None:
    model, source = save_model(tmp_path / "model"), tmp_path / "source"
    source.mkdir()
    for number in range(4):
        Image.fromarray(SCAN + number).save(source / f"{number}.png")
    codec = tiny_codec(model)

    class KilledEngine(LocalEngine):
        def run(self, *arguments: Any) -> Any:
            yield next(iter(super().run(*arguments)))
            raise KeyboardInterrupt

    def released(engine: LocalEngine, window: Window) -> Any:
        choices = Choices(shard_size=1, window=window)
        return privatize(str(source), tmp_path / "out", codec, str(model), engine, choices)

    with pytest.raises(KeyboardInterrupt):
        released(KilledEngine(1), Window(0, 900))
    with refused("dst", "an unfinished run with another window"):
        released(LocalEngine(1), Window(0, 901))
    assert released(LocalEngine(1), Window(0, 900)).facts["window"] == "0:900"


def test_one_channel_takes_the_luminance_of_arrays_too(tmp_path: Path) -> None:
    """CIFAR-10 comes as arrays in colour, and so may public pictures."""
    model = one_channel(tmp_path / "model")
    source = tmp_path / "cifar"
    source.mkdir()
    (source / "batches.meta").write_bytes(pickle.dumps({b"label_names": [b"cat"]}))
    batch = {b"data": np.zeros((3, 3 * 32 * 32), np.uint8), b"labels": [0] * 3}
    (source / "test_batch").write_bytes(pickle.dumps(batch))
    privatize(
        str(source), tmp_path / "out", tiny_codec(model), str(model), LocalEngine(1), Choices(Columns(split="test"))
    )
    assert [picture.shape for picture, _ in dipp.load(tmp_path / "out", model)] == [(1, 32, 32)] * 3
    np.save(tmp_path / "public.npy", np.zeros((2, 8, 8, 3), np.uint8))
    assert public_pictures.load(tmp_path / "public.npy", 8, channels=1).pixels.shape == (2, 8, 8, 1)
    np.save(tmp_path / "grey.npy", np.zeros((2, 8, 8, 1), np.uint8))
    for channels in (1, 3):
        assert public_pictures.load(tmp_path / "grey.npy", 8, channels=channels).pixels.shape == (2, 8, 8, channels)
    folder = tmp_path / "scans"
    folder.mkdir()
    Image.fromarray(SCAN).save(folder / "a.png")
    with refused("data", "8×8", "scans", "(1 skipped)"):
        public_pictures.load(folder, 8)
    assert public_pictures.load(folder, 8, window=Window(100, 730)).pixels.max() == 255


def test_a_folder_of_scans_without_a_window_says_that_nothing_was_released(
    model: Path, public: Path, tmp_path: Path, run: Command
) -> None:
    """The failed run does not stop the next one."""
    assert run("calibrate", model, public, "--count", 6, "--overwrite")[0] == 0
    scans, released = tmp_path / "scans", tmp_path / "released"
    scans.mkdir()
    Image.fromarray(SCAN.astype(np.uint16)).save(scans / "scan.png")
    asked = ("privatize", scans, released, "--model", model, "--epsilon", 4, "--workers", 1)
    code, _, told = run(*asked)
    assert code == 1
    assert "has no picture that can be used: " in told
    assert "--window LOW:HIGH" in told
    assert "; nothing was released" in told
    assert not released.exists()
    code, said, told = run(*asked, "--window", "100:730")
    assert code == 0, told
    assert "window       stored values of 100 are black, 730 white" in said
    assert "nothing was released" not in told
