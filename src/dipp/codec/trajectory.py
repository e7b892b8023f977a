"""Trajectories: how the public state of a picture moves along a plan, from knowing nothing to the last step.

A trajectory knows what the denoiser is asked in each step and what becomes of the state once the step's noise z (of
unit variance over all coordinates, 0 where the step does not touch) is known. Everything here is public.

| trajectory | plan | state | start |
|---|---|---|---|
| `Diffusion` | steps along timesteps | x_t, of the noise schedule | x_T, common randomness |
| `Sensing` | steps of clipped sensing | y, an estimate of x0 with noise of power 1/SNR | nothing: SNR 0 |
| `Answers` | questions | what is known of the coarse pixels | nothing: mid-grey |
| `told.RegionAnswers` | questions to regions | likewise, of the coarse pixels of regions | what was painted there |

**Sensing.** With SNR s so far and the gain g of a step, the state is the precision-weighted mean of what was known and
of the new observation x̂0 + z/√g:

    y ← (s·y + g·x̂0 + √g·z)/(s + g),      s ← s + g.

For a network that takes answers (`models.evidence`), the state also has, below y, what each coordinate was last
compared with, and its answer.

SNRs are sums of gains, and lie between timesteps; which timestep is nearest is the denoiser's business. Before the
first step nothing is known: the prediction is mid-grey, x̂0 = 0, and the network is not asked.

A step of level ℓ is predicted at a lower resolution: the network gets the means of y over 2^ℓ × 2^ℓ pixels, whose noise
has the power 1/(4^ℓ·s), and its answer is interpolated to all pixels. Where little is known that is the better
prediction, and takes 1/4^ℓ of the time. Pixels that have not been asked are in the means too: y already weighs what it
took from predictions against what it took from answers. Answers are told at full resolution alone.
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

BAND = 1 << 20
"""Pixels of a band of rows that are moved on at once."""


class Trajectory(ABC):
    """The public states of a plan on a denoiser."""

    @abstractmethod
    def start(self, seed: bytes, geometry: Geometry) -> Array:
        """Return the state (1, C, H, W) before the first step, the same for all images of a geometry."""

    def asked(self, seed: bytes, number: int, turn: int) -> RoundCandidates | None:  # noqa: ARG002
        """Return the candidates of a round of step `number`; None for steps that have none of their own."""
        return None

    @abstractmethod
    def predict(self, number: int, state: Array, turn: int = 0) -> Array:
        """Return x̂0 before a round of step `number`, on the step's grid."""

    @abstractmethod
    def advance(self, number: int, state: Array, x_hat: Array, noise: Array, turn: int = 0) -> Array:
        """Return the state after a round of step `number`."""

    @abstractmethod
    def timestep(self, steps: int) -> int:
        """Return the timestep of the noise schedule after `steps` steps."""

    @abstractmethod
    def noisy(self, steps: int, state: Array) -> tuple[Array, int]:
        """Return the state after `steps` steps as x_t of the noise schedule, and its timestep, for samplers."""

    @abstractmethod
    def expected(self, steps: int, state: Array) -> Array:
        """Return the expected picture after `steps` steps: one call of the denoiser."""


@dataclass(frozen=True, eq=False)
class Diffusion(Trajectory):
    """States x_t along the timesteps of the denoiser's noise schedule."""

    steps: Sequence[Step]
    denoiser: Denoiser

    def __post_init__(self) -> None:
        for step in self.steps:
            self.denoiser.schedule.require_gain(step.start, step.end, step.snr_gain)

    def start(self, seed: bytes, geometry: Geometry) -> Array:
        """Return x_T, from the common randomness alone."""
        shape = geometry.channels, geometry.height, geometry.width
        return self.denoiser.placed(np.float32(self.denoiser.schedule.first) * diffusion.start(seed, shape)[None])

    def predict(self, number: int, state: Array, turn: int = 0) -> Array:  # noqa: ARG002
        """x̂0 at the step's first timestep."""
        return self.denoiser.x0(state, self.steps[number].start)

    def advance(self, number: int, state: Array, x_hat: Array, noise: Array, turn: int = 0) -> Array:  # noqa: ARG002
        """x_s = μ_p + σ(s, t)·z."""
        step = self.steps[number]
        return self.denoiser.schedule.step(step.start, step.end).next_state(state, x_hat, noise)

    def timestep(self, steps: int) -> int:
        """Return the timestep at which the last of them ends."""
        return (self.steps[0].start, *(step.end for step in self.steps))[steps]

    def noisy(self, steps: int, state: Array) -> tuple[Array, int]:
        """The state itself."""
        return state, self.timestep(steps)

    def expected(self, steps: int, state: Array) -> Array:
        """x̂0 at the timestep that was reached."""
        return self.denoiser.x0(*self.noisy(steps, state), fast=True)


