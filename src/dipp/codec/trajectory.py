"""Trajectories: how the public state of a picture moves along a plan, from the start to the last step.

For each step, a trajectory computes the prediction x̂0 by the denoiser, and then the next state from the step's noise z,
which has unit variance over all coordinates and is 0 where the step does not touch. Everything here is public.

| trajectory | plan | state | start |
|---|---|---|---|
| `Diffusion` | steps along timesteps | x_t, of the noise schedule | x_T, common randomness |
| `Sensing` | steps of clipped sensing | y, an estimate of x0 with noise of power 1/SNR | mid-grey at SNR 0 |
| `Answers` | questions | estimates of the coarse pixels | mid-grey |
| `told.RegionAnswers` | questions to regions | estimates of the coarse pixels of regions | the painted picture |

**Sensing.** With the SNR s before a step and the gain g of the step, the next state is the precision-weighted mean of
the state and of the new observation x̂0 + z/√g:

    y ← (s·y + g·x̂0 + √g·z)/(s + g),      s ← s + g.

For a network that takes answers (`models.evidence`), the state has two further groups of channels: the prediction that
each coordinate was last compared with, and its answer.

SNRs are sums of gains, and lie between timesteps; a denoiser that knows timesteps alone takes the nearest. Before the
first step nothing is known: the prediction is mid-grey, x̂0 = 0, and the network is not called.

A step of level ℓ is predicted at a lower resolution: the network gets the means of y over 2^ℓ × 2^ℓ pixels, whose noise
has the power 1/(4^ℓ·s), and its prediction is interpolated to all pixels. At low SNRs this prediction is better, and
takes 1/4^ℓ of the time. The means include pixels that no step has touched, because y already weighs predictions against
answers. The network gets answers at full resolution alone.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from dipp.codec import questions
from dipp.codec.grids import Cuts, averaged, between, interpolated, pooled, rounds, squares, steadied
from dipp.codec.pictures import Pixels
from dipp.codec.questions import RoundCandidates
from dipp.core.arrays import Array, alike, library
from dipp.core.geometry import Geometry
from dipp.core.plan import Plan
from dipp.core.steps import WORDS, Question, SensingStep, Step
from dipp.models import diffusion
from dipp.models.denoiser import Denoiser, Numbers
from dipp.models.evidence import Evidence, answered

BAND = 1 << 16
"""Largest number of pixels whose state is updated at a time, in bands of rows."""


class Trajectory(ABC):
    """The rules by which the public state moves along a plan."""

    @abstractmethod
    def start(self, seed: bytes, geometry: Geometry) -> Array:
        """Return the state (1, C, H, W) before the first step, which all images of a geometry share.

        Args:
            seed: The public seed, 16 bytes.
            geometry: Geometry of the coded images.
        """

    def asked(self, seed: bytes, number: int, turn: int) -> RoundCandidates | None:  # noqa: ARG002
        """Return the candidates of one round of a question; None for other steps.

        Args:
            seed: The public seed, 16 bytes.
            number: Number of the step, from 0.
            turn: Number of the round, from 0.
        """
        return None

    @abstractmethod
    def predict(self, number: int, state: Array, turn: int = 0) -> Array:
        """Return the prediction x̂0 (N, C, H, W) before one round of a step, on the step's grid.

        Args:
            number: Number of the step, from 0.
            state: The state before the round (N, C', H, W).
            turn: Number of the round, from 0.
        """

    @abstractmethod
    def advance(self, number: int, state: Array, x_hat: Array, noise: Array, turn: int = 0) -> Array:
        """Return the state after one round of a step. The given state may be overwritten.

        Args:
            number: Number of the step, from 0.
            state: The state before the round.
            x_hat: The prediction that `predict` returned.
            noise: The noise z of the round, of the shape of the prediction.
            turn: Number of the round, from 0.
        """

    @abstractmethod
    def timestep(self, steps: int) -> int:
        """Return the timestep of the noise schedule that the state after `steps` steps is nearest to.

        Args:
            steps: Number of steps that were made.
        """

    @abstractmethod
    def noisy(self, steps: int, state: Array) -> tuple[Array, int]:
        """Return the state after `steps` steps as x_t of the noise schedule, and its timestep, for samplers.

        Args:
            steps: Number of steps that were made.
            state: The state (N, C, H, W).
        """

    @abstractmethod
    def expected(self, steps: int, state: Array) -> Array:
        """Return the expected picture after `steps` steps, by one call of the denoiser.

        Args:
            steps: Number of steps that were made.
            state: The state (N, C, H, W).
        """


@dataclass(frozen=True, eq=False)
class Diffusion(Trajectory):
    """The trajectory along timesteps, whose states x_t are those of the denoiser's noise schedule."""

    steps: Sequence[Step]
    """The steps of the plan."""
    denoiser: Denoiser
    """The denoiser."""

    def __post_init__(self) -> None:
        for step in self.steps:
            self.denoiser.schedule.require_gain(step.start, step.end, step.snr_gain)

    def start(self, seed: bytes, geometry: Geometry) -> Array:
        """Return the noise x_T with which the reverse process starts; it is common randomness alone."""
        shape = geometry.channels, geometry.height, geometry.width
        return self.denoiser.placed(np.float32(self.denoiser.schedule.first) * diffusion.start(seed, shape)[None])

    def predict(self, number: int, state: Array, turn: int = 0) -> Array:  # noqa: ARG002
        """Return the pictures x̂0 predicted from the state, at the timestep where the step starts."""
        return self.denoiser.x0(state, self.steps[number].start)

    def advance(self, number: int, state: Array, x_hat: Array, noise: Array, turn: int = 0) -> Array:  # noqa: ARG002
        """Return the next state x_s of the reverse process, with the noise z (`Transition.next_state`)."""
        step = self.steps[number]
        return self.denoiser.schedule.step(step.start, step.end).next_state(state, x_hat, noise)

    def timestep(self, steps: int) -> int:
        """Return the timestep at which the last of `steps` steps ends."""
        return (self.steps[0].start, *(step.end for step in self.steps))[steps]

    def noisy(self, steps: int, state: Array) -> tuple[Array, int]:
        """Return the state itself, and its timestep."""
        return state, self.timestep(steps)

    def expected(self, steps: int, state: Array) -> Array:
        """Return the pictures x̂0 predicted from the state, at the timestep after `steps` steps."""
        return self.denoiser.x0(*self.noisy(steps, state), fast=True)


@dataclass(frozen=True, eq=False)
class Sensing(Trajectory):
    """The trajectory of sensing, whose states y are estimates of the picture, each at an SNR of its own."""

    steps: Sequence[SensingStep]
    """The steps of the plan."""
    denoiser: Denoiser
    """The denoiser."""

    def snr(self, steps: int) -> float:
        """Return the SNR after `steps` steps: the exact sum of their gains."""
        return math.fsum(step.snr_gain for step in itertools.islice(self.steps, steps))

    def start(self, seed: bytes, geometry: Geometry) -> Array:  # noqa: ARG002
        """Return the first state, which is mid-grey: at SNR 0, nothing is known."""
        planes = 3 if self._takes_answers else 1
        shape = 1, planes * geometry.channels, geometry.height, geometry.width
        return self.denoiser.placed(np.zeros(shape, np.float32))

    def predict(self, number: int, state: Array, turn: int = 0) -> Array:  # noqa: ARG002
        """Return mid-grey before the first step, and then the denoiser's prediction at the step's resolution."""
        y, snr, side = self._parts(state)[0], self.snr(number), 1 << self.steps[number].level
        if side == 1 or not number:
            return self.fully(number, state)
        coarse = self.denoiser.predict(Evidence(averaged(y, side), snr * side**2))
        return interpolated(coarse, *(Cuts(*(squares(length, s) for length in y.shape[2:])) for s in (side, 1)))

    def advance(self, number: int, state: Array, x_hat: Array, noise: Array, turn: int = 0) -> Array:  # noqa: ARG002
        """Return the next state: the mean of state and new observation, weighted by their SNRs.

        The given state is overwritten, in bands of rows that take little further memory, unless it has fewer images
        than the noise.
        """
        before, gain = self.snr(number), self.steps[number].snr_gain
        total = before + gain
        if len(state) < len(noise):  # all images have shared it so far
            state = library(state).tile(state, (len(noise), 1, 1, 1))
        height, width = noise.shape[2:]
        rows = max(1, BAND // width)
        for band in (slice(first, first + rows) for first in range(0, height, rows)):
            y, *told = (part[:, :, band] for part in self._parts(state))
            z, prediction = noise[:, :, band], x_hat[:, :, band]
            mean = (math.sqrt(gain) / total) * z
            mean += (gain / total) * prediction
            mean += (before / total) * y
            if told:
                compared, answers = told
                touched, lib = z != 0, library(z)
                compared[...] = lib.where(~touched & (answers != 0), compared, prediction)
                answers[...] = lib.where(touched, answered(z, gain, before), answers)
            y[...] = mean
        return state

    def timestep(self, steps: int) -> int:
        """Return the timestep whose SNR is nearest to that after `steps` steps; the last one after no step."""
        schedule = self.denoiser.schedule
        return schedule.nearest(self.snr(steps)) if steps else len(schedule) - 1

    def noisy(self, steps: int, state: Array) -> tuple[Array, int]:
        """Return the state y times γ_t, as a state of the noise schedule, and the timestep t whose SNR is nearest."""
        t = self.timestep(steps)
        return self.denoiser.schedule.gamma(t) * self._parts(state)[0], t

    def expected(self, steps: int, state: Array) -> Array:
        """Return the pictures x̂0 predicted from the state, at the SNR after `steps` steps."""
        return self.fully(steps, state, Numbers.FAST)

    def fully(self, steps: int, state: Array, numbers: Numbers = Numbers.SENSING) -> Array:
        """Return the prediction (N, C, H, W) at full resolution after `steps` steps; mid-grey after no step.

        Args:
            steps: Number of steps that were taken.
            state: The state after them.
            numbers: Precision of the network.
        """
        y, *told = self._parts(state)
        if not steps:
            return library(y).zeros_like(y)  # not y itself, which `advance` changes
        return self.denoiser.predict(Evidence(y, self.snr(steps), None, 0.0, *told), numbers)

    @property
    def _takes_answers(self) -> bool:
        """Whether the network takes answers beside the state."""
        return "answer" in self.denoiser.planes

    def _parts(self, state: Array) -> Sequence[Array]:
        """Return views of the state: y and, if the network takes answers, what was last compared and the answers."""
        if not self._takes_answers:
            return (state,)
        channels = state.shape[1] // 3
        return [state[:, first : first + channels] for first in range(0, 3 * channels, channels)]


@dataclass(frozen=True, eq=False)
class Answers(Trajectory):
    """The trajectory of questions, whose states are estimates of the coarse pixels of the last question's grid.

    Before the first question nothing is known. In later rounds of that question, a block is predicted from the
    neighbours that have answered: by their mean, weighted by a Gaussian of the block's size. Before every later
    question the network predicts the coarse picture from all answers so far, and the prediction is interpolated to
    the finer grid. Words that are unlikely beside their neighbours are first moved towards these
    (`grids.steadied`).

    A network that was trained on pictures of any size predicts at the resolution of the answers. For any other network
    they are first interpolated to the picture's own size. The network takes `Question.snr_gain` as their SNR.
    """

    plan: Plan
    """A plan of questions."""
    denoiser: Denoiser
    """The denoiser."""
    geometry: Geometry
    """Geometry of the pictures."""

    def start(self, seed: bytes, geometry: Geometry) -> Array:  # noqa: ARG002
        """Return the first state, which is mid-grey at the picture's size."""
        return self._nothing(geometry)

    def asked(self, seed: bytes, number: int, turn: int) -> RoundCandidates:
        """Return the candidates of a round of a question: words of the model's books, or random signs."""
        return questions.asked(self.plan, self.denoiser, seed, number, turn)

    def predict(self, number: int, state: Array, turn: int = 0) -> Array:
        """Return the prediction of the coarse pixels of a question's grid."""
        if number and not turn:
            return self._picture(number, state, self._cuts(number))
        grid = self._grid(number)
        if not turn:
            return self._nothing(grid)
        return between(state, alike(rounds(grid, self.plan.steps[number].turns) < turn, state))

    def advance(self, number: int, state: Array, x_hat: Array, noise: Array, turn: int = 0) -> Array:
        """Return the estimates after a round. An asked block has the prediction plus what its answer stands for."""
        asked = alike(rounds(self._grid(number), self.plan.steps[number].turns) == turn, x_hat)
        before = state if turn else x_hat
        return asked * (x_hat + noise) + ~asked * before

    def timestep(self, steps: int) -> int:
        """Return the timestep with about the SNR that the answers have at the picture's own resolution."""
        schedule = self.denoiser.schedule
        if not steps:
            return len(schedule) - 1
        grid, step = self._grid(steps - 1), self.plan.steps[steps - 1]
        share = 1.0 if not self.denoiser.any_size else grid.pixels / self.geometry.pixels
        return schedule.nearest(step.snr_gain * share)

    def noisy(self, steps: int, state: Array) -> tuple[Array, int]:
        """Return the estimates at the picture's size, times γ_t, as a state of the noise schedule, and its timestep."""
        t = self.timestep(steps)
        if not steps:
            return self.denoiser.schedule.gamma(t) * state, t
        return self.denoiser.schedule.gamma(t) * interpolated(state, self._cuts(steps - 1), self._pixels), t

    def expected(self, steps: int, state: Array) -> Array:
        """Return the network's prediction from the answers, at the picture's size."""
        return self._picture(steps, state, self._pixels) if steps else state

    def _picture(self, steps: int, state: Array, onto: Cuts) -> Array:
        """Return the network's prediction from the answers to the first `steps` questions, on a grid."""
        step, cuts = self.plan.steps[steps - 1], self._cuts(steps - 1)
        snr, law = step.snr_gain, step.weights
        if step.candidate == WORDS:
            state = steadied(state, (law.candidates - law.best) * law.light / (law.best * law.heavy))
        if self.denoiser.any_size:
            return interpolated(self._told(state, snr), cuts, onto)
        return pooled(self._told(interpolated(state, cuts, self._pixels), snr), onto)

    def _told(self, answers: Array, snr: float) -> Array:
        """Return the network's prediction, given answers as `Evidence.estimate`: their errors are smooth in a block."""
        return self.denoiser.predict(Evidence(library(answers).zeros_like(answers), 0.0, answers, snr))

    def _nothing(self, geometry: Geometry) -> Array:
        """Return a mid-grey picture (1, C, H, W) of a geometry."""
        return self.denoiser.placed(np.zeros((1, geometry.channels, geometry.height, geometry.width), np.float32))

    def _grid(self, number: int) -> Geometry:
        geometry: Geometry = self.plan.steps[number].grid(self.plan.unit, self.geometry)[1]
        return geometry

    def _cuts(self, number: int) -> Cuts:
        """Return the cuts of the picture by the grid of a step."""
        parts = self.plan.steps[number].parts
        return Cuts(*(self.plan.unit.divisions(side, parts) for side in (self.geometry.height, self.geometry.width)))

    @property
    def _pixels(self) -> Cuts:
        return Cuts(np.arange(self.geometry.height + 1), np.arange(self.geometry.width + 1))


TRAJECTORIES: dict[str, Callable[[Plan, Denoiser, Geometry], Trajectory]] = {
    Step.kind: lambda plan, denoiser, _: Diffusion(plan.steps, denoiser),
    SensingStep.kind: lambda plan, denoiser, _: Sensing(plan.steps, denoiser),
    Question.kind: Answers,
}
"""Functions that make the trajectory of a plan, by the kind of its steps."""


def trajectory(
    plan: Plan, denoiser: Denoiser, geometry: Geometry | None = None, base: Pixels | None = None
) -> Trajectory:
    """Return the trajectory of a plan.

    Args:
        plan: The plan.
        denoiser: The denoiser.
        geometry: Geometry of the coded images, by default the denoiser's own.
        base: The picture (H, W, C) with its regions painted over. Without it, a trajectory of regions cannot predict.

    Raises:
        DippError: The plan does not fit the denoiser.
    """
    if plan.unit.surrounded:
        from dipp.codec.told import RegionAnswers

        return RegionAnswers(plan, denoiser, base)
    return TRAJECTORIES[plan.kind](plan, denoiser, geometry or denoiser.geometry())
