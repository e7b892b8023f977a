"""Words of a model: codebooks of blocks from public pictures, and the public table that question plans are made from.

**Books.** Public pictures are asked as private ones will be, round after round and question after question. What the
blocks of a round differ by from their prediction is clustered (Lloyd's algorithm), and the answers by the new words
lead to the next prediction. Blocks of several sizes go into one book, since photographs look alike at all scales.

**Table.** For units of several sizes and budgets, recipes of questions are tried on public pictures that no book has
seen: really drawn, each with the SNR at which the network makes the best picture of the answers. The rows of the table
are the recipes that no cheaper one beats.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from dipp.codec import questions
from dipp.codec.chain import Chain
from dipp.codec.encoder import Selector
from dipp.codes import Closest
from dipp.core.chunking import Touched
from dipp.core.closest import Tally
from dipp.core.geometry import Geometry
from dipp.core.plan import Plan
from dipp.core.signal import to_signal
from dipp.core.steps import BLOCK, Question
from dipp.core.unit import Unit
from dipp.core.units import Cells, Picture
from dipp.core.window import Window
from dipp.errors import DippError
from dipp.models.books import AGAIN, FINER, RAW, Book, Books, family
from dipp.models.denoiser import Denoiser
from dipp.planning.planner import short_floats
from dipp.planning.questions import CODING, MOST, Recipe, Row, candidates_of, step_of
from dipp.scoring.blocks import Blocks
from dipp.training import public_pictures
from dipp.training.public_pictures import Scene
from dipp.training.sensing import SEED

if TYPE_CHECKING:
    import torch

Floats = NDArray[np.float32]
Pixels = NDArray[np.uint8]
Progress = Callable[[str], None]

SCENE = Scene(512, 512)
"""Squares of photographs that words are made from; of smaller pictures, squares as large as they are."""
SMALLEST = 32
"""The smallest side of such squares, which divides all of them: that of the largest cells that words are made from."""
SIDES = (8, 16, 32)
"""Sides of the cells whose blocks go into the books."""
BITS = tuple(range(1, 11))
"""Bits of the books."""
MIDDLE = 6
"""Bits of the first question after which words for later ones are made."""
MARGIN = 4.0
"""ε of the draws that books are made by, beyond the logarithm of the number of words."""
ITERATIONS = 12
PER_WORD = 64
"""Public blocks for each word by which it is found, at most."""
LABELS = tuple(2.0**i for i in range(-3, 2))
"""SNRs that the network is told, in units of one over the mean squared error of the answers."""
SHAPES: tuple[tuple[int, ...], ...] = (
    *((1,) * count for count in range(1, 5)),
    *((2,) * count for count in range(1, 3)),
    *((4,) * count for count in range(1, 3)),
    (8,),
    (1, 2),
    (1, 1, 2),
    (1, 2, 2),
    (1, 2, 4),
    (2, 4),
    (2, 4, 8),
    (4, 8),
)
"""Divisions of a unit by the questions of a recipe."""
LEAST = 1.9
"""Least ε of a draw of recipes that are tried; a single question may have less."""
BY_SIGNS = 6.0
"""ε of a draw from which on signs are tried for the second of two questions."""
EPSILONS = (0.5, 1.0, 2.0, 4.0, 6.0, 8.0, 12.0, 16.0, 32.0, 64.0, 128.0, 256.0)
COARSE_PIXELS, PIXELS = 1 << 15, 5 << 18
"""Coarse pixels and pixels of the pictures that a recipe is tried on, at most if there are several."""
CELLS = (4, 8, 16, 32, 64, 128)
"""Sides of the cells that are tried."""
WORTH = 0.05
"""dB by which a row of more bits must be better."""


@dataclass(eq=False)
class Asking:
    """Public pictures of one size while they are asked one question after the other."""

    denoiser: Denoiser
    unit: Unit
    pixels: Pixels
    """(N, H, W, C)."""
    steps: list[Question] = field(default_factory=list)
    state: Any = None
    """What is known so far; None before the first question."""

    @property
    def geometry(self) -> Geometry:
        """Geometry of the pictures."""
        return Geometry.of(self.pixels.shape[1:])

    @property
    def flat(self) -> Pixels:
        """Pictures × coordinates."""
        return self.pixels.reshape(len(self.pixels), -1)

    def chain(self, *more: Question) -> Chain:
        """Return the chain of the questions so far and some more."""
        return Chain(Plan(CODING, (*self.steps, *more), unit=self.unit), self.denoiser, SEED, self.geometry)

    def rounds(self, step: Question) -> Iterator[tuple[str, Floats, Callable[[Denoiser], None]]]:
        """Yield for each round of another question: its family, the content of its blocks, and what asks them.

        The last is called with the denoiser that has the words of the family, before the next round is taken.
        """
        steps, state, number = (*self.steps, step), self.state, len(self.steps)
        if state is None:
            state = self.chain(step).trajectory.start(SEED, self.geometry)
        for turn in range(step.turns):
            trajectory = self.chain(step).trajectory
            x_hat = trajectory.predict(number, state, turn)
            content, known = self._content(step, turn, x_hat)

            def ask(denoiser: Denoiser, turn: int = turn, x_hat: Any = x_hat, known: Any = known) -> None:
                nonlocal state
                self.denoiser = denoiser
                chain = self.chain(step)
                layout = chain.layout(number, range(len(self.pixels)), turn)
                select = Selector(chain.plan, SEED, self.flat, denoiser.device.type)
                noise = chain.noise(layout, select(layout, known.expand(len(self.pixels), -1)))
                state = chain.trajectory.advance(number, state, x_hat, noise, turn)

            yield family(steps, number, turn), content, ask
        self.steps.append(step)
        self.state = state

    def _content(self, step: Question, turn: int, x_hat: torch.Tensor) -> tuple[Floats, torch.Tensor]:
        """Return the content of the blocks of a round, and what is known of their coordinates."""
        import torch

        unit, grid = step.grid(self.unit, self.geometry)
        deal = CODING.code.deal
        chunks = deal.chunks(SEED, Touched(0, step, np.arange(grid.coordinates), unit, grid), apart=True)
        chunks = chunks.in_round(turn) if step.turns > 1 else chunks
        order = torch.from_numpy(np.array(chunks.order))
        known = x_hat.permute(0, 2, 3, 1).reshape(len(x_hat), -1)[:, order.to(x_hat.device)]
        residuals = questions.coarse(self.flat, self.geometry, self.unit, step)[:, chunks.order] - known.cpu().numpy()
        return questions.content(residuals, chunks, grid)[0], known

    def copy(self) -> Asking:
        """Return the pictures with what is known of them, to be asked another question."""
        return replace(self, steps=list(self.steps))

    def ask(self, step: Question) -> None:
        """Ask one more question, with the words that the denoiser has, and find the SNR that the network is told."""
        for _, _, answer in self.rounds(step):
            answer(self.denoiser)
        self.label()

    def label(self) -> None:
        """Give the last question the SNR by which the network makes the best picture of the answers."""
        truth = questions.coarse(self.flat, self.geometry, self.unit, self.steps[-1])
        known = self.state.permute(0, 2, 3, 1).reshape(len(self.pixels), -1).cpu().numpy()
        error = max(float(np.square(known - truth).mean()), 1e-6)
        tried = [self._labelled(factor / error) for factor in LABELS]
        self.steps[-1] = min(tried, key=self.error)

    def _labelled(self, snr: float) -> Question:
        return replace(self.steps[-1], snr_gain=float(short_floats(np.array([snr]))[0]))

    def error(self, last: Question) -> float:
        """Return the mean squared error of the network's picture, if the last question is `last`."""
        plan = Plan(CODING, (*self.steps[:-1], last), unit=self.unit)
        trajectory = Chain(plan, self.denoiser, SEED, self.geometry).trajectory
        picture = trajectory.expected(len(self.steps), self.state).permute(0, 2, 3, 1).cpu().numpy()
        return float(np.square(picture - to_signal(self.pixels)).mean())


