"""PrivUnitG in place of words: dipp's questions, rounds and network, with one Gaussian answer about each block.

Each block of coarse pixels is compared with its prediction as in dipp (`codec.questions`). In place of a word, a
receiver gets one answer of PrivUnitG (`privunit`) about the difference, at the ε of the draw and with as many bits as
it takes. An answer means the difference that is expected given this answer, by a linear regression on public pictures
that are asked alike. The norm to which differences are shortened is the best of three on public pictures; so is the SNR
that the network is given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dipp.codec import questions
from dipp.codec.grids import rounds
from dipp.codec.pictures import Pixels
from dipp.codec.trajectory import Answers
from dipp.core.arrays import alike, colours_last, host
from dipp.core.geometry import Geometry
from dipp.core.plan import Plan
from dipp.core.signal import to_signal
from dipp.core.steps import BLOCK, SIGNS, Question
from dipp.core.unit import Unit
from dipp.models.denoiser import Denoiser
from dipp.planning.questions import CODING
from dipp.training.asking import LABELS
from experiments.comparisons import privunit
from experiments.comparisons.units import RADII, shown

Floats = NDArray[np.float64]


def released(
    steps: Sequence[Question],
    epsilon: float,
    unit: Unit,
    denoiser: Denoiser,
    public: Pixels,
    pixels: Pixels,
    generator: np.random.Generator,
    judged: int = 128,
) -> Pixels:
    """Return what a receiver sees of pictures after all questions, answered by PrivUnitG.

    Args:
        steps: dipp's questions to the unit. Coarse pictures must have whole blocks.
        epsilon: ε of each answer.
        unit: The unit that is asked.
        denoiser: The denoiser.
        public: Public pictures (N, H, W, C), of the size of the private ones.
        pixels: Private pictures (N, H, W, C).
        generator: Draws the answers.
        judged: Number of public pictures on which the SNR is chosen.
    """
    geometry, sets, done = Geometry.of(pixels.shape[1:]), (public, pixels), list[Question]()
    # With random signs, no answer can be mistaken for another word.
    own = [replace(step, candidate=SIGNS) for step in steps]
    states: list[Any] = [_after(own[:1], unit, denoiser, geometry).start(bytes(16), geometry)] * 2
    for number, step in enumerate(own):
        trajectory, grid = _after([*done, step], unit, denoiser, geometry), step.grid(unit, geometry)[1]
        flat = [questions.coarse(one.reshape(len(one), -1), geometry, unit, step) for one in sets]
        truths = [one.reshape(-1, grid.height, grid.width, grid.channels) for one in flat]
        asked = rounds(grid, step.turns)[::BLOCK, ::BLOCK].reshape(-1)
        for turn in range(step.turns):
            predicted = [trajectory.predict(number, state, turn) for state in states]
            content = [_blocks(truth - host(colours_last(x))) for truth, x in zip(truths, predicted, strict=True)]
            if not (asked == turn).any():
                continue
            told = answers(content[0][:, asked == turn], content[1][:, asked == turn], epsilon, generator)
            for place, (x_hat, meaning) in enumerate(zip(predicted, told, strict=True)):
                found = np.zeros_like(content[place])
                found[:, asked == turn] = meaning
                noise = alike(_unfolded(found, grid), x_hat)
                states[place] = trajectory.advance(number, states[place], x_hat, noise, turn)
        error = max(float(np.square(host(colours_last(states[0])) - truths[0]).mean()), 1e-6)
        few, truth = states[0][:judged], to_signal(public[:judged])
        tried = [replace(step, snr_gain=float(np.float32(factor / error))) for factor in LABELS]
        pictures = [_after([*done, one], unit, denoiser, geometry).expected(number + 1, few) for one in tried]
        errors = [float(np.square(host(colours_last(picture)) - truth).mean()) for picture in pictures]
        done.append(tried[int(np.argmin(errors))])
    return shown(_after(done, unit, denoiser, geometry).expected(len(done), states[1]))


def answers(public: Floats, private: Floats, epsilon: float, generator: np.random.Generator) -> tuple[Floats, Floats]:
    """Return what PrivUnitG's answers about public and private blocks mean, each pictures × blocks × dimensions."""
    mean = public.reshape(-1, public.shape[-1]).mean(0)
    centred = [(one - mean).reshape(-1, one.shape[-1]) for one in (public, private)]
    found: list[tuple[float, float, Floats, Floats]] = []
    for radius in np.quantile(np.linalg.norm(centred[0], axis=1), RADII).tolist():
        seen = privunit.released(centred[0], radius, epsilon, generator)
        expected = np.linalg.lstsq(seen, centred[0], rcond=None)[0]
        found.append((float(np.square(seen @ expected - centred[0]).mean()), radius, seen @ expected, expected))
    _, radius, meant, expected = min(found, key=lambda one: one[0])
    own = privunit.released(centred[1], radius, epsilon, generator) @ expected
    return (meant + mean).reshape(public.shape), (own + mean).reshape(private.shape)


def _after(steps: Sequence[Question], unit: Unit, denoiser: Denoiser, geometry: Geometry) -> Answers:
    return Answers(Plan(CODING, tuple(steps), unit=unit), denoiser, geometry)


def _blocks(values: NDArray[Any]) -> Floats:
    """Return coarse pictures (N, H, W, C) as pictures × blocks × dimensions."""
    count, height, width, channels = values.shape
    folded = values.reshape(count, height // BLOCK, BLOCK, width // BLOCK, BLOCK, channels).transpose(0, 1, 3, 2, 4, 5)
    return folded.reshape(count, -1, BLOCK**2 * channels).astype(np.float64)


def _unfolded(values: Floats, grid: Geometry) -> NDArray[np.float32]:
    """Return pictures × blocks × dimensions as coarse pictures (N, C, H, W)."""
    shape = len(values), grid.height // BLOCK, grid.width // BLOCK, BLOCK, BLOCK, grid.channels
    folded = values.reshape(shape).transpose(0, 5, 1, 3, 2, 4)
    return np.ascontiguousarray(folded.reshape(len(values), grid.channels, grid.height, grid.width), np.float32)
