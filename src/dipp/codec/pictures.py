"""Any picture as an eight-bit array (H, W, C): the pixels that the certificate speaks of.

| picture | what becomes of it |
|---|---|
| grey, 1-bit | C = 3: the value is repeated in all three channels, because denoisers are trained on colour; the file says that the picture is grey, and it comes out grey |
| more than eight bits a value: 16-bit files, DICOM (`dicom`), arrays | by a window that the caller names (`dipp.core.window`); refused without one |
| 16-bit colour in a file | the upper eight bits; only the window `full` will do |
| palette, CMYK, YCbCr, Lab, HSV | converted to RGB |
| alpha, transparent palette entries | composited on white |
| EXIF orientation | applied, so that the pixels stand as a viewer shows them |
| several frames; floating-point pixels; PGM and PPM with a largest value of their own | refused: each frame would have to be paid for; floats have no stated range; a largest value may have been computed from the pixels |
| metadata: EXIF, ICC profile, DICOM tags, comments, names | dropped; nothing but the pixels reaches an archive |

All this happens to one pixel at a time, and follows from the kind of file and from what the caller says, never from the
values of other pixels: a pixel of the array depends on one pixel of the file, so a change of that one changes one. A
grey pixel is one private value thrice. The certificate covers any change of the three channels of a pixel, and so in
particular a change of the three together: grey is covered at the same ε as colour. That a file is grey is as public as
its size.

The size that a file declares is looked at before anything is decoded; more than `MAX_PICTURE` is refused, so that a few
bytes cannot fill the memory.

A file's format is known by its content, whatever its name. Only the formats in `FORMATS` and DICOM are read: Pillow has
readers for some forty: one hands the file to Ghostscript, and few are tested against malicious files.
"""  # noqa: E501 - a table

from __future__ import annotations

import contextlib
import io
import math
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
from dipp.codec.dicom import Dicom
from dipp.core.arrays import Array, host
from dipp.core.signal import to_levels
from dipp.core.window import FULL, Window
from dipp.errors import DippError
from dipp.models.denoiser import MAX_PICTURE

Pixels = NDArray[np.uint8]

_OPENING = threading.Lock()
"""Pillow's limit is the whole process's, and so is what is done about warnings."""
SIXTEEN_BITS = ("I;16", "I;16B", "I;16L", "I;16N", "I")
GREY_MODES = ("1", "L", "LA", "La", *SIXTEEN_BITS)
SIXTEEN_BIT_COLOUR = re.compile(r"(RGB|RGBA|RGBa|RGBX|CMYK|LA);16")
"""How Pillow calls the bytes of files whose values it cuts to eight bits by itself."""
LEVELS_AT_ONCE = 1 << 22
"""Values of states that become pixels at a time, which bounds the memory of large pictures."""
FORMATS = ("PNG", "JPEG", "TIFF", "WEBP", "BMP", "GIF", "PPM")
"""Pillow's names of the formats that are read; its PPM includes PGM and PBM."""
READABLE = "PNG, JPEG, TIFF, WebP, BMP, GIF, PPM, DICOM"
"""The same formats in words."""
CONTAINED = (b"heic", b"heix", b"hevc", b"hevx", b"heim", b"heis", b"mif1", b"msf1", b"avif", b"avis")
"""Brands of HEIC and AVIF. A file lists all that it fits, behind `ftyp` at its front."""
NO_WINDOW = (
    "image",
    "its values have more than eight bits",
    "say which become black and white: --window LOW:HIGH or, for 0:65535, "
    '--window full (in Python, window=(LOW, HIGH) or "full")',
)


