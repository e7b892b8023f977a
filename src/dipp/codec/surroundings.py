"""The surroundings of regions in a `.dipp` file: a PNG of the picture, whose regions were painted without being read.

Sender and receiver predict from these pixels, so they are stored without loss. Nothing in the PNG depends on what a
region shows: it is made from the painted picture alone.
"""

from __future__ import annotations

import io

import numpy as np
from PIL import Image

from dipp.codec.pictures import Pixels
from dipp.core.geometry import Geometry
from dipp.errors import DippError
from dipp.format.release import Release


def packed(base: Pixels) -> bytes:
    """Return the painted picture (H, W, 3) as the bytes of a PNG."""
    out = io.BytesIO()
    Image.fromarray(base).save(out, "PNG")
    return out.getvalue()


def of(release: Release, geometry: Geometry) -> Pixels | None:
    """Return the painted picture of a release; None for units that have no surroundings.

    Raises:
        DippError: The file does not carry it, or it is no PNG of the right size.
    """
    if not release.plan.unit.surrounded:
        return None
    if release.surroundings is None:
        raise DippError("surroundings", "this archive belongs to a picture, and has none", "check it with `dipp check`")
    wrong = DippError("surroundings", f"an RGB picture of {geometry.width}×{geometry.height} as PNG is needed")
    try:
        with Image.open(io.BytesIO(release.surroundings), formats=["PNG"]) as image:
            # Compared before anything is unpacked: a small file may state any size.
            if image.size != (geometry.width, geometry.height) or image.mode != "RGB":
                raise wrong
            return np.asarray(image)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError):
        raise wrong from None
