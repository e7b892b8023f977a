"""Asking regions: the picture of a private one whose regions were painted, and answers about what they really show.

The public seed is drawn, and everything else is fixed, before anything of a region is read. The private pixels are read
by `encoder.Selector.blocks` alone, as those of any unit are.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from dipp.codec import surroundings
from dipp.codec.archive import Archive
from dipp.codec.chain import Chain
from dipp.codec.decoder import Decoder
from dipp.codec.encoder import encode_batch
from dipp.codec.pictures import Picture, Pixels
from dipp.core import randomness
from dipp.core.geometry import Geometry
from dipp.core.plan import Plan
from dipp.errors import DippError
from dipp.format.release import Release
from dipp.privacy.ledger import Recorder

if TYPE_CHECKING:
    from dipp.models.denoiser import Denoiser


def ask(denoiser: Denoiser, plan: Plan, base: Pixels, pixels: Any, *, seed: bytes | None = None) -> Archive:
    """Return the archive of a picture with clear surroundings, and of answers about its regions.

    Args:
        denoiser: The model whose words the plan asks by.
        plan: A plan of questions to regions.
        base: Public: the picture (H, W, 3), uint8, whose regions were painted without reading them.
        pixels: Private: the original (H, W, 3), uint8. What lies outside the regions is never looked at.
        seed: The public seed, for tests; by default a fresh one.

    Raises:
        DippError: The unit of the plan is not regions of this picture, or the denoiser has no words.
    """
    if not plan.unit.surrounded or denoiser.books is None:
        raise DippError("regions", "a plan that asks regions, and a model with words, are needed")
    public = randomness.fresh_seed() if seed is None else seed
    release = Release(
        plan,
        denoiser.identity,
        public,
        denoiser.channels,
        table=denoiser.books.digest,
        seed_given=seed is not None,
        surroundings=surroundings.packed(base),
    )
    geometry = release.geometry(*base.shape[:2])
    chain, recorder = Chain.of_pictures(plan, denoiser, public, geometry, base), Recorder()
    indices, _ = encode_batch(chain, [Picture(pixels)], range(1), recorder)
    grey = bool((base[..., :1] == base).all())
    return Archive.build(release, [geometry], list(indices), recorded=recorder.ledger(plan, 1), grey=[grey])


def alone(archive: Archive) -> Archive:
    """Return an archive without its surroundings: for a picture that is a file of its own."""
    release = dataclasses.replace(archive.release, surroundings=None)
    geometries = [release.geometry(*archive.runs[0, 1:].tolist())]
    return Archive.build(release, geometries, archive.batch(0, 1), grey=archive.grey.tolist())


def decoded(denoiser: Denoiser, archive: Archive, base: Pixels) -> Pixels:
    """Return the picture (H, W, 3) of an archive of one picture with regions, from its painted picture."""
    geometry = Geometry.of(base.shape)
    if archive.runs.tolist() != [[1, geometry.height, geometry.width]]:
        raise DippError("regions", "the answers are those of a picture of another size")
    denoiser.require_identity(archive.release.model)
    end = Decoder(denoiser).end(archive.release, geometry, archive.batch(0, 1), [0], archive.grey, base=base)
    found: Pixels = end.pictures()[0]
    return found
