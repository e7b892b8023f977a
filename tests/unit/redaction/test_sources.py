"""Files as redaction sees them: which files are read or refused, and what is kept of them."""

from __future__ import annotations

import base64
import io
import shutil
import struct
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.redaction import BOX, SIZE, inside, opened, saved, scene
from helpers.refusals import refused
from PIL import Image, ImageCms, ImageOps, PngImagePlugin

import dipp
from dipp.redaction import colour, png, tiff
from dipp.redaction.raster import Raster
from dipp.redaction.sources import open_source

Array = np.ndarray[Any, Any]


def grey(content: bytes, **options: Any) -> Any:
    return dipp.redact(content, regions=[BOX], fill="grey", **options)


def interlaced(values: Array) -> bytes:
    """Return a PNG that is interlaced by Adam7, which Pillow does not write."""
    height, width, channels = values.shape
    raw = b""
    for top, left, down, across in png.PASSES:
        part = values[top::down, left::across]
        if part.size:
            raw += b"".join(b"\0" + row.tobytes() for row in part)
    header = width.to_bytes(4, "big") + height.to_bytes(4, "big") + bytes((8, png.KINDS[channels], 0, 0, 1))
    chunks = [png._chunk(b"IHDR", header), png._chunk(b"IDAT", zlib.compress(raw)), png._chunk(b"IEND", b"")]
    return png.SIGNATURE + b"".join(chunks)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "I;16"])
def test_png_is_read_as_pillow_reads_it(mode: str) -> None:
    image = Image.fromarray(scene())
    if mode == "I;16":
        image = Image.fromarray(scene()[..., 0].astype(np.uint16) * 200)
    elif mode in ("LA", "RGBA"):
        image.putalpha(Image.fromarray(scene()[..., 1]))
    file = io.BytesIO()
    (image if mode == "I;16" else image.convert(mode)).save(file, "PNG")
    found = png.read(file.getvalue())
    with Image.open(io.BytesIO(file.getvalue())) as read:
        known = np.asarray(read.convert({"1": "L", "P": "RGB"}[mode]) if mode in ("1", "P") else read)
    np.testing.assert_array_equal(found.values, known.reshape(found.values.shape))
    again = png.read(png.write(found))
    np.testing.assert_array_equal(again.values, found.values)


@pytest.mark.parametrize("size", [(1, 1), (3, 5), (8, 8), (13, 9)])
def test_interlaced_png_is_read(size: tuple[int, int]) -> None:
    values = scene()[: size[0], : size[1]]
    content = interlaced(values)
    np.testing.assert_array_equal(opened(content), values)
    np.testing.assert_array_equal(png.read(content).values, values)


def test_transparent_colours_become_alpha() -> None:
    for image, clear in ((Image.fromarray(scene()), tuple(scene()[0, 0])), (Image.fromarray(scene()).convert("P"), 3)):
        file = io.BytesIO()
        image.save(file, "PNG", transparency=clear if isinstance(clear, int) else tuple(int(one) for one in clear))
        with Image.open(file) as read:
            np.testing.assert_array_equal(png.read(file.getvalue()).values, np.asarray(read.convert("RGBA")))


@pytest.mark.parametrize("channels", [3, 4])
@pytest.mark.parametrize("predictor", [1, 2])
def test_tiff_in_colour_of_sixteen_bits(channels: int, predictor: int) -> None:
    """Values are stored directly or as differences."""
    values = np.random.default_rng(0).integers(0, 1 << 16, (9, 7, channels), np.uint16)
    content = tiff.write(Raster(values))
    if predictor == 2:
        first = np.diff(values, axis=1, prepend=np.zeros((9, 1, channels), np.uint16)).astype(np.uint16)
        content = tiff.write(Raster(first)).replace(
            struct.pack("<HHII", tiff.PLANAR, 3, 1, 1), struct.pack("<HHII", tiff.PREDICTOR, 3, 1, 2)
        )
    np.testing.assert_array_equal(open_source(content).decoded(), values)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["PNG", "TIFF", "WEBP", "JPEG"])
def test_the_orientation_is_kept_and_pixels_stay_where_they_are(kind: str, orientation: int) -> None:
    tags = Image.Exif()
    tags[0x0112] = orientation
    options = {"lossless": True, "exact": True} if kind == "WEBP" else {}
    content = saved(scene(), kind, exif=tags, **options)
    made = grey(content, boxes="raw")
    source = open_source(made.content)
    assert (source.orientation, source.size) == (orientation, SIZE)
    if kind != "JPEG":
        mask = ~inside(scene().shape)
        np.testing.assert_array_equal(source.decoded()[mask], scene()[mask])
    if kind != "TIFF":  # whose tag Pillow removes when it opens the file
        with Image.open(io.BytesIO(made.content)) as image:
            assert image.getexif().get(0x0112, 1) == orientation


