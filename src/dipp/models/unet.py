"""Denoisers in diffusers' format: pretrained unconditional networks of the class `UNet2DModel`.

Such a denoiser is a folder, or a hub repository, with a network (config and weights) and a scheduler config, in `unet/`
and `scheduler/` or side by side.

**Numbers.** Along timesteps the coded chain asks for the accuracy of fp32; a sensing chain is content with TF32
(`denoiser.Numbers`). On CUDA the network is captured as one graph per padded batch size (`engine`).
"""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dipp.errors import DippError
from dipp.models import hub, watch
from dipp.models.denoiser import MAX_PICTURE, Denoiser, Numbers
from dipp.models.diffusion import NoiseSchedule
from dipp.models.identity import identity

if TYPE_CHECKING:
    import torch

    from dipp.models.engine import Graphs

WEIGHTS = "diffusion_pytorch_model.safetensors"
NETWORK_CONFIGS = ("unet/config.json", "config.json")
SCHEDULER_CONFIGS = ("scheduler/scheduler_config.json", "scheduler_config.json")
INDEX = "model_index.json"
"""File of a pipeline that lists its parts."""
OLD_NAMES = {"query": "to_q", "key": "to_k", "value": "to_v", "proj_attn": "to_out.0"}
"""Names of attention weights in older models, and what diffusers calls them today."""
OLD_NAME = re.compile(rf"(?<=\.)({'|'.join(OLD_NAMES)})(?=\.(weight|bias)$)")
PIXELS_PER_CALL = {"cpu": 16 << 10, "mps": 16 << 10, "cuda": 256 << 10}
"""Pixels in one call of the network, at most, which bounds the memory whatever the number of images."""


