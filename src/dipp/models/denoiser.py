"""The protocol of a denoiser: evidence → x̂0, for pictures of any size.

A denoiser is public, and a certificate does not depend on what it computes: any class with this interface will do. Only
the quality of the pictures depends on it. Sender and receiver must have the same denoiser (`identity`), and inside the
coded steps it must be accurate enough that the pictures of two machines stay within a fraction of a grey level of each
other: fp32 along timesteps (`x0`), and TF32 products will do on sensing chains (`predict`).
"""

from __future__ import annotations

import ctypes
import functools
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dipp.core.arrays import Array
from dipp.core.geometry import Geometry
from dipp.core.latents import Latents
from dipp.errors import DippError
from dipp.models.diffusion import NoiseSchedule
from dipp.models.evidence import Evidence

if TYPE_CHECKING:
    import torch

    from dipp.models.books import Books

DEVICES = ("auto", "cuda", "mps", "cpu")
"""Names of devices; auto is the first of the others that this machine has."""
MAX_PICTURE = 1 << 26
"""Largest number of pixels of a picture (64 megapixels). A pixel takes about 250 bytes of memory while it is
encoded."""


class Numbers(Enum):
    """How exactly the network computes on CUDA; on the CPU it is always fp32."""

    EXACT = "fp32, by three TF32 products"
    """For steps along timesteps: a call moves pixels by less than 0.03 grey levels of 255."""
    SENSING = "TF32"
    """For sensing: 16 calls along chains of ε = 1 to 16 moved no pixel of 256 pictures by more than 0.27 grey levels of
    255. (Along timesteps, four calls moved some by 2.5: there the state is extrapolated, and errors grow.)"""
    FAST = "bf16"
    """For the final denoising, which no other machine has to reproduce."""


class Device(str):
    """A device by its name, which PyTorch takes as it takes its own devices; it is named without loading PyTorch."""

    __slots__ = ()

    @property
    def type(self) -> str:
        """The name."""
        return str(self)


class Denoiser(ABC):
    """A network with its noise schedule; `models.load` makes one from a folder or a hub id."""

    schedule: NoiseSchedule
    identity: str
    """Hex SHA-256 over everything that x̂0 depends on (`models.identity`)."""
    channels: int
    """Number C of channels of the pictures."""
    sample_size: tuple[int, int]
    """Height and width of the pictures that the network was trained on, or of the smallest of them."""
    any_size: bool = False
    """Whether it was trained on pictures of many sizes, and is calibrated on them."""
    device: torch.device | Device
    planes: tuple[str, ...] = ("state",)
    """What of the evidence it takes, beside one SNR: by the names of `config.CHANNELS`, without `inside`."""
    books: Books | None = None
    """The public words by which questions describe blocks; None if the model has none."""
    latents: Latents | None = None
    """The shape of the latents that are its pictures; None if those are pixels."""
    prompt: str = ""
    """The public text that the network is told, for models that take one."""

    def __getstate__(self) -> dict[str, Any]:
        """What copies and pickles are made of: all but engines, which a copy makes anew when it needs them."""
        own = {name: getattr(type(self), name, None) for name in vars(self)}
        return {name: vars(self)[name] for name in own if not isinstance(own[name], functools.cached_property)}

    @abstractmethod
    def predict(self, evidence: Evidence, numbers: Numbers = Numbers.SENSING) -> Array:
        """Return x̂0 (N, C, H, W), given evidence of pictures of any size; in fp32, on the denoiser's device.

        What is not exactly known is clamped to [−1, 1].

        Args:
            evidence: All that is known. A denoiser takes what its `planes` name. Without a plane of estimates, it is
                told state and estimate as one; without one of precisions, one SNR for all (`Evidence.merged`, `level`).
            numbers: How exactly to compute.
        """

    def x0(self, x_t: Array, t: int, *, fast: bool = False) -> Array:
        """Return x̂0 of states x_t (N, C, H, W) at one timestep: the prediction from x_t/γ_t at SNR(t).

        `fast` allows a lower precision. It is for the final denoising only, which no other machine has to reproduce.
        """
        evidence = Evidence(x_t / self.schedule.gamma(t), self.schedule.snr(t))
        return self.predict(evidence, Numbers.FAST if fast else Numbers.EXACT)

    def placed(self, values: NDArray[np.float32]) -> Array:
        """Return states as the denoiser takes them: by default tensors on its device."""
        import torch

        return torch.from_numpy(values).to(self.device)

    def geometry(self, height: int | None = None, width: int | None = None) -> Geometry:
        """Return the geometry of a picture of this size for the denoiser; by default of its own size."""
        own_height, own_width = self.sample_size
        return Geometry(own_height if height is None else height, own_width if width is None else width, self.channels)

    @property
    def colours(self) -> int:
        """Channels of the pictures that are encoded: those of the pixels, where `channels` are those of latents."""
        return self.channels if self.latents is None else 3

    def geometry_of(self, picture: Geometry) -> Geometry:
        """Return the geometry of what is coded of a picture: its own, or that of its latents."""
        return picture if self.latents is None else self.latents.geometry(picture)

    def coded(self, pixels: Any) -> Any:
        """Return the private eight-bit values (N, h, w, c) that are coded of pixels (N, H, W, C): by default those."""
        return pixels

    def picture(self, x: Array, geometry: Geometry) -> Array:  # noqa: ARG002
        """Return the pictures (N, C, H, W) of predictions (N, c, h, w), by default the same."""
        return x

    def prompted(self, prompt: str) -> Denoiser:
        """Return the denoiser with a public prompt, or raise if it takes none."""
        if prompt:
            raise DippError("prompt", "this model takes none", "leave it out, or name a latent model with --model")
        return self

    def require_size(self, picture: Geometry) -> None:  # noqa: B027 - most take any size
        """Raise if pictures of this size cannot be predicted: called before pictures are charged."""

    def prepare(self) -> None:  # noqa: B027 - most have nothing to load
        """Load what only predictions need, or raise if that fails: called before pictures are charged."""

    def require_identity(self, expected: str) -> None:
        """Refuse a file that was made with another denoiser; `expected` is the identity that the file states."""
        if self.identity != expected:
            raise DippError(
                "model",
                f"the file was made with {expected}, but {self.identity} is loaded",
                "name the former with --model",
            )


