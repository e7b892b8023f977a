"""Denoisers in diffusers' format: pretrained unconditional networks of the class `UNet2DModel`.

Such a denoiser is a folder, or a hub repository, with a network (config and weights) and a scheduler config, in `unet/`
and `scheduler/` or side by side.

**Numbers.** Coded steps along timesteps need the accuracy of fp32, and TF32 is enough for sensing
(`denoiser.Numbers`). On CUDA the network is captured as one graph for each padded batch size (`engine`).

**Evidence.** As latent models, it takes a merged state at the nearest timestep, and ignores answers to comparisons.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dipp.core.geometry import Geometry
from dipp.errors import DippError
from dipp.models import hub, watch
from dipp.models.denoiser import MAX_PICTURE, Device, Numbers
from dipp.models.diffusion import NoiseSchedule
from dipp.models.evidence import Evidence
from dipp.models.identity import covered, identity
from dipp.models.running import NetworkDenoiser

if TYPE_CHECKING:
    import torch

WEIGHTS = "diffusion_pytorch_model.safetensors"
"""Name of the file of weights."""
NETWORK_CONFIGS = ("unet/config.json", "transformer/config.json", "config.json")
"""Paths that the network config may have in a model's folder."""
SCHEDULER_CONFIGS = ("scheduler/scheduler_config.json", "scheduler_config.json")
"""Paths that the scheduler config may have in a model's folder."""
INDEX = "model_index.json"
"""File that lists the components of a pipeline."""
OLD_NAMES = {"query": "to_q", "key": "to_k", "value": "to_v", "proj_attn": "to_out.0"}
"""Names of attention weights in older models, with their present names in diffusers."""
OLD_NAME = re.compile(rf"(?<=\.)({'|'.join(OLD_NAMES)})(?=\.(weight|bias)$)")
PIXELS_PER_CALL = {"cpu": 16 << 10, "mps": 16 << 10, "cuda": 256 << 10}
"""Largest number of pixels in one call of the network, by device."""


def load(name: str, folder: Path, config: dict[str, Any], config_path: Path, device_name: Device) -> UNetDenoiser:
    """Load a denoiser on pixels in diffusers' format.

    Args:
        name: Folder or hub id, for error messages and to fetch weights.
        folder: Local folder of the model.
        config: The network config.
        config_path: Path of that config, relative to the folder.
        device_name: Device on which the model shall run.

    Raises:
        DippError: A file is missing or damaged, or the network takes more than a state and a timestep.
    """
    import torch

    device = torch.device(device_name)
    index = hub.read_json(name, folder / INDEX) if (folder / INDEX).is_file() else {}
    _check_kind(name, config, index)
    scheduler_config = hub.read_json(name, folder / hub.find(name, folder, SCHEDULER_CONFIGS))
    schedule = NoiseSchedule.from_config(scheduler_config)  # refused before weights are fetched
    tensors = hub.read_tensors(name, config_path.with_name(WEIGHTS))
    size = config["sample_size"]
    return UNetDenoiser(
        network=_build(name, config, tensors, device),
        schedule=schedule,
        identity=identity(config, scheduler_config, tensors),
        channels=config["in_channels"],
        sample_size=(size, size) if isinstance(size, int) else (size[0], size[1]),
        multiple=2 ** (len(config["block_out_channels"]) - 1),
        device=device,
    )