@dataclass(frozen=True, eq=False)
class Picture:
    """A picture as the codec takes it."""

    pixels: Pixels = field(repr=False)
    """(H, W, C), with the denoiser's channels."""
    grey: bool = False
    """Whether its file, or array, is a grey one whose value was repeated in several channels."""
    stored: NDArray[Any] | None = field(default=None, repr=False)
    """(H, W, C') before a window or luminance was taken, by which the odometer knows it again; None: `pixels`."""

    @property
    def known_by(self) -> NDArray[Any]:
        """The values by which the odometer knows the picture again, whatever the window and the network."""
        return self.pixels if self.stored is None else self.stored


def read(source: str | Path | bytes, channels: int = 3, window: Window | None = None) -> Pixels:
    """Read the pixels of a picture from a file or from the bytes of one."""
    return read_picture(source, channels, window).pixels


def read_picture(source: str | Path | bytes, channels: int = 3, window: Window | None = None) -> Picture:
    """Read a picture from a file or from the bytes of one."""
    with _opened(source) as image:
        return _of_dicom(image, channels, window) if isinstance(image, Dicom) else _of_pil(image, channels, window)


def known_by(source: str | Path | bytes) -> NDArray[Any]:
    """The values by which the odometer knows a picture again: no window is needed for these."""
    return read_picture(source, 3, FULL).known_by


def declared_size(source: str | Path | bytes) -> tuple[int, int]:
    """Return the height and width that the file's header states; nothing is decoded."""
    with _opened(source) as image:
        _checked_pixels(image.size)
        width, height = image.size
        return height, width


def size_of(image: Any) -> tuple[int, int] | None:
    """Return height and width of a picture without reading its pixels; None for what is not a picture."""
    if isinstance(image, str | os.PathLike):
        return declared_size(Path(image))
    if isinstance(image, Image.Image):
        return image.height, image.width
    if isinstance(image, Picture):
        image = image.pixels
    shape = tuple(getattr(image, "shape", ()))
    if len(shape) not in (2, 3) or 0 in shape:
        return None
    tensor = hasattr(image, "detach") and len(shape) == 3
    height, width = shape[1:] if tensor else shape[:2]
    return int(height), int(width)


@contextlib.contextmanager
def _opened(source: str | Path | bytes) -> Iterator[Image.Image | Dicom]:
    """A file as a PIL image, or as DICOM; whatever goes wrong with it ends in one line with its name."""
    name = "image" if isinstance(source, bytes) else Path(source).name or str(source)
    if not isinstance(source, bytes) and Path(source).is_dir():
        raise DippError(name, "this is a folder", "give its pictures, or release them all by `dipp privatize`")
    stream: Any = io.BytesIO(source) if isinstance(source, bytes) else source
    try:
        front = _front(source)
        if front[4:8] == b"ftyp" and any(brand in front[8:] for brand in CONTAINED):
            raise DippError("image", "HEIC and AVIF are not read", "convert it first to PNG")
        if dicom.recognised(front):
            with _OPENING, warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield Dicom.open(source)
            return
        # Pillow's own limit cannot be given per call, and its warnings are of no use: the size is checked here.
        with _OPENING, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            limit, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None
            try:
                opened = Image.open(stream, formats=FORMATS)
            finally:
                Image.MAX_IMAGE_PIXELS = limit
        with opened as image:
            yield image
    except DippError as error:
        raise error.renamed("image", name) from None
    except FileNotFoundError:
        raise DippError(name, "there is no such file") from None
    except PermissionError as error:
        raise DippError(name, f"cannot be read ({error.strerror})") from None
    except MemoryError:  # no fault of the picture: a dataset that skipped it would say so for good
        raise
    except Exception:  # every format has its own ways to be damaged
        raise DippError(name, f"not a whole picture in a format that can be read ({READABLE})") from None


def _front(source: str | Path | bytes) -> bytes:
    """Return the first bytes of a file, by which its format is known."""
    if isinstance(source, bytes):
        return source[: dicom.FRONT]
    with Path(source).open("rb") as file:
        return file.read(dicom.FRONT)


