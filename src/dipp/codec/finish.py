"""The last state of a chain becomes a picture.

| | network calls | picture |
|---|---|---|
| expected | 1 | the mean of all that the file allows: least squared error, nothing invented, smooth at small ε |
| sampled | several | one that looks sharper; what the file does not say is drawn from what the network has learnt |
| ancestral | every timestep | likewise, by DDPM sampling, as the paper has it |
| noisy | 0 | the state itself |

Nothing here is private: it is computed from the file alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dipp.codec.trajectory import Trajectory
from dipp.errors import DippError
from dipp.models import diffusion
from dipp.models.denoiser import Denoiser
from dipp.privacy.budget import is_whole

if TYPE_CHECKING:
    import torch

SAMPLE_CALLS = 8
"""Network calls to sample, unless told. By looks (`benchmarks/looks.py`): at ε = 1, 3 calls hardly differ from the
expected picture, and 8 are as sharp as 20, with a PSNR of 0.1 dB less to 0.4 dB more."""


@dataclass(frozen=True)
class Finish:
    """Which picture is wanted; the expected one, unless told."""

    denoise: bool = True
    """False: the noisy reconstruction."""
    sample: bool = False
    """True: a plausible picture, and not the expected one."""
    calls: int | None = None
    """Network calls: 1 gives the expected picture, more sample. None: 1, or `SAMPLE_CALLS` to sample."""
    ancestral: bool = False
    """True: through every timestep, whatever the number of calls."""

    def __post_init__(self) -> None:
        least = 2 if self.sample else 1
        if self.calls is not None and not (is_whole(self.calls) and self.calls >= least):
            raise DippError(
                f"calls: a whole number ≥ {least} is needed{' to sample' * self.sample}, got {self.calls!r}"
            )

    def network_calls(self, trajectory: Trajectory, steps: int) -> int:
        """Calls of the network for the picture of a state after so many steps, or about as many."""
        if not self.denoise:
            return 0
        if self.ancestral:
            return trajectory.timestep(steps) + 1
        return self.calls or (SAMPLE_CALLS if self.sample else 1)

    def picture(
        self,
        trajectory: Trajectory,
        denoiser: Denoiser,
        steps: int,
        state: torch.Tensor,
        noise: Callable[[int], torch.Tensor],
    ) -> torch.Tensor:
        """The picture of a state after so many steps; `noise` has the public normals of ancestral sampling."""
        if not self.denoise:
            return trajectory.noisy(steps, state)[0]
        calls = self.network_calls(trajectory, steps)
        if calls == 1 and not self.ancestral:
            return trajectory.expected(steps, state)

        def predict(x_t: torch.Tensor, t: int) -> torch.Tensor:
            return denoiser.x0(x_t, t, fast=True)

        noisy, t = trajectory.noisy(steps, state)
        if self.ancestral:
            return diffusion.ancestral(predict, denoiser.schedule, noisy, t, noise)
        return diffusion.fast(predict, denoiser.schedule, noisy, t, calls)


UNFINISHED = Finish(denoise=False)
"""The state as it is."""
