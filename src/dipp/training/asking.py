"""Ask public pictures question after question, like private ones, and measure what the answers show."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dipp.codec import questions
from dipp.codec.chain import Chain
from dipp.codec.encoder import Selector
from dipp.core.arrays import Array, colours_last
from dipp.core.chunking import StepCoordinates
from dipp.core.geometry import Geometry
from dipp.core.plan import Plan
from dipp.core.signal import to_signal
from dipp.core.steps import Question
from dipp.core.unit import Unit
from dipp.models.books import family
from dipp.models.denoiser import Denoiser
from dipp.planning.planner import short_floats
from dipp.planning.questions import CODING
from dipp.training.sensing import SEED

Floats = NDArray[np.float32]
Pixels = NDArray[np.uint8]

LABELS = tuple(2.0**i for i in range(-3, 2))
"""SNRs that are tried for the network, multiplied by the mean squared error of the answers."""


@dataclass(eq=False)
class AskedPictures:
    """Public pictures of one size, and the questions that they have answered so far."""

    denoiser: Denoiser
    unit: Unit
    pixels: Pixels
    """uint8 pictures (N, H, W, C)."""
    steps: list[Question] = field(default_factory=list)
    state: Any = None
    """State of the chain after the last question. None before the first question."""

    @property
    def geometry(self) -> Geometry:
        """Geometry of the pictures."""
        return Geometry.of(self.pixels.shape[1:])

    @property
    def flat(self) -> Pixels:
        """The pictures as an array (N, H·W·C)."""
        return self.pixels.reshape(len(self.pixels), -1)

    def chain(self, *more: Question) -> Chain:
        """Return the chain of the questions so far, followed by `more`."""
        return Chain(Plan(CODING, (*self.steps, *more), unit=self.unit), self.denoiser, SEED, self.geometry)

    def rounds(self, step: Question) -> Iterator[tuple[str, Floats, Callable[[Denoiser], None]]]:
        """Ask one more question, round by round.

        Args:
            step: The question.

        Yields:
            For each round the family of its words, the content of its blocks (an array of blocks × dimensions), and a
            function that asks them. Call that function with a denoiser that has the words, before you take the next
            round.
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
                noise = chain.noise(layout, select(layout, np.broadcast_to(known, (len(self.pixels), known.shape[1]))))
                state = chain.trajectory.advance(number, state, x_hat, noise, turn)

            yield family(steps, number, turn), content, ask
        self.steps.append(step)
        self.state = state

    def _content(self, step: Question, turn: int, x_hat: Array) -> tuple[Floats, Floats]:
        """Return the content of a round's blocks (blocks × dimensions), and the prediction of their coordinates."""
        unit, grid = step.grid(self.unit, self.geometry)
        deal = CODING.code.deal
        chunks = deal.chunks(SEED, StepCoordinates(0, step, np.arange(grid.coordinates), unit, grid), apart=True)
        chunks = chunks.in_round(turn) if step.turns > 1 else chunks
        predicted = colours_last(x_hat).reshape(len(x_hat), -1)[:, chunks.order]
        residuals = questions.coarse(self.flat, self.geometry, self.unit, step)[:, chunks.order] - predicted
        return questions.content(residuals, chunks, grid)[0], predicted

    def copy(self) -> AskedPictures:
        """Return a copy that can be asked other questions."""
        return replace(self, steps=list(self.steps))

    def ask(self, step: Question) -> None:
        """Ask one more question by the denoiser's words, and give it the best SNR to tell the network (`label`)."""
        for _, _, answer in self.rounds(step):
            answer(self.denoiser)
        self.label()

    def label(self) -> None:
        """Give the last question the SNR with which the network makes the best picture of the answers."""
        truth = questions.coarse(self.flat, self.geometry, self.unit, self.steps[-1])
        answered = colours_last(self.state).reshape(len(self.pixels), -1)
        error = max(float(np.square(answered - truth).mean()), 1e-6)
        tried = [self._labelled(factor / error) for factor in LABELS]
        self.steps[-1] = min(tried, key=self.error)

    def _labelled(self, snr: float) -> Question:
        return replace(self.steps[-1], snr_gain=float(short_floats(np.array([snr]))[0]))

    def error(self, last: Question) -> float:
        """Return the mean squared error of the picture from the answers, with `last` in place of the last question."""
        plan = Plan(CODING, (*self.steps[:-1], last), unit=self.unit)
        trajectory = Chain(plan, self.denoiser, SEED, self.geometry).trajectory
        picture = colours_last(trajectory.expected(len(self.steps), self.state))
        return float(np.square(picture - to_signal(self.pixels)).mean())