def _checked_pixels(size: tuple[int, int]) -> int:
    width, height = size
    if not 0 < width * height <= MAX_PICTURE:
        raise DippError("image", f"1 to {MAX_PICTURE >> 20} megapixels are needed, got {width}×{height}")
    return width * height


def _of_pil(image: Image.Image, channels: int, window: Window | None) -> Picture:
    _checked_pixels(image.size)
    if getattr(image, "is_animated", False) and image.format != "MPO":  # a camera's MPO is a JPEG with previews
        raise DippError("image", "a single picture is needed, this has several frames", "save them as files")
    if image.mode == "F":
        raise DippError("image", "pixels as integers are needed, got floating-point ones without a stated range")
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
        return Picture(np.array(image.convert("L"), np.uint8)[..., None], stored=colour)
    return Picture(colour, grey)


def _check_depth(image: Image.Image, window: Window | None) -> None:
    """Refuse files whose values Pillow would scale or cut by itself, where nobody has said so."""
    for tile in getattr(image, "tile", ()):
        kind, values = tile[0], tile[3]
        words = values if isinstance(values, tuple) else (values,)
        largest = words[1] if kind in ("ppm", "ppm_plain") and len(words) > 1 else 255
        if largest not in (255, 65_535):
            # Not which it is: a dataset gives the reasons of what it skips, and this number may be that of a pixel.
            raise DippError("image", "a largest value of 255 or 65535 is needed", "save it as PNG")
        wide = any(isinstance(word, str) and SIXTEEN_BIT_COLOUR.match(word) for word in words)
        if wide or (largest > 255 and image.mode not in SIXTEEN_BITS):
            if window is None:
                raise DippError(*NO_WINDOW)
            if window != FULL:
                raise DippError("image", "colour of sixteen bits is taken with --window full alone", "save it as grey")


def _of_dicom(image: Dicom, channels: int, window: Window | None) -> Picture:
    _checked_pixels(image.size)
    grey = not image.colour
    if image.wide and window is None:
        raise DippError(*NO_WINDOW)
    values = image.values()
    if image.wide:
        return _of_values(values, channels, window, grey=grey, inverted=image.inverted)
    return _of_values(255 - values if image.inverted else values, channels, None, grey=grey)


def _of_values(
    values: NDArray[Any], channels: int, window: Window | None, *, grey: bool, inverted: bool = False
) -> Picture:
    """A picture from whole numbers, (H, W) or (H, W, 3), by their window if they have more than eight bits."""
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
    return Picture(np.ascontiguousarray(values), grey and channels > 1, stored)


def as_picture(image: Any, channels: int, window: Window | None = None) -> Picture:
    """One picture: a path, a PIL image, an array (H, W, C) or (H, W), a tensor (C, H, W) or (H, W), or a `Picture`.

    Files and PIL images are converted as the module's text says; a denoiser of one channel takes their luminance. An
    array of one channel is grey: its value is repeated in all the channels of the denoiser. What is ambiguous is
    refused, by its type and shape alone.
    """
    if isinstance(image, Picture):
        if image.pixels.dtype != np.uint8 or image.pixels.ndim != 3 or image.pixels.shape[2] != channels:
            raise DippError("image", f"uint8 of shape (H, W, {channels}) is needed in a Picture")
        return image
    if isinstance(image, str | os.PathLike):
        return read_picture(Path(image), channels, window)
    if isinstance(image, Image.Image):
        return _of_pil(image, channels, window)
    if not hasattr(image, "__array__"):
        raise DippError("image", f"a path, a PIL image, an array or a tensor is needed, got {type(image).__name__}")
    tensor = hasattr(image, "detach")
    array = image.detach().cpu().numpy() if tensor else np.asarray(image)
    _check_array(array, channels, tensor, window)
    if tensor and array.ndim == 3:
        array = np.moveaxis(array, 0, -1)
    return _of_values(array, channels, window, grey=array.ndim == 2 or array.shape[2] == 1)


