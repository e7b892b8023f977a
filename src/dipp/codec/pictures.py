"""Any picture as an eight-bit array (H, W, 3): the pixels that the certificate speaks of.

| picture | what becomes of it |
|---|---|
| grey, 1-bit | C = 3: the value is repeated in all three channels, because denoisers are trained on colour |
| 16-bit, 32-bit integer grey | the upper eight of sixteen bits, then as grey |
| palette, CMYK, YCbCr, Lab, HSV | converted to RGB |
| alpha, transparent palette entries | composited on white |
| EXIF orientation | applied, so that the pixels stand as a viewer shows them |
| several frames; floating-point pixels | refused: each frame would have to be paid for; floats have no stated range |
| metadata: EXIF, ICC profile, comments, names | dropped; nothing but the pixels reaches an archive |

All this happens to one pixel at a time: a pixel of the array depends on one pixel of the file, so a change of that one
changes one. A grey pixel is one private value thrice. The certificate covers any change of the three channels of a
pixel, and so in particular a change of the three together: grey is covered at the same ε as colour.

The size that a file declares is looked at before anything is decoded; more than `MAX_PICTURE` is refused, so that a few
bytes cannot fill the memory.
"""

from __future__ import annotations

import contextlib
import io
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from dipp.core.signal import to_levels
from dipp.errors import DippError
from dipp.models.denoiser import MAX_PICTURE

if TYPE_CHECKING:
    import torch

Pixels = NDArray[np.uint8]

_OPENING = threading.Lock()
"""Pillow's limit is the whole process's."""
SIXTEEN_BITS = ("I;16", "I;16B", "I;16L", "I;16N", "I")


def read(source: str | Path | bytes, channels: int = 3) -> Pixels:
    """Read a picture from a file or from the bytes of one."""
    with _opened(source) as image:
        return from_pil(image, channels)


def declared_pixels(source: str | Path | bytes) -> int:
    """Width × height as the file's header says; nothing is decoded."""
    with _opened(source) as image:
        return _checked_pixels(image)


@contextlib.contextmanager
def _opened(source: str | Path | bytes) -> Iterator[Image.Image]:
    """A file as a PIL image; whatever goes wrong with it ends in one line with its name."""
    name = "image" if isinstance(source, bytes) else Path(source).name or str(source)
    stream: Any = io.BytesIO(source) if isinstance(source, bytes) else source
    try:
        # Pillow's own limit cannot be given per call, and its warnings are of no use: the size is checked here.
        with _OPENING, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            limit, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None
            try:
                opened = Image.open(stream)
            finally:
                Image.MAX_IMAGE_PIXELS = limit
        with opened as image:
            yield image
    except DippError as error:
        raise DippError(str(error).replace("image:", f"{name}:", 1)) from None
    except FileNotFoundError:
        raise DippError(f"{name}: there is no such file") from None
    except Exception:  # every format has its own ways to be damaged
        raise DippError(f"{name}: not a whole picture in a format that can be read") from None


def _checked_pixels(image: Image.Image) -> int:
    width, height = image.size
    if not 0 < width * height <= MAX_PICTURE:
        raise DippError(f"image: 1 to {MAX_PICTURE >> 20} megapixels are needed, got {width}×{height}")
    return width * height


def from_pil(image: Image.Image, channels: int = 3) -> Pixels:
    """Convert a PIL image as the module's text says, to three channels or to luminance alone.

    Its pixels are loaded here, after its size was looked at.
    """
    _checked_pixels(image)
    if getattr(image, "is_animated", False) and image.format != "MPO":  # a camera's MPO is a JPEG with previews
        raise DippError("image: a single picture is needed, this has several frames; save them as files")
    if image.mode == "F":
        raise DippError("image: pixels as integers are needed, got floating-point ones without a stated range")
    image = ImageOps.exif_transpose(image)
    if image.mode in SIXTEEN_BITS:
        values = np.clip(np.asarray(image, np.int64), 0, 65_535)
        image = Image.fromarray((values >> 8).astype(np.uint8))
    if image.has_transparency_data:
        white = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(white, image.convert("RGBA"))
    if channels == 1:
        return np.array(image.convert("L"), np.uint8)[..., None]
    return np.array(image.convert("RGB"), np.uint8)


def as_pixels(image: Any, channels: int) -> Pixels:
    """An image as eight-bit pixels (H, W, C): which is also the clamp to [−1, 1] before the first private use.

    PIL images are converted as the module's text says; a denoiser of one channel takes their luminance. An array (H, W)
    or (H, W, 1) is grey: its value is repeated in all the channels of the denoiser.
    """
    if isinstance(image, Image.Image):
        return from_pil(image, channels)
    if hasattr(image, "detach"):
        image = image.detach().cpu().numpy()
        image = np.moveaxis(image, 0, -1) if image.ndim == 3 else image
    array = np.asarray(image)
    array = array[..., None] if array.ndim == 2 else array
    if array.dtype != np.uint8 or array.ndim != 3 or not array.size:
        raise DippError(f"image: uint8 of shape (H, W, C) is needed, got {array.dtype} of shape {array.shape}")
    return np.ascontiguousarray(np.repeat(array, channels, axis=2) if array.shape[2] == 1 else array)


def to_pixels(x: torch.Tensor) -> Pixels:
    """States (N, C, H, W) around [−1, 1] to eight-bit pixels (N, H, W, C); what is not a number is mid-grey."""
    pixels: Pixels = to_levels(x.float().nan_to_num(nan=0.0)).permute(0, 2, 3, 1).cpu().numpy().astype(np.uint8)
    return pixels
