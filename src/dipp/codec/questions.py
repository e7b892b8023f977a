"""Questions: the coarse pictures that they ask about, and their public candidates.

A question (`core.steps.Question`) divides every unit into coarse pixels. The content of a block is the means of its
coarse pixels, less what was predicted; a receiver learns one candidate for each block.

*Why the unit of the certificate holds.* A coarse pixel is the mean of pixels of one unit (`Unit.divisions`), and a
block has coarse pixels of one unit (`core.chunking.ByBlock`). So the content of a block depends on the pixels of one
unit, on the public prediction, and on nothing else.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dipp.core import randomness
from dipp.core.chunking import Chunks
from dipp.core.closest import Tally, Weights
from dipp.core.geometry import Geometry
from dipp.core.plan import Plan
from dipp.core.signal import to_signal
from dipp.core.steps import BLOCK, SIGNS, Question
from dipp.core.unit import Integers, Unit
from dipp.errors import DippError
from dipp.models.books import family
from dipp.models.denoiser import Denoiser
from dipp.scoring.blocks import Blocks

Floats = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class RoundCandidates:
    """The public candidates of one round of a question."""

    candidates: Floats
    """Candidates × dimensions of a block: what its content is compared with."""
    meanings: Floats
    """Candidates × dimensions: what a receiver takes each index for."""
    flipped: randomness.Stream | None = None
    """Stream of the signs by which candidates are multiplied, block by block; None if they are the same for all."""

    def flips(self, first: int, count: int) -> Floats | None:
        """Return the signs of `count` blocks from number `first` on, blocks × dimensions; None for words."""
        if self.flipped is None:
            return None
        dims = self.candidates.shape[1]
        drawn = randomness.uniforms(self.flipped, (first + count) * dims)[first * dims :]
        return np.where(drawn < 0.5, np.float32(-1), np.float32(1)).reshape(count, dims)


def asked(plan: Plan, denoiser: Denoiser, seed: bytes, number: int, turn: int) -> RoundCandidates:
    """Return the candidates of a round of step `number`: words of the model's books, or random signs."""
    step: Question = plan.steps[number]
    if step.candidate == SIGNS:
        signs = _signs(seed, number, step.candidates, BLOCK**2 * denoiser.channels)
        flipped = randomness.stream(seed, 0, number, "question/flips")
        return RoundCandidates(signs, np.float32(step.scale) * signs, flipped)
    if denoiser.books is None:
        raise DippError(
            "words", "the model has none, which units larger than a pixel need", "make them with `dipp words`"
        )
    painted = plan.unit.surrounded
    book = denoiser.books.book(family(plan.steps, number, turn, painted=painted), step.index_bits)
    if book.words.shape[1] != BLOCK**2 * denoiser.channels:
        raise DippError(
            "words", f"those of the model are not for {denoiser.channels} channels", "make them with `dipp words`"
        )
    return RoundCandidates(book.words, _meanings(book, step.weights))


def require_words(plan: Plan, denoiser: Denoiser, table: str | None) -> None:
    """Raise if a file that asks by words was made with other words than a denoiser has; `table` is their digest."""
    if not any(step.worded for step in plan.steps):
        return
    if denoiser.books is None:
        raise DippError("words", "the file was made with words, and this model has none", "name another with --model")
    denoiser.books.require(table)


@functools.lru_cache(maxsize=8)
def _signs(seed: bytes, number: int, count: int, dims: int) -> Floats:
    """Return public random signs, count × dims."""
    drawn = randomness.uniforms(randomness.stream(seed, 0, number, "question/signs"), count * dims)
    return np.where(drawn < 0.5, np.float32(-1), np.float32(1)).reshape(count, dims)


@functools.lru_cache(maxsize=64)
def _meanings(book: Any, weights: Weights) -> Floats:
    found: Floats = book.means(weights)
    return found


def coarse(pixels: Any, geometry: Geometry, unit: Unit, step: Question) -> Any:
    """Return the coarse pictures of private pixels.

    Args:
        pixels: Images × coordinates, uint8.
        geometry: Geometry of the pictures.
        unit: The unit that the step divides.
        step: The question.

    Returns:
        Images × coordinates of the coarse pictures, float32: means of the signal, in [−1, 1].
    """
    means = unit.means(pixels.reshape(len(pixels), *geometry.shape), step.parts)
    return to_signal(means).astype(np.float32).reshape(len(pixels), -1)


def slots(chunks: Chunks, geometry: Geometry) -> Integers:
    """Return which dimension of its block each coordinate of chunks is, for coarse pictures of a geometry."""
    pixel, channel = np.divmod(chunks.order, geometry.channels)
    row, column = np.divmod(pixel, geometry.width)
    return np.asarray((row % BLOCK * BLOCK + column % BLOCK) * geometry.channels + channel, np.int64)


def blocks(
    residuals: Any,
    chunks: Chunks,
    first: int,
    geometry: Geometry,
    candidates: RoundCandidates,
    weights: Weights,
    tally: Tally,
) -> Blocks:
    """Return the blocks of some pictures, to be asked.

    Args:
        residuals: Private: images × coordinates in the order of the chunks, coarse pixels less their predictions.
        chunks: The blocks of a round.
        first: Number of the first of them in its step.
        geometry: Geometry of the coarse picture.
        candidates: What they are compared with.
        weights: The law of the draw.
        tally: Where the draws are written down.

    Returns:
        Blocks, image after image; the dimensions that a block at the edge does not have are 0.
    """
    images = len(residuals)
    private, present = content(residuals, chunks, geometry)
    flips = candidates.flips(first, chunks.count)
    flips = None if flips is None else np.tile(flips, (images, 1))
    return Blocks(private, candidates.candidates, np.tile(present, (images, 1)), flips, weights, tally)


def content(residuals: Any, chunks: Chunks, geometry: Geometry) -> tuple[Any, Floats]:
    """Return residuals (images × coordinates) as blocks × dimensions, and which dimensions each chunk has (0 or 1)."""
    images, dims = len(residuals), BLOCK**2 * geometry.channels
    place = chunks.owners() * dims + slots(chunks, geometry)
    source = np.full(chunks.count * dims, len(chunks.order), np.int64)  # the last column, of zeros
    source[place] = np.arange(len(chunks.order))
    padded = np.concatenate([residuals, np.zeros((images, 1), np.float32)], axis=1)
    present = (source < len(chunks.order)).astype(np.float32).reshape(chunks.count, dims)
    return padded[:, source].reshape(images * chunks.count, dims), present


def observed(indices: Integers, chunks: Chunks, first: int, geometry: Geometry, candidates: RoundCandidates) -> Floats:
    """Return what indices mean for each coordinate of the blocks: images × coordinates in the order of the chunks."""
    values = candidates.meanings[indices.reshape(-1, chunks.count)]
    flips = candidates.flips(first, chunks.count)
    if flips is not None:
        values = values * flips
    return np.ascontiguousarray(values[:, chunks.owners(), slots(chunks, geometry)])
