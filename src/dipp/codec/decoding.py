"""How a file is decoded: the flags as one object, and the last state of a chain as a picture.

| | network calls | picture |
|---|---|---|
| expected | 1 | the mean of all that the file allows: least squared error, nothing invented, smooth at small ε |
| sampled | several | one that looks sharper; what the file does not say is drawn from what the network has learnt |
| ancestral | every timestep | likewise, by DDPM sampling, as the paper has it |
| noisy | 0 | the state itself |

Nothing here is private: it is computed from the file alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dipp.codec.chain import Chain
from dipp.codec.pictures import Pixels, to_pixels
from dipp.codec.trajectory import Trajectory
from dipp.core import randomness
from dipp.core.arrays import Array, alike
from dipp.core.plan import Plan
from dipp.errors import DippError
from dipp.models import diffusion
from dipp.models.denoiser import Denoiser
from dipp.privacy.budget import is_whole

SAMPLE_CALLS = 8
"""Network calls to sample, by default. By looks (`benchmarks/looks.py`): at ε = 1, 3 calls hardly differ from the
expected picture, and 8 are as sharp as 20, with a PSNR of 0.1 dB less to 0.4 dB more."""


@dataclass(frozen=True)
class Decoding:
    """The flags of decoding. By default each picture is the expected one.

    Raises:
        DippError: Flags contradict each other, or a number is invalid.
    """

    noisy: bool = False
    """Whether the noisy reconstruction is wanted, without any denoising."""
    sample: bool = False
    """Whether a plausible picture is wanted, and not the expected one."""
    ancestral: bool = False
    """Whether to sample through every timestep, as the paper does."""
    calls: int | None = None
    """Network calls: 1 gives the expected picture, more sample. By default 1, or `SAMPLE_CALLS` to sample."""
    steps: int | None = None
    """Number of steps that are decoded, for a preview. By default all of them."""
    max_work: float | None = None
    """Billions of pixels that a file may send through the network (`codec.work`). By default its size decides."""

    def __post_init__(self) -> None:
        if self.noisy and (self.sample or self.ancestral or self.calls is not None):
            raise DippError("noisy", "nothing is denoised there", "leave out sample, ancestral and calls")
        if self.ancestral and (self.sample or self.calls is not None):
            raise DippError("ancestral", "it samples through every timestep", "leave out sample and calls")
        least = 2 if self.sample else 1
        if self.calls is not None and not (is_whole(self.calls) and self.calls >= least):
            raise DippError(
                "calls", f"a whole number ≥ {least} is needed{' to sample' * self.sample}, got {self.calls!r}"
            )
        if self.steps is not None and not (is_whole(self.steps) and self.steps >= 0):
            raise DippError("steps", f"a whole number from 0 is needed, got {self.steps!r}")

    @property
    def invents(self) -> bool:
        """Whether details are drawn that the file does not convey."""
        return self.sample or self.ancestral or (self.calls or 1) > 1

    def steps_of(self, plan: Plan) -> int:
        """Return how many steps of a plan are decoded."""
        if self.steps is not None and self.steps > len(plan.steps):
            raise DippError("steps", f"0 to {len(plan.steps)} is needed, got {self.steps!r}")
        return len(plan.steps) if self.steps is None else self.steps

    def network_calls(self, trajectory: Trajectory, steps: int) -> int:
        """Return about how many network calls the picture of a state after `steps` steps takes."""
        if self.noisy:
            return 0
        if self.ancestral:
            return trajectory.timestep(steps) + 1
        return self.calls or (SAMPLE_CALLS if self.sample else 1)

    def picture(
        self,
        trajectory: Trajectory,
        denoiser: Denoiser,
        steps: int,
        state: Array,
        noise: Callable[[int, tuple[int, ...]], Array],
    ) -> Array:
        """Return the picture of a state; `noise` has the public normals of ancestral sampling, of a given shape."""
        if self.noisy:
            return trajectory.noisy(steps, state)[0]
        calls = self.network_calls(trajectory, steps)
        if calls == 1 and not self.ancestral:
            return trajectory.expected(steps, state)

        def predict(x_t: Array, t: int) -> Array:
            return denoiser.x0(x_t, t, fast=True)

        noisy, t = trajectory.noisy(steps, state)
        if self.ancestral:
            shape = tuple(noisy.shape[1:])  # not that of the state, which may be coarser or have more planes
            return diffusion.ancestral(predict, denoiser.schedule, noisy, t, lambda s: noise(s, shape))
        return diffusion.fast(predict, denoiser.schedule, noisy, t, calls)


EXPECTED = Decoding()
NOISY = Decoding(noisy=True)


class End(NamedTuple):
    """Where the chains of some images have got to, on either side."""

    chain: Chain
    steps: int
    state: Array
    numbers: Sequence[int]
    """Numbers of the images."""
    grey: NDArray[np.bool_]
    """Which of them are grey."""

    def noisy(self) -> tuple[Array, int]:
        """Return the states x_t (N, C, H, W) of the noise schedule, and their timestep t."""
        return self.chain.trajectory.noisy(self.steps, self.state)

    def pictures(self, decoding: Decoding = EXPECTED) -> Pixels:
        """Return the pictures (N, H, W, C) of these states."""
        denoiser = self.chain.denoiser
        found = decoding.picture(self.chain.trajectory, denoiser, self.steps, self.state, self._noise)
        return to_pixels(denoiser.picture(found, self.chain.size), self.grey)

    def _noise(self, s: int, shape: tuple[int, ...]) -> Array:
        """Return public normals of the images, each of this shape, for ancestral sampling to timestep s."""
        seeds = (randomness.stream(self.chain.seed, number, s, "ancestral") for number in self.numbers)
        drawn = np.stack([diffusion.normals(stream, shape) for stream in seeds])
        return alike(drawn, self.state)
