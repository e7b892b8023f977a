"""Read any picture as an eight-bit array (H, W, C), whose pixels the certificate protects.

| picture | treatment |
|---|---|
| grey, 1-bit | C = 3: the value is repeated in all three channels, because denoisers are trained on colour; the file says that the picture is grey, and it comes out grey |
| more than eight bits a value: 16-bit files, DICOM (`dicom`), arrays | converted by a window that the caller names (`dipp.core.window`); refused without one |
| 16-bit colour in a file | the upper eight bits are kept; requires the window `full` |
| palette, CMYK, YCbCr, Lab, HSV | converted to RGB |
| alpha, transparent palette entries | composited on white |
| EXIF orientation | applied, so that the pixels stand as a viewer shows them |
| several frames | refused, because each frame would need a budget of its own |
| floating-point pixels | refused, because floats have no stated range |
| PGM and PPM with another largest value than 255 and 65535 | refused, because that value may have been computed from the pixels |
| metadata: EXIF, ICC profile, DICOM tags, comments, names | dropped; nothing but the pixels reaches an archive |

*Claim.* Each pixel of the array depends on one pixel of the file, so changing one pixel of the file changes one pixel of
the array. *Proof.* Every conversion of the table acts on one pixel at a time. It depends on the kind of file and on the
caller's options, and never on the values of other pixels.

A grey pixel is one private value, repeated in three channels. The certificate covers any change of the three channels
of a pixel, including a change of all three together. So grey is covered at the same ε as colour. Whether a file is grey
is public, as its size is.

The size that a file declares is checked before anything is decoded. More than `models.denoiser.MAX_PICTURE` pixels are
refused, so that a few bytes cannot fill the memory.

A file's format is recognised by its content, not by its name. Only the formats in `PIL_FORMATS` and DICOM are read.
Pillow has about forty readers. One of them hands the file to Ghostscript, and few are tested against malicious files.
"""  # noqa: E501 - a table

from __future__ import annotations

import contextlib
import io
import os
import re
import threading
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from dipp.codec import dicom
from dipp.codec.array_check import check_array
from dipp.codec.dicom import Dicom
from dipp.core.window import FULL, Window
from dipp.errors import DippError
from dipp.models.denoiser import require_pixels

Pixels = NDArray[np.uint8]

_OPENING = threading.Lock()
"""Lock while a file is opened, because Pillow's limit and the filters of warnings belong to the whole process."""
SIXTEEN_BITS = ("I;16", "I;16B", "I;16L", "I;16N", "I")
"""Pillow's modes of grey pictures with more than eight bits."""
GREY_MODES = ("1", "L", "LA", "La", *SIXTEEN_BITS)
"""Pillow's modes of grey pictures."""
SIXTEEN_BIT_COLOUR = re.compile(r"(RGB|RGBA|RGBa|RGBX|CMYK|LA);16")
"""Pillow's names of layouts whose values it cuts to eight bits without being asked."""
PIL_FORMATS = ("PNG", "JPEG", "TIFF", "WEBP", "BMP", "GIF", "PPM")
"""Pillow's names of the supported formats. Its PPM includes PGM and PBM."""
READABLE = "PNG, JPEG, TIFF, WebP, BMP, GIF, PPM, DICOM"
"""Names of the supported formats, for error messages."""
CONTAINED = (b"heic", b"heix", b"hevc", b"hevx", b"heim", b"heis", b"mif1", b"msf1", b"avif", b"avis")
"""Brands of HEIC and AVIF, which a file lists after `ftyp` in its first bytes."""
NO_WINDOW = (
    "image",
    "has values of more than eight bits",
    "say which become black and white: --window LOW:HIGH or, for 0:65535, "
    '--window full (in Python, window=(LOW, HIGH) or "full")',
)
"""Arguments of the error for a picture that needs a window."""


@dataclass(frozen=True, eq=False)
class CodecPicture:
    """A picture in the form that the codec encodes."""

    pixels: Pixels = field(repr=False)
    """Eight-bit pixels (H, W, C), with the denoiser's number of channels."""
    grey: bool = False
    """Whether its file or array is grey, so that one value was repeated in several channels."""
    stored: NDArray[Any] | None = field(default=None, repr=False)
    """Values (H, W, C') before a window was applied or luminance was computed; None if they are `pixels`."""

    @property
    def known_by(self) -> NDArray[Any]:
        """The values by which the odometer recognises the picture, which do not depend on window and network."""
        return self.pixels if self.stored is None else self.stored


def read(source: str | Path | bytes, channels: int = 3, window: Window | None = None) -> Pixels:
    """Return the pixels of a picture file.

    Args:
        source: Path or content of the file.
        channels: Number of channels of the result, 1 or 3.
        window: Values that become black and white, for pictures of more than eight bits.

    Returns:
        A uint8 array (H, W, channels).

    Raises:
        DippError: The file cannot be read, or is in an unsupported format.
    """
    return read_picture(source, channels, window).pixels


