"""`dipp.encode`, which encodes pictures in one call. The command `dipp encode` calls it.

A codec has one plan for all pictures. `encode` makes the plan for the smallest of the given pictures, which has the
worst certificate. Sizes are public, so a plan may depend on them. The public seed is drawn before anything else,
because a seed that is drawn later could depend on a picture.
"""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Unpack

from dipp.codec import batches, pictures
from dipp.codec.archive import Archive
from dipp.codec.codec import Codec
from dipp.codec.options import EncodeOptions, plan_of, takes
from dipp.core import randomness
from dipp.errors import DippError
from dipp.models import embedded
from dipp.models.bars import SMALLER, shown
from dipp.privacy import advice
from dipp.privacy.budget import why_unused

LOGGER = logging.getLogger("dipp")


class EncodedPictures(NamedTuple):
    """The result of an encoding."""

    archive: Archive
    """The encoded pictures."""
    warnings: tuple[str, ...]
    """Warnings about the certificate, as `dipp info` prints them."""
    unused: tuple[str, ...]
    """Reasons why the plan uses far less than the budget; empty if it does not."""


@takes(EncodeOptions)
def encode(images: Any, **options: Unpack[EncodeOptions]) -> Archive:
    """Encode pictures into one archive that carries its certificate, as the command `dipp encode` does.

    Warnings about the certificate, and about pictures that were released before, go to the logger "dipp".

    Args:
        images: One picture or an iterable of them: paths, PIL images, uint8 arrays (H, W, C) or (H, W), uint8 tensors
            (C, H, W). Each is released once.
        options: The budget (`epsilon=4`) and other keywords, which `EncodeOptions` describes.

    Returns:
        The archive. Its method `save` writes it, and `certificate` states its guarantee.

    Raises:
        DippError: An argument or a picture cannot be used; nothing was released.
        LimitError: A picture would exceed the limit of the odometer; nothing was released.

    Example::

        archive = dipp.encode("photo.png", epsilon=4)
        archive.save("photo.dipp")
        print(archive.certificate)
    """
    result = encoded(images, **options)
    for text in (*result.warnings, *result.unused):
        LOGGER.warning(text)
    return result.archive


def encoded(images: Any, **options: Unpack[EncodeOptions]) -> EncodedPictures:
    """Encode pictures as `encode` does, but return the warnings instead of logging them.

    Args:
        images: One picture or an iterable of pictures.
        options: The budget and other keywords, which `EncodeOptions` describes.
    """
    seed = options.get("seed")
    public = randomness.fresh_seed() if seed is None else seed  # before anything of a picture is seen
    listed = batches.listed(batches.without_repeats(pictures.iterate(images)))
    require_files(listed)
    sizes = [size for image in listed if (size := pictures.size_of(image)) is not None]
    model, device = options.get("model", embedded.FOLDER), options.get("device", "auto")
    codec = Codec.from_pretrained(
        model, device=device, size=min(sizes, key=math.prod, default=None), **plan_of(options)
    )
    pixels, wanted = [math.prod(size) for size in sizes], options.get("progress", True)
    with shown("encoding", pixels, codec.plan.work, SMALLER, wanted=wanted):
        archive = codec.encode(
            listed,
            seed=public,
            given=seed is not None,
            beacon=options.get("beacon"),
            window=options.get("window"),
            odometer=options.get("odometer", True),
        )
    certified = archive.parameters.plan.coding.certified
    certificate = archive.certificate if certified else None
    claim = certificate.to_dict() if certificate else None
    warnings = advice.release_warnings(claim, archive.pixels, len(archive))
    unused = why_unused(codec.budget, certificate, codec.bound, options.get("final_timestep"))
    return EncodedPictures(archive, warnings, unused)


def require_files(images: Sequence[Any]) -> None:
    """Raise if a path is a pipe, which can be read only once, or a folder."""
    for path in (Path(image) for image in images if isinstance(image, str | os.PathLike)):
        if str(path) == "-" or path.is_fifo():
            raise DippError("images", f"include {path}, which can be read only once", "save it as a file first")
        if path.is_dir():
            raise DippError(
                "images", f"include the folder {path}", f"release its pictures by `dipp privatize {path} DST`"
            )
