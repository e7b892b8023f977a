"""Neighbours: pairs of images that differ in one unit, from harmless ones to those that an adversary would choose.

Images are rows of coordinates; the number of a coordinate is pixel·C + channel.

**Why adversarial pairs reach the claim.** *Codes that search:* ln P[k | x]/P[k | x'] is the change of u_k less the
change of ln Σ exp u. If the other pixels favour one candidate j so much that it has nearly all the mass, the sum
changes as u_j does. Let the pixel change u_j by −s and u_k by +s: the loss is nearly 2s, all that is claimed. *Pairs:*
each coordinate is a chunk, and no other pixel influences it; black and white are at the two ends of the clip.

*Clipped shifts* move by all of 2M only if the prediction leaves room for it on both sides, |c| ≤ A(1) − M. So the
adversary takes the pixel whose predictions leave most room, among the dearest pixels.

*Small changes* lose most below the upper end of the clip: there the whole change counts, and there the − of a pair is
least likely.

*Questions:* every draw costs the same, as soon as one of the nearest candidates is another. So one unit goes from black
to white, and the others show noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from dipp import scoring
from dipp.codec.chain import Chain, StepLayout
from dipp.codec.encoder import Selector
from dipp.core.plan import Plan
from dipp.core.signal import SIGNAL_OF_PIXEL, to_levels
from dipp.core.steps import Question, SensingStep, Step

Pixels = NDArray[np.uint8]
"""uint8: an image as a row of coordinates, or several such rows."""
Predictions = Sequence[NDArray[np.float32]]
"""x̂0 of the coordinates that each step touches, for each step."""

LARGEST = 255
"""Grey levels from black to white."""
SPARE = 9.0
"""Nats by which an adversarial image favours its candidate beyond need, so that all others together keep e^−9 of the
mass."""
BALANCED = -9.0
"""Nats by which balanced pairs favour a candidate: negative, so that no candidate is favoured."""
UNCERTAIN, DOUBT = 0.3, 0.1
"""Possible errors of a guess of x̂0, which is not known when an adversarial image is made: without the predictions of
an earlier encoding, and with them."""


def random_pair(chain: Chain, generator: np.random.Generator) -> tuple[Pixels, Pixels]:
    """Return an image of noise, and the same image with other values in one unit.

    Args:
        chain: A chain, whose plan and geometry name the units.
        generator: Generator of the noise and of the unit.

    Returns:
        Two rows of coordinates, uint8.
    """
    x = generator.integers(0, 256, chain.geometry.coordinates, np.uint8)
    y, unit = x.copy(), _unit(chain, generator)
    y[unit] = generator.integers(0, 256, len(unit), np.uint8)
    return x, y


def extreme_pair(chain: Chain, generator: np.random.Generator) -> tuple[Pixels, Pixels]:
    """Return a black, white or randomly mixed image with one unit black, and the same image with that unit white.

    Args:
        chain: A chain, whose plan and geometry name the units.
        generator: Generator of the image and of the unit.

    Returns:
        Two rows of coordinates, uint8.
    """
    light = generator.choice([0.0, 0.5, 1.0])
    x = np.where(generator.random(chain.geometry.coordinates) < light, 255, 0).astype(np.uint8)
    y, unit = x.copy(), _unit(chain, generator)
    x[unit], y[unit] = 0, 255
    return x, y


def grey_pair(chain: Chain, generator: np.random.Generator, level: float = 128) -> tuple[Pixels, Pixels]:
    """Return a grey image, and the same image with one white unit, which is farther from its prediction.

    Args:
        chain: A chain, whose plan and geometry name the units.
        generator: Generator that chooses the unit.
        level: Grey level, from 0 to 255; 128 by default. If it is not whole, a share of the coordinates has the level
            below it, and the others have the level above.

    Returns:
        Two rows of coordinates, uint8.
    """
    dims = chain.geometry.coordinates
    x = np.floor(level + np.arange(dims) / dims).astype(np.uint8)
    y = x.copy()
    y[_unit(chain, generator)] = 255
    return x, y


def _unit(chain: Chain, generator: np.random.Generator) -> NDArray[np.int64]:
    """Return the coordinates of a random unit, among the units that some step touches."""
    unit = chain.plan.unit
    grids = [(layout, *layout.step.grid(unit, chain.geometry)) for layout in _layouts(chain)]
    touched = np.unique(np.concatenate([region.of(layout.all_chunks.order, grid) for layout, region, grid in grids]))
    return np.flatnonzero(unit.ids(chain.geometry) == generator.choice(touched))


def _layouts(chain: Chain) -> list[StepLayout]:
    """Return the public layout of each step."""
    return [chain.layout(number, [0]) for number in range(len(chain.plan.steps))]


def adversarial_pair(
    chain: Chain,
    generator: np.random.Generator,
    spare: float | None = None,
    predictions: Predictions | None = None,
    change: int = LARGEST,
) -> tuple[Pixels, Pixels]:
    """Return images that differ in one unit, as an adversary would choose them for a kind of steps.

    Args:
        chain: A chain, whose plan names the kind of steps.
        generator: Generator of the choices that do not matter.
        spare: Nats by which a candidate is favoured beyond its rivals' chances; by default as many as reach the claim.
            Questions ignore it.
        predictions: x̂0 of each step, as an earlier encoding showed it; by default grey is assumed. Questions ignore
            it.
        change: Grey levels by which each value of the unit differs; 255 by default.

    Returns:
        Two rows of coordinates, uint8: the darker one first.
    """
    return ADVERSARIES[chain.plan.kind](chain, generator, spare, predictions, change)


def _noisy_pair(
    chain: Chain,
    generator: np.random.Generator,
    spare: float | None,  # noqa: ARG001
    predictions: Predictions | None,  # noqa: ARG001
    change: int,
) -> tuple[Pixels, Pixels]:
    """Return two images of the same noise, except for one unit, which is dark in one image and lighter in the other."""
    dark = generator.integers(0, 256, chain.geometry.coordinates, np.uint8)
    light, unit = dark.copy(), _unit(chain, generator)
    dark[unit] = (LARGEST - change) // 2
    light[unit] = dark[unit] + np.uint8(change)
    return dark, light


def _favoured_pair(
    chain: Chain,
    generator: np.random.Generator,
    spare: float | None,
    predictions: Predictions | None,
    change: int,
) -> tuple[Pixels, Pixels]:
    """Return two images that differ in the pixel that pays most, while other pixels favour a candidate in its chunks.

    The adversary knows everything that is public: masks, chunks, candidates and the denoiser, whose `predictions` an
    earlier encoding may have shown (None: grey is assumed). Every coordinate serves one step only, so that a single
    image suits all steps; coordinates that are not needed have their predicted value, which favours no candidate.
    `spare` is the nats by which the candidate is favoured beyond its rivals' chances (None: as many as reach the
    claim), and `change` the grey levels by which the pixel differs.
    """
    channels, layouts = chain.geometry.channels, _layouts(chain)
    guesses = predictions or [np.zeros(len(layout.chunks.order), np.float32) for layout in layouts]
    pixel = _dearest(chain, guesses, generator)
    own = np.arange(channels * pixel, channels * (pixel + 1))
    light = np.full(chain.geometry.coordinates, 128, np.uint8)
    for layout, guess in zip(layouts, guesses, strict=True):
        light[layout.chunks.order] = to_levels(guess)
        mine = np.isin(layout.chunks.order, own)
        light[layout.chunks.order[mine]] = _highest(layout, guess[mine])
    light[own] = np.maximum(light[own], change)
    dark = light.copy()
    dark[own] -= np.uint8(change)
    if chain.plan.code.alone:
        return dark, light
    free = np.ones(len(dark), np.bool_)
    free[own] = False
    # For a small change, the possible error of a guess matters less.
    doubt = (DOUBT if predictions else UNCERTAIN) * change / LARGEST
    for layout, guess in zip(layouts, guesses, strict=True):
        if not layout.chunks.count:
            continue
        tasks = [_uncertain(chain, layout, image, guess, doubt) for image in (dark, light)]
        met = np.add.reduceat(np.isin(layout.chunks.order, own).astype(np.int64), layout.offsets[:-1])
        for chunk in np.flatnonzero(met).tolist():
            # The candidate that dark favours least against light; the first of several, as in the Poisson order.
            scores = [np.sum([_scores(task, chunk) for task in pair], axis=0) for pair in tasks]
            favoured = int(np.argmin(scores[0] - scores[1]))
            nat = math.log(2) * 2.0**-layout.arithmetic.fraction_bits
            rivals = math.log(layout.step.candidates)
            if (order := tasks[0][0].order) is not None:
                rivals += (int(order.max()) - int(order[favoured])) * nat
            need = 2 * _price(chain.plan, layout, int(met[chunk])) + SPARE if spare is None else spare
            coordinates, values = _favouring(layout, guess, chunk, favoured, free, (rivals + need) / nat)
            dark[coordinates] = light[coordinates] = values
            free[coordinates] = False
    return dark, light


ADVERSARIES = {Step.kind: _favoured_pair, SensingStep.kind: _favoured_pair, Question.kind: _noisy_pair}
"""The function that makes adversarial pairs, for each kind of steps."""


def balanced_pair(chain: Chain, generator: np.random.Generator) -> tuple[Pixels, Pixels]:
    """Return an adversarial pair whose other pixels favour no candidate.

    So the differing pixel raises about half of the probability, and lowers the other half.

    Args:
        chain: A chain, whose plan names the kind of steps.
        generator: Generator of the choices that do not matter.
    """
    return adversarial_pair(chain, generator, BALANCED)


def _price(plan: Plan, layout: StepLayout, touched: int = 1) -> float:
    """Return the ε of a private draw (selection) in which `touched` coordinates of a pixel take part."""
    return plan.code.price(plan.terms(layout.step), touched, touched == 1).epsilon


def _dearest(chain: Chain, guesses: Predictions, generator: np.random.Generator) -> int:
    """Return one of the pixels that lose most privacy.

    The price of each step counts in proportion to how far the prediction lets the pixel's shift move.

    Args:
        chain: The chain that encodes.
        guesses: Guessed predictions of the coordinates that each step touches.
        generator: Generator that chooses among equal pixels.
    """
    channels, pixels = chain.geometry.channels, chain.geometry.pixels
    spent = np.zeros(pixels)
    for layout, guess in zip(_layouts(chain), guesses, strict=True):
        arithmetic, centres = layout.arithmetic, layout.arithmetic.centres(guess)
        room = arithmetic.clipped(arithmetic.level_of_one - centres) - arithmetic.clipped(
            -arithmetic.level_of_one - centres
        )
        worth = _price(chain.plan, layout) * room / arithmetic.sensitivity
        spent += np.bincount(layout.chunks.order // channels, worth, minlength=pixels)
    return int(generator.choice(np.flatnonzero(spent > spent.max() * (1 - 1e-12))))


def _highest(layout: StepLayout, guess: NDArray[np.float32]) -> NDArray[np.int64]:
    """Return the highest pixel value at which the shift of each coordinate is not clipped; white if nothing is clipped.

    `guess` is the prediction of each coordinate.
    """
    arithmetic = layout.arithmetic
    largest = arithmetic.centres(guess) + arithmetic.limit
    return np.asarray(np.searchsorted(arithmetic.levels(SIGNAL_OF_PIXEL), largest, side="right") - 1, np.int64)


def _uncertain(
    chain: Chain, layout: StepLayout, image: Pixels, guess: NDArray[np.float32], doubt: float
) -> list[scoring.ScoringTask]:
    """Return two scoring tasks of an image: for predictions that are darker and lighter than `guess` by `doubt`."""
    selector = Selector(chain.plan, chain.seed, image[None], "cpu")
    guesses = (np.clip(guess[None] + side, -1, 1).astype(np.float32) for side in (-doubt, doubt))
    return [selector.task(layout, torch.from_numpy(x_hat)) for x_hat in guesses]


def _scores(task: scoring.ScoringTask, chunk: int) -> NDArray[np.int64]:
    """Return the scores of all candidates of one chunk."""
    scores: NDArray[np.int64] = np.asarray(scoring.backend("cpu").scores(task.part(chunk, chunk + 1)), np.int64)[0]
    return scores


def _favouring(
    layout: StepLayout,
    guess: NDArray[np.float32],
    chunk: int,
    candidate: int,
    free: NDArray[np.bool_],
    units: float,
) -> tuple[NDArray[np.int64], Pixels]:
    """Return coordinates of a chunk, and pixel values for them that together raise a candidate's score by `units`.

    Args:
        layout: The public layout of the step.
        guess: The prediction of each coordinate that the step touches.
        chunk: Number of the chunk.
        candidate: Number of the candidate.
        free: For each coordinate of the image, whether it may be chosen.
        units: Required increase of the score.
    """
    arithmetic, part = layout.arithmetic, slice(*layout.chunks.offsets[chunk : chunk + 2])
    coordinates = layout.chunks.order[part]
    streams, offsets = layout.streams[chunk : chunk + 1], np.array([0, len(coordinates)])
    drawn = scoring.backend("cpu").winners(arithmetic.law, streams, offsets, np.array([candidate]))
    light = arithmetic.channel.sample(drawn) > 0
    level = np.where(light, arithmetic.level_of_one, -arithmetic.level_of_one).astype(np.int32)
    shifts = arithmetic.clipped(level - arithmetic.centres(guess[part]))
    gains = np.where(free[coordinates], arithmetic.law.score(drawn, shifts), 0)
    best = np.argsort(-gains, kind="stable")
    used = best[: int(np.searchsorted(np.cumsum(gains[best]), units)) + 1]
    used = used[gains[used] > 0]
    return coordinates[used], np.where(light[used], 255, 0).astype(np.uint8)
