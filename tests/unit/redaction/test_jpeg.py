"""JPEG files as coefficients: read as every decoder reads them, and written in one way."""

from __future__ import annotations

import contextlib
import io
from typing import Any

import numpy as np
import pytest
from helpers.redaction import jpegs, opened, sampled, saved, scene
from helpers.refusals import refused
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from dipp.errors import DippError
from dipp.redaction.jpeg import blocks, coefficients, huffman, segments


@pytest.mark.parametrize("options", list(jpegs()), ids=lambda one: "-".join(str(value) for value in one.values()))
@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_a_file_that_is_read_and_written_decodes_to_the_same_pixels(mode: str, options: dict[str, Any]) -> None:
    pixels = np.asarray(Image.fromarray(scene()).convert(mode))
    content = saved(pixels, "JPEG", restart_marker_blocks=5 if options["quality"] == 75 else 0, **options)
    written = coefficients.write(coefficients.read(content))
    np.testing.assert_array_equal(opened(written), opened(content))
    assert coefficients.write(coefficients.read(written)) == written


@pytest.mark.parametrize(("across", "down"), [(1, 2), (4, 1), (2, 1), (2, 2), (1, 1)])
def test_every_chroma_sampling(across: int, down: int) -> None:
    content = sampled(scene(), across, down)
    assert np.abs(opened(content).astype(int) - scene()).mean() < 12
    picture = coefficients.read(content)
    assert picture.mcu == (8 * down, 8 * across)
    assert coefficients.write(picture) == content


@pytest.mark.parametrize(("across", "down"), [(2, 1), (1, 2), (2, 2), (4, 1)])
def test_blocks_that_fill_up_mcus_are_read_as_they_are_written(across: int, down: int) -> None:
    """Files without interleaved scans lack these blocks; a check must paint from the same blocks as the redaction."""
    picture = coefficients.read(sampled(scene()[:81, :113], across, down))
    for one in picture.components:
        tall, wide = coefficients.blocks_of(picture, one)
        one.blocks[tall:], one.blocks[:, wide:] = 7, 7
        coefficients.fill_up(one, (tall, wide))
    assert not any((component.blocks == 7).all(axis=2).any() for component in picture.components)
    again = coefficients.read(coefficients.write(picture))
    for one, other in zip(picture.components, again.components, strict=True):
        np.testing.assert_array_equal(one.blocks, other.blocks)


def test_components_that_are_red_green_and_blue() -> None:
    content = saved(scene(), "JPEG", quality=90, keep_rgb=True)
    picture = coefficients.read(content)
    assert picture.rgb
    np.testing.assert_array_equal(opened(coefficients.write(picture)), opened(content))


