"""The setting of an audit: what is audited, plans that need no model, and a simple public denoiser.

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
PASSES, SIDE, INDEX_BITS = 2.5, 64, 8
"""Passes, side of the images and log2 n of the exact audit. The passes are not whole, and the worst pixel is touched
three times; n does not enter into ε."""
SMALL_SIDE, SMALL_BITS = 8, 5
"""Side of the images and log2 n of the audits that count encodings, if a step touches every pixel."""
PAIRS_SIDE, SMALL_PAIRS_SIDE = 16, 2
"""The sides for pairs. Other pixels play no part there, and each touched one doubles the outcomes that are counted."""
VARIANCE = 0.25
"""Variance v of the pixels that the simple denoiser assumes."""
CLIP, GAIN = (float(np.float32(value)) for value in (0.3, 0.01))
"""Clip and SNR gain of sensing steps: so small that predictions stay within ±(1 − clip), where a pixel can move a shift
from −M to M."""
SCALE = 0.25
"""Scale of random signs."""
LARGE, SMALL = (2.5, 3.5), (1, 2)
"""Rows and columns of cells of the pictures of cells: some are cut off by the edges, and two whole ones."""
CELL = 8
"""Side that stands for a cell where the unit is the whole picture. Audited cells have a multiple of it."""
FAMILIES = (RAW, *(f"between {turn}" for turn in range(1, 4)), AGAIN, FINER)
START_SNR = 1e-4
"""SNR of the first state of plans along timesteps."""
MOST_GAIN, MOST_TILT, MOST_EPSILON = 4.0, 32.0, 24.0
"""Settings of the steps that are tried."""


@dataclass(frozen=True)
class Subject:
    """What is audited: a coding, with steps of a kind, and the unit of its claims."""

    coding: Coding
    kind: str = Step.kind
    """Kind of the steps (`CodedStep.kind`)."""
    unit: Unit = field(default_factory=Pixel)
    candidate: int = WORDS
    """What questions ask by: `WORDS` or `SIGNS`."""

    @property
    def alone(self) -> bool:
        """Whether other pixels have no part in an index."""
        return self.coding.code.alone

    @property
    def groups(self) -> int:
        """g: steps in which every pixel is touched once; 1, if every step touches every pixel."""
        return max(1, self.coding.channel.mask.period // CHANNELS)

    def geometry(self, side: int, cells: tuple[float, float]) -> Geometry:
        """Return a square picture for pixels; otherwise one of that many rows and columns of cells."""
        if self.unit == Pixel():
            return Geometry(side, side, CHANNELS)
        cell = self.unit.square or CELL
        height, width = (int(count * cell) for count in cells)
        return Geometry(height, width, CHANNELS)


@dataclass(frozen=True, eq=False)
class Shrink:
    """A public denoiser that needs no weights: x̂0 is the mean for independent pixels of variance v around grey."""

    schedule: NoiseSchedule
    channels: int = CHANNELS
    planes: tuple[str, ...] = ("state",)
    any_size: bool = True

    @property
    def books(self) -> Books:
        """Random words: a claim holds for any."""
        return _books()

    @property
    def device(self) -> torch.device:
        """The CPU."""
        import torch

        return torch.device("cpu")

    def placed(self, values: NDArray[np.float32]) -> torch.Tensor:
        """Return states as tensors."""
        import torch

        return torch.from_numpy(values)

    def x0(self, x_t: torch.Tensor, t: int) -> torch.Tensor:
        """E[x0 | x_t] = γ·v/(γ²·v + σ²)·x_t, clamped to [−1, 1]."""
        gamma, sigma = self.schedule.gamma(t), self.schedule.sigma(t)
        return (gamma * VARIANCE / (gamma**2 * VARIANCE + sigma**2) * x_t).clamp(-1, 1)

    def predict(self, evidence: Evidence, numbers: Numbers | None = None) -> torch.Tensor:  # noqa: ARG002
        """E[x0 | y] = v·SNR/(v·SNR + 1)·y for y = x0 + noise/√SNR, clamped to [−1, 1]."""
        snr = evidence.level
        found: torch.Tensor = VARIANCE * snr / (VARIANCE * snr + 1) * evidence.merged.state
        return found.clamp(-1, 1)


@functools.cache
def _books() -> Books:
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
    """A noise schedule with a timestep for every state of a plan, and with the plan's SNR gains between them."""
    snrs = START_SNR + np.cumsum([0.0, *(step.snr_gain for step in plan.steps)])[::-1]
    return NoiseSchedule(snrs / (1 + snrs))


