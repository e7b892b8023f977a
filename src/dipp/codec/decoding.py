"""The flags of decoding, and pictures from the last state of a chain.

| | network calls | picture |
|---|---|---|
| expected | 1 | mean of all pictures that the file allows: least squared error, nothing invented, smooth at small ε |
| sampled | several | one plausible picture, which looks sharper; the network makes up details |
| ancestral | every timestep | one plausible picture, by DDPM sampling as in the paper |
| noisy | 0 | the state itself |

Everything here is public: it is computed from the file alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dipp.codec.chain import Chain
from dipp.codec.pictures import Pixels
from dipp.codec.pixels import to_pixels
from dipp.codec.trajectory import Trajectory
from dipp.core import randomness
from dipp.core.arrays import Array, alike
from dipp.core.plan import Plan
from dipp.errors import DippError
from dipp.models import diffusion, samplers
from dipp.models.denoiser import Denoiser
from dipp.privacy.budget import is_whole

SAMPLE_CALLS = 8
"""Number of network calls of sampling, by default. In `benchmarks/looks.py` at ε = 1, pictures from 3 calls hardly
differ from the expected one. Those from 8 calls are as sharp as from 20, with a PSNR from 0.1 dB less to 0.4 more."""


@dataclass(frozen=True)
class Decoding:
    """The flags of decoding. By default each picture is the expected one.

    Raises:
        DippError: Flags contradict each other, or a number is invalid.
    """

    noisy: bool = False
    """Whether to return the noisy state itself, without any denoising."""
    sample: bool = False
    """Whether to draw a plausible picture in place of the expected one."""
    ancestral: bool = False
    """Whether to sample through every timestep, as the paper does."""
    calls: int | None = None
    """Number of network calls: 1 gives the expected picture, more draw a sample. By default 1, or 8 with `sample`."""
    steps: int | None = None
    """Number of steps that are decoded, for a preview. By default all of them."""
    max_work: float | None = None
    """Billions of pixels that a file may send through the network (`codec.work`). By default its size decides."""

    def __post_init__(self) -> None:
        if self.noisy and (self.sample or self.ancestral or self.calls is not None):
            raise DippError("noisy", "denoises nothing", "leave out sample, ancestral and calls")
        if self.ancestral and (self.sample or self.calls is not None):
            raise DippError("ancestral", "samples through every timestep", "leave out sample and calls")
        least = 2 if self.sample else 1
        if self.calls is not None and not (is_whole(self.calls) and self.calls >= least):
            raise DippError(
                "calls", f"must be a whole number ≥ {least}{' to sample' * self.sample}, got {self.calls!r}"
            )
        if self.steps is not None and not (is_whole(self.steps) and self.steps >= 0):
            raise DippError("steps", f"must be a whole number of 0 or more, got {self.steps!r}")

    @property
    def invents(self) -> bool:
        """Whether the picture has details that the file does not convey."""
        return self.sample or self.ancestral or (self.calls or 1) > 1

    def steps_of(self, plan: Plan) -> int:
        """Return the number of steps of a plan that are decoded, or raise if the plan has fewer than `steps`."""
        if self.steps is not None and self.steps > len(plan.steps):
            raise DippError("steps", f"must be from 0 to {len(plan.steps)}, got {self.steps!r}")
        return len(plan.steps) if self.steps is None else self.steps

    def network_calls(self, trajectory: Trajectory, steps: int) -> int:
        """Return the approximate number of network calls from the state after `steps` steps to a picture.

        Args:
            trajectory: The trajectory of the plan.
            steps: Number of decoded steps.
        """
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
        """Return the pictures (N, C, H, W) of a state, with values around [−1, 1].

        Args:
            trajectory: The trajectory of the plan.
            denoiser: The denoiser.
            steps: Number of steps that were decoded.
            state: The state after them.
            noise: Function from a timestep and a shape (C, H, W) to the public standard normal numbers of ancestral
                sampling.
        """
        if self.noisy:
            return trajectory.noisy(steps, state)[0]
        calls = self.network_calls(trajectory, steps)
        if calls == 1 and not self.ancestral:
            return trajectory.expected(steps, state)

        def predict(x_t: Array, t: int) -> Array:
            return denoiser.x0(x_t, t, fast=True)

        noisy, t = trajectory.noisy(steps, state)
        if self.ancestral:
            shape = tuple(noisy.shape[1:])  # the state may be coarser or have more planes
            return samplers.ancestral(predict, denoiser.schedule, noisy, t, lambda s: noise(s, shape))
        return samplers.fast(predict, denoiser.schedule, noisy, t, calls)


EXPECTED = Decoding()
"""Flags of the expected picture."""
NOISY = Decoding(noisy=True)
"""Flags of the noisy picture."""


class ChainEnd(NamedTuple):
    """The state in which the chain of a batch of images has ended, at the encoder or the decoder."""

    chain: Chain
    """The chain."""
    steps: int
    """Number of steps that were taken."""
    state: Array
    """The state (N, C, H, W) after them."""
    numbers: Sequence[int]
    """Numbers of the images in the archive."""
    grey: NDArray[np.bool_]
    """Which images are grey, (N,)."""

    def noisy(self) -> tuple[Array, int]:
        """Return the states x_t (N, C, H, W) of the noise schedule, and their timestep t."""
        return self.chain.trajectory.noisy(self.steps, self.state)

    def pictures(self, decoding: Decoding = EXPECTED) -> Pixels:
        """Return the pictures (N, H, W, C), uint8.

        Args:
            decoding: Flags that choose the kind of picture.
        """
        denoiser = self.chain.denoiser
        x = decoding.picture(self.chain.trajectory, denoiser, self.steps, self.state, self._noise)
        return to_pixels(denoiser.picture(x, self.chain.size), self.grey)

    def _noise(self, s: int, shape: tuple[int, ...]) -> Array:
        """Return public standard normal numbers (N, *shape) for the images, for ancestral sampling to timestep s."""
        seeds = (randomness.stream(self.chain.seed, number, s, "ancestral") for number in self.numbers)
        drawn = np.stack([diffusion.normals(stream, shape) for stream in seeds])
        return alike(drawn, self.state)
