"""The setting of an audit: what is audited, plans that need no model, and a simple public denoiser.

Claims hold for any denoiser, so the best linear denoiser for independent pixels serves as well as a network.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from dipp.codec.chain import Chain
from dipp.core.geometry import Geometry
from dipp.core.plan import Coding, Plan
from dipp.core.steps import CodedStep, SensingStep, Step
from dipp.models.diffusion import NoiseSchedule
from dipp.privacy.certificate import Certificate

if TYPE_CHECKING:
    import torch

    from dipp.models.denoiser import Denoiser

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
START_SNR = 1e-4
"""SNR of the first state of plans along timesteps."""
MOST_GAIN, MOST_TILT = 4.0, 32.0
"""Of the steps that are tried."""


@dataclass(frozen=True)
class Subject:
    """What is audited: a coding, with steps of a kind."""

    coding: Coding
    kind: str = Step.kind
    """Kind of the steps (`CodedStep.kind`)."""

    @property
    def alone(self) -> bool:
        """Whether other pixels have no part in an index."""
        return self.coding.code.alone

    @property
    def groups(self) -> int:
        """g: steps in which every pixel is touched once; 1, if every step touches every pixel."""
        return max(1, self.coding.channel.mask.period // CHANNELS)


@dataclass(frozen=True, eq=False)
class Shrink:
    """A public denoiser that needs no weights: x̂0 is the mean for independent pixels of variance v around grey."""

    schedule: NoiseSchedule

    @property
    def device(self) -> torch.device:
        """The CPU."""
        import torch

        return torch.device("cpu")

    def x0(self, x_t: torch.Tensor, t: int) -> torch.Tensor:
        """E[x0 | x_t] = γ·v/(γ²·v + σ²)·x_t, clamped to [−1, 1]."""
        gamma, sigma = self.schedule.gamma(t), self.schedule.sigma(t)
        return (gamma * VARIANCE / (gamma**2 * VARIANCE + sigma**2) * x_t).clamp(-1, 1)

    def at_snr(self, y: torch.Tensor, snr: float) -> torch.Tensor:
        """E[x0 | y] = v·SNR/(v·SNR + 1)·y for y = x0 + noise/√SNR, clamped to [−1, 1]."""
        return (VARIANCE * snr / (VARIANCE * snr + 1) * y).clamp(-1, 1)


def schedule(plan: Plan) -> NoiseSchedule:
    """A noise schedule with a timestep for every state of a plan, and with the plan's SNR gains between them."""
    snrs = START_SNR + np.cumsum([0.0, *(step.snr_gain for step in plan.steps)])[::-1]
    return NoiseSchedule(snrs / (1 + snrs))


def _along_timesteps(strength: float, count: int, *sizes: int) -> tuple[CodedStep, ...]:
    return tuple(Step(t, t - 1, strength, *sizes) for t in range(count, 0, -1))


def _of_sensing(strength: float, count: int, *sizes: int) -> tuple[CodedStep, ...]:
    return (SensingStep(strength, CLIP, GAIN, *sizes),) * count


EQUAL_STEPS: dict[str, tuple[Callable[..., tuple[CodedStep, ...]], float]] = {
    Step.kind: (_along_timesteps, MOST_GAIN),
    SensingStep.kind: (_of_sensing, MOST_TILT),
}
"""For each kind of steps: equal steps of a strength (an SNR gain, or a tilt), and the largest that is tried."""


def plan_within(subject: Subject, epsilon: float, steps: int, chunk_size: int, index_bits: int) -> Plan:
    """Return a plan of `steps` equal steps whose certificate is just within ε, for images of three channels."""
    code = subject.coding.code
    chunk_size, index_bits = code.fitted(chunk_size, index_bits)
    sizes = chunk_size, index_bits, code.exponent_units(index_bits)
    make, most = EQUAL_STEPS[subject.kind]
    # ε grows with the strength, up to the truncation of levels, so this is (nearly) the largest plan that fits.
    return _largest(lambda strength: Plan(subject.coding, make(strength, steps, *sizes)), most, epsilon)


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
    return plan, Geometry(side, side, CHANNELS)


def single_step(subject: Subject, epsilon: float, side: int = SMALL_SIDE) -> tuple[Plan, Geometry]:
    """A plan of one step that carries all of ε, which is what counts can show best, and the image size for it.

    The step has one selection or, with pairs, a few. It touches as many pixels as if there were side² and it touched
    all of them.
    """
    side = math.isqrt(subject.groups * (SMALL_PAIRS_SIDE if subject.alone else side) ** 2)
    return plan_within(subject, epsilon, 1, side**2 * CHANNELS, SMALL_BITS), Geometry(side, side, CHANNELS)


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
