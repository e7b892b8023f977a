"""Any picture as an eight-bit array (H, W, 3); what is too large is refused before it is decoded."""

from __future__ import annotations

import io
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from dipp.errors import DippError

Pixels = NDArray[np.uint8]

MAX_PIXELS = 1 << 26


def read(source: str | Path | bytes) -> Pixels:
    """Read a picture from a file or from the bytes of one."""
    name = "image" if isinstance(source, bytes) else Path(source).name
    stream: Any = io.BytesIO(source) if isinstance(source, bytes) else source
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(stream) as image:
                return from_pil(image)
    except DippError as error:
        raise DippError(str(error).replace("image:", f"{name}:", 1)) from None
    except Image.DecompressionBombError:
        raise DippError(f"{name}: at most {MAX_PIXELS >> 20} megapixels are needed") from None
    except Exception:  # every format has its own ways to be damaged
        raise DippError(f"{name}: not a whole picture in a format that can be read") from None


def from_pil(image: Image.Image) -> Pixels:
    """Convert a PIL image; its pixels are loaded here, after its size was looked at."""
    width, height = image.size
    if not 0 < width * height <= MAX_PIXELS:
        raise DippError(f"image: 1 to {MAX_PIXELS >> 20} megapixels are needed, got {width}×{height}")
    return np.array(image.convert("RGB"), np.uint8)