@dataclass(frozen=True, eq=False)
class Sensing(Trajectory):
    """States y at continuous SNRs."""

    steps: Sequence[SensingStep]
    denoiser: Denoiser

    def snr(self, steps: int) -> float:
        """Return the SNR after `steps` steps: the exact sum of their gains."""
        return math.fsum(step.snr_gain for step in itertools.islice(self.steps, steps))

    def start(self, seed: bytes, geometry: Geometry) -> Array:  # noqa: ARG002
        """Return mid-grey, at SNR 0."""
        planes = 3 if self._told else 1
        shape = 1, planes * geometry.channels, geometry.height, geometry.width
        return self.denoiser.placed(np.zeros(shape, np.float32))

    def predict(self, number: int, state: Array, turn: int = 0) -> Array:  # noqa: ARG002
        """Mid-grey at first, then the denoiser's prediction at the SNR so far and at the step's resolution."""
        y, snr, side = self._parts(state)[0], self.snr(number), 1 << self.steps[number].level
        if side == 1 or not number:
            return self.fully(number, state)
        answer = self.denoiser.predict(Evidence(averaged(y, side), snr * side**2))
        return interpolated(answer, *(Cuts(*(squares(length, s) for length in y.shape[2:])) for s in (side, 1)))

    def advance(self, number: int, state: Array, x_hat: Array, noise: Array, turn: int = 0) -> Array:  # noqa: ARG002
        """Return the precision-weighted mean (see the module's text), in the state's own memory if it has all images.

        A state of many pixels is moved on in bands of rows, which takes little memory beside it.
        """
        before, gain = self.snr(number), self.steps[number].snr_gain
        total = before + gain
        if len(state) < len(noise):  # shared by all images so far
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
        """The one whose SNR is nearest; pure noise's, if nothing was decoded."""
        schedule = self.denoiser.schedule
        return schedule.nearest(self.snr(steps)) if steps else len(schedule) - 1

    def noisy(self, steps: int, state: Array) -> tuple[Array, int]:
        """γ_t·y at that timestep."""
        t = self.timestep(steps)
        return self.denoiser.schedule.gamma(t) * self._parts(state)[0], t

    def expected(self, steps: int, state: Array) -> Array:
        """x̂0 at the SNR that was reached."""
        return self.fully(steps, state, Numbers.FAST)

    def fully(self, steps: int, state: Array, numbers: Numbers = Numbers.SENSING) -> Array:
        """Return the prediction at full resolution after `steps` steps; mid-grey after no step."""
        y, *told = self._parts(state)
        if not steps:
            return library(y).zeros_like(y)  # not y itself, which `advance` changes
        return self.denoiser.predict(Evidence(y, self.snr(steps), None, 0.0, *told), numbers)

    @property
    def _told(self) -> bool:
        """Whether the network is told answers beside the state."""
        return "answer" in self.denoiser.planes

    def _parts(self, state: Array) -> Sequence[Array]:
        """Return y and, if the network takes answers, what was compared and the answers."""
        if not self._told:
            return (state,)
        channels = state.shape[1] // 3
        return [state[:, first : first + channels] for first in range(0, 3 * channels, channels)]