def of_colour(pixels: Pixels, channels: int, window: Window | None = None) -> Picture:
    """A picture from the pixels (H, W, 3) of a colour file; a denoiser of one channel takes their luminance."""
    return _of_values(pixels, channels, window, grey=False)


def _check_array(array: NDArray[Any], channels: int, tensor: bool, window: Window | None) -> None:
    """Refuse an array that is not clearly one picture, and say what to write instead."""
    shape, kind = array.shape, array.dtype.kind
    wanted = "(C, H, W)" if tensor else "(H, W, C)"
    told = f"uint8 of shape {wanted} is needed, got {array.dtype} of shape {shape}"
    if len(shape) not in (2, 3) or not array.size:
        raise DippError("image", told, "give one picture, or a list of them")
    if kind not in "ui":
        byte = "to(torch.uint8)" if tensor else "astype(np.uint8)"
        advice = {
            "f": f"values in [0, 1] become pixels by (255 * x).round().{byte}",
            "b": f"write 255 * x.{byte}",
        }
        raise DippError("image", told, advice.get(kind, "convert it"))
    if array.dtype != np.uint8 and window is None:
        raise DippError("image", told, "or say which values become black and white, window=(LOW, HIGH)")
    _checked_pixels((shape[2], shape[1]) if tensor and len(shape) == 3 else (shape[1], shape[0]))
    first, last = shape[0], shape[-1]
    if len(shape) == 2 or (first if tensor else last) in (1, channels):
        return
    needed = "1 channel is" if channels == 1 else f"1 or {channels} channels are"
    stack = f"for a stack of grey pictures x[{':, None' if tensor else '..., None'}]"
    if (last if tensor else first) in (1, channels):
        turned = "permute(2, 0, 1)" if tensor else "transpose(1, 2, 0)"
        advice_of_shape = f"for one picture write x.{turned}, {stack}"
    elif (first if tensor else last) in (2, 3, 4):
        turned = "x.permute(1, 2, 0).numpy()" if tensor else "x"
        advice_of_shape = f"write PIL.Image.fromarray({turned}), which is converted"
    else:
        advice_of_shape = f"write {stack}"
    raise DippError("image", f"{told}, of which {needed} needed", advice_of_shape)


def each(images: Any) -> Iterator[Any]:
    """One picture as itself, an iterable of pictures one by one; what is neither is refused."""
    if isinstance(images, str | os.PathLike | Image.Image | Picture) or (
        hasattr(images, "__array__") and np.ndim(images) in (0, 2, 3)
    ):
        yield images
    elif isinstance(images, Iterable) and not isinstance(images, bytes | bytearray | memoryview | Mapping):
        yield from images
    else:
        raise DippError(
            "images",
            f"a picture (path, PIL image, array, tensor) or an iterable of them is needed, got {type(images).__name__}",
        )


def to_pixels(x: Array, grey: NDArray[np.bool_] | None = None) -> Pixels:
    """States (N, C, H, W) around [−1, 1] to eight-bit pixels (N, H, W, C); what is not a number is mid-grey.

    `grey` says which pictures are grey: their channels, which are views of one value, are averaged, and come out equal.
    """
    rows = max(1, LEVELS_AT_ONCE // max(1, math.prod(x.shape[:2]) * x.shape[3]))
    firsts = range(0, x.shape[2], rows)
    return np.concatenate([_levels(host(x[:, :, first : first + rows]), grey) for first in firsts], axis=1)


def _levels(x: NDArray[Any], grey: NDArray[np.bool_] | None) -> Pixels:
    """Return some rows of states as eight-bit pixels."""
    x = np.nan_to_num(x.astype(np.float32, copy=False), nan=0.0)
    if grey is not None and grey.any():
        x = np.where(grey[:, None, None, None], x.mean(axis=1, keepdims=True), x)
    pixels: Pixels = to_levels(x).transpose(0, 2, 3, 1).astype(np.uint8)
    return pixels