def read_picture(source: str | Path | bytes, channels: int = 3, window: Window | None = None) -> CodecPicture:
    """Return a picture from a file.

    Args:
        source: Path or content of the file.
        channels: Number of channels of the result, 1 or 3.
        window: Values that become black and white, for pictures of more than eight bits.

    Raises:
        DippError: The file cannot be read, or is in an unsupported format.
    """
    with _opened(source) as image:
        return _of_dicom(image, channels, window) if isinstance(image, Dicom) else _of_pil(image, channels, window)


def known_by(source: str | Path | bytes) -> NDArray[Any]:
    """Return the values by which the odometer recognises a picture file. They need no window.

    Args:
        source: Path or content of the file.
    """
    return read_picture(source, 3, FULL).known_by


def declared_size(source: str | Path | bytes) -> tuple[int, int]:
    """Return the height and width that a file's header states, without decoding pixels.

    Args:
        source: Path or content of the file.

    Raises:
        DippError: The file is in an unsupported format, or has too many pixels.
    """
    with _opened(source) as image:
        require_pixels(*image.size)
        width, height = image.size
        return height, width


def size_of(image: Any) -> tuple[int, int] | None:
    """Return height and width of a picture without reading its pixels.

    Args:
        image: A picture of any kind that `as_picture` takes.

    Returns:
        (height, width), or None if the image is of no such kind.
    """
    if isinstance(image, str | os.PathLike):
        return declared_size(Path(image))
    if isinstance(image, Image.Image):
        return image.height, image.width
    if isinstance(image, CodecPicture):
        image = image.pixels
    shape = tuple(getattr(image, "shape", ()))
    if len(shape) not in (2, 3) or 0 in shape:
        return None
    tensor = hasattr(image, "detach") and len(shape) == 3
    height, width = shape[1:] if tensor else shape[:2]
    return int(height), int(width)


@contextlib.contextmanager
def _opened(source: str | Path | bytes) -> Iterator[Image.Image | Dicom]:
    """Open a file as a PIL image or as DICOM. Any exception becomes a `DippError` about the file."""
    name = "image" if isinstance(source, bytes) else Path(source).name or str(source)
    if not isinstance(source, bytes) and Path(source).is_dir():
        raise DippError(name, "is a folder", "name its pictures, or release them all by `dipp privatize`")
    stream: Any = io.BytesIO(source) if isinstance(source, bytes) else source
    try:
        front = _front(source)
        if front[4:8] == b"ftyp" and any(brand in front[8:] for brand in CONTAINED):
            raise DippError("image", "is HEIC or AVIF, which are not supported", "convert it to PNG first")
        if dicom.recognised(front):
            with _OPENING, warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield Dicom.open(source)
            return
        # Pillow's limit cannot be set for one call, and its warnings are not needed, because the size is checked here.
        with _OPENING, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            limit, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None
            try:
                opened = Image.open(stream, formats=PIL_FORMATS)
            finally:
                Image.MAX_IMAGE_PIXELS = limit
        with opened as image:
            yield image
    except DippError as error:
        raise error.renamed("image", name) from None
    except FileNotFoundError:
        raise DippError(name, "does not exist") from None
    except PermissionError as error:
        raise DippError(name, f"cannot be read ({error.strerror})") from None
    except MemoryError:  # not a fault of the picture, which a dataset must not skip for that
        raise
    except Exception:  # readers raise exceptions of many classes for damaged files
        raise DippError(name, f"is damaged, or not in a supported format ({READABLE})") from None


def _front(source: str | Path | bytes) -> bytes:
    """Return the first bytes of a file, by which its format is recognised."""
    if isinstance(source, bytes):
        return source[: dicom.FRONT]
    with Path(source).open("rb") as file:
        return file.read(dicom.FRONT)


def _of_pil(image: Image.Image, channels: int, window: Window | None) -> CodecPicture:
    require_pixels(*image.size)
    if getattr(image, "is_animated", False) and image.format != "MPO":  # a camera's MPO is a JPEG with previews
        raise DippError("image", "has several frames", "save each frame as a file")
    if image.mode == "F":
        raise DippError("image", "has floating-point pixels, which have no stated range", "save it with integer pixels")
    _check_depth(image, window)
    grey = image.mode in GREY_MODES
    image = ImageOps.exif_transpose(image)
    if image.mode in SIXTEEN_BITS:
        return _of_values(np.asarray(image, np.int32), channels, window, grey=True)
    if image.has_transparency_data:
        white = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(white, image.convert("RGBA"))
    colour = np.array(image.convert("RGB"), np.uint8)
    if channels == 1:
        return CodecPicture(np.array(image.convert("L"), np.uint8)[..., None], stored=colour)
    return CodecPicture(colour, grey)