class Pictures(NamedTuple):
    """Public pictures, from which words are made and on which recipes are tried."""

    asked: Pixels
    """(N, S, S, C)."""
    tried: list[Pixels]
    """Others (N, S, S, C), of several sides S."""
    skipped: int
    """Number of files that could not be read or were too small."""


def pictures(denoiser: Denoiser, data: Path, count: int, tried: int, window: Window | None = None) -> Pictures:
    """Read public pictures for the words of a denoiser.

    Args:
        denoiser: The model: one for pictures of any size gets scenes of several sizes, any other those of its own.
        data: Where the pictures are.
        count: Pictures that words are made from.
        tried: Further pictures, on which recipes are tried.
        window: For pictures of more than eight bits.
    """
    if not denoiser.any_size:
        found = public_pictures.load(data, denoiser.sample_size[0], count + tried, denoiser.channels, window)
        asked = found.pixels[: len(found.pixels) - tried]
        return Pictures(asked, [found.pixels[len(asked) :]], found.skipped)
    side = max(SMALLEST, public_pictures.usual_side(data, SCENE.side, window) // SMALLEST * SMALLEST)
    (squares,), skipped = public_pictures.scenes(data, (Scene(side, side),), 1 << 20, window)
    order = np.random.default_rng(0).permutation(len(squares))
    if len(order) <= tried:
        raise DippError(
            f"data: more than {tried} pictures of at least {side}×{side} are needed, got {len(order)}; "
            "--tried takes fewer"
        )
    others = squares[order[:tried]]
    smaller = [_shrunk(others, size) for size in (SMALLEST, 64, 128) if size < side]
    return Pictures(squares[order[tried : tried + count]], [*smaller, others], skipped)


def _shrunk(pixels: Pixels, side: int) -> Pixels:
    shape = side, side
    return np.stack([np.asarray(Image.fromarray(one).resize(shape, Image.Resampling.LANCZOS)) for one in pixels])


def books(
    denoiser: Any, pixels: Pixels, progress: Progress, bits: Sequence[int] = BITS, sides: Sequence[int] = SIDES
) -> dict[tuple[str, int], Book]:
    """Make all books of a model.

    Args:
        denoiser: The model.
        pixels: Public pictures of one size (N, H, W, C), whose sides are multiples of 32.
        progress: Callback that receives what is being made.
        bits: Bits of the books, `MIDDLE` among them.
        sides: Sides of the cells whose blocks go into the books.

    Returns:
        The books by family and bits.
    """
    found: dict[tuple[str, int], Book] = {}
    middle: list[Asking] = []
    device = denoiser.device
    for count in bits:
        progress(f"{1 << count} words for first questions")
        step = step_of(Recipe(count, rounds=4), count * math.log(2) + MARGIN)
        asked = [Asking(denoiser, Cells(side), pixels) for side in sides]
        for rounds in zip(*(one.rounds(step) for one in asked), strict=True):
            name = rounds[0][0]
            content = np.concatenate([content for _, content, _ in rounds])
            # Where a picture has too few blocks for a round, nobody asks by its words.
            found[name, count] = clustered(content, 1 << count, device) if len(content) else found[RAW, count]
            for _, _, ask in rounds:
                ask(replace(denoiser, books=Books(found, [], "")))
        middle = asked if count == MIDDLE else middle
    for one in middle:
        one.label()
    for name, split in ((AGAIN, 1), (FINER, 2)):
        progress(f"words for questions that are {name}")
        contents = [_later(one, split) for one in middle if one.unit.side % (BLOCK * split) == 0]  # type: ignore[attr-defined]
        for count in bits:
            if contents:
                found[name, count] = clustered(np.concatenate(contents), 1 << count, device)
    return found


def _later(asked: Asking, split: int) -> Floats:
    """Return what blocks differ by from the network's prediction, after one question."""
    return next(asked.rounds(step_of(Recipe(1, split=split), 1.0)))[1]


def clustered(vectors: Floats, count: int, device: str | torch.device = "cpu") -> Book:
    """Return the book of `count` words of Lloyd's algorithm, with the number of vectors that each is nearest to."""
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


def table(denoiser: Denoiser, scenes: Sequence[Pixels], progress: Progress) -> list[dict[str, Any]]:
    """Try recipes on public pictures, for units of several sizes and for several budgets.

    Args:
        denoiser: The model, with its books.
        scenes: Public pictures that no book has seen (N, S, S, C), of several sides S; cells are tried on the largest.
        progress: Callback that receives what is being tried.

    Returns:
        The rows of the table, as JSON has them.
    """
    largest = max(scenes, key=lambda pixels: pixels.shape[1])
    crops = largest[:, : 8 * min(CELLS) * 8, : 8 * min(CELLS) * 8]  # of small cells there are enough in a part
    units: list[tuple[Unit, int, Pixels]] = [
        (Cells(side), side, largest if side >= 32 else crops) for side in CELLS if side <= largest.shape[1] // 2
    ]
    units += [(Picture(), pixels.shape[1], pixels) for pixels in scenes]
    rows: list[Row] = []
    for unit, side, pixels in units:
        for epsilon in EPSILONS:
            found = [row for shape in SHAPES for row in tried(denoiser, unit, side, epsilon, shape, pixels)]
            found.sort(key=lambda row: (row.bits, -row.psnr))
            best = itertools.accumulate((row.psnr for row in found), max, initial=-math.inf)
            rows += [row for row, before in zip(found, best, strict=False) if row.psnr > before + WORTH]
            progress(f"{unit.kind} of {side} at {epsilon:g}: {max((r.psnr for r in found), default=0):.2f} dB")
    return [row.to_dict() for row in rows]


def tried(
    denoiser: Denoiser,
    unit: Unit,
    side: int,
    epsilon: float,
    shape: tuple[int, ...],
    pixels: Pixels,
    coarse: int = COARSE_PIXELS,
) -> Iterator[Row]:
    """Yield what questions of some divisions give within a budget: by words and, for the second of two, by signs.

    Args:
        denoiser: The model, with its books.
        unit: The unit that is asked.
        side: Its side in pixels.
        epsilon: Pure ε of the unit.
        shape: Divisions of the unit by each question.
        pixels: Public pictures (N, H, W, C).
        coarse: Coarse pixels of the pictures that are asked, at most if there are several.
    """
    each = epsilon / sum(split**2 for split in shape)
    alone = len(shape) == 1 and shape[0] == 1
    if not (LEAST <= each <= MOST or (alone and each < LEAST)) or side % (BLOCK * shape[-1]):
        return
    finest = step_of(Recipe(1, split=shape[-1]), 1.0).grid(unit, Geometry.of(pixels.shape[1:]))[1]
    few = max(1, min(coarse // finest.pixels, PIXELS // math.prod(pixels.shape[1:3])))
    asked = Asking(denoiser, unit, pixels[:few])
    recipes: list[Recipe] = []
    for number, split in enumerate(shape[:-1]):
        _asked(asked, recipes, candidates_of(each), split, number, each)
    for signs in (False, True) if len(recipes) == 1 and each > BY_SIGNS else (False,):
        last, met = asked.copy(), list(recipes)
        recipe = candidates_of(each, signs=signs)
        if signs:
            recipe = recipe._replace(scale=sign_scale(asked, recipe._replace(split=shape[-1]), each))
        _asked(last, met, recipe, shape[-1], len(shape) - 1, each)
        error = last.error(last.steps[-1])
        yield Row(unit.kind, side, epsilon, -10 * math.log10(error / 4), tuple(met))


def _asked(asked: Asking, recipes: list[Recipe], recipe: Recipe, split: int, number: int, epsilon: float) -> None:
    """Ask one more question, and write its recipe down."""
    recipes.append(asked_once(asked, recipe._replace(split=split, rounds=1 if number else 4), epsilon))


def asked_once(asked: Asking, recipe: Recipe, epsilon: float) -> Recipe:
    """Ask one more question, and return its recipe with the SNR that the network is told afterwards."""
    asked.ask(step_of(recipe, epsilon))
    return recipe._replace(snr=asked.steps[-1].snr_gain)


def sign_scale(asked: Asking, recipe: Recipe, epsilon: float) -> float:
    """Return the mean product of the chosen signs and the content: the scale of the least squared error."""
    step = step_of(recipe, epsilon)
    _, content, _ = next(asked.rounds(step))
    plan = asked.chain(step).plan
    signs = questions.asked(plan, asked.denoiser, SEED, len(asked.steps), 0).candidates
    blocks = Blocks(content, signs, np.ones_like(content), None, step.weights, Tally())
    chosen = signs[Closest().draw(blocks)]
    return max(float((chosen * content).mean()), 1e-4)
