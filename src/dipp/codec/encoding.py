"""`dipp.encode`: pictures in, an archive out, in one call. The command `dipp encode` parses, calls this and prints.

A codec has one plan for all pictures. Here the plan is made for the pictures that are given: for the smallest of them,
which has the worst certificate. Sizes are public, so a plan may depend on them. The public seed is drawn first of all:
one that is drawn after something of a picture was seen could have been chosen by it.
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


class Encoded(NamedTuple):
    """What an encoding has made."""

    archive: Archive
    warnings: tuple[str, ...]
    """Warnings about its certificate, as `dipp info` prints them."""
    unused: tuple[str, ...]
    """Why the plan uses far less than the budget, if it does."""


@takes(EncodeOptions)
def encode(images: Any, **options: Unpack[EncodeOptions]) -> Archive:
    """Encode pictures into one archive that carries its certificate, as the command `dipp encode` does.

    Warnings about the certificate, and of pictures that were released before, go to the logger "dipp".

    Args:
        images: One picture or an iterable of them: paths, PIL images, uint8 arrays (H, W, C) or (H, W), uint8 tensors
            (C, H, W). Each is released once.
        options: The budget (`epsilon=4`) and other keywords, which `EncodeOptions` describes.

    Returns:
        The archive. `save` writes it, `certificate` is what it promises.

    Raises:
        DippError: An argument or a picture cannot be used; nothing was released.
        LimitError: A picture would exceed the limit of the odometer; nothing was released.
    """
    made = encoded(images, **options)
    for text in (*made.warnings, *made.unused):
        LOGGER.warning(text)
    return made.archive


def encoded(images: Any, **options: Unpack[EncodeOptions]) -> Encoded:
    """Encode as `encode` does, but return the warnings instead of logging them."""
    seed = options.get("seed")
    public = randomness.fresh_seed() if seed is None else seed  # before anything of a picture is seen
    given = batches.listed(batches.once(pictures.each(images)))
    require_files(given)
    sizes = [size for image in given if (size := pictures.size_of(image)) is not None]
    model, device = options.get("model", embedded.FOLDER), options.get("device", "auto")
    codec = Codec.from_pretrained(
        model, device=device, size=min(sizes, key=math.prod, default=None), **plan_of(options)
    )
    pixels, wanted = [math.prod(size) for size in sizes], options.get("progress", True)
    with shown("encoding", pixels, codec.plan.work, SMALLER, wanted=wanted):
        archive = codec.encode(
            given,
            seed=public,
            given=seed is not None,
            beacon=options.get("beacon"),
            window=options.get("window"),
            odometer=options.get("odometer", True),
        )
    certified = archive.release.plan.coding.certified
    found = archive.certificate if certified else None
    claim = found.to_dict() if found else None
    warnings = advice.release_warnings(claim, archive.pixels, len(archive))
    unused = why_unused(codec.budget, found, codec.bound, options.get("final_timestep"))
    return Encoded(archive, warnings, unused)


def require_files(images: Sequence[Any]) -> None:
    """Raise for a path that is a pipe, which can be read only once, or a folder."""
    for path in (Path(image) for image in images if isinstance(image, str | os.PathLike)):
        if str(path) == "-" or path.is_fifo():
            raise DippError("images", f"{path} is not a file, and pictures are read more than once", "save it first")
        if path.is_dir():
            raise DippError("images", f"{path} is a folder", f"`dipp privatize {path} DST` releases all that is in it")
