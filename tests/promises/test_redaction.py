"""The promise of redaction: originals that differ only in their regions become the same bytes and the same record.

The tests also show how the promise is kept: one function drops the content of regions, and nothing else reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast
from unittest import mock

import numpy as np
import pytest
from helpers.redaction import BOX, SIZE, inside, jpegs, opened, pair, sampled, saved, scene
from helpers.taint import LeakError, PrivateArray
from PIL import Image

import dipp
from dipp.redaction import hidden, png, sources, tiff
from dipp.redaction.jpeg import coefficients
from dipp.redaction.jpeg.coefficients import Jpeg
from dipp.redaction.output import RedactedPicture
from dipp.redaction.raster import Raster

FILLS = ("paint", "grey", "black")

pytestmark = pytest.mark.usefixtures("one_thread")


def redacted(content: bytes, fill: str, **options: Any) -> RedactedPicture:
    return dipp.redact(content, regions=[BOX], fill=fill, device="cpu", **options)


def require_same(files: list[bytes], fill: str, **options: Any) -> RedactedPicture:
    """Check that files which differ in their regions alone become one file, with the surroundings of the first."""
    assert len(set(files)) == len(files)
    made = [redacted(content, fill, **options) for content in files]
    assert len({one.content for one in made}) == 1
    assert len({one.record.to_json() for one in made}) == 1
    return made[0]


def require_coefficients(original: bytes, made: bytes) -> None:
    """Check that coefficients and tables outside the MCUs that meet the box are those of the original."""
    before, after = coefficients.read(original), coefficients.read(made)
    tall, wide = before.mcu
    left, top, width, height = BOX
    rows, columns = slice(top // tall, -(-(top + height) // tall)), slice(left // wide, -(-(left + width) // wide))
    for one, other in zip(before.components, after.components, strict=True):
        np.testing.assert_array_equal(one.quantisation, other.quantisation)
        kept = np.ones(one.blocks.shape[:2], bool)
        kept[rows.start * one.down : rows.stop * one.down, columns.start * one.across : columns.stop * one.across] = (
            False
        )
        # Blocks that only fill up the last MCUs belong to no picture.
        real = coefficients.blocks_of(before, one)
        kept[real[0] :], kept[:, real[1] :] = False, False
        np.testing.assert_array_equal(one.blocks[kept], other.blocks[kept])


@pytest.mark.parametrize("options", list(jpegs()), ids=lambda one: "-".join(str(value) for value in one.values()))
@pytest.mark.parametrize("fill", FILLS)
def test_jpegs_that_differ_in_a_box_become_the_same_bytes(fill: str, options: dict[str, Any]) -> None:
    files = [saved(pixels, "JPEG", **options) for pixels in pair()]
    made = require_same(files, fill)
    require_coefficients(files[0], made.content)


@pytest.mark.parametrize(("across", "down"), [(1, 1), (2, 1), (1, 2), (2, 2), (4, 1)])
@pytest.mark.parametrize("fill", FILLS)
def test_the_same_for_every_chroma_sampling(fill: str, across: int, down: int) -> None:
    files = [sampled(pixels, across, down) for pixels in pair()]
    require_coefficients(files[0], require_same(files, fill).content)


@pytest.mark.parametrize("fill", FILLS)
def test_grey_jpegs_that_differ_in_a_box_become_the_same_bytes(fill: str) -> None:
    files = [saved(np.asarray(Image.fromarray(pixels).convert("L")), "JPEG", optimize=True) for pixels in pair()]
    require_same(files, fill)


def test_how_a_jpeg_was_coded_does_not_show() -> None:
    """Scan scripts, Huffman tables and restart intervals are written anew, and metadata are dropped."""
    first = pair()[0]
    tags = Image.Exif()
    tags[0x010F] = "maker"
    files = [
        saved(first, "JPEG"),
        saved(first, "JPEG", optimize=True),
        saved(first, "JPEG", progressive=True),
        saved(first, "JPEG", restart_marker_rows=1),
        saved(first, "JPEG", comment=b"comment", exif=tags),
    ]
    require_same(files, "grey")


def sixteen(pixels: np.ndarray[Any, Any], channels: int) -> np.ndarray[Any, Any]:
    """Return 16-bit pixels of a scene, which use every bit."""
    wide = pixels.astype(np.uint16) * 251 + 17
    if channels == 4:
        wide = np.concatenate([wide, wide[..., :1]], axis=2)
    return wide[..., :channels]


LOSSLESS: dict[str, Callable[[np.ndarray[Any, Any]], bytes]] = {
    "PNG": lambda pixels: saved(pixels, "PNG"),
    "PNG optimised": lambda pixels: saved(pixels, "PNG", optimize=True),
    "PNG with alpha": lambda pixels: saved(np.dstack([pixels, pixels[..., 0]]), "PNG"),
    "PNG grey": lambda pixels: saved(pixels[..., 0], "PNG"),
    "PNG grey of 16 bits": lambda pixels: png.write(Raster(sixteen(pixels, 1))),
    "PNG colour of 16 bits": lambda pixels: png.write(Raster(sixteen(pixels, 3))),
    "PNG colour and alpha of 16 bits": lambda pixels: png.write(Raster(sixteen(pixels, 4))),
    "TIFF": lambda pixels: saved(pixels, "TIFF"),
    "TIFF by LZW": lambda pixels: saved(pixels, "TIFF", compression="tiff_lzw"),
    "BigTIFF": lambda pixels: saved(pixels, "TIFF", big_tiff=True),
    "TIFF grey of 16 bits": lambda pixels: saved(sixteen(pixels, 1)[..., 0], "TIFF"),
    "TIFF colour of 16 bits": lambda pixels: tiff.write(Raster(sixteen(pixels, 3))),
    "WebP": lambda pixels: saved(pixels, "WEBP", lossless=True, exact=True),
}


@pytest.mark.parametrize("name", LOSSLESS)
@pytest.mark.parametrize("fill", FILLS)
def test_lossless_files_become_the_same_bytes_and_keep_every_other_pixel(fill: str, name: str) -> None:
    files = [LOSSLESS[name](pixels) for pixels in pair()]
    made = require_same(files, fill)
    before, after = (cast("Any", sources.open_source(content)).picture.values for content in (files[0], made.content))
    outside = ~inside(before.shape)
    assert before.dtype == after.dtype
    np.testing.assert_array_equal(before[outside], after[outside])
    assert (before[~outside] != after[~outside]).any()
    if "16" not in name or "colour" not in name:  # Pillow cuts that to 8 bits
        np.testing.assert_array_equal(opened(files[0])[outside], opened(made.content)[outside])


def test_what_is_painted_depends_on_the_surroundings() -> None:
    """Without this test, the other tests would pass for a grey box too."""
    mask = inside(scene().shape)
    made = [opened(redacted(saved(scene(seed), "PNG"), "paint").content)[mask] for seed in (0, 1)]
    assert (made[0] != made[1]).any()
    assert np.std(made[0]) > 5


# The one place where private values are dropped.


@pytest.fixture
def tainted() -> Iterator[dict[str, int]]:
    """Taint every value that a reader returns until `hidden.without` has dropped hidden pixels."""
    read_jpeg, read_png, drop = coefficients.read, png.read, hidden.without

    def private_jpeg(content: bytes) -> Jpeg:
        found = read_jpeg(content)
        return found.with_blocks(tuple(cast("Any", PrivateArray(component.blocks)) for component in found.components))

    def private_png(content: bytes) -> Raster:
        found = read_png(content)
        return Raster(cast("Any", PrivateArray(found.values)), found.orientation, found.profile)

    def without(values: Any, mask: Any) -> Any:
        assert isinstance(values, PrivateArray), "values of a private picture are private"
        return drop(values.open("dropped"), mask)

    PrivateArray.opened = {}
    with (
        mock.patch.object(coefficients, "read", private_jpeg),
        mock.patch.object(png, "read", private_png),
        mock.patch.object(hidden, "without", without),
    ):
        yield PrivateArray.opened


@pytest.mark.parametrize("fill", FILLS)
def test_a_jpeg_is_looked_at_once_where_its_regions_are_dropped(fill: str, tainted: dict[str, int]) -> None:
    redacted(saved(scene(), "JPEG"), fill)
    assert tainted == {"dropped": 3}  # once for each component


@pytest.mark.parametrize("fill", FILLS)
def test_pixels_are_looked_at_once_where_regions_are_dropped(fill: str, tainted: dict[str, int]) -> None:
    redacted(saved(scene(), "PNG"), fill)
    assert tainted == {"dropped": 1}


def bright(source: Any, mask: Any) -> Any:
    """Return a mask that depends on hidden pixels: a bright picture gets another mask."""
    values = source.picture.components[0].blocks if isinstance(source.picture, Jpeg) else source.picture.values
    return ~mask if values.mean() > 3 else mask


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
@pytest.mark.usefixtures("tainted")
def test_the_check_finds_a_read_of_hidden_pixels(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for one in (sources.JpegOriginal, sources.RasterOriginal):
        monkeypatch.setattr(one, "cells", bright)
    with pytest.raises(LeakError):
        redacted(saved(scene(), kind), "grey")


def test_without_drops_exactly_what_is_hidden() -> None:
    values = np.random.default_rng(0).integers(1, 99, (*SIZE[::-1], 3))
    mask = inside(values.shape)
    found = hidden.without(values, mask)
    assert not found[mask].any()
    np.testing.assert_array_equal(found[~mask], values[~mask])
