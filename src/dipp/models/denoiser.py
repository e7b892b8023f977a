"""The protocol of a denoiser, which predicts pictures x̂0 of any size from evidence.

A denoiser is public, and a certificate does not depend on what it computes, so any class with this interface will do.
Only the quality of the pictures depends on it. Sender and receiver must have the same denoiser (`identity`). Inside the
coded steps, the pictures of two machines must stay within a fraction of a grey level of each other. That takes fp32
along timesteps (`x0`), while TF32 products are enough for sensing (`predict`).
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
"""Names of devices. `auto` is the first available of cuda, mps and cpu."""
MAX_PICTURE = 1 << 26
"""Largest number of pixels of a picture: 64 megapixels. Encoding takes about 250 bytes of memory for each pixel."""


class Numbers(Enum):
    """The precision in which a network computes on CUDA. On the CPU it is always fp32."""

    EXACT = "fp32, by three TF32 products"
    """Precision of steps along timesteps: one call moves pixels by less than 0.03 grey levels of 255."""
    SENSING = "TF32"
    """Precision of sensing: 16 calls along chains of ε = 1 to 16 moved no pixel of 256 pictures by more than 0.27 grey
    levels of 255. (Along timesteps, where the state is extrapolated and errors grow, four calls moved some by 2.5.)"""
    FAST = "bf16"
    """Precision of the final denoising, which no other machine has to reproduce."""


class Device(str):
    """The name of a device, made without loading PyTorch. PyTorch accepts it in place of its own devices."""

    __slots__ = ()

    @property
    def type(self) -> str:
        """Name of the kind of device: cuda, mps or cpu."""
        return str(self)


class Denoiser(ABC):
    """A network with its noise schedule. `models.load` loads one from a folder or a hub id."""

    schedule: NoiseSchedule
    """Noise levels by timestep."""
    identity: str
    """Hex SHA-256 over everything that x̂0 depends on (`models.identity`)."""
    channels: int
    """Number C of channels of the pictures or latents that it predicts."""
    sample_size: tuple[int, int]
    """Height and width of the smallest pictures that the network was trained on."""
    any_size: bool = False
    """Whether the network was trained and calibrated on pictures of many sizes."""
    device: torch.device | Device
    """Where the network runs."""
    planes: tuple[str, ...] = ("state",)
    """Planes of the evidence that the network takes beside one SNR: names of `config.CHANNELS`."""
    books: Books | None = None
    """The public words by which questions describe blocks; None if the model has none."""
    latents: Latents | None = None
    """The shape of the latents of a picture, for latent models; None for models on pixels."""
    prompt: str = ""
    """The public text that conditions the network, for models that take one."""

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for copies and pickles, without cached engines, which a copy makes when it needs them."""
        declared = {name: getattr(type(self), name, None) for name in vars(self)}
        return {
            name: vars(self)[name] for name in declared if not isinstance(declared[name], functools.cached_property)
        }

    @abstractmethod
    def predict(self, evidence: Evidence, numbers: Numbers = Numbers.SENSING) -> Array:
        """Return the predicted pictures x̂0, given evidence of pictures of any size.

        Args:
            evidence: All that is known of the pictures. A denoiser uses the planes that `planes` names. Without a plane
                of estimates, it uses the merged state; without one of precisions, one SNR for all pixels
                (`Evidence.merged`, `Evidence.level`).
            numbers: The precision on CUDA.

        Returns:
            x̂0 (N, C, H, W), fp32, on the denoiser's device. Coordinates that are not exactly known are clamped to
            [−1, 1].
        """

    def x0(self, x_t: Array, t: int, *, fast: bool = False) -> Array:
        """Return the pictures x̂0 predicted from states of the noise schedule.

        Args:
            x_t: States (N, C, H, W).
            t: Their timestep.
            fast: Whether a lower precision may be used: for the final denoising only, which no other machine has to
                reproduce.

        Returns:
            x̂0 (N, C, H, W), fp32: the prediction from x_t/γ_t at SNR(t).
        """
        evidence = Evidence(x_t / self.schedule.gamma(t), self.schedule.snr(t))
        return self.predict(evidence, Numbers.FAST if fast else Numbers.EXACT)

    def placed(self, values: NDArray[np.float32]) -> Array:
        """Return fp32 values as arrays that the denoiser takes, by default as tensors on its device."""
        import torch

        return torch.from_numpy(values).to(self.device)

    def geometry(self, height: int | None = None, width: int | None = None) -> Geometry:
        """Return the geometry of what the denoiser predicts: of its own size by default, with its channels.

        Args:
            height: Height in pixels; that of `sample_size` by default.
            width: Width in pixels; that of `sample_size` by default.
        """
        own_height, own_width = self.sample_size
        return Geometry(own_height if height is None else height, own_width if width is None else width, self.channels)

    @property
    def colours(self) -> int:
        """Number of channels of the encoded pictures. For latent models, `channels` is that of the latents instead."""
        return self.channels if self.latents is None else 3

    def geometry_of(self, picture: Geometry) -> Geometry:
        """Return the geometry of the values that are coded for a picture: those of its pixels, or of its latents."""
        return picture if self.latents is None else self.latents.geometry(picture)

    def coded(self, pixels: Any) -> Any:
        """Return the private eight-bit values (N, h, w, c) coded for pixels (N, H, W, C): by default the pixels."""
        return pixels

    def picture(self, x: Array, geometry: Geometry) -> Array:  # noqa: ARG002
        """Return the pictures (N, C, H, W) of predictions (N, c, h, w), by default the predictions themselves.

        Args:
            x: Predictions (N, c, h, w).
            geometry: Geometry of the pictures.
        """
        return x

    def prompted(self, prompt: str) -> Denoiser:
        """Return the denoiser with a public prompt, or raise if it takes none."""
        if prompt:
            raise DippError("prompt", "must be empty: the model takes no text", "leave it out, or use a latent model")
        return self

    def require_size(self, picture: Geometry) -> None:  # noqa: B027 - most take any size
        """Raise if pictures of this size cannot be predicted. It is called before pictures are charged."""

    def prepare(self) -> None:  # noqa: B027 - most have nothing to load
        """Load everything that predictions need, or raise. It is called before pictures are charged."""

    def require_identity(self, expected: str) -> None:
        """Raise if a file was made with another denoiser.

        Args:
            expected: Identity that the file states.
        """
        if self.identity != expected:
            raise DippError(
                "model",
                f"has the identity {self.identity}, and the file was made with {expected}",
                "name the model of the file with --model",
            )


