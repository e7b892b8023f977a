"""Files that other projects decode: TIFF, WebP, AVIF and JPEG 2000 by Pillow, HEIC by libheif.

Only the first page or frame of a file is read. HEIC needs the extra `[heic]`: the package pi-heif, which decodes only
(LGPL).
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from dipp.errors import DippError, installing
from dipp.models.denoiser import require_pixels
from dipp.redaction import tiff
from dipp.redaction.jpeg.segments import exif_of, orientation
from dipp.redaction.raster import Raster
from dipp.redaction.regions import stored

HEIC = (b"heic", b"heix", b"hevc", b"hevx", b"heim", b"heis", b"mif1", b"msf1")
"""Brands at the beginning of HEIC files."""


def is_lossy_webp(content: bytes) -> bool:
    """Return whether the first picture of a WebP file is compressed with loss."""
    names, position = [], 12
    while position + 8 <= len(content):
        name, size = content[position : position + 4], int.from_bytes(content[position + 4 : position + 8], "little")
        names.append(name)
        if name == b"ANMF":  # a frame: a header of 16 bytes, then chunks of its own
            position += 8 + 16
        else:
            position += 8 + size + size % 2
    return next((name != b"VP8L" for name in names if name in (b"VP8 ", b"VP8L")), True)


def _opened(content: bytes, kind: str) -> Image.Image:
    """Return a file opened by one of Pillow's readers; raise if it is damaged or too large."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            image = Image.open(io.BytesIO(content), formats=[kind])
        except Exception:  # every format has its own ways to be damaged
            raise DippError("image", f"is not a whole {kind} file", "get it again") from None
    require_pixels(*image.size)
    return image


def require_one_orientation(content: bytes, kind: str, turned: int) -> None:
    """Raise if programs disagree on how a picture is turned.

    If EXIF data state no orientation, some programs turn a picture by XMP data, or by EXIF data that are stored as
    text, and others do not turn it. Boxes that were drawn in one program would lie elsewhere in another.

    Args:
        content: The file.
        kind: Its format, by Pillow's name.
        turned: The orientation that EXIF data state, 1 to 8; 1 if they state nothing.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with Image.open(io.BytesIO(content), formats=[kind]) as image:
                other = image.getexif().get(0x0112, 1)
        except Exception:  # a program that reads like Pillow does not show the picture
            return
    if other in range(2, 9) and other != turned:
        raise DippError(
            "image",
            f"is turned by its XMP data (orientation {other}) in some programs, and by its EXIF data ({turned}) in "
            "others, so boxes could mean two places",
            "save it again, turned as it should be",
        )


def of_pillow(content: bytes, kind: str) -> Raster:
    """Return a picture of 8 bits, or a grey one of 16 bits, which Pillow reads without changing values.

    Args:
        content: The file.
        kind: Its format, by Pillow's name.
    """
    image = _opened(content, kind)
    turned = orientation(image.info["exif"].removeprefix(b"Exif\0\0")) if image.info.get("exif") else 1
    require_one_orientation(content, kind, turned)
    return Raster(_values(image), turned, image.info.get("icc_profile") or b"", _has_others(image))


def of_webp(content: bytes) -> Raster:
    """Return the picture of a WebP file, with black in place of wholly transparent colours.

    Encoders choose the colours of transparent pixels by the pixels around them, to save bytes. So outside a region,
    those colours could tell of it.
    """
    picture = of_pillow(content, "WEBP")
    visible = picture.values[..., -1:] > 0 if picture.alpha else np.True_
    return replace(picture, values=np.where(visible, picture.values, np.uint8(0)))


def _values(image: Image.Image) -> NDArray[Any]:
    """Return the values (H, W, C) of an opened file, uint8 or uint16."""
    modes = {"1": "L", "P": "RGBA" if image.has_transparency_data else "RGB"}
    if image.mode not in ("1", "L", "LA", "P", "RGB", "RGBA", "I;16", "I;16B", "I;16L", "I;16N"):
        raise DippError("image", f"must be grey or RGB of 8 or 16 bits, got {image.mode}", "save it as PNG")
    try:
        loaded = image.convert(modes[image.mode]) if image.mode in modes else image
        values = np.asarray(loaded)
    except Exception:  # every format has its own ways to be damaged
        raise DippError("image", f"is not a whole {image.format} file", "get it again") from None
    values = values[..., None] if values.ndim == 2 else values
    return values.astype(np.uint16) if image.mode.startswith("I") else values


def of_tiff(content: bytes) -> tuple[Raster, bool]:
    """Return the picture of a TIFF file, and whether it is compressed with loss."""
    image: Any = _opened(content, "TIFF")
    lossy = tiff.is_lossy(image)
    tiff.require_known(image.tag_v2)
    turned = image.tag_v2.get(tiff.ORIENTATION, 1)
    profile = image.info.get("icc_profile") or b""
    deep = tiff.deep_colour(content, image)
    turned = turned if turned in range(1, 9) else 1
    values = stored(_values(image), turned) if deep is None else deep  # Pillow has turned the picture
    return Raster(values, turned, profile, _has_others(image), image.mode == "P"), lossy


def of_heif(content: bytes) -> Raster:
    """Return the primary picture of a HEIC file, turned as viewers show it.

    Raises:
        DippError: The package pi-heif is missing, or the file is damaged.
    """
    try:
        import pi_heif
    except ImportError:
        raise DippError("image", "is HEIC, which needs pi-heif", installing("heic")) from None
    try:
        pictures = pi_heif.open_heif(content)
        primary = pictures[pictures.primary_index]
        require_pixels(*primary.size)
        image = primary.to_pillow()
    except DippError:
        raise
    except Exception:  # every file has its own ways to be damaged
        raise DippError("image", "is not a whole HEIC file", "get it again") from None
    return Raster(_values(image), 1, primary.info.get("icc_profile") or b"", len(pictures) > 1)


def _has_others(image: Image.Image) -> bool:
    """Return whether a file holds more than one picture."""
    return bool(getattr(image, "n_frames", 1) > 1)


def webp(picture: Raster) -> bytes:
    """Return the lossless WebP file of a picture, which is the same for the same picture."""
    file = io.BytesIO()
    channels = {1: [0, 0, 0], 2: [0, 0, 0, 1]}.get(picture.values.shape[2])
    values = picture.values if channels is None else picture.values[..., channels]
    options: dict[str, Any] = {"lossless": True, "quality": 75, "method": 4, "exact": True}
    if picture.orientation != 1:
        options["exif"] = b"Exif\0\0" + exif_of(picture.orientation)
    if picture.profile:
        options["icc_profile"] = picture.profile
    Image.fromarray(values).save(file, "WEBP", **options)
    return file.getvalue()


Recognise = Callable[[bytes], bool]
Read = Callable[[bytes], Raster]
LOSSY: tuple[tuple[str, Recognise, Read], ...] = (
    ("AVIF", lambda content: content[4:12] in (b"ftypavif", b"ftypavis"), lambda content: of_pillow(content, "AVIF")),
    ("HEIC", lambda content: content[4:8] == b"ftyp" and content[8:12] in HEIC, of_heif),
    (
        "JPEG 2000",
        lambda content: content[4:8] == b"jP  " or content[:4] == b"\xff\x4f\xff\x51",
        lambda content: of_pillow(content, "JPEG2000"),
    ),
)
"""Lossy formats that mix pixels over the whole picture: name, function that recognises a file, and reader."""