@pytest.mark.parametrize("kind", ["PNG", "WEBP", "JPEG"])
def test_a_picture_that_programs_turn_in_two_ways_is_refused(kind: str) -> None:
    """Where EXIF data are missing, Pillow turns a picture by its XMP data, and browsers do not."""
    for stated in (1, 6):
        xmp = f'<x:xmpmeta xmlns:x="adobe:ns:meta/"><a tiff:Orientation="{stated}"/></x:xmpmeta>'
        text = PngImagePlugin.PngInfo()
        text.add_itxt("XML:com.adobe.xmp", xmp)
        options: dict[str, Any] = {"pnginfo": text} if kind == "PNG" else {"xmp": xmp.encode()}
        options |= {"lossless": True} if kind == "WEBP" else {}
        plain = saved(scene(), kind, **options)
        if stated == 1:
            grey(plain)
            continue
        with refused("image", "orientation"):
            grey(plain)
        tags = Image.Exif()
        tags[0x0112] = 3  # all programs follow that
        assert open_source(saved(scene(), kind, exif=tags, **options)).orientation == 3


def test_boxes_of_what_is_shown_are_hidden_there() -> None:
    """A box in the top left corner of the shown picture is hidden there, in all orientations."""
    for orientation in range(1, 9):
        tags = Image.Exif()
        tags[0x0112] = orientation
        redacted = dipp.redact(saved(scene(), "PNG", exif=tags), regions=[(0, 0, 9, 4)], fill="black", boxes="oriented")
        with Image.open(io.BytesIO(redacted.content)) as image:
            shown = np.asarray(ImageOps.exif_transpose(image))
        assert not shown[:4, :9].any()
        assert (shown == 0).all(axis=2).sum() < 36 + 30


@pytest.mark.parametrize("kind", ["PNG", "TIFF", "WEBP"])
def test_nothing_else_of_a_file_is_kept(kind: str) -> None:
    tags = Image.Exif()
    tags[0x010F] = "SECRET"
    options: dict[str, Any] = {"exif": tags}
    if kind == "PNG":
        text = PngImagePlugin.PngInfo()
        text.add_text("SECRET", "SECRET")
        options["pnginfo"] = text
    if kind == "TIFF":
        options = {"description": "SECRET", "software": "SECRET"}
    if kind == "WEBP":
        options |= {"lossless": True, "exact": True, "xmp": b"SECRET"}
    content = saved(scene(), kind, **options) + b"SECRET"
    assert b"SECRET" in content
    made = grey(content).content
    assert b"SECRET" not in made
    plain = {"lossless": True, "exact": True} if kind == "WEBP" else {}
    assert made == grey(saved(scene(), kind, **plain)).content


# Colour.


def profile(name: str) -> bytes:
    if name == "sRGB":
        return ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    return colour.profile(next(space for space in colour.SPACES if space.name == name))


@pytest.mark.parametrize("name", ["sRGB", "Display P3", "Adobe RGB (1998)"])
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "TIFF"])
def test_standard_colour_spaces_are_kept_by_profiles_of_our_own(kind: str, name: str) -> None:
    made = grey(saved(scene(), kind, icc_profile=profile(name)))
    with Image.open(io.BytesIO(made.content)) as image:
        found = image.info.get("icc_profile") or b""
    space = colour.standard(found) if found else colour.SRGB
    assert space is not None
    assert space.name == name
    assert not any("profile" in assumption for assumption in made.record.facts["certificate"]["assumptions"])
    if found:
        described = ImageCms.getProfileDescription(ImageCms.ImageCmsProfile(io.BytesIO(found)))
        assert described.strip() == name


def test_other_profiles_are_dropped_and_that_is_said() -> None:
    odd = profile("Display P3").replace(colour._number(0.5151), colour._number(0.7))
    for given in (odd, b"SECRET", ImageCms.ImageCmsProfile(ImageCms.createProfile("LAB")).tobytes()):
        made = grey(saved(scene(), "PNG", icc_profile=given))
        assert any("taken for sRGB" in assumption for assumption in made.record.facts["certificate"]["assumptions"])
        assert b"iCCP" not in made.content


@pytest.mark.parametrize(
    ("chunks", "said"),
    [
        ({b"gAMA": 45455}, False),
        ({b"gAMA": 100000}, True),
        ({b"gAMA": 100000, b"sRGB": None}, False),
        ({b"cICP": (1, 13, 0, 1)}, False),
        ({b"cICP": (12, 13, 0, 1)}, True),
    ],
)
def test_colours_that_a_png_states_without_a_profile(chunks: dict[bytes, Any], said: bool) -> None:
    """These colours are dropped, so the picture may look different; the record says so, as for profiles."""
    content = saved(scene(), "PNG")
    for name, value in chunks.items():
        body = value.to_bytes(4, "big") if isinstance(value, int) else bytes(value or (0,))
        chunk = len(body).to_bytes(4, "big") + name + body + zlib.crc32(name + body).to_bytes(4, "big")
        content = content[:33] + chunk + content[33:]
    made = grey(content)
    assert made.content == grey(saved(scene(), "PNG")).content
    assert said == any("taken for sRGB" in assumption for assumption in made.record.facts["certificate"]["assumptions"])


