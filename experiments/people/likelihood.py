"""The best attacker on questions: it knows the candidates and the public words, and computes likelihoods.

A file of questions (`core.steps.Question`) has one index for each block, and `core.closest` states the law of an index:
the heavy weight if it is among the m nearest to the block's content, the light one otherwise. All else is public. So
the probability of a file is known exactly for every picture that it may have come from. No attacker who chooses
among equally likely candidates is right more often than one who takes the likeliest.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dipp.codec.chain import Chain, Indices, StepLayout
from dipp.codec.encoder import Selector
from dipp.core.arrays import Array, host
from dipp.core.steps import Question
from dipp.errors import DippError
from dipp.format.archive import Archive
from dipp.models.denoiser import Denoiser

Floats = NDArray[np.float64]


def log_likelihoods(archive: Archive, denoiser: Denoiser, candidates: NDArray[np.uint8]) -> Floats:
    """Return ln P[file | candidate] for each picture of an archive and each candidate.

    Args:
        archive: Pictures of one size, encoded by questions.
        denoiser: The denoiser that the archive names.
        candidates: Pictures (M, H, W, C) of the same size, as the encoder would read them.

    Returns:
        Pictures × candidates.

    Raises:
        DippError: The archive has no questions, or other sizes.
    """
    parameters = archive.parameters
    if parameters.plan.kind != Question.kind:
        raise DippError("archive", "must have questions, which ask units larger than a pixel")
    if {(height, width) for _, height, width in archive.runs.tolist()} != {candidates.shape[1:3]}:
        raise DippError("archive", "must have pictures of the size of the candidates")
    geometry = parameters.geometry(*candidates.shape[1:3])
    chain = Chain.of_pictures(parameters.plan, denoiser, parameters.seed, geometry)
    return of_rows(chain, archive.batch(0, len(archive)), candidates)


def of_rows(chain: Chain, rows: Indices, candidates: NDArray[np.uint8]) -> Floats:
    """Return ln P[row | candidate] for each row of indices of a chain and each candidate (M, H, W, C)."""
    different, which = np.unique(rows, axis=0, return_inverse=True)
    stacked = np.stack([_of_file(chain, row, candidates) for row in different])
    return stacked[which.reshape(-1)]


def _of_file(chain: Chain, indices: Indices, candidates: NDArray[np.uint8]) -> Floats:
    """Return ln P[indices | candidate] for each candidate, along the one transcript that the indices lead to."""
    coded = chain.denoiser.coded(candidates).reshape(len(candidates), -1)
    selector = Selector(chain.plan, chain.seed, coded, "cpu")
    counts, total = chain.plan.chunk_counts(chain.geometry), np.zeros(len(candidates))

    def released(layout: StepLayout, x_hat: Array) -> Indices:
        nonlocal total
        first = sum(counts[: layout.number]) + layout.first
        own = indices[first : first + layout.chunks.count]
        if layout.chunks.count:
            blocks = selector.blocks(layout, np.broadcast_to(host(x_hat), (len(candidates), x_hat.shape[1])))
            law = blocks.terms
            near = blocks.nearest(law.best).reshape(len(candidates), len(own), law.best)
            inside = (near == own[:, None]).any(axis=2)
            weights = np.where(inside, math.log(law.heavy), math.log(law.light)) - math.log(law.total)
            total = total + weights.sum(axis=1)
        return own[None]

    chain.run([0], released)
    return total
