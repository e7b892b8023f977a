"""The surroundings of regions in a `.dipp` file: a PNG of the picture with its regions painted over.

Sender and receiver predict from these pixels, so they are stored without loss. Nothing in the PNG depends on the
content of a region, because it is made from the painted picture alone.
"""

from __future__ import annotations

import io

import numpy as np
from PIL import Image

from dipp.codec.pictures import Pixels
from dipp.core.geometry import Geometry
from dipp.errors import DippError
from dipp.format.parameters import PublicParameters


def packed(base: Pixels) -> bytes:
    """Return the painted picture (H, W, 3) as the bytes of a PNG."""
    out = io.BytesIO()
    Image.fromarray(base).save(out, "PNG")
    return out.getvalue()


def of(parameters: PublicParameters, geometry: Geometry) -> Pixels | None:
    """Return the painted picture (H, W, 3) that public parameters carry; None for units without surroundings.

    Args:
        parameters: Public parameters of an encoding of regions.
        geometry: Geometry of the picture.

    Raises:
        DippError: The parameters do not carry it, or it is not a PNG of the right size.
    """
    if not parameters.plan.unit.surrounded:
        return None
    if parameters.surroundings is None:
        raise DippError(
            "surroundings", "are missing: the archive belongs to a picture file", "check both with `dipp check`"
        )
    wrong = DippError("surroundings", f"must be an RGB picture of {geometry.width}×{geometry.height} as PNG")
    try:
        with Image.open(io.BytesIO(parameters.surroundings), formats=["PNG"]) as image:
            # The size is compared before anything is unpacked, because a small file may state any size.
            if image.size != (geometry.width, geometry.height) or image.mode != "RGB":
                raise wrong
            return np.asarray(image)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError):
        raise wrong from None