# What is refused.


def animated(kind: str) -> bytes:
    file = io.BytesIO()
    second = Image.fromarray(scene(1))
    Image.fromarray(scene()).save(
        file, kind, save_all=True, append_images=[second], **({"lossless": True} if kind == "WEBP" else {})
    )
    return file.getvalue()


@pytest.mark.parametrize("kind", ["PNG", "TIFF", "WEBP"])
def test_other_pictures_of_a_file_are_dropped_with_a_note(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    made = grey(animated(kind))
    assert "other pictures beside the first (pages, frames, views). They were dropped" in caplog.text
    assert any("other pictures beside" in assumption for assumption in made.record.facts["certificate"]["assumptions"])
    with Image.open(io.BytesIO(made.content)) as image:
        assert getattr(image, "n_frames", 1) == 1
        found = np.asarray(image.convert("RGB"))
    mask = ~inside(scene().shape)
    np.testing.assert_array_equal(found[mask], scene()[mask])
    assert not any(
        "other pictures beside" in assumption
        for assumption in grey(saved(scene(), "PNG")).record.facts["certificate"]["assumptions"]
    )


def test_an_animation_with_loss_needs_to_be_accepted() -> None:
    file = io.BytesIO()
    Image.fromarray(scene()).save(file, "WEBP", save_all=True, append_images=[Image.fromarray(scene(1))], quality=80)
    with refused("image", "WebP"):
        grey(file.getvalue())


def test_heic_is_read_with_accept_lossy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The file two.heic was written by pillow-heif: it has the waves of `scene` without noise, and a second picture."""
    content = (Path(__file__).parent / "two.heic").read_bytes()
    with refused("image", remedy="--accept-lossy"):
        grey(content)
    made = grey(content, accept_lossy=True)
    assert made.kind == "PNG"
    said = " ".join(made.record.facts["certificate"]["assumptions"])
    assert "with loss as HEIC" in said
    assert "other pictures beside" in said
    found = opened(made.content)
    assert found.shape == scene().shape
    rows, columns = np.mgrid[: found.shape[0], : found.shape[1]]
    waves = [np.sin(columns / (5 + 3 * one) + rows / (9 - 2 * one)) for one in range(3)]
    error = np.abs(found - (128 + 70 * np.stack(waves, axis=-1)))[~inside(found.shape)]
    assert error.mean() < 12
    assert (found[inside(found.shape)] == 128).all()
    with refused("image", "HEIC"):
        grey(content[:900], accept_lossy=True)
    monkeypatch.setitem(sys.modules, "pi_heif", None)
    with refused("image", "pi-heif"):
        grey(content, accept_lossy=True)


@pytest.mark.parametrize(
    ("kind", "name", "written", "options"),
    [
        ("WEBP", "WebP", "WebP", {"quality": 80}),
        ("AVIF", "AVIF", "PNG", {}),
        ("JPEG2000", "JPEG 2000", "PNG", {}),
        ("TIFF", "JPEG in TIFF", "TIFF", {"compression": "jpeg"}),
    ],
)
def test_lossy_sources_need_to_be_accepted(kind: str, name: str, written: str, options: dict[str, Any]) -> None:
    content = saved(scene(), kind, **options)
    with refused("image", name, remedy="--accept-lossy"):
        grey(content)
    made = grey(content, accept_lossy=True)
    assert made.kind == written
    assert any(f"with loss as {name}" in assumption for assumption in made.record.facts["certificate"]["assumptions"])
    mask = ~inside(scene().shape)
    np.testing.assert_array_equal(opened(made.content)[mask], opened(content)[mask])


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"GIF89a" + bytes(20), "2000"),
        (b"%!PS-Adobe-3.0 EPSF-3.0", "2000"),
        (b"\0\0\0\x18ftypheic" + bytes(20), "loss"),
        (saved(scene(), "PNG")[:500], "PNG"),
        (saved(scene(), "PNG").replace(b"IDAT", b"IDAX", 1), "PNG"),
        (saved(scene(), "TIFF")[:3000], "TIFF"),
        (saved(scene(), "WEBP", lossless=True)[:300], "WEBP"),
        (b"", "WebP"),
    ],
)
def test_what_cannot_be_read_gets_one_clear_line(content: bytes, why: str) -> None:
    with refused("image", why):
        grey(content)


def test_hidden_pixels_become_opaque() -> None:
    content = saved(np.dstack([scene(), np.zeros(scene().shape[:2], np.uint8)]), "PNG")
    made = opened(grey(content).content)
    mask = inside(made.shape)
    assert (made[mask][:, 3] == 255).all()
    assert (made[~mask][:, 3] == 0).all()


def test_webp_of_grey_with_alpha_is_written_as_rgba() -> None:
    """WebP has no type for grey with alpha, so RGBA is written."""
    pixels = np.dstack([scene()[..., :1].repeat(3, axis=2), scene()[..., 1]])
    made = opened(grey(saved(pixels, "WEBP", lossless=True, exact=True)).content)
    mask = ~inside(pixels.shape)
    np.testing.assert_array_equal(made[mask], pixels[mask])


@pytest.mark.parametrize(
    ("channels", "deep", "tags", "why"),
    [
        (1, True, {tiff.PHOTOMETRIC: 0}, "white"),
        (4, True, {tiff.PHOTOMETRIC: 5, tiff.EXTRA: ()}, "neither"),
        (4, True, {tiff.EXTRA: 1}, "multiplied"),
        (4, False, {tiff.EXTRA: 1}, "multiplied"),
        (4, False, {tiff.EXTRA: 0}, "channels"),
    ],
)
def test_tiffs_that_would_look_another_way(channels: int, deep: bool, tags: dict[int, Any], why: str) -> None:
    values = np.zeros((5, 7, channels), np.uint16 if deep else np.uint8) + 9
    content = tiff.write(Raster(values))
    for tag, value in tags.items():
        kind = {tiff.PHOTOMETRIC: 2 if channels > 2 else 1, tiff.EXTRA: 2}[tag]
        before = struct.pack("<HHII", tag, 3, 1, kind)
        assert before in content
        after = struct.pack("<HHII", 40000, 3, 1, 0) if value == () else struct.pack("<HHII", tag, 3, 1, value)
        content = content.replace(before, after)
    with refused("image", why):
        open_source(content)


def test_a_region_may_be_the_whole_picture() -> None:
    for kind in ("JPEG", "PNG"):
        for fill in ("paint", "grey"):
            redacted = dipp.redact(saved(scene(), kind), regions=[(0, 0, *SIZE)], fill=fill, device="cpu")
            assert np.ptp(opened(redacted.content)) <= 2


@pytest.mark.skipif(shutil.which("vipsheader") is None, reason="needs libvips")
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "TIFF", "WEBP"])
def test_libvips_opens_what_is_written(kind: str, tmp_path: Path) -> None:
    made = grey(saved(scene(), kind, **({"lossless": True} if kind == "WEBP" else {})))
    path, copy = tmp_path / f"out.{kind.lower()}", tmp_path / "copy.png"
    path.write_bytes(made.content)
    said = subprocess.run(["vips", "copy", path, copy], capture_output=True, text=True, check=False)  # noqa: S603, S607
    assert (said.returncode, said.stderr) == (0, "")
    found = opened(copy.read_bytes())
    assert found.shape == scene().shape
    if kind != "JPEG":
        np.testing.assert_array_equal(found, opened(made.content))


CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
SHOWN = """async (address) => {
    const image = new Image();
    image.src = address;
    await image.decode();
    const canvas = new OffscreenCanvas(image.naturalWidth, image.naturalHeight);
    const context = canvas.getContext("2d");
    context.drawImage(image, 0, 0);
    return [image.naturalWidth, image.naturalHeight, ...context.getImageData(0, 0, canvas.width, canvas.height).data];
}"""


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
def test_chromium_shows_what_is_written() -> None:
    """Chromium shows the pixels that Pillow reads, and turns a JPEG, but no PNG or WebP, by its EXIF data."""
    playwright = pytest.importorskip("playwright.sync_api")
    tags = Image.Exif()
    tags[0x0112] = 6
    with playwright.sync_playwright() as found:
        browser = found.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        for kind in ("JPEG", "PNG", "WEBP"):
            ways: dict[str, dict[str, Any]] = {"JPEG": {"exif": tags}, "PNG": {}, "WEBP": {"lossless": True}}
            made = grey(saved(scene(), kind, **ways[kind]), boxes="raw").content
            address = f"data:image/{kind.lower()};base64,{base64.b64encode(made).decode()}"
            width, height, *values = page.evaluate(SHOWN, address)
            shown = np.array(values, np.uint8).reshape(height, width, 4)[..., :3]
            with Image.open(io.BytesIO(made)) as image:
                known = np.asarray(ImageOps.exif_transpose(image).convert("RGB"))
            assert shown.shape == known.shape
            assert np.abs(shown.astype(int) - known).max() <= (3 if kind == "JPEG" else 0)
        browser.close()
