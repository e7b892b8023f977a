"""Denoisers for photographs of any size: the convolutional network of `network`, in a folder of its own format.

    config.json             the sizes of the network, with "_class_name": "PhotoNet"
    model.safetensors       its weights
    scheduler_config.json   a noise schedule in diffusers' terms, for plans and samplers along timesteps

The network takes the SNR itself, as a number, so between timesteps nothing is rounded. At a timestep t it is asked for
y = x_t/γ_t at SNR(t).

**Numbers.** As for every denoiser: fp32 along timesteps, TF32 on sensing chains (`denoiser.Numbers`). On CUDA, pictures
of at most `GRAPH_PIXELS` go through graphs; with larger ones, running the kernels takes longer than launching them. On
the CPU it is always fp32: the network runs in ONNX Runtime (`runtime`), and on pictures of at least `LARGE_PIXELS` by
Winograd's convolutions (`winograd`), which take a second to load.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dipp import files
from dipp.errors import DippError
from dipp.models import hub
from dipp.models.denoiser import Denoiser, Numbers
from dipp.models.diffusion import NoiseSchedule
from dipp.models.identity import identity

if TYPE_CHECKING:
    import torch

    from dipp.models.engine import Graphs
    from dipp.models.network import Config, Network
    from dipp.models.runtime import Runtime
    from dipp.models.winograd import Winograd

CLASS = "PhotoNet"
CONFIG, WEIGHTS, SCHEDULER_CONFIG = "config.json", "model.safetensors", "scheduler_config.json"
SAMPLE_SIZE = (32, 32)
"""The smallest pictures that the network is trained on: plans are made for them, unless told, and serve all larger
ones."""
PIXELS_PER_CALL = {"cpu": 64 << 10, "mps": 64 << 10, "cuda": 512 << 10}
"""Pixels of the pictures that go through the network together; a larger picture goes alone."""
TILE = 1024
"""Pixels of the side of a tile without its margin, at most, which bounds the memory of larger pictures."""
GRAPH_PIXELS = 64 * 64
LARGE_PIXELS = 256 * 256
SCHEDULER = {
    "num_train_timesteps": 1000,
    "beta_schedule": "linear",
    "beta_start": 1e-4,
    "beta_end": 0.02,
    "prediction_type": "sample",
}
"""The noise of Ho et al. (2020), so that SNRs and timesteps are those of published DDPMs."""


def load(name: str, folder: Path, config: dict[str, Any], config_path: Path, device: torch.device) -> PhotoDenoiser:
    """Load a denoiser from its folder; `config` is the network config, already read from `config_path` in it."""
    place = config_path.with_name(SCHEDULER_CONFIG)
    scheduler = hub.read_json(name, folder / hub.find(name, folder, (place.as_posix(),)))
    schedule = NoiseSchedule.from_config(scheduler)  # refused before weights are fetched
    tensors = hub.read_tensors(name, config_path.with_name(WEIGHTS))
    network = _build(name, config, tensors, device)
    return PhotoDenoiser(network, schedule, identity(config, scheduler, tensors), device)


def write(folder: Path, config: Config, tensors: Mapping[str, torch.Tensor]) -> None:
    """Write a denoiser that `load` reads, each file whole or not at all; the weights are stored in half precision."""
    import torch
    from safetensors.torch import save

    stored = {name: tensor.detach().to("cpu", torch.float16).contiguous() for name, tensor in tensors.items()}
    if not all(bool(tensor.isfinite().all()) for tensor in stored.values()):
        raise DippError("model: the weights are not finite in half precision; train with a lower learning rate")
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in ((CONFIG, {"_class_name": CLASS, **asdict(config)}), (SCHEDULER_CONFIG, SCHEDULER)):
        with files.atomic(folder / name) as part:
            part.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    with files.atomic(folder / WEIGHTS) as part:
        part.write_bytes(save(stored))


@dataclass(frozen=True, eq=False)
class PhotoDenoiser(Denoiser):
    """A network for photographs, with a noise schedule."""

    network: Network
    schedule: NoiseSchedule
    identity: str
    """Hex SHA-256 over weights, network config and scheduler config (`models.identity`)."""
    device: torch.device
    channels = 3
    sample_size = SAMPLE_SIZE
    any_size = True

    def x0(self, x_t: torch.Tensor, t: int, *, fast: bool = False) -> torch.Tensor:
        """x̂0 of images (N, 3, H, W) of any size at one timestep: that of x_t/γ_t at SNR(t).

        `fast` runs the network in bf16 on CUDA, for the final denoising only, which no other machine has to reproduce.
        """
        numbers = Numbers.FAST if fast else Numbers.EXACT
        return self._any_size(x_t / self.schedule.gamma(t), self.schedule.snr(t), numbers)

    def at_snr(self, y: torch.Tensor, snr: float, *, fast: bool = False) -> torch.Tensor:
        """x̂0 of states y = x0 + noise/√SNR, clamped to [−1, 1], in fp32, on the denoiser's device.

        At SNR 0 the network gives its idea of a mean picture.
        """
        return self._any_size(y, snr, Numbers.FAST if fast else Numbers.SENSING)

    def _any_size(self, y: torch.Tensor, snr: float, numbers: Numbers) -> torch.Tensor:
        import torch

        from dipp.models.network import LARGEST_SNR
        from dipp.models.tiles import tiled

        shape = tuple(y.shape)
        if len(shape) != 4 or not all(shape) or shape[1] != self.channels:
            raise DippError(f"x_t: a batch (N, {self.channels}, H, W) is needed, got shape {shape}")
        if not 0 <= snr < math.inf:
            raise DippError(f"snr: a number from 0 on is needed, got {snr}")
        snr = min(snr, LARGEST_SNR)  # as the network does: a larger one may be beyond fp32
        y, config = y.to(self.device, torch.float32), self.network.config
        size = max(1, PIXELS_PER_CALL[self.device.type] // math.prod(shape[2:]))
        with torch.inference_mode():
            parts = [
                tiled(
                    functools.partial(self._predict, snr=snr, numbers=numbers), part, config.stride, config.margin, TILE
                )
                for part in torch.split(y, size)
            ]
            found = torch.cat(parts) if len(parts) > 1 else parts[0]
        # Outside inference mode, so that the caller gets a tensor without the restrictions of that mode.
        return found.clamp(-1, 1).contiguous()

    def _predict(self, y: torch.Tensor, *, snr: float, numbers: Numbers) -> torch.Tensor:
        """The network's output for one batch."""
        import torch

        if self.device.type == "cpu":
            engine = self._large if math.prod(y.shape[2:]) >= LARGE_PIXELS else self._runtime
            return engine(y, snr)
        cuda = self.device.type == "cuda"
        if cuda and math.prod(y.shape[2:]) <= GRAPH_PIXELS:
            return self._graphs(y, snr, numbers)
        y, numbers = y.contiguous(memory_format=torch.channels_last), numbers if cuda else Numbers.EXACT
        return _forward(self.network, y, torch.tensor([snr], device=self.device), numbers)

    @functools.cached_property
    def _runtime(self) -> Runtime:
        from dipp.models.runtime import Runtime

        return Runtime(self.network)

    @functools.cached_property
    def _large(self) -> Winograd | Runtime:
        """For large pictures: the runtime as well, where the faster kernels are not made for machine or network."""
        from dipp.models.winograd import Winograd, possible

        return Winograd(self.network) if possible(self.network.config) else self._runtime

    @functools.cached_property
    def _graphs(self) -> Graphs:
        import torch

        from dipp.models.engine import Graphs

        return Graphs(functools.partial(_forward, self.network), torch.float32, self.device)


def _build(name: str, config: Mapping[str, Any], tensors: Mapping[str, torch.Tensor], device: torch.device) -> Network:
    """Make the network in fp32 from exactly the stored tensors: none may be missing, none left over."""
    import torch

    from dipp.models.engine import ready
    from dipp.models.network import Config, Network

    if missing := {field.name for field in fields(Config)} - config.keys():
        # A default that changes would change the network, and leave its identity as it is.
        raise DippError(f"model: the config of {name} does not say its {', '.join(sorted(missing))}")
    try:
        with torch.device("meta"):  # draws no random weights: the caller's generator stays as it is
            network = Network(Config.from_dict(config))
        network.load_state_dict({key: tensor.float() for key, tensor in tensors.items()}, strict=True, assign=True)
    except (ValueError, TypeError, KeyError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise DippError(f"model: weights and config of {name} do not make a network: {reason}") from None
    made: Any = ready(network, device)
    return made  # type: ignore[no-any-return]


def _forward(network: Network, y: torch.Tensor, snr: torch.Tensor, numbers: Numbers) -> torch.Tensor:
    from dipp.models.engine import computed

    return computed(lambda: network(y, snr), y.device, numbers)