class TimestepDenoiser(Denoiser):
    """A denoiser that takes one timestep of its schedule, and no other evidence than the merged state."""

    @abstractmethod
    def x0(self, x_t: torch.Tensor, t: int, *, fast: bool = False) -> torch.Tensor:
        """Return the pictures x̂0 predicted from states x_t (N, C, H, W) of any size at one timestep (`Denoiser.x0`)."""

    def predict(self, evidence: Evidence, numbers: Numbers = Numbers.SENSING) -> torch.Tensor:
        """Return the pictures x̂0 predicted from the merged state, at the timestep nearest in SNR to its level."""
        t = self.schedule.nearest(evidence.level)
        x_hat = self.x0(self.schedule.gamma(t) * evidence.merged.state, t, fast=numbers is Numbers.FAST)
        restored: torch.Tensor = evidence.restored(x_hat)
        return restored


def require_pixels(width: int, height: int) -> None:
    """Raise unless a picture has 1 to `MAX_PICTURE` pixels.

    Args:
        width: Width of the picture in pixels.
        height: Height of the picture in pixels.

    Raises:
        DippError: The picture is empty or too large.
    """
    if not 0 < width * height <= MAX_PICTURE:
        raise DippError("image", f"must have 1 pixel to {MAX_PICTURE >> 20} megapixels, got {width}×{height}")


def device_named(name: str | torch.device) -> Device:
    """Return a device by its name, loading PyTorch only if the machine may have a GPU.

    Args:
        name: One of `DEVICES`.

    Raises:
        DippError: The name is unknown, or this machine does not have the device.
    """
    name = str(name)
    if name not in DEVICES:
        several = "choose a GPU by the environment variable CUDA_VISIBLE_DEVICES" * name.startswith("cuda:")
        raise DippError("device", f"must be {', '.join(DEVICES[:-1])} or {DEVICES[-1]}, got {name!r}", several)
    if name == "cpu" or (name == "auto" and not _has_driver()):
        return Device("cpu")
    import torch

    available: dict[str, Callable[[], bool]] = {
        "cuda": torch.cuda.is_available,
        "mps": torch.backends.mps.is_available,
        "cpu": lambda: True,
    }
    if name == "auto":
        name = next(device for device, is_available in available.items() if is_available())
    elif not available[name]():
        raise DippError("device", f"{name} is not available on this machine", "use cpu, or auto")
    return Device(name)


def torch_device(name: str | torch.device) -> torch.device:
    """Return a device of PyTorch by its name.

    Args:
        name: One of `DEVICES`.

    Raises:
        DippError: The name is unknown, or this machine does not have the device.
    """
    device = device_named(name)
    import torch

    return torch.device(device)


def _has_driver() -> bool:
    """Return whether the machine may have a GPU: it is a Mac, CUDA's driver is installed, or PyTorch is loaded."""
    if sys.platform == "darwin" or "torch" in sys.modules:
        return True
    try:
        ctypes.CDLL("libcuda.so.1" if sys.platform == "linux" else "nvcuda.dll")
    except OSError:
        return False
    return True