def _along_timesteps(subject: Subject, strength: float, count: int, *sizes: int) -> tuple[CodedStep, ...]:  # noqa: ARG001
    return tuple(Step(t, t - 1, strength, *sizes) for t in range(count, 0, -1))


def _of_sensing(subject: Subject, strength: float, count: int, *sizes: int) -> tuple[CodedStep, ...]:  # noqa: ARG001
    return (SensingStep(strength, CLIP, GAIN, *sizes),) * count


def _of_questions(subject: Subject, strength: float, count: int, *sizes: int) -> tuple[CodedStep, ...]:
    """Draws that cost `strength` each: one of each unit in the first steps, and four in the last of several."""
    best, scale = (1, 1.0) if subject.candidate == WORDS else (4, SCALE)
    law = Weights.within(1 << sizes[1], best, strength)
    splits = [1] * (count - 1) + [1 if count == 1 else 2]
    rounds = [1 if count == 1 else 4] + [1] * (count - 1)
    return tuple(
        Question(split, turns, subject.candidate, scale, best, law.heavy, law.light, GAIN, *sizes)
        for split, turns in zip(splits, rounds, strict=True)
    )


EQUAL_STEPS: dict[str, tuple[Callable[..., tuple[CodedStep, ...]], float]] = {
    Step.kind: (_along_timesteps, MOST_GAIN),
    SensingStep.kind: (_of_sensing, MOST_TILT),
    Question.kind: (_of_questions, MOST_EPSILON),
}
"""For each kind of steps: equal steps of a strength (an SNR gain, a tilt, or the ε of a draw), and the largest that is
tried."""


def plan_within(subject: Subject, epsilon: float, steps: int, chunk_size: int, index_bits: int) -> Plan:
    """Return a plan of `steps` equal steps whose certificate is just within ε, for images of three channels."""
    code = subject.coding.code
    chunk_size, index_bits = code.fitted(chunk_size, index_bits)
    sizes = chunk_size, index_bits, code.exponent_units(index_bits)
    make, most = EQUAL_STEPS[subject.kind]
    # ε grows with the strength, up to the truncation of levels, so this is (nearly) the largest plan that fits.
    return _largest(
        lambda strength: Plan(subject.coding, make(subject, strength, steps, *sizes), unit=subject.unit), most, epsilon
    )


def _largest(plan: Callable[[float], Plan], high: float, epsilon: float) -> Plan:
    """The plan of largest strength (a 32-bit float) whose certificate is within ε, by bisection."""
    low = 0.0
    for _ in range(40):
        middle = float(np.float32((low + high) / 2))
        fits = Certificate.of(plan(middle), Geometry(1, 1, CHANNELS)).epsilon <= epsilon
        low, high = (middle, high) if fits else (low, middle)
    return plan(low)


def plan_for(subject: Subject, epsilon: float, passes: float = PASSES) -> tuple[Plan, Geometry]:
    """A plan of about ε for the exact audit, and an image size so large that other pixels can favour any candidate."""
    side = SIDE * math.ceil(math.sqrt(max(1.0, 1 / epsilon))) if not subject.alone else PAIRS_SIDE
    plan = plan_within(subject, epsilon, math.ceil(passes * subject.groups), side * side, INDEX_BITS)
    return plan, subject.geometry(side, LARGE)


def single_step(subject: Subject, epsilon: float, side: int = SMALL_SIDE) -> tuple[Plan, Geometry]:
    """A plan of one step that carries all of ε, which is what counts can show best, and the image size for it.

    The step has one selection or, with pairs, a few. It touches as many pixels as if there were side² and it touched
    all of them.
    """
    side = math.isqrt(subject.groups * (SMALL_PAIRS_SIDE if subject.alone else side) ** 2)
    return plan_within(subject, epsilon, 1, side**2 * CHANNELS, SMALL_BITS), subject.geometry(side, SMALL)


def chain_of(plan: Plan, geometry: Geometry, number: int, denoiser: Denoiser | None = None) -> Chain:
    """A chain whose public seed is `number`, on a denoiser or by default the simple one (it has all a chain needs)."""
    public = denoiser or cast("Denoiser", Shrink(schedule(plan)))
    return Chain(plan, public, number.to_bytes(16, "little"), geometry)


@contextlib.contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Replace a name in a module or class inside a `with` block: audits feed known bytes, controls break something."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)
