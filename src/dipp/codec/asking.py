"""Encode and decode a picture with private regions: the regions are painted over, and answers say what they show.

The public seed and everything else that is public are fixed before anything of a region is read. As for other units,
only `encoder.Selector.blocks` reads the private pixels.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from dipp.codec import surroundings
from dipp.codec.archive import Archive
from dipp.codec.chain import Chain
from dipp.codec.decoder import Decoder
from dipp.codec.encoder import encode_batch
from dipp.codec.pictures import CodecPicture, Pixels
from dipp.core import randomness
from dipp.core.geometry import Geometry
from dipp.core.plan import Plan
from dipp.errors import DippError
from dipp.format.parameters import PublicParameters
from dipp.privacy.recorder import Recorder

if TYPE_CHECKING:
    from dipp.models.denoiser import Denoiser


def ask(denoiser: Denoiser, plan: Plan, base: Pixels, pixels: Any, *, seed: bytes | None = None) -> Archive:
    """Encode a picture with regions: return an archive of its clear surroundings and of answers about its regions.

    Args:
        denoiser: The model, whose words are the possible answers.
        plan: A plan of questions to regions.
        base: Public: the picture (H, W, 3), uint8, whose regions were painted over without reading them.
        pixels: Private: the original (H, W, 3), uint8. Only the pixels of regions are read.
        seed: The public seed of 16 bytes, for tests. By default it is drawn.

    Raises:
        DippError: The unit of the plan is not regions of this picture, or the denoiser has no words.
    """
    if not plan.unit.surrounded or denoiser.books is None:
        raise DippError(
            "regions", "need a plan of questions to regions, and a model with words", "use another plan or model"
        )
    public = randomness.fresh_seed() if seed is None else seed
    parameters = PublicParameters(
        plan,
        denoiser.identity,
        public,
        denoiser.channels,
        table=denoiser.books.digest,
        seed_given=seed is not None,
        surroundings=surroundings.packed(base),
    )
    geometry = parameters.geometry(*base.shape[:2])
    chain, recorder = Chain.of_pictures(plan, denoiser, public, geometry, base), Recorder()
    indices, _ = encode_batch(chain, [CodecPicture(pixels)], range(1), recorder)
    grey = bool((base[..., :1] == base).all())
    return Archive.build(parameters, [geometry], list(indices), recorded=recorder.ledger(plan, 1), grey=[grey])


def alone(archive: Archive) -> Archive:
    """Return an archive of regions without its surroundings, for use beside a picture file that shows them."""
    parameters = dataclasses.replace(archive.parameters, surroundings=None)
    geometries = [parameters.geometry(*archive.runs[0, 1:].tolist())]
    return Archive.build(parameters, geometries, archive.batch(0, 1), grey=archive.grey.tolist())


def decoded(denoiser: Denoiser, archive: Archive, base: Pixels) -> Pixels:
    """Decode an archive of one picture with regions.

    Args:
        denoiser: The model that the archive was made with.
        archive: The archive.
        base: The picture (H, W, 3), uint8, whose regions are painted over.

    Returns:
        The picture (H, W, 3), uint8, with what the answers say about the regions.

    Raises:
        DippError: The picture has another size than the archive's, or the model is another.
    """
    geometry = Geometry.of(base.shape)
    if archive.runs.tolist() != [[1, geometry.height, geometry.width]]:
        raise DippError("regions", "have answers for a picture of another size", "decode them with their own picture")
    denoiser.require_identity(archive.parameters.model)
    end = Decoder(denoiser).end(archive.parameters, geometry, archive.batch(0, 1), [0], archive.grey, base=base)
    picture: Pixels = end.pictures()[0]
    return picture
