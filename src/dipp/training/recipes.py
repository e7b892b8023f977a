"""Make the public table of questions: try recipes of questions on public pictures.

Recipes are tried for units of several sizes and budgets, on public pictures from which no book was made. Answers are
really drawn, and the network is told the SNR with which it makes the best picture of them. The rows of the table are
the recipes that no cheaper recipe beats.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dipp.codec import questions
from dipp.codes import Closest
from dipp.core.closest import Tally
from dipp.core.geometry import Geometry
from dipp.core.steps import BLOCK
from dipp.core.unit import Unit
from dipp.core.units import Cells, Picture
from dipp.models.denoiser import Denoiser
from dipp.planning.questions import MOST, Recipe, Row, candidates_of, step_of
from dipp.scoring.blocks import Blocks
from dipp.training.asking import AskedPictures
from dipp.training.sensing import SEED

Pixels = NDArray[np.uint8]
Progress = Callable[[str], None]

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
"""The splits of the questions of each recipe that is tried."""
LEAST = 1.9
"""Least ε of a draw in the recipes that are tried. A single question may have less."""
BY_SIGNS = 6.0
"""ε of a draw above which random signs are also tried for the second of two questions."""
EPSILONS = (0.5, 1.0, 2.0, 4.0, 6.0, 8.0, 12.0, 16.0, 32.0, 64.0, 128.0, 256.0)
COARSE_PIXELS, PIXELS = 1 << 15, 5 << 18
"""Largest numbers of coarse pixels and of pixels on which a recipe is tried, if there is more than one picture."""
CELLS = (4, 8, 16, 32, 64, 128)
"""Sides of the cells that are tried."""
WORTH = 0.05
"""Least gain in dB of a row over each row of fewer bits."""


def table(denoiser: Denoiser, scenes: Sequence[Pixels], progress: Progress) -> list[dict[str, Any]]:
    """Try recipes on public pictures, for units of several sizes and for several budgets.

    Args:
        denoiser: The model, with its books.
        scenes: Public pictures (N, S, S, C) of several sides S, from which no book was made. Cells are tried
            on the largest.
        progress: Callback that receives what is being tried.

    Returns:
        The rows of the table, as JSON has them.
    """
    largest = max(scenes, key=lambda pixels: pixels.shape[1])
    crops = largest[:, : 8 * min(CELLS) * 8, : 8 * min(CELLS) * 8]  # a part has enough small cells
    units: list[tuple[Unit, int, Pixels]] = [
        (Cells(side), side, largest if side >= 32 else crops) for side in CELLS if side <= largest.shape[1] // 2
    ]
    units += [(Picture(), pixels.shape[1], pixels) for pixels in scenes]
    rows: list[Row] = []
    for unit, side, pixels in units:
        for epsilon in EPSILONS:
            tried_rows = [row for shape in SHAPES for row in tried(denoiser, unit, side, epsilon, shape, pixels)]
            tried_rows.sort(key=lambda row: (row.bits, -row.psnr))
            best = itertools.accumulate((row.psnr for row in tried_rows), max, initial=-math.inf)
            rows += [row for row, before in zip(tried_rows, best, strict=False) if row.psnr > before + WORTH]
            progress(f"{unit.kind} of {side} at {epsilon:g}: {max((r.psnr for r in tried_rows), default=0):.2f} dB")
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
    """Ask public pictures by the questions of one recipe, and yield a row of the table for each way of asking.

    All questions are asked by words. The second of two is also asked by random signs if the ε of a draw is large.

    Args:
        denoiser: The model, with its books.
        unit: The unit that is asked.
        side: Side of the unit in pixels.
        epsilon: Pure ε that all questions to a unit cost together.
        shape: The recipe: for each question its split, the number of parts of each side of the unit.
        pixels: uint8 public pictures (N, H, W, C).
        coarse: Largest number of coarse pixels that are asked. One picture is asked whole in any case.

    Yields:
        Rows with the PSNR in dB and the recipes of the questions; none if ε or the side do not suit the recipe.
    """
    each = epsilon / sum(split**2 for split in shape)
    alone = len(shape) == 1 and shape[0] == 1
    if not (LEAST <= each <= MOST or (alone and each < LEAST)) or side % (BLOCK * shape[-1]):
        return
    finest = step_of(Recipe(1, split=shape[-1]), 1.0).grid(unit, Geometry.of(pixels.shape[1:]))[1]
    few = max(1, min(coarse // finest.pixels, PIXELS // math.prod(pixels.shape[1:3])))
    asked = AskedPictures(denoiser, unit, pixels[:few])
    recipes: list[Recipe] = []
    for number, split in enumerate(shape[:-1]):
        _ask_next(asked, recipes, candidates_of(each), split, number, each)
    for signs in (False, True) if len(recipes) == 1 and each > BY_SIGNS else (False,):
        last, met = asked.copy(), list(recipes)
        recipe = candidates_of(each, signs=signs)
        if signs:
            recipe = recipe._replace(scale=sign_scale(asked, recipe._replace(split=shape[-1]), each))
        _ask_next(last, met, recipe, shape[-1], len(shape) - 1, each)
        error = last.error(last.steps[-1])
        yield Row(unit.kind, side, epsilon, -10 * math.log10(error / 4), tuple(met))


def _ask_next(
    asked: AskedPictures, recipes: list[Recipe], recipe: Recipe, split: int, number: int, epsilon: float
) -> None:
    """Ask question `number` with a split, and add its recipe to `recipes`. The first question has four rounds."""
    recipes.append(asked_once(asked, recipe._replace(split=split, rounds=1 if number else 4), epsilon))


def asked_once(asked: AskedPictures, recipe: Recipe, epsilon: float) -> Recipe:
    """Ask one more question, and return its recipe with the SNR that the network is told afterwards.

    Args:
        asked: The pictures that are asked.
        recipe: The recipe of the question.
        epsilon: ε of each draw.

    Returns:
        The recipe with the SNR.
    """
    asked.ask(step_of(recipe, epsilon))
    return recipe._replace(snr=asked.steps[-1].snr_gain)


def sign_scale(asked: AskedPictures, recipe: Recipe, epsilon: float) -> float:
    """Return the factor of random signs that brings them closest to the content: the mean product of the two.

    Args:
        asked: The pictures that are asked.
        recipe: The recipe of the question.
        epsilon: ε of each draw.
    """
    step = step_of(recipe, epsilon)
    _, content, _ = next(asked.rounds(step))
    plan = asked.chain(step).plan
    signs = questions.asked(plan, asked.denoiser, SEED, len(asked.steps), 0).candidates
    blocks = Blocks(content, signs, np.ones_like(content), None, step.weights, Tally())
    chosen = signs[Closest().draw(blocks)]
    return max(float((chosen * content).mean()), 1e-4)
