"""Questions: their coarse pictures, the private content of their blocks, and their public candidates.

A question (`core.steps.Question`) divides every unit into coarse pixels. The content of a block is the means of its
coarse pixels minus their prediction. For each block, a receiver learns one of the public candidates.

*Claim.* The content of a block depends on the pixels of one unit, on the public prediction, and on nothing else.
*Proof.* A coarse pixel is the mean of pixels of one unit (`Unit.divisions`), and all coarse pixels of a block belong to
one unit (`core.unit_deals.BlockDeal`).
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
    """The vectors with which the content of a block is compared, candidates × dimensions of a block."""
    meanings: Floats
    """The content that a receiver assumes for each index, candidates × dimensions of a block."""
    flipped: randomness.Stream | None = None
    """Stream of the signs that multiply the candidates of each block; None if all blocks have the same candidates."""

    def flips(self, first: int, count: int) -> Floats | None:
        """Return the signs that multiply the candidates of some blocks, blocks × dimensions; None for words.

        Args:
            first: Number of the first of these blocks among all blocks of the step.
            count: Number of blocks.
        """
        if self.flipped is None:
            return None
        dims = self.candidates.shape[1]
        drawn = randomness.uniforms(self.flipped, (first + count) * dims)[first * dims :]
        return np.where(drawn < 0.5, np.float32(-1), np.float32(1)).reshape(count, dims)


def asked(plan: Plan, denoiser: Denoiser, seed: bytes, number: int, turn: int) -> RoundCandidates:
    """Return the candidates of one round of a question: words of the model's books, or random signs.

    Args:
        plan: The plan.
        denoiser: The denoiser.
        seed: The public seed, 16 bytes.
        number: Number of the step, from 0.
        turn: Number of the round, from 0.

    Raises:
        DippError: The question needs words that the model does not have.
    """
    step: Question = plan.steps[number]
    if step.candidate == SIGNS:
        signs = _signs(seed, number, step.candidates, BLOCK**2 * denoiser.channels)
        flipped = randomness.stream(seed, 0, number, "question/flips")
        return RoundCandidates(signs, np.float32(step.scale) * signs, flipped)
    if denoiser.books is None:
        raise DippError(
            "words", "are missing in the model, and units larger than a pixel need them", "make them with `dipp words`"
        )
    painted = plan.unit.surrounded
    book = denoiser.books.book(family(plan.steps, number, turn, painted=painted), step.index_bits)
    if book.words.shape[1] != BLOCK**2 * denoiser.channels:
        raise DippError(
            "words", f"of the model are not for {denoiser.channels} channels", "make them with `dipp words`"
        )
    return RoundCandidates(book.words, _meanings(book, step.weights))


def require_words(plan: Plan, denoiser: Denoiser, table: str | None) -> None:
    """Raise if a plan asks questions by words, and the denoiser has no words or other words than the file names.

    Args:
        plan: The plan.
        denoiser: The denoiser.
        table: Hex SHA-256 of the words that the file was made with; None if it names none.
    """
    if not any(step.worded for step in plan.steps):
        return
    if denoiser.books is None:
        raise DippError(
            "words", "are missing in the model, and the file was made with words", "name its model with --model"
        )
    denoiser.books.require(table)


@functools.lru_cache(maxsize=8)
def _signs(seed: bytes, number: int, count: int, dims: int) -> Floats:
    """Return the public random signs that are the candidates of step `number`, count × dims."""
    drawn = randomness.uniforms(randomness.stream(seed, 0, number, "question/signs"), count * dims)
    return np.where(drawn < 0.5, np.float32(-1), np.float32(1)).reshape(count, dims)


@functools.lru_cache(maxsize=64)
def _meanings(book: Any, weights: Weights) -> Floats:
    means: Floats = book.means(weights)
    return means


def coarse(pixels: Any, geometry: Geometry, unit: Unit, step: Question) -> Any:
    """Return the coarse pictures of private pixels.

    Args:
        pixels: Private: images × coordinates, uint8.
        geometry: Geometry of the pictures.
        unit: The unit that the step divides.
        step: The question.

    Returns:
        Means of the signal in [−1, 1], images × coordinates of the coarse pictures, float32.
    """
    means = unit.means(pixels.reshape(len(pixels), *geometry.shape), step.parts)
    return to_signal(means).astype(np.float32).reshape(len(pixels), -1)


def slots(chunks: Chunks, geometry: Geometry) -> Integers:
    """Return the number of each coordinate of chunks within its block, for coarse pictures of a geometry."""
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
    """Return the blocks of pictures in one round of a question, ready for the draw.

    Args:
        residuals: Private: coarse pixels minus their predictions, images × coordinates in the order of the chunks.
        chunks: The blocks of the round.
        first: Number of the round's first block among all blocks of the step.
        geometry: Geometry of the coarse picture.
        candidates: The candidates of the round.
        weights: The weights by which an index is drawn for a block.
        tally: Record that the draw writes.

    Returns:
        Blocks, image after image. Dimensions beyond the edge of the picture are 0.
    """
    images = len(residuals)
    private, present = content(residuals, chunks, geometry)
    flips = candidates.flips(first, chunks.count)
    flips = None if flips is None else np.tile(flips, (images, 1))
    return Blocks(private, candidates.candidates, np.tile(present, (images, 1)), flips, weights, tally)


def content(residuals: Any, chunks: Chunks, geometry: Geometry) -> tuple[Any, Floats]:
    """Return the content of blocks, and which of its dimensions lie inside the picture.

    Args:
        residuals: Private: images × coordinates in the order of the chunks.
        chunks: The blocks of a round.
        geometry: Geometry of the coarse picture.

    Returns:
        The content, blocks of all images × dimensions, and 1 for each dimension inside the picture and 0 for others,
        chunks × dimensions.
    """
    images, dims = len(residuals), BLOCK**2 * geometry.channels
    position = chunks.owners() * dims + slots(chunks, geometry)
    source = np.full(chunks.count * dims, len(chunks.order), np.int64)  # the last column, of zeros
    source[position] = np.arange(len(chunks.order))
    padded = np.concatenate([residuals, np.zeros((images, 1), np.float32)], axis=1)
    present = (source < len(chunks.order)).astype(np.float32).reshape(chunks.count, dims)
    return padded[:, source].reshape(images * chunks.count, dims), present


def observed(indices: Integers, chunks: Chunks, first: int, geometry: Geometry, candidates: RoundCandidates) -> Floats:
    """Return the content that indices stand for, images × coordinates in the order of the chunks.

    Args:
        indices: Indices of the blocks of all images.
        chunks: The blocks of a round.
        first: Number of the round's first block among all blocks of the step.
        geometry: Geometry of the coarse picture.
        candidates: The candidates of the round.
    """
    values = candidates.meanings[indices.reshape(-1, chunks.count)]
    flips = candidates.flips(first, chunks.count)
    if flips is not None:
        values = values * flips
    return np.ascontiguousarray(values[:, chunks.owners(), slots(chunks, geometry)])
