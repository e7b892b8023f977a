"""PNG masks, one file for each picture and with its name: every pixel that is not 0 is hidden."""

from __future__ import annotations

import io

import numpy as np

from dipp.errors import DippError
from dipp.redaction.formats.reading import Declarations, File
from dipp.redaction.outlines import Mask, Pixels
from dipp.redaction.regions import DeclaredRegions, Region

SIGNATURE = b"\x89PNG\r\n\x1a\n"
MODES = ("1", "L", "P", "I;16", "I")


def recognises(file: File) -> bool:
    """Return whether a file is a PNG."""
    return file.content.startswith(SIGNATURE)


def read(file: File) -> Declarations:
    """Return the region that a mask declares for its picture; a mask of zeros declares nothing to hide.

    Args:
        file: The file.

    Raises:
        DippError: The file is not a whole PNG, or is in colour.
    """
    try:
        inside = drawn(file.content)
    except DippError as error:
        raise error.about(file.name) from None
    height, width = inside.shape
    regions = (Region(Pixels(inside)),) if inside.any() else ()
    return Declarations(stems={file.path.stem: DeclaredRegions(regions, (width, height), False, file.name)})


def drawn(content: bytes) -> Mask:
    """Return the mask (H, W) of the pixels of a PNG that are not 0; raise if it is damaged or in colour.

    Args:
        content: Content of the PNG.
    """
    from PIL import Image

    try:
        with Image.open(io.BytesIO(content), formats=["PNG"]) as image:
            mode = image.mode
            mask: Mask = np.asarray(image) != 0
    except Exception:  # every file has its own ways to be damaged
        raise DippError("regions", "is not a whole PNG mask", "save it again") from None
    if mode not in MODES or mask.ndim != 2:
        raise DippError("regions", f"must be a mask in a grey or black and white PNG, got the mode {mode}")
    return mask