@dataclass(frozen=True, eq=False)
class UNetDenoiser(NetworkDenoiser):
    """A `UNet2DModel` with its noise schedule."""

    network: torch.nn.Module
    """The network, on the device."""
    channels: int
    """Number of channels of the pictures, 1 or 3."""
    sample_size: tuple[int, int]
    """Height and width that the network was trained on; images of other sizes go through it in windows (`windows`)."""
    multiple: int
    """Number that must divide both sides, because the network halves them several times."""

    number = int
    pixels_per_call = PIXELS_PER_CALL

    def __post_init__(self) -> None:
        height, width = self.sample_size
        if height % self.multiple or width % self.multiple:
            raise DippError(
                "model", f"has the sample_size {height}×{width}, which must be a multiple of {self.multiple}"
            )

    def x0(self, x_t: torch.Tensor, t: int, *, fast: bool = False) -> torch.Tensor:
        """Return the pictures x̂0 predicted from states x_t (N, C, H, W) of any size at a timestep: fp32 in [−1, 1].

        `fast` runs the network in bf16 on CUDA. It is for the final denoising only, which no other machine has to
        reproduce.
        """
        return self._any_size(x_t, t, Numbers.FAST if fast else Numbers.EXACT)

    def predict(self, evidence: Evidence, numbers: Numbers = Numbers.SENSING) -> torch.Tensor:
        """Return the pictures x̂0 predicted from the merged state, at the timestep nearest in SNR to its level.

        The network takes one SNR for all pixels, so differences of precision between pixels are ignored.
        """
        t = self.schedule.nearest(evidence.level)
        x_t = self.schedule.gamma(t) * evidence.merged.state
        x_hat: torch.Tensor = evidence.restored(self._any_size(x_t, t, numbers))
        return x_hat

    def _any_size(self, x_t: torch.Tensor, t: int, numbers: Numbers) -> torch.Tensor:
        from dipp.models import windows

        x_t = self._batch(x_t)
        if tuple(x_t.shape[2:]) == self.sample_size:
            x_hat = self._x0(x_t, t, numbers)
            watch.predicted(len(x_t) * math.prod(self.sample_size))
            return x_hat
        return windows.blend(lambda part: self._x0(part, t, numbers), x_t, self.sample_size)

    def _check_shape(self, shape: tuple[int, ...]) -> None:
        super()._check_shape(shape)
        self.require_size(Geometry(shape[2], shape[3], shape[1]))

    def require_size(self, picture: Geometry) -> None:
        """Raise if a picture is too large after it was extended to the network's own size (`windows.mirrored`)."""
        height, width = picture.height, picture.width
        if math.prod(map(max, (height, width), self.sample_size)) > MAX_PICTURE:
            raise DippError(
                "image",
                f"of {height}×{width} is too large for a network of {self.sample_size}, which extends short sides",
                "cut it into parts",
            )

    def _x0(self, x_t: torch.Tensor, t: int, numbers: Numbers) -> torch.Tensor:
        """Return the pictures x̂0 predicted from states whose size the network can take."""
        output = self._in_calls(lambda part: self._predict(part, t, numbers), x_t)
        # Outside inference mode, so that the caller gets a tensor without the restrictions of that mode.
        return self.schedule.x0(output, x_t, t).contiguous()

    def _module(self) -> torch.nn.Module:
        return self.network

    @staticmethod
    def _output(network: Any, x: torch.Tensor, number: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = network(x, number, return_dict=False)[0]
        return output


def _check_kind(name: str, config: Mapping[str, Any], index: Mapping[str, Any]) -> None:
    """Raise unless the network takes states of pixels and a timestep alone, by its config and the pipeline's index."""
    kind, inputs, outputs = (config.get(key) for key in ("_class_name", "in_channels", "out_channels"))
    others = [part for part in index if not part.startswith("_") and part not in ("unet", "scheduler")]
    refusals = {
        f"holds a {kind}": kind != "UNet2DModel",
        f"also has {', '.join(others)}": bool(others),
        "is conditional": {config.get("class_embed_type"), config.get("num_class_embeds")} != {None},
        "takes noise levels, not timesteps": config.get("time_embedding_type") == "fourier",
        f"maps {inputs} channels to {outputs}": inputs != outputs or inputs not in (1, 3),
        "does not say its sample_size": not _is_size(config.get("sample_size")),
        "does not say its block_out_channels": not config.get("block_out_channels"),
    }
    for reason, refused in refusals.items():
        if refused:
            raise DippError("model", f"{name} {reason}", "name a pipeline of an unconditional UNet2DModel")


def _is_size(size: Any) -> bool:
    sides = size if isinstance(size, list | tuple) else (size, size)
    return len(sides) == 2 and all(isinstance(side, int) and side > 0 for side in sides)


def _build(
    name: str, config: dict[str, Any], tensors: Mapping[str, torch.Tensor], device: torch.device
) -> torch.nn.Module:
    """Return the network with exactly the stored tensors, on the device."""
    from diffusers import UNet2DModel

    from dipp.models.engine import built

    return built(name, lambda: UNet2DModel.from_config(covered(config)), renamed(tensors), device)  # type: ignore[no-untyped-call]


def renamed(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return tensors by their present names in diffusers, given tensors by their present or old names."""
    return {OLD_NAME.sub(lambda old: OLD_NAMES[old[1]], key): tensor for key, tensor in tensors.items()}
