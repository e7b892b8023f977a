from __future__ import annotations

import io
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, PngImagePlugin

from dipp.codec import pictures
from dipp.errors import DippError

RGB = np.random.default_rng(0).integers(0, 256, (5, 7, 3), dtype=np.uint8)


def as_file(image: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    stream = io.BytesIO()
    image.save(stream, format=kind, **options)
    return stream.getvalue()


def declared(width: int, height: int) -> bytes:
    """A PNG of a few bytes that says it is of this size."""

    def chunk(name: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


def test_colour_comes_back_from_bytes_paths_and_images(tmp_path: Path) -> None:
    image = Image.fromarray(RGB)
    image.save(tmp_path / "a.png")
    for found in (
        pictures.read(as_file(image)),
        pictures.read(tmp_path / "a.png"),
        pictures.read(str(tmp_path / "a.png")),
        pictures.from_pil(image),
    ):
        assert np.array_equal(found, RGB)
        assert found.flags.c_contiguous
        assert found.flags.writeable


def test_grey_is_repeated() -> None:
    grey = RGB[:, :, 0]
    found = pictures.read(as_file(Image.fromarray(grey)))
    assert np.array_equal(found, np.repeat(grey[:, :, None], 3, axis=2))


def test_one_bit() -> None:
    found = pictures.from_pil(Image.fromarray(RGB[:, :, 0] > 127))
    assert np.array_equal(found[:, :, 1], np.where(RGB[:, :, 0] > 127, 255, 0))


@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
def test_sixteen_bits_keep_the_upper_eight(kind: str) -> None:
    values = np.array([[0, 255, 256, 32_768, 65_535]], np.uint16)
    found = pictures.read(as_file(Image.fromarray(values), kind))
    assert found[0, :, 2].tolist() == [0, 0, 1, 128, 255]


def test_floats_are_refused() -> None:
    with pytest.raises(DippError, match="integers"):
        pictures.from_pil(Image.fromarray(np.full((2, 2), 0.5, np.float32)))


def test_a_palette() -> None:
    image = Image.fromarray(RGB).quantize(16)
    assert image.mode == "P"
    assert np.array_equal(pictures.read(as_file(image)), np.asarray(image.convert("RGB")))


def test_cmyk() -> None:
    image = Image.fromarray(RGB).convert("CMYK")
    assert np.array_equal(pictures.read(as_file(image, "TIFF")), RGB)


def test_alpha_is_composited_on_white() -> None:
    alpha = np.dstack([RGB, np.zeros((5, 7), np.uint8)])
    alpha[0, :, 3] = 255
    alpha[1, :, 3] = 128
    found = pictures.read(as_file(Image.fromarray(alpha)))
    assert np.array_equal(found[0], RGB[0])
    assert (found[2:] == 255).all()
    half = (RGB[1].astype(np.float64) * 128 + 255 * 127) / 255
    assert np.abs(found[1] - half).max() <= 1
    grey_alpha = Image.fromarray(np.zeros((2, 2, 2), np.uint8), mode=None)
    assert grey_alpha.mode == "LA"
    assert (pictures.from_pil(grey_alpha) == 255).all()


def test_a_transparent_palette_entry_is_composited_on_white() -> None:
    image = Image.new("P", (2, 1))
    image.putpalette([10, 20, 30, 40, 50, 60])
    image.putpixel((1, 0), 1)
    found = pictures.read(as_file(image, transparency=0))
    assert found.tolist() == [[[255, 255, 255], [40, 50, 60]]]


def test_orientation_is_applied_and_metadata_dropped() -> None:
    image = Image.fromarray(RGB)
    exif = Image.Exif()
    exif[0x0112] = 6  # turn by 90° to be looked at
    exif[0x010F] = "a camera"
    found = pictures.read(as_file(image, exif=exif))
    assert np.array_equal(found, np.rot90(RGB, -1))
    note = PngImagePlugin.PngInfo()
    note.add_text("Author", "a name")
    assert np.array_equal(pictures.read(as_file(image, pnginfo=note)), RGB)


def test_several_frames_are_refused() -> None:
    frames = [Image.fromarray(RGB), Image.fromarray(255 - RGB)]
    for kind in ("GIF", "PNG", "TIFF"):
        with pytest.raises(DippError, match="several frames"):
            pictures.read(as_file(frames[0], kind, save_all=True, append_images=frames[1:]))


@pytest.mark.parametrize(("width", "height"), [(1 << 14, (1 << 12) + 1), (100_000, 100_000), (1 << 30, 1)])
def test_a_bomb_is_refused_by_what_it_declares(width: int, height: int) -> None:
    bomb = declared(width, height)
    assert len(bomb) < 100
    with pytest.raises(DippError, match=f"image: 1 to 64 megapixels are needed, got {width}×{height}"):
        pictures.read(bomb)


@given(st.floats(0, 0.95))
def test_what_is_cut_short_is_refused_in_one_line(share: float) -> None:
    whole = as_file(Image.fromarray(np.random.default_rng(1).integers(0, 256, (40, 40, 3), dtype=np.uint8)))
    with pytest.raises(DippError, match=r"^image: not a whole picture") as error:
        pictures.read(whole[: int(share * len(whole))])
    assert "\n" not in str(error.value)


def test_files_are_named_in_errors(tmp_path: Path) -> None:
    (tmp_path / "holiday.png").write_bytes(b"no picture")
    with pytest.raises(DippError, match=r"^holiday\.png: not a whole picture"):
        pictures.read(tmp_path / "holiday.png")
    with pytest.raises(DippError, match=r"^nowhere\.png: there is no such file"):
        pictures.read(tmp_path / "nowhere.png")
    (tmp_path / "bomb.png").write_bytes(declared(100_000, 100_000))
    with pytest.raises(DippError, match=r"^bomb\.png: 1 to 64 megapixels"):
        pictures.read(tmp_path / "bomb.png")
    with pytest.raises(DippError, match="not a whole picture"):
        pictures.read(tmp_path)


def test_pillow_s_limit_is_left_as_it_was() -> None:
    before = Image.MAX_IMAGE_PIXELS
    pictures.read(as_file(Image.fromarray(RGB)))
    assert before is not None
    assert before == Image.MAX_IMAGE_PIXELS


@given(
    st.integers(1, 9), st.integers(1, 9), st.sampled_from(["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "YCbCr", "I;16"])
)
def test_every_mode_gives_its_size_in_three_channels(width: int, height: int, mode: str) -> None:
    assert pictures.from_pil(Image.new(mode, (width, height))).shape == (height, width, 3)