class TimestepDenoiser(Denoiser):
    """A denoiser that knows only the noise of its schedule's timesteps; it takes the merged state, and one SNR."""

    @abstractmethod
    def x0(self, x_t: torch.Tensor, t: int, *, fast: bool = False) -> torch.Tensor:
        """Return x̂0 of states x_t (N, C, H, W) of any size at one timestep, as `Denoiser.x0`."""

    def predict(self, evidence: Evidence, numbers: Numbers = Numbers.SENSING) -> torch.Tensor:
        """Return x̂0 at the timestep whose SNR is nearest to the evidence's level."""
        t = self.schedule.nearest(evidence.level)
        x_hat = self.x0(self.schedule.gamma(t) * evidence.merged.state, t, fast=numbers is Numbers.FAST)
        found: torch.Tensor = evidence.restored(x_hat)
        return found


def device_named(name: str | torch.device) -> Device:
    """Return the device called `name`, one of `DEVICES`; refused if this machine does not have it."""
    name = str(name)
    if name not in DEVICES:
        several = "; the environment variable CUDA_VISIBLE_DEVICES chooses among several" * name.startswith("cuda:")
        raise DippError("device", f"{', '.join(DEVICES[:-1])} or {DEVICES[-1]} is needed, got {name!r}{several}")
    if name == "cpu" or (name == "auto" and not _has_driver()):
        return Device("cpu")
    import torch

    here: dict[str, Callable[[], bool]] = {
        "cuda": torch.cuda.is_available,
        "mps": torch.backends.mps.is_available,
        "cpu": lambda: True,
    }
    if name == "auto":
        name = next(one for one, is_there in here.items() if is_there())
    elif not here[name]():
        raise DippError("device", f"{name} is not available here", "use cpu, or auto")
    return Device(name)


def torch_device(name: str | torch.device) -> torch.device:
    """Return the same as PyTorch's."""
    found = device_named(name)
    import torch

    return torch.device(found)


def _has_driver() -> bool:
    """Return whether PyTorch must be asked for a device: it may be a Mac's, or CUDA's driver is installed."""
    if sys.platform == "darwin" or "torch" in sys.modules:
        return True
    try:
        ctypes.CDLL("libcuda.so.1" if sys.platform == "linux" else "nvcuda.dll")
    except OSError:
        return False
    return True
