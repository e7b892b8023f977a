"""Attempts to learn what a region shows from how its file was written: all give the same bytes and record."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers.redaction import BOX, inside, opened, pair, saved, scene
from helpers.refusals import refused
from PIL import Image, PngImagePlugin

import dipp
from dipp.redaction import png, tiff
from dipp.redaction.output import RedactedPicture
from dipp.redaction.raster import Raster

pytestmark = pytest.mark.usefixtures("one_thread")

Pixels = np.ndarray[Any, Any]


def redacted(content: bytes, fill: str = "paint") -> RedactedPicture:
    return dipp.redact(content, regions=[BOX], fill=fill, device="cpu", odometer=False)


def require_same(*files: bytes, fill: str = "paint") -> RedactedPicture:
    assert len(set(files)) == len(files)
    made = [redacted(content, fill) for content in files]
    assert len({(one.content, one.record.to_json()) for one in made}) == 1
    return made[0]


def grey() -> Pixels:
    """Return the picture with 8 bits and without colour."""
    return np.repeat(scene()[..., :1], 3, axis=2)


def with_box(pixels: Pixels, inner: Pixels) -> Pixels:
    """Return the picture with other pixels in the box."""
    made = pixels.copy()
    made[inside(pixels.shape)] = inner[inside(inner.shape)]
    return made


def opaque(pixels: Pixels) -> Pixels:
    return np.concatenate([pixels, np.full_like(pixels[..., :1], np.iinfo(pixels.dtype).max)], axis=2)


def palette(pixels: Pixels, kind: str) -> bytes:
    """Return a file with an exact palette, such as programs write for few colours."""
    image = Image.fromarray(pixels).quantize(256, dither=Image.Dither.NONE)
    np.testing.assert_array_equal(np.asarray(image.convert("RGB")), pixels)
    file = io.BytesIO()
    image.save(file, kind)
    return file.getvalue()


FEW = (grey() // 16 * 16).astype(np.uint8)
"""A grey picture of few colours."""
NOISE = np.random.default_rng(3).integers(0, 256, scene().shape).astype(np.uint8)
CLEAR = np.dstack([NOISE, NOISE[..., 0]])
DEEP = grey().astype(np.uint16) * 257
"""A picture whose values need 8 bits, as 16 bits have it."""
SMALLEST: dict[str, Callable[[str], list[bytes]]] = {
    "grey or colour": lambda kind: [save(grey()[..., :1], kind), save(with_box(grey(), NOISE), kind)],
    "with alpha or without": lambda kind: [save(scene(), kind), save(with_box(opaque(scene()), CLEAR), kind)],
    "8 or 16 bits": lambda kind: [save(grey()[..., :1], kind), save(with_box(DEEP, NOISE * np.uint16(251)), kind)],
    "a palette or none": lambda kind: [palette(FEW, kind), save(with_box(FEW, NOISE), kind)],
}


def save(pixels: Pixels, kind: str) -> bytes:
    return png.write(Raster(pixels)) if kind == "PNG" else tiff.write(Raster(pixels))


@pytest.mark.parametrize("fill", ["paint", "grey", "black"])
@pytest.mark.parametrize("name", SMALLEST)
@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
def test_the_pixel_type_of_a_file_does_not_show(kind: str, name: str, fill: str) -> None:
    """Programs that shrink files choose grey, palette, alpha and depth by all pixels, also those in the box."""
    files = SMALLEST[name](kind)
    made = require_same(*files, fill=fill)
    first = opened(files[0])
    outside = ~inside(first.shape)
    after = opened(made.content)
    if first.ndim == after.ndim and "palette" not in name:
        np.testing.assert_array_equal(after[outside], first[outside])


@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
def test_a_palette_is_warned_of_and_does_not_show(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    """Colours are reduced to a palette by looking at the whole picture: no reader can see whether that was done."""
    require_same(palette(FEW, kind), save(FEW, kind), fill="grey")
    (warning,) = caplog.messages
    assert warning.startswith("image: The original has a palette.")


def test_webp_drops_alpha_where_nothing_is_clear() -> None:
    files = [opaque(scene()), with_box(opaque(scene()), CLEAR)]
    require_same(*(saved(pixels, "WEBP", lossless=True, exact=True) for pixels in files))


@pytest.mark.parametrize("method", [4, 6])
def test_colours_of_transparent_webp_pixels_do_not_show(method: int) -> None:
    """Encoders choose colours of wholly transparent pixels by the pixels around them, which may be hidden ones."""
    rows, columns = np.indices(scene().shape[:2])
    clear = np.where((rows + columns) % 40 < 25, 255, 0).astype(np.uint8)
    files = [
        saved(np.dstack([pixels, np.where(inside(pixels.shape), 255, clear)]), "WEBP", lossless=True, method=method)
        for pixels in pair()
    ]
    made = require_same(*files)
    shown, before = opened(made.content), opened(files[0])
    outside = ~inside(shown.shape)
    np.testing.assert_array_equal(shown[outside, 3], before[outside, 3])
    seen = outside & (clear > 0)
    np.testing.assert_array_equal(shown[seen], before[seen])


def segment(marker: int, body: bytes) -> bytes:
    return bytes((0xFF, marker)) + struct.pack(">H", len(body) + 2) + body


def exif(thumbnail: bytes) -> bytes:
    """Return EXIF data with the orientation 3, a name, and a thumbnail in the second directory."""
    name = b"taken by SECRET\0"
    first = struct.pack("<H", 2) + struct.pack("<HHIHH", 0x0112, 3, 1, 3, 0)
    first += struct.pack("<HHII", 0x010E, 2, len(name), 8 + 2 + 24 + 4)
    second_at = 8 + 2 + 24 + 4 + len(name)
    first += struct.pack("<I", second_at)
    second = struct.pack("<H", 2) + struct.pack("<HHII", 0x0201, 4, 1, second_at + 2 + 24 + 4)
    second += struct.pack("<HHII", 0x0202, 4, 1, len(thumbnail)) + struct.pack("<I", 0)
    return b"II*\0" + struct.pack("<I", 8) + first + name + second + thumbnail


def dressed(content: bytes, pixels: Pixels) -> bytes:
    """Return a JPEG with everything that cameras and programs add; each added part shows the picture."""
    small = io.BytesIO()
    Image.fromarray(pixels).resize((32, 20)).save(small, "JPEG")
    parts = [
        segment(0xE1, b"Exif\0\0" + exif(small.getvalue())),
        segment(0xE1, b"http://ns.adobe.com/xap/1.0/\0" + small.getvalue()),
        segment(0xE2, b"MPF\0" + small.getvalue()),
        segment(0xE2, b"ICC_PROFILE\0\x01\x01" + small.getvalue()),
        segment(0xED, b"Photoshop 3.0\0" + small.getvalue()),
        segment(0xFE, b"a comment: " + small.getvalue()[::-1]),
    ]
    return content[:2] + b"".join(parts) + content[2:] + small.getvalue() + b"ftypmp42" + pixels.tobytes()[::997]


def test_what_cameras_add_to_a_jpeg_does_not_show() -> None:
    files = [dressed(saved(pixels, "JPEG", quality=90), pixels) for pixels in pair()]
    regions = {"regions": [BOX], "boxes": "raw", "device": "cpu", "odometer": False}
    made = [dipp.redact(content, **regions) for content in files]  # type: ignore[arg-type]
    assert len({(one.content, one.record.to_json()) for one in made}) == 1
    assert b"SECRET" not in made[0].content
    assert made[0].record.facts["output"]["orientation"] == 3


@pytest.mark.parametrize("options", [{"restart_marker_blocks": 3}, {"restart_marker_rows": 1}])
@pytest.mark.parametrize("progressive", [False, True])
def test_restart_intervals_do_not_show(options: dict[str, Any], progressive: bool) -> None:
    files = [saved(pixels, "JPEG", quality=85, progressive=progressive, **options) for pixels in pair()]
    made = require_same(*files)
    assert made.content == redacted(saved(pair()[0], "JPEG", quality=85)).content


def test_a_scan_that_was_cut_is_refused_alike() -> None:
    """A reader that filled up the rest of a cut scan would show where the bits of the region end."""
    errors = set()
    for pixels in pair():
        content = saved(pixels, "JPEG", quality=85)
        with refused("image", "it ends early") as caught:
            redacted(content[: len(content) * 3 // 4])
        errors.add(str(caught.value))
    assert len(errors) == 1


def chunks(content: bytes, pixels: Pixels) -> bytes:
    """Return a PNG with ancillary chunks, each one made from the picture."""
    digest = zlib.crc32(pixels.tobytes()).to_bytes(4, "big")
    made = b""
    for name, body in (
        (b"tEXt", b"Comment\0" + digest),
        (b"eXIf", exif(digest)),
        (b"hIST", digest),
        (b"tIME", digest + b"abc"),
        (b"prVt", digest),
    ):
        made += struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
    return content[:33] + made + content[33:] + digest


def test_what_programs_add_to_a_png_does_not_show() -> None:
    files = [chunks(saved(pixels, "PNG"), pixels) for pixels in pair()]
    regions = {"regions": [BOX], "boxes": "raw", "device": "cpu", "odometer": False}
    made = [dipp.redact(content, **regions) for content in files]  # type: ignore[arg-type]
    assert len({(one.content, one.record.to_json()) for one in made}) == 1


def test_the_layout_of_a_tiff_does_not_show() -> None:
    """Compression, tags and a preview on a second page do not show in the redacted TIFF."""
    files = []
    for number, pixels in enumerate(pair()):
        info = PngImagePlugin.PngInfo()
        info.add_text("x", str(number))
        file = io.BytesIO()
        preview = Image.fromarray(pixels).resize((16, 10))
        Image.fromarray(pixels).save(
            file,
            "TIFF",
            compression=("tiff_lzw", "tiff_adobe_deflate")[number],
            description=f"SECRET {number}",
            save_all=True,
            append_images=[preview],
        )
        files.append(file.getvalue())
    made = require_same(*files)
    assert b"SECRET" not in made.content


def test_a_region_over_everything_leaves_only_the_size() -> None:
    """If a region covers everything, only the size of the picture is left."""
    everything = [(0, 0, 131, 83)]
    files = [save(scene(), "PNG"), save(opaque(NOISE), "PNG"), save(NOISE * np.uint16(251), "PNG"), save(FEW, "PNG")]
    for fill in ("paint", "grey", "black"):
        made = {dipp.redact(file, regions=everything, fill=fill, odometer=False).content for file in files}
        assert len(made) == 1
