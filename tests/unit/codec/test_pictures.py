from __future__ import annotations

import io
import os
import struct
import zlib
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from helpers.refusals import refused
from hypothesis import given
from hypothesis import strategies as st
from PIL import EpsImagePlugin, Image, PngImagePlugin

from dipp.codec import pictures
from dipp.core.window import FULL, Window

RGB = np.random.default_rng(0).integers(0, 256, (5, 7, 3), dtype=np.uint8)


def as_file(image: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    stream = io.BytesIO()
    image.save(stream, format=kind, **options)
    return stream.getvalue()


def declared(width: int, height: int) -> bytes:
    """Return a PNG of a few bytes whose header states this size."""

    def chunk(name: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


def from_pil(image: Image.Image, channels: int = 3, window: Window | None = None) -> pictures.Pixels:
    return pictures.as_picture(image, channels, window).pixels


def test_colour_comes_back_from_bytes_paths_and_images(tmp_path: Path) -> None:
    image = Image.fromarray(RGB)
    image.save(tmp_path / "a.png")
    for found in (
        pictures.read(as_file(image)),
        pictures.read(tmp_path / "a.png"),
        pictures.read(str(tmp_path / "a.png")),
        from_pil(image),
    ):
        assert np.array_equal(found, RGB)
        assert found.flags.c_contiguous
        assert found.flags.writeable


def test_grey_is_repeated() -> None:
    grey = RGB[:, :, 0]
    pixels = pictures.read(as_file(Image.fromarray(grey)))
    assert np.array_equal(pixels, np.repeat(grey[:, :, None], 3, axis=2))


def test_floats_are_refused() -> None:
    with refused("image", "floating-point"):
        from_pil(Image.fromarray(np.full((2, 2), 0.5, np.float32)))


def test_alpha_is_composited_on_white() -> None:
    alpha = np.dstack([RGB, np.zeros((5, 7), np.uint8)])
    alpha[0, :, 3] = 255
    alpha[1, :, 3] = 128
    pixels = pictures.read(as_file(Image.fromarray(alpha)))
    assert np.array_equal(pixels[0], RGB[0])
    assert (pixels[2:] == 255).all()
    half = (RGB[1].astype(np.float64) * 128 + 255 * 127) / 255
    assert np.abs(pixels[1] - half).max() <= 1
    grey_alpha = Image.fromarray(np.zeros((2, 2, 2), np.uint8), mode=None)
    assert grey_alpha.mode == "LA"
    assert (from_pil(grey_alpha) == 255).all()


def test_a_transparent_palette_entry_is_composited_on_white() -> None:
    image = Image.new("P", (2, 1))
    image.putpalette([10, 20, 30, 40, 50, 60])
    image.putpixel((1, 0), 1)
    pixels = pictures.read(as_file(image, transparency=0))
    assert pixels.tolist() == [[[255, 255, 255], [40, 50, 60]]]


def test_orientation_is_applied_and_metadata_dropped() -> None:
    image = Image.fromarray(RGB)
    exif = Image.Exif()
    exif[0x0112] = 6  # turn by 90° to be looked at
    exif[0x010F] = "a camera"
    pixels = pictures.read(as_file(image, exif=exif))
    assert np.array_equal(pixels, np.rot90(RGB, -1))
    note = PngImagePlugin.PngInfo()
    note.add_text("Author", "a name")
    assert np.array_equal(pictures.read(as_file(image, pnginfo=note)), RGB)


def test_several_frames_are_refused() -> None:
    frames = [Image.fromarray(RGB), Image.fromarray(255 - RGB)]
    for kind in ("GIF", "PNG", "TIFF"):
        with refused("image", "several"):
            pictures.read(as_file(frames[0], kind, save_all=True, append_images=frames[1:]))


@pytest.mark.parametrize(("width", "height"), [(1 << 14, (1 << 12) + 1), (100_000, 100_000), (1 << 30, 1)])
def test_a_file_that_declares_too_many_pixels_is_refused(width: int, height: int) -> None:
    bomb = declared(width, height)
    assert len(bomb) < 100
    with refused("image", "64", f"{width}×{height}"):
        pictures.read(bomb)


@given(st.floats(0, 0.95))
def test_files_that_are_cut_short_are_refused_in_one_line(share: float) -> None:
    whole = as_file(Image.fromarray(np.random.default_rng(1).integers(0, 256, (40, 40, 3), dtype=np.uint8)))
    with refused("image", "damaged"):
        pictures.read(whole[: int(share * len(whole))])


def test_files_are_named_in_errors(tmp_path: Path) -> None:
    (tmp_path / "holiday.png").write_bytes(b"no picture")
    with refused("holiday.png", "damaged"):
        pictures.read(tmp_path / "holiday.png")
    with refused("nowhere.png", "exist"):
        pictures.read(tmp_path / "nowhere.png")
    (tmp_path / "bomb.png").write_bytes(declared(100_000, 100_000))
    with refused("bomb.png", "64"):
        pictures.read(tmp_path / "bomb.png")
    with refused("test_files_are_named_in_errors0", remedy="pictures"):
        pictures.read(tmp_path)


def test_failures_of_the_machine_are_not_blamed_on_the_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.png").write_bytes(as_file(Image.fromarray(RGB)))
    monkeypatch.setattr(Image, "open", mock.Mock(side_effect=[PermissionError(13, "Permission denied"), MemoryError]))
    with refused("mine.png", "Permission"):
        pictures.read(tmp_path / "mine.png")
    with pytest.raises(MemoryError):
        pictures.read(tmp_path / "mine.png")


def test_pillow_s_limit_is_left_as_it_was() -> None:
    before = Image.MAX_IMAGE_PIXELS
    pictures.read(as_file(Image.fromarray(RGB)))
    assert before is not None
    assert before == Image.MAX_IMAGE_PIXELS


@given(
    st.integers(1, 9), st.integers(1, 9), st.sampled_from(["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "YCbCr", "I;16"])
)
def test_every_mode_gives_its_size_in_three_channels(width: int, height: int, mode: str) -> None:
    assert from_pil(Image.new(mode, (width, height)), 3, FULL).shape == (height, width, 3)


# More than eight bits.


def wide(*values: int) -> Image.Image:
    return Image.fromarray(np.array([values], np.uint16))


@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
def test_sixteen_bits_need_a_window(kind: str) -> None:
    """Without a window, a scan of twelve bits would become a black picture with a certificate."""
    file = as_file(wide(0, 4, 4095), kind)
    with refused("image", remedy="LOW:HIGH"):
        pictures.read(file)
    assert pictures.read(file, 3, Window(0, 4095))[0].tolist() == [[0] * 3, [0] * 3, [255] * 3]
    assert pictures.read(file, 1, Window(4, 8))[0].tolist() == [[0], [0], [255]]
    assert pictures.read(file, 3, FULL)[0, :, 1].tolist() == [0, 0, 16]


def test_a_window_changes_no_picture_of_eight_bits() -> None:
    assert np.array_equal(pictures.read(as_file(Image.fromarray(RGB)), 3, Window(0, 9)), RGB)
    assert np.array_equal(pictures.as_picture(RGB, 3, Window(0, 9)).pixels, RGB)


@given(st.integers(0, 4), st.integers(0, 65_535))
def test_a_window_mixes_no_pixels(at: int, value: int) -> None:
    """Changing one value changes no other pixel: a window is not fitted to the darkest or brightest value."""
    values = [3, 900, 17, 4095, 200]
    changed = [*values[:at], value, *values[at + 1 :]]
    before, after = (from_pil(wide(*some), 3, Window(0, 4095))[0] for some in (values, changed))
    assert [i for i in range(5) if (before[i] != after[i]).any()] in ([], [at])


def test_a_window_reads_32_bits_and_arrays_of_any_whole_numbers() -> None:
    window, values = Window(-1000, 1000), np.array([[-5000, -1000, 0, 1000, 5000]])
    expected = [0, 0, 128, 255, 255]
    assert from_pil(Image.fromarray(values.astype(np.int32)), 1, window)[0, :, 0].tolist() == expected
    for kind in (np.int16, np.int32, np.int64):
        assert pictures.as_picture(values.astype(kind), 3, window).pixels[0, :, 2].tolist() == expected
    assert pictures.as_picture(np.stack([values] * 3, axis=2), 3, window).pixels[0, :, 2].tolist() == expected
    assert pictures.as_picture(torch.from_numpy(values), 3, window).pixels[0, :, 2].tolist() == expected


def pgm(kind: bytes, largest: int, values: bytes) -> bytes:
    return (
        kind
        + b"\n%d 1\n%d\n" % (len(values) // (2 if largest > 255 else 1) // (3 if kind == b"P6" else 1), largest)
        + values
    )


def test_a_largest_value_of_the_file_s_own_is_refused() -> None:
    """Another largest value may be that of a pixel, and Pillow would scale all others by it."""
    for largest, size in ((100, 1), (4095, 2)):
        with refused("image", "65535"):
            pictures.read(pgm(b"P5", largest, bytes(3 * size)), 3, FULL)
    assert pictures.read(pgm(b"P5", 255, bytes([7, 8, 9])))[0, :, 0].tolist() == [7, 8, 9]
    assert pictures.read(pgm(b"P5", 65535, b"\0\x05\x01\x01"), 3, FULL)[0, :, 0].tolist() == [0, 1]
    with refused("image", "eight"):
        pictures.read(pgm(b"P6", 65535, bytes(6)))


def sixteen_bit_colour() -> bytes:
    """Return a PNG of 16-bit colour, which Pillow cuts to eight bits when it opens it."""

    def chunk(name: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    row = zlib.compress(b"\0" + struct.pack(">6H", 255, 256, 300, 0, 40_000, 65_535))
    head = struct.pack(">IIBBBBB", 2, 1, 16, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", row) + chunk(b"IEND", b"")


def test_16_bit_colour_is_cut_only_with_the_full_window() -> None:
    with refused("image", "eight"):
        pictures.read(sixteen_bit_colour())
    with refused("image", "16-bit", remedy="--window full"):
        pictures.read(sixteen_bit_colour(), 3, Window(0, 4095))
    assert pictures.read(sixteen_bit_colour(), 3, FULL).tolist() == [[[0, 1, 1], [0, 156, 255]]]


# Grey.


@pytest.mark.parametrize(
    ("mode", "grey"),
    [
        ("1", True),
        ("L", True),
        ("LA", True),
        ("I;16", True),
        ("I", True),
        ("P", False),
        ("RGB", False),
        ("RGBA", False),
    ],
)
def test_the_mode_of_a_file_decides_whether_it_is_grey(mode: str, grey: bool) -> None:
    """Pixels with equal channels do not make a colour file grey."""
    image = Image.new(mode, (2, 3))
    assert pictures.as_picture(image, 3, FULL).grey is grey
    assert not pictures.as_picture(image, 1, FULL).grey  # one channel has nothing to be repeated


def test_the_shape_of_an_array_decides_whether_it_is_grey() -> None:
    same = np.full((4, 4, 3), 9, np.uint8)
    assert not pictures.as_picture(same, 3).grey
    for one in (same[..., :1], same[..., 0], torch.from_numpy(same[..., 0])[None], torch.from_numpy(same[..., 0])):
        assert pictures.as_picture(one, 3).grey


def test_the_odometer_knows_a_picture_whatever_the_window_and_the_network(tmp_path: Path) -> None:
    """A scan that is encoded by two windows is recognised as one picture that was released twice."""
    wide(1, 300, 70).save(tmp_path / "scan.png")
    Image.fromarray(RGB).save(tmp_path / "photo.png")
    for name, windows in (("scan.png", (Window(0, 4095), Window(0, 9), FULL)), ("photo.png", (None, FULL))):
        known = pictures.known_by(tmp_path / name)
        for window in windows:
            for channels in (1, 3):
                picture = pictures.read_picture(tmp_path / name, channels, window)
                assert picture.pixels.shape[2] == channels
                assert np.array_equal(picture.known_by, known)


EPS = b"""%!PS-Adobe-3.0 EPSF-3.0
%%BoundingBox: 0 0 8 8
%%EndComments
0 0 8 8 rectfill
showpage
%%EOF
"""


def test_postscript_never_reaches_ghostscript(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pillow's reader of EPS, which runs the program gs, is not used under any file name."""
    ran = tmp_path / "ran"
    program = tmp_path / "gs"
    program.write_text(f"#!/bin/sh\ntouch {ran}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(EpsImagePlugin, "gs_binary", None)
    (tmp_path / "x.png").write_bytes(EPS)
    for read in (pictures.read, pictures.declared_size):
        with refused("x.png", "format"):
            read(tmp_path / "x.png")
    assert not ran.exists()


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "TIFF", "WebP", "BMP", "GIF", "PPM"])
def test_every_format_that_is_promised_is_read(kind: str) -> None:
    assert kind in pictures.READABLE
    pixels = pictures.read(as_file(Image.fromarray(RGB), kind))
    assert pixels.shape == RGB.shape


@pytest.mark.parametrize("kind", ["TGA", "ICO", "PCX", "SGI", "JPEG2000", "DIB", "DDS"])
def test_no_other_format_is_read(kind: str) -> None:
    content = as_file(Image.new("RGB", (16, 16)), kind)
    Image.open(io.BytesIO(content)).load()
    with refused("image", "format"):
        pictures.read(content)


def test_pictures_of_phones_are_to_be_converted(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(b"\0\0\0\x18ftypheic" + bytes(64))
    Image.fromarray(RGB).save(tmp_path / "b.png", format="AVIF")
    (tmp_path / "c.jpg").write_bytes(b"\0\0\0\x1cftypmif2\0\0\0\0mif1heic" + bytes(64))  # its second brands count too
    for name in ("a.jpg", "b.png", "c.jpg"):
        with refused(name, "HEIC", remedy="PNG"):
            pictures.read(tmp_path / name)