def _check_depth(image: Image.Image, window: Window | None) -> None:
    """Raise if Pillow would scale or cut the values of a file and the caller has not asked for it."""
    for tile in getattr(image, "tile", ()):
        kind, values = tile[0], tile[3]
        words = values if isinstance(values, tuple) else (values,)
        largest = words[1] if kind in ("ppm", "ppm_plain") and len(words) > 1 else 255
        if largest not in (255, 65_535):
            # The value is not quoted: a dataset publishes why it skips pictures, and it may be the value of a pixel.
            raise DippError("image", "has another largest value than 255 and 65535", "save it as PNG")
        wide = any(isinstance(word, str) and SIXTEEN_BIT_COLOUR.match(word) for word in words)
        if wide or (largest > 255 and image.mode not in SIXTEEN_BITS):
            if window is None:
                raise DippError(*NO_WINDOW)
            if window != FULL:
                raise DippError("image", "is 16-bit colour", "pass --window full, or save it as grey")


def _of_dicom(image: Dicom, channels: int, window: Window | None) -> CodecPicture:
    require_pixels(*image.size)
    grey = not image.colour
    if image.wide and window is None:
        raise DippError(*NO_WINDOW)
    values = image.values()
    if image.wide:
        return _of_values(values, channels, window, grey=grey, inverted=image.inverted)
    return _of_values(255 - values if image.inverted else values, channels, None, grey=grey)


def _of_values(
    values: NDArray[Any], channels: int, window: Window | None, *, grey: bool, inverted: bool = False
) -> CodecPicture:
    """Return a picture made from whole numbers, (H, W) or (H, W, 3). Numbers of more than eight bits need a window."""
    values = values[..., None] if values.ndim == 2 else values
    stored: NDArray[Any] | None = None
    if values.dtype != np.uint8:
        if window is None:
            raise DippError(*NO_WINDOW)
        stored, values = values.astype(np.int32), window.levels(values)
        values = 255 - values if inverted else values
    if channels == 1 and values.shape[2] == 3:
        stored = values if stored is None else stored
        values = np.array(Image.fromarray(values).convert("L"), np.uint8)[..., None]
    if values.shape[2] == 1:
        values = np.repeat(values, channels, axis=2)
    return CodecPicture(np.ascontiguousarray(values), grey and channels > 1, stored)


def as_picture(image: Any, channels: int, window: Window | None = None) -> CodecPicture:
    """Return one picture in the form that the codec encodes.

    Files and PIL images are converted as this module describes; for a denoiser of one channel, luminance is computed.
    An array of one channel is grey, and its value is repeated in all channels of the denoiser.

    Args:
        image: A path, a PIL image, an array (H, W, C) or (H, W), a tensor (C, H, W) or (H, W), or a `CodecPicture`.
        channels: Number of channels of the denoiser.
        window: Values that become black and white, for pictures of more than eight bits.

    Raises:
        DippError: The picture is ambiguous by its type or shape, or cannot be read.
    """
    if isinstance(image, CodecPicture):
        if image.pixels.dtype != np.uint8 or image.pixels.ndim != 3 or image.pixels.shape[2] != channels:
            raise DippError("image", f"must have uint8 pixels of shape (H, W, {channels})")
        return image
    if isinstance(image, str | os.PathLike):
        return read_picture(Path(image), channels, window)
    if isinstance(image, Image.Image):
        return _of_pil(image, channels, window)
    if not hasattr(image, "__array__"):
        raise DippError("image", f"must be a path, a PIL image, an array or a tensor, got {type(image).__name__}")
    tensor = hasattr(image, "detach")
    array = image.detach().cpu().numpy() if tensor else np.asarray(image)
    check_array(array, channels, tensor, window)
    if tensor and array.ndim == 3:
        array = np.moveaxis(array, 0, -1)
    return _of_values(array, channels, window, grey=array.ndim == 2 or array.shape[2] == 1)


def of_colour(pixels: Pixels, channels: int, window: Window | None = None) -> CodecPicture:
    """Return a picture from the pixels of a colour file.

    Args:
        pixels: Pixels (H, W, 3).
        channels: Number of channels of the denoiser. For 1, luminance is computed.
        window: Values that become black and white, for pixels of more than eight bits.
    """
    return _of_values(pixels, channels, window, grey=False)


def iterate(images: Any) -> Iterator[Any]:
    """Yield the pictures of an iterable, or a single picture.

    Args:
        images: A picture of any kind, or an iterable of pictures.

    Raises:
        DippError: It is neither.
    """
    if isinstance(images, str | os.PathLike | Image.Image | CodecPicture) or (
        hasattr(images, "__array__") and np.ndim(images) in (0, 2, 3)
    ):
        yield images
    elif isinstance(images, Iterable) and not isinstance(images, bytes | bytearray | memoryview | Mapping):
        yield from images
    else:
        raise DippError(
            "images",
            f"must be a picture (path, PIL image, array, tensor) or an iterable of them, got {type(images).__name__}",
        )
