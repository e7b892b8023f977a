"""The protocol of a denoiser: (x_t, t) → x̂0, for pictures of any size.

A denoiser is public. A certificate rests on nothing that it does, so that any class with this face will do; how good
the pictures are rests on it alone. Sender and receiver must have the same one (`identity`), and inside the coded steps
it must have the accuracy of fp32: another machine's x̂0 then differs by rounding only, and both stay within a fraction
of a grey level of each other.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from dipp.errors import DippError
from dipp.models.diffusion import NoiseSchedule

if TYPE_CHECKING:
    import torch

DEVICES = ("cpu", "cuda")
MAX_PICTURE = 1 << 26
"""Pixels of a picture, at most: 64 megapixels. One takes about 250 bytes of memory while it is encoded."""


class Denoiser(ABC):
    """A network with its noise schedule. Implementations are made by `models.load`."""

    schedule: NoiseSchedule
    identity: str
    """Hex SHA-256 over all that x̂0 depends on (`models.identity`)."""
    channels: int
    """C of the pictures that it takes."""
    sample_size: tuple[int, int]
    """Height and width of the pictures that it was trained on."""
    device: torch.device

    @abstractmethod
    def x0(self, x_t: torch.Tensor, t: int, *, fast: bool = False) -> torch.Tensor:
        """x̂0 of images (N, C, H, W) of any size at one timestep, clamped to [−1, 1], in fp32, on the denoiser's device.

        `fast` may take fewer bits: for the final denoising only, which nobody has to follow.
        """

    def at_snr(self, y: torch.Tensor, snr: float, *, fast: bool = False) -> torch.Tensor:
        """x̂0 of states y = x0 + noise/√SNR at any SNR above 0: `x0` of γ_t·y at the timestep of the nearest SNR.

        A network that takes the SNR itself has its own.
        """
        t = self.schedule.nearest(snr)
        return self.x0(self.schedule.gamma(t) * y, t, fast=fast)

    @property
    def sample_pixels(self) -> int:
        """Pixels of a picture of the denoiser's own size: what plans are made for, unless told."""
        return math.prod(self.sample_size)

    def require_identity(self, expected: str) -> None:
        """Refuse to go on with a file that was made with another denoiser."""
        if self.identity != expected:
            raise DippError(f"model: the file was made with {expected}, but {self.identity} is loaded")


def torch_device(name: str) -> torch.device:
    """The device of a name, if it is here."""
    import torch

    if name not in DEVICES:
        raise DippError(f"device: cpu or cuda is needed, got {name!r}")
    if name == "cuda" and not torch.cuda.is_available():
        raise DippError(f"device: {name} is not available here; use cpu")
    return torch.device(name)
