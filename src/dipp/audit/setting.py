"""The setting of an audit: the audited coding, plans that need no model, and a simple public denoiser.

Claims hold for any denoiser, so the best linear denoiser for independent pixels serves as well as a network.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from dipp.codec.chain import Chain
from dipp.core.closest import Weights
from dipp.core.geometry import Geometry
from dipp.core.plan import Coding, Plan
from dipp.core.step import CodedStep
from dipp.core.steps import BLOCK, WORDS, Question, SensingStep, Step
from dipp.core.unit import Unit
from dipp.core.units import Pixel
from dipp.models.books import AGAIN, FINER, RAW, Book, Books
from dipp.models.diffusion import NoiseSchedule
from dipp.privacy.certificate import Certificate

if TYPE_CHECKING:
    import torch

    from dipp.models.denoiser import Denoiser, Numbers
    from dipp.models.evidence import Evidence

CHANNELS = 3
"""Channels of the images."""
PASSES, SIDE, INDEX_BITS = 2.5, 64, 8
"""Passes, side of the images in pixels, and log2 n of the exact audit. The number of passes is not whole, and the worst
pixel is touched three times; n does not influence ε."""
SMALL_SIDE, SMALL_BITS = 8, 5
"""Side of the images in pixels, and log2 of the number n of candidates, of the audits that count encodings."""
PAIRS_SIDE, SMALL_PAIRS_SIDE = 16, 2
"""Both sides for pairs. Other pixels do not influence a pair, and each touched pixel doubles the outcomes to count."""
VARIANCE = 0.25
"""Variance v of the pixels that the simple denoiser assumes."""
CLIP, GAIN = (float(np.float32(value)) for value in (0.3, 0.01))
"""Clip and SNR gain of sensing steps: so small that predictions stay within ±(1 − clip), where a pixel can move a shift
from −M to M."""
SCALE = 0.25
"""Scale of the random signs of questions."""
LARGE, SMALL = (2.5, 3.5), (1, 2)
"""Height and width, in cells, of the images of cells: a larger size whose last cells are cut off by the edge, and a
size of two whole cells."""
CELL = 8
"""Side in pixels that stands for a cell if the unit is the whole picture. Sides of audited cells are multiples of
it."""
FAMILIES = (RAW, *(f"between {turn}" for turn in range(1, 4)), AGAIN, FINER)
"""Names of the books that questions draw their words from."""
START_SNR = 1e-4
"""SNR of the first state of plans along timesteps."""
MOST_GAIN, MOST_TILT, MOST_EPSILON = 4.0, 32.0, 24.0
"""Largest strengths of the steps that are tried: an SNR gain, a tilt, and the ε of a draw."""


@dataclass(frozen=True)
class AuditSubject:
    """The subject of an audit: a coding with one kind of steps, and the unit of its claims."""

    coding: Coding
    kind: str = Step.kind
    """Kind of the steps (`CodedStep.kind`)."""
    unit: Unit = field(default_factory=Pixel)
    """Unit of the claims, a pixel by default."""
    candidate: int = WORDS
    """Kind of the candidates of questions: `WORDS` or `SIGNS`."""

    @property
    def alone(self) -> bool:
        """Whether an index depends on a single pixel."""
        return self.coding.code.alone

    @property
    def groups(self) -> int:
        """Number of steps in which every pixel is touched once; 1 if every step touches every pixel."""
        return max(1, self.coding.channel.mask.period // CHANNELS)

    def geometry(self, side: int, cells: tuple[float, float]) -> Geometry:
        """Return the size of the images.

        Args:
            side: Height and width in pixels, if the unit is a pixel.
            cells: Height and width in cells, for other units.
        """
        if self.unit == Pixel():
            return Geometry(side, side, CHANNELS)
        cell = self.unit.square or CELL
        height, width = (int(count * cell) for count in cells)
        return Geometry(height, width, CHANNELS)


@dataclass(frozen=True, eq=False)
class ShrinkDenoiser:
    """A public denoiser without weights: it expects independent pixels of variance v around grey."""

    schedule: NoiseSchedule
    channels: int = CHANNELS
    planes: tuple[str, ...] = ("state",)
    any_size: bool = True

    @property
    def books(self) -> Books:
        """Books of random words, which suffice because a claim holds for any words."""
        return _books()

    @property
    def device(self) -> torch.device:
        """The device of the tensors: the CPU."""
        import torch

        return torch.device("cpu")

    def placed(self, values: NDArray[np.float32]) -> torch.Tensor:
        """Return states as tensors."""
        import torch

        return torch.from_numpy(values)

    def x0(self, x_t: torch.Tensor, t: int) -> torch.Tensor:
        """Return the expected picture E[x0 | x_t] = γ·v/(γ²·v + σ²)·x_t, clamped to [−1, 1].

        Args:
            x_t: The noisy picture γ·x0 + σ·noise.
            t: Timestep, which decides γ and σ.
        """
        gamma, sigma = self.schedule.gamma(t), self.schedule.sigma(t)
        return (gamma * VARIANCE / (gamma**2 * VARIANCE + sigma**2) * x_t).clamp(-1, 1)

    def predict(self, evidence: Evidence, numbers: Numbers | None = None) -> torch.Tensor:  # noqa: ARG002
        """Return the expected picture E[x0 | y] = v·SNR/(v·SNR + 1)·y, clamped to [−1, 1].

        y = x0 + noise/√SNR is the state in the evidence.
        """
        snr = evidence.level
        mean: torch.Tensor = VARIANCE * snr / (VARIANCE * snr + 1) * evidence.merged.state
        return mean.clamp(-1, 1)


@functools.cache
def _books() -> Books:
    """Return a book of random words for each family of questions."""
    generator = np.random.default_rng(0)
    shape = BLOCK**2 * CHANNELS
    return Books(
        {
            (family, bits): Book(
                generator.normal(0, 0.5, (1 << bits, shape)).astype(np.float32), np.ones(1 << bits, np.int64)
            )
            for family in FAMILIES
            for bits in (SMALL_BITS, INDEX_BITS)
        },
        [],
        "00" * 32,
    )


def schedule(plan: Plan) -> NoiseSchedule:
    """Return a noise schedule with a timestep for every state of a plan, and with the plan's SNR gains between them.

    Args:
        plan: A plan, whose steps have SNR gains.
    """
    snrs = START_SNR + np.cumsum([0.0, *(step.snr_gain for step in plan.steps)])[::-1]
    return NoiseSchedule(snrs / (1 + snrs))


def _along_timesteps(subject: AuditSubject, strength: float, count: int, *chunking: int) -> tuple[CodedStep, ...]:  # noqa: ARG001
    """Return `count` steps along timesteps, each with the SNR gain `strength`; `EQUAL_STEPS` explains the arguments."""
    return tuple(Step(t, t - 1, strength, *chunking) for t in range(count, 0, -1))


def _of_sensing(subject: AuditSubject, strength: float, count: int, *chunking: int) -> tuple[CodedStep, ...]:  # noqa: ARG001
    """Return `count` steps of sensing, each with the tilt `strength`; `EQUAL_STEPS` explains the arguments."""
    return (SensingStep(strength, CLIP, GAIN, *chunking),) * count


def _of_questions(subject: AuditSubject, strength: float, count: int, *chunking: int) -> tuple[CodedStep, ...]:
    """Return `count` questions whose draws have the ε `strength`; `EQUAL_STEPS` explains the arguments.

    Each unit takes part in one draw of a question, but in four draws of the last of several questions.
    """
    best, scale = (1, 1.0) if subject.candidate == WORDS else (4, SCALE)
    law = Weights.within(1 << chunking[1], best, strength)
    splits = [1] * (count - 1) + [1 if count == 1 else 2]
    rounds = [1 if count == 1 else 4] + [1] * (count - 1)
    return tuple(
        Question(split, turns, subject.candidate, scale, best, law.heavy, law.light, GAIN, *chunking)
        for split, turns in zip(splits, rounds, strict=True)
    )


EQUAL_STEPS: dict[str, tuple[Callable[..., tuple[CodedStep, ...]], float]] = {
    Step.kind: (_along_timesteps, MOST_GAIN),
    SensingStep.kind: (_of_sensing, MOST_TILT),
    Question.kind: (_of_questions, MOST_EPSILON),
}
"""For each kind of steps: a function that makes equal steps of a strength (an SNR gain, a tilt, or the ε of a draw),
and the largest strength that is tried. The function gets the subject, the strength, the number of steps and their
chunking: the largest number of coordinates in a chunk, the bits of an index, and the parameter of the model
that codes indices."""


def plan_within(subject: AuditSubject, epsilon: float, steps: int, chunk_size: int, index_bits: int) -> Plan:
    """Return the strongest plan of equal steps whose certificate is within ε, for images of three channels.

    Args:
        subject: The coding, kind of steps and unit.
        epsilon: ε of the unit.
        steps: Number of steps.
        chunk_size: Largest number of coordinates in a chunk.
        index_bits: log2 n of the number of candidates.
    """
    code = subject.coding.code
    chunk_size, index_bits = code.fitted(chunk_size, index_bits)
    chunking = chunk_size, index_bits, code.exponent_units(index_bits)
    make, most = EQUAL_STEPS[subject.kind]
    # ε grows with the strength, up to the truncation of levels, so this is (nearly) the largest plan that fits.
    return _largest(
        lambda strength: Plan(subject.coding, make(subject, strength, steps, *chunking), unit=subject.unit),
        most,
        epsilon,
    )


def _largest(plan: Callable[[float], Plan], high: float, epsilon: float) -> Plan:
    """Return the plan of largest strength (a 32-bit float) whose certificate is within ε, by bisection.

    `plan` makes the plan of a strength, and `high` is the largest strength.
    """
    low = 0.0
    for _ in range(40):
        middle = float(np.float32((low + high) / 2))
        fits = Certificate.of(plan(middle), Geometry(1, 1, CHANNELS)).epsilon <= epsilon
        low, high = (middle, high) if fits else (low, middle)
    return plan(low)


def plan_for(subject: AuditSubject, epsilon: float, passes: float = PASSES) -> tuple[Plan, Geometry]:
    """Return a plan of about ε for the exact audit, and an image size at which other pixels can favour a candidate.

    Args:
        subject: The coding, kind of steps and unit.
        epsilon: ε of the unit.
        passes: How often each pixel is touched, on average; 2.5 by default.
    """
    side = SIDE * math.ceil(math.sqrt(max(1.0, 1 / epsilon))) if not subject.alone else PAIRS_SIDE
    plan = plan_within(subject, epsilon, math.ceil(passes * subject.groups), side * side, INDEX_BITS)
    return plan, subject.geometry(side, LARGE)


def single_step(subject: AuditSubject, epsilon: float, side: int = SMALL_SIDE) -> tuple[Plan, Geometry]:
    """Return a plan of one step that spends all of ε, and the image size for it: counts show a single step best.

    The step has one selection or, with pairs, a few.

    Args:
        subject: The coding, kind of steps and unit.
        epsilon: ε of the unit.
        side: Side in pixels of an image of which the step would touch every pixel. If a step touches only a group of
            pixels, the image is larger, so that as many pixels are touched.
    """
    side = math.isqrt(subject.groups * (SMALL_PAIRS_SIDE if subject.alone else side) ** 2)
    return plan_within(subject, epsilon, 1, side**2 * CHANNELS, SMALL_BITS), subject.geometry(side, SMALL)


def chain_of(plan: Plan, geometry: Geometry, number: int, denoiser: Denoiser | None = None) -> Chain:
    """Return a chain whose public seed is a number.

    Args:
        plan: The plan.
        geometry: Size of the images.
        number: The public seed, an integer from 0 to 2^128 − 1.
        denoiser: The denoiser of the plan; by default `ShrinkDenoiser`, which has all that a chain needs.
    """
    public = denoiser or cast("Denoiser", ShrinkDenoiser(schedule(plan)))
    return Chain(plan, public, number.to_bytes(16, "little"), geometry)


@contextlib.contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Replace a name in a module or class inside a `with` block, and restore it afterwards.

    Audits use it to feed known bytes, and controls to plant a mistake.

    Args:
        owner: The module or class.
        name: Name in it.
        value: What the name stands for inside the block.
    """
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)