@dataclass(frozen=True, eq=False)
class Answers(Trajectory):
    """What questions have told of the coarse pixels of their grids.

    Before the first question nothing is known. In its later rounds, a block is predicted from the neighbours that have
    answered: by their mean, weighted by a Gaussian of the block's size. Before every later question the network
    predicts the coarse picture from all answers so far, and the prediction is interpolated to the finer grid. Before
    that, words that are unlikely beside their neighbours are drawn towards them (`grids.steadied`).

    A network that was trained on pictures of any size predicts at the resolution of the answers. Any other gets them
    interpolated to the picture's own size first. `Question.snr_gain` is the SNR that it is told in either case.
    """

    plan: Plan
    denoiser: Denoiser
    geometry: Geometry

    def start(self, seed: bytes, geometry: Geometry) -> Array:  # noqa: ARG002
        """Return mid-grey."""
        return self._nothing(geometry)

    def asked(self, seed: bytes, number: int, turn: int) -> RoundCandidates:
        """Return the candidates of a round: words of the model's books, or random signs."""
        return questions.asked(self.plan, self.denoiser, seed, number, turn)

    def predict(self, number: int, state: Array, turn: int = 0) -> Array:
        """Return what is expected of the coarse pixels of the step's grid."""
        if number and not turn:
            return self._picture(number, state, self._cuts(number))
        grid = self._grid(number)
        if not turn:
            return self._nothing(grid)
        return between(state, alike(rounds(grid, self.plan.steps[number].turns) < turn, state))

    def advance(self, number: int, state: Array, x_hat: Array, noise: Array, turn: int = 0) -> Array:
        """Return the answers so far: of blocks that were asked, the prediction plus what the answer adds."""
        asked = alike(rounds(self._grid(number), self.plan.steps[number].turns) == turn, x_hat)
        before = state if turn else x_hat
        return asked * (x_hat + noise) + ~asked * before

    def timestep(self, steps: int) -> int:
        """Return the timestep of about the SNR that the answers have on the picture's own pixels."""
        schedule = self.denoiser.schedule
        if not steps:
            return len(schedule) - 1
        grid, step = self._grid(steps - 1), self.plan.steps[steps - 1]
        share = 1.0 if not self.denoiser.any_size else grid.pixels / self.geometry.pixels
        return schedule.nearest(step.snr_gain * share)

    def noisy(self, steps: int, state: Array) -> tuple[Array, int]:
        """Return γ_t times the answers, interpolated to the picture's size, and the timestep t."""
        t = self.timestep(steps)
        if not steps:
            return self.denoiser.schedule.gamma(t) * state, t
        return self.denoiser.schedule.gamma(t) * interpolated(state, self._cuts(steps - 1), self._pixels), t

    def expected(self, steps: int, state: Array) -> Array:
        """Return the network's picture of the answers, at the picture's size."""
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
        """Return the prediction from answers alone: an estimate, since their errors are smooth within a block."""
        return self.denoiser.predict(Evidence(library(answers).zeros_like(answers), 0.0, answers, snr))

    def _nothing(self, geometry: Geometry) -> Array:
        """Return mid-grey of a geometry."""
        return self.denoiser.placed(np.zeros((1, geometry.channels, geometry.height, geometry.width), np.float32))

    def _grid(self, number: int) -> Geometry:
        found: Geometry = self.plan.steps[number].grid(self.plan.unit, self.geometry)[1]
        return found

    def _cuts(self, number: int) -> Cuts:
        """Return where rows and columns of the picture are cut by the grid of a step."""
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
"""The trajectory of each kind of steps."""


def trajectory(
    plan: Plan, denoiser: Denoiser, geometry: Geometry | None = None, base: Pixels | None = None
) -> Trajectory:
    """Return the trajectory of a plan for pictures of a geometry, or raise if the plan does not fit the denoiser.

    `base` is the painted picture of regions; without it, nothing can be predicted of them.
    """
    if plan.unit.surrounded:
        from dipp.codec.told import RegionAnswers

        return RegionAnswers(plan, denoiser, base)
    return TRAJECTORIES[plan.kind](plan, denoiser, geometry or denoiser.geometry())
