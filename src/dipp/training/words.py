"""Make the words of a model: codebooks of typical blocks, learnt from public pictures.

Public pictures are asked like private ones, round after round and question after question (`asking`). In each round,
Lloyd's algorithm clusters the differences of blocks from their predictions. The answers by the new words lead to the
next prediction. Blocks of several sizes go into one book, since photographs look alike at all scales.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from dipp.core.steps import BLOCK
from dipp.core.units import Cells
from dipp.core.window import Window
from dipp.errors import DippError
from dipp.models.books import AGAIN, FINER, RAW, Book, Books
from dipp.models.denoiser import Denoiser
from dipp.planning.questions import Recipe, step_of
from dipp.training import public_pictures
from dipp.training.asking import AskedPictures
from dipp.training.public_pictures import Scene

if TYPE_CHECKING:
    import torch

Floats = NDArray[np.float32]
Pixels = NDArray[np.uint8]
Progress = Callable[[str], None]

SCENE = Scene(512, 512)
"""The squares of photographs from which words are made. Smaller pictures give squares as large as they are."""
SMALLEST = 32
"""Least side of these squares, and divisor of each side: the side of the largest cells that words are made from."""
SIDES = (8, 16, 32)
"""Sides of the cells whose blocks go into the books."""
BITS = tuple(range(1, 11))
"""Bits of the books that are made: a book has 2^bits words."""
MIDDLE = 6
"""Bits of the first question in the chains from which words for later questions are made."""
MARGIN = 4.0
"""ε of the draws while books are made, minus the logarithm of the number of words."""
ITERATIONS = 12
PER_WORD = 64
"""Largest number of public blocks for each word in the clustering."""


class WordPictures(NamedTuple):
    """Public pictures, from which words are made and on which recipes are tried."""

    asked: Pixels
    """Pictures (N, S, S, C) from which words are made."""
    tried: list[Pixels]
    """Further pictures (N, S, S, C) of several sides S, on which recipes are tried."""
    skipped: int
    """Number of files that could not be read or were too small."""


def pictures(denoiser: Denoiser, data: Path, count: int, tried: int, window: Window | None = None) -> WordPictures:
    """Read public pictures for the words of a denoiser.

    Args:
        denoiser: The model. One for pictures of any size gets scenes of several sizes, any other gets its own size.
        data: Folder, or .tar, .parquet, .npy or .npz file.
        count: Largest number of pictures from which words are made.
        tried: Number of further pictures, on which recipes are tried.
        window: Values that become black and white in pictures of more than eight bits. None skips such pictures.

    Raises:
        DippError: There are too few pictures, or they are too small.
    """
    if not denoiser.any_size:
        loaded = public_pictures.load(data, denoiser.sample_size[0], count + tried, denoiser.channels, window)
        asked = loaded.pixels[: len(loaded.pixels) - tried]
        return WordPictures(asked, [loaded.pixels[len(asked) :]], loaded.skipped)
    side = max(SMALLEST, public_pictures.usual_side(data, SCENE.side, window) // SMALLEST * SMALLEST)
    (squares,), skipped = public_pictures.scenes(data, (Scene(side, side),), 1 << 20, window)
    order = np.random.default_rng(0).permutation(len(squares))
    if len(order) <= tried:
        raise DippError(
            "data",
            f"must hold more than {tried} pictures of at least {side}×{side}, got {len(order)}",
            "pass a smaller --tried",
        )
    others = squares[order[:tried]]
    smaller = [_shrunk(others, size) for size in (SMALLEST, 64, 128) if size < side]
    return WordPictures(squares[order[tried : tried + count]], [*smaller, others], skipped)


def _shrunk(pixels: Pixels, side: int) -> Pixels:
    shape = side, side
    return np.stack([np.asarray(Image.fromarray(image).resize(shape, Image.Resampling.LANCZOS)) for image in pixels])


def books(
    denoiser: Any, pixels: Pixels, progress: Progress, bits: Sequence[int] = BITS, sides: Sequence[int] = SIDES
) -> dict[tuple[str, int], Book]:
    """Make all books of a model.

    Args:
        denoiser: The model.
        pixels: Public pictures of one size (N, H, W, C), whose sides are multiples of 32.
        progress: Callback that receives what is being made.
        bits: Numbers of bits, each of which gets books; `MIDDLE` is among them.
        sides: Sides of the cells whose blocks go into the books.

    Returns:
        The books by family and bits.
    """
    made: dict[tuple[str, int], Book] = {}
    middle: list[AskedPictures] = []
    device = denoiser.device
    for count in bits:
        progress(f"{1 << count} words for first questions")
        step = step_of(Recipe(count, rounds=4), count * math.log(2) + MARGIN)
        asked = [AskedPictures(denoiser, Cells(side), pixels) for side in sides]
        for rounds in zip(*(pictures.rounds(step) for pictures in asked), strict=True):
            name = rounds[0][0]
            content = np.concatenate([content for _, content, _ in rounds])
            # Where a picture has too few blocks for a round, nobody asks by its words.
            made[name, count] = clustered(content, 1 << count, device) if len(content) else made[RAW, count]
            for _, _, ask in rounds:
                ask(replace(denoiser, books=Books(made, [], "")))
        middle = asked if count == MIDDLE else middle
    for pictures in middle:
        pictures.label()
    for name, split in ((AGAIN, 1), (FINER, 2)):
        progress(f"words for questions that are {name}")
        contents = [_later(pictures, split) for pictures in middle if pictures.unit.side % (BLOCK * split) == 0]  # type: ignore[attr-defined]
        for count in bits:
            if contents:
                made[name, count] = clustered(np.concatenate(contents), 1 << count, device)
    return made


def _later(asked: AskedPictures, split: int) -> Floats:
    """Return the content of blocks for a later question: pictures minus the prediction after the questions so far."""
    return next(asked.rounds(step_of(Recipe(1, split=split), 1.0)))[1]


def clustered(vectors: Floats, count: int, device: str | torch.device = "cpu") -> Book:
    """Cluster vectors (N, D) around `count` words, and return these with the number of vectors nearest to each."""
    import torch

    generator = np.random.default_rng(count)
    x = torch.from_numpy(vectors[generator.permutation(len(vectors))[: max(PER_WORD * count, 1 << 14)]]).to(device)
    words = x[torch.from_numpy(generator.integers(0, len(x), count))]
    for _ in range(ITERATIONS):
        nearest = _nearest(x, words)
        sizes = torch.bincount(nearest, minlength=count)[:, None]
        means = torch.zeros_like(words).index_add_(0, nearest, x) / sizes.clamp_min(1)
        spare = x[torch.from_numpy(generator.integers(0, len(x), count))]
        words = torch.where(sizes > 0, means, spare)
    stored = words.half().float()
    sizes = torch.bincount(_nearest(torch.from_numpy(vectors).to(device), stored), minlength=count)
    return Book(stored.cpu().numpy(), sizes.cpu().numpy().astype(np.int64))


def _nearest(x: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
    import torch

    return torch.cat([torch.cdist(part, words).argmin(1) for part in torch.split(x, 1 << 14)])