def test_wide_quantisation_tables_are_read() -> None:
    picture = coefficients.read(saved(scene(), "JPEG", quality=90))
    wide = [
        coefficients.Component(component.across, component.down, component.quantisation * 40, component.blocks // 40)
        for component in picture.components
    ]
    content = coefficients.write(coefficients.Jpeg(picture.width, picture.height, tuple(wide)))
    assert opened(content).shape == scene().shape
    assert coefficients.write(coefficients.read(content)) == content


def test_nothing_else_of_a_file_is_kept() -> None:
    """Comments, EXIF with its thumbnail, XMP, unknown segments, trailers and a second picture are dropped."""
    tags = Image.Exif()
    tags[0x010F], tags[0x0112] = "SECRET maker", 1
    content = saved(scene(), "JPEG", exif=tags, comment=b"SECRET comment", xmp=b"SECRET xmp")
    content = content[:2] + segments.segment(0xE7, b"SECRET segment") + content[2:] + b"SECRET trailer" + content
    assert content.count(b"SECRET") > 5
    written = coefficients.write(coefficients.read(content))
    assert b"SECRET" not in written
    plain = coefficients.write(coefficients.read(saved(scene(), "JPEG")))
    assert written == plain


@pytest.mark.parametrize("orientation", range(1, 9))
def test_the_orientation_is_kept_alone(orientation: int) -> None:
    tags = Image.Exif()
    tags[0x0112], tags[0x010F] = orientation, "maker"
    written = coefficients.write(coefficients.read(saved(scene(), "JPEG", exif=tags)))
    with Image.open(io.BytesIO(written)) as image:
        assert dict(image.getexif()) == ({} if orientation == 1 else {0x0112: orientation})


def test_samples_are_those_of_a_decoder() -> None:
    """Without chroma sampling, samples differ from those of a decoder by rounding alone."""
    content = saved(scene(), "JPEG", quality=92, subsampling=0)
    picture = coefficients.read(content)
    found = blocks.pixels(picture, 0, picture.mcus[0], 0, picture.mcus[1])[: picture.height, : picture.width]
    assert np.abs(found - opened(content)).max() < 2.5
    again = blocks.coefficients(picture, blocks.pixels(picture, 0, picture.mcus[0], 0, picture.mcus[1]))
    same = [(one.blocks == blocks.rounded(part)).mean() for one, part in zip(picture.components, again, strict=True)]
    assert min(same) > 0.99  # all but those of colours that RGB does not have


@given(st.lists(st.integers(0, 10_000), min_size=1, max_size=60))
def test_huffman_tables_are_prefix_codes_of_at_most_16_bits(counts: list[int]) -> None:
    padded = np.zeros(256, np.int64)
    padded[: len(counts)] = counts
    best = huffman.best(padded)
    used = np.flatnonzero(padded)
    assert (best.lengths[used] > 0).all()
    assert best.lengths.max() <= 16
    kraft = sum(2.0 ** -int(length) for length in best.lengths[used])
    assert kraft < 1  # the code of ones alone is free
    table = huffman.lookup(best.table)
    for symbol in used:
        length, code = int(best.lengths[symbol]), int(best.codes[symbol])
        assert table[code << (16 - length)] == length << 8 | symbol


def test_skewed_counts_need_codes_that_are_shortened() -> None:
    counts = np.zeros(256, np.int64)
    counts[:40] = [1 << min(k, 50) for k in range(40)]
    assert huffman.best(counts).lengths.max() == 16


CONTENT = saved(scene(), "JPEG", quality=80)


def frame(kind: int, content: bytes = CONTENT) -> bytes:
    """Return the file with another marker of its frame."""
    at = content.index(b"\xff\xc0")
    return content[: at + 1] + bytes((kind,)) + content[at + 2 :]


def changed(offset: int, value: int) -> bytes:
    """Return the file with one byte of its frame's header changed."""
    at = CONTENT.index(b"\xff\xc0") + offset
    return CONTENT[:at] + bytes((value,)) + CONTENT[at + 1 :]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "begin"),
        (CONTENT[:200], "early"),
        (CONTENT[: len(CONTENT) // 2], "early"),
        (CONTENT[: len(CONTENT) // 2] + b"\xff\xd9", "early"),
        (CONTENT[:2] + b"\0" + CONTENT[2:], "missing"),
        (frame(0xC3), "hierarchical"),
        (frame(0xC9), "hierarchical"),
        (changed(4, 12), "12"),
        (changed(11, 0x51), "factor"),
        (changed(11, 0x44), "10"),
        (changed(14, 0x31), "fractional"),
        (changed(12, 3), "missing"),
        (saved(scene(), "JPEG")[:2] + b"\xff\xd9", "picture"),
    ],
)
def test_what_cannot_be_read_gets_one_clear_line(content: bytes, why: str) -> None:
    with refused("image", why):
        coefficients.read(content)


def test_cmyk_is_refused() -> None:
    file = io.BytesIO()
    Image.new("CMYK", (16, 16)).save(file, "JPEG")
    with refused("image", "CMYK"):
        coefficients.read(file.getvalue())


@given(st.integers(0, len(CONTENT) - 1), st.integers(0, 255))
def test_damaged_files_are_read_or_refused(at: int, value: int) -> None:
    """A damaged byte makes the reader fail in one clear line, or not at all."""
    content = CONTENT[:at] + bytes((value,)) + CONTENT[at + 1 :]
    with contextlib.suppress(DippError):
        coefficients.write(coefficients.read(content))