def load(name: str, folder: Path, config: dict[str, Any], config_path: Path, device: torch.device) -> UNetDenoiser:
    """Load a denoiser from its folder; `config` is the network config, already read from `config_path` in it."""
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
class UNetDenoiser(Denoiser):
    """A `UNet2DModel` with its noise schedule."""

    network: torch.nn.Module
    schedule: NoiseSchedule
    identity: str
    """Hex SHA-256 over weights, network config and scheduler config (`models.identity`)."""
    channels: int
    sample_size: tuple[int, int]
    """Height and width that the network was trained on; images of other sizes go through it in windows (`windows`)."""
    multiple: int
    """Number of which both sides must be multiples, because the network halves them several times."""
    device: torch.device

    def __post_init__(self) -> None:
        height, width = self.sample_size
        if height % self.multiple or width % self.multiple:
            raise DippError(f"model: its size {height}×{width} must be a multiple of {self.multiple}")

    def sampler(self) -> Callable[[torch.Tensor, int], torch.Tensor]:
        """`x0` in bf16 by torch.compile, for the final denoising of thousands of pictures in batches of one size.

        Compiling takes most of a minute for each batch size. Not for the coded steps, which others have to reproduce.
        """
        import torch

        network: Any = torch.compile(self.network, dynamic=False)
        own = dataclasses.replace(self, network=network)
        return functools.partial(own.x0, fast=True)

    def x0(self, x_t: torch.Tensor, t: int, *, fast: bool = False) -> torch.Tensor:
        """x̂0 of images (N, C, H, W) of any size at one timestep, clamped to [−1, 1], in fp32, on the denoiser's device.

        `fast` runs the network in bf16 on CUDA, for the final denoising only, which no other machine has to reproduce.
        """
        return self._any_size(x_t, t, Numbers.FAST if fast else Numbers.EXACT)

    def at_snr(self, y: torch.Tensor, snr: float, *, fast: bool = False) -> torch.Tensor:
        """x̂0 of states y = x0 + noise/√SNR at any SNR above 0, by the timestep of the nearest SNR."""
        t = self.schedule.nearest(snr)
        return self._any_size(self.schedule.gamma(t) * y, t, Numbers.FAST if fast else Numbers.SENSING)

    def _any_size(self, x_t: torch.Tensor, t: int, numbers: Numbers) -> torch.Tensor:
        import torch

        from dipp.models import windows

        self._check_shape(x_t)
        x_t = x_t.to(self.device, torch.float32)
        if tuple(x_t.shape[2:]) == self.sample_size:
            found = self._x0(x_t, t, numbers)
            watch.predicted(len(x_t) * math.prod(self.sample_size))
            return found
        return windows.blend(lambda part: self._x0(part, t, numbers), x_t, self.sample_size)

    def _x0(self, x_t: torch.Tensor, t: int, numbers: Numbers) -> torch.Tensor:
        """x̂0 of images whose size the network can take, in as many calls as the memory asks for."""
        import torch

        size = max(1, PIXELS_PER_CALL[self.device.type] // math.prod(x_t.shape[2:]))
        with torch.inference_mode():
            output = torch.cat([self._predict(part, t, numbers) for part in torch.split(x_t, size)])
        # Outside inference mode, so that the caller gets a tensor without the restrictions of that mode.
        return self.schedule.x0(output, x_t, t).contiguous()

    def _predict(self, x_t: torch.Tensor, t: int, numbers: Numbers) -> torch.Tensor:
        """The network's output for one batch; on CUDA through a graph that was captured for its padded shape."""
        import torch

        if self.device.type != "cuda":
            x_t = x_t.contiguous(memory_format=torch.channels_last)
            return _forward(self.network, x_t, torch.tensor([t], device=self.device), Numbers.EXACT)
        return self._graphs(x_t, t, numbers)

    @functools.cached_property
    def _graphs(self) -> Graphs:
        import torch

        from dipp.models.engine import Graphs

        return Graphs(functools.partial(_forward, self.network), torch.int64, self.device)

    def _check_shape(self, x_t: torch.Tensor) -> None:
        shape = tuple(x_t.shape)
        if len(shape) != 4 or not all(shape) or shape[1] != self.channels:
            raise DippError(f"x_t: a batch (N, {self.channels}, H, W) is needed, got shape {shape}")
        # Sides below the network's own are extended by mirroring (`windows.mirrored`), which takes memory.
        if math.prod(map(max, shape[2:], self.sample_size)) > MAX_PICTURE:
            raise DippError(f"image: {shape[2]}×{shape[3]} is too long and thin for a network of {self.sample_size}")


def _check_kind(name: str, config: Mapping[str, Any], index: Mapping[str, Any]) -> None:
    """Refuse every model but an unconditional network on pixels, which takes x_t and t and nothing else."""
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
            raise DippError(f"model: {name} {reason}; a pipeline of an unconditional UNet2DModel is needed")


def _is_size(size: Any) -> bool:
    sides = size if isinstance(size, list | tuple) else (size, size)
    return len(sides) == 2 and all(isinstance(side, int) and side > 0 for side in sides)


def _build(
    name: str, config: dict[str, Any], tensors: Mapping[str, torch.Tensor], device: torch.device
) -> torch.nn.Module:
    """Make the network in fp32 from exactly the stored tensors: none may be missing, none left over."""
    import torch
    from diffusers import UNet2DModel

    from dipp.models.engine import ready

    try:
        with torch.device("meta"):  # draws no random weights: the caller's generator stays as it is
            network: Any = UNet2DModel.from_config(config)  # type: ignore[no-untyped-call]
        state = {OLD_NAME.sub(lambda old: OLD_NAMES[old[1]], key): tensor.float() for key, tensor in tensors.items()}
        network.load_state_dict(state, strict=True, assign=True)
    except (ValueError, TypeError, KeyError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise DippError(f"model: weights and config of {name} do not make a network: {reason}") from None
    return ready(network, device)


def _forward(network: torch.nn.Module, x_t: torch.Tensor, t: torch.Tensor, numbers: Numbers) -> torch.Tensor:
    from dipp.models.engine import computed

    return computed(lambda: network(x_t, t, return_dict=False)[0], x_t.device, numbers)
