"""Denoisers for photographs of any size: the convolutional network of `network`, in a folder of its own format.

    config.json             the sizes of the network, with "_class_name": "PhotoNet"
    model.safetensors       its weights
    scheduler_config.json   a noise schedule in diffusers' terms, for plans and samplers along timesteps

The network takes the SNR itself, as a number, so between timesteps nothing is rounded. At a timestep t it is asked for
y = x_t/γ_t at SNR(t). What more it is told, its config says (`network.Config.planes`): every engine takes one stacked
tensor of those planes, and the level.

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
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dipp import files
from dipp.core.arrays import Array, alike, host, library
from dipp.errors import DippError
from dipp.models import hub
from dipp.models.config import LARGEST_SNR, Config
from dipp.models.denoiser import Device, Numbers
from dipp.models.diffusion import NoiseSchedule
from dipp.models.evidence import Evidence
from dipp.models.identity import identity
from dipp.models.running import NetworkDenoiser
from dipp.models.tiles import tiled

if TYPE_CHECKING:
    import torch

    from dipp.models.network import Network
    from dipp.models.runtime import Runtime
    from dipp.models.winograd import Winograd

Floats = NDArray[np.float32]

CLASS = "PhotoNet"
CONFIG, WEIGHTS, SCHEDULER_CONFIG = "config.json", "model.safetensors", "scheduler_config.json"
SAMPLE_SIZE = (32, 32)
"""The smallest pictures that the network is trained on: plans are made for them by default, and serve all larger
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


def load(name: str, folder: Path, config: dict[str, Any], config_path: Path, device: Device) -> PhotoDenoiser:
    """Load a denoiser from its folder; `config` is the network config, already read from `config_path` in it."""
    place = config_path.with_name(SCHEDULER_CONFIG)
    scheduler = hub.read_json(name, folder / hub.find(name, folder, (place.as_posix(),)))
    schedule = NoiseSchedule.from_config(scheduler)  # refused before weights are fetched
    stored = hub.read_arrays(name, config_path.with_name(WEIGHTS))
    own = _config(name, config, stored)
    weights = {name: values.astype(np.float32) for name, values in stored.items()}
    return PhotoDenoiser(schedule, identity(config, scheduler, stored), device, own, weights)


def write(folder: Path, config: Config, tensors: Mapping[str, torch.Tensor]) -> None:
    """Write a denoiser that `load` reads, each file whole or not at all; the weights are stored in half precision."""
    import torch
    from safetensors.torch import save

    stored = {name: tensor.detach().to("cpu", torch.float16).contiguous() for name, tensor in tensors.items()}
    if not all(bool(tensor.isfinite().all()) for tensor in stored.values()):
        raise DippError("model", "the weights are not finite in half precision", "train with a lower learning rate")
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in ((CONFIG, {"_class_name": CLASS, **asdict(config)}), (SCHEDULER_CONFIG, SCHEDULER)):
        with files.atomic(folder / name) as part:
            part.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    with files.atomic(folder / WEIGHTS) as part:
        part.write_bytes(save(stored))


@dataclass(frozen=True, eq=False)
class PhotoDenoiser(NetworkDenoiser):
    """A network for photographs, with a noise schedule.

    On the CPU its engines take arrays of NumPy, and PyTorch is never loaded; what is given as tensors comes out as one.
    """

    config: Config
    weights: Mapping[str, Floats] = field(repr=False)
    """By their names in PyTorch."""
    channels = 3
    sample_size = SAMPLE_SIZE
    any_size = True

    number = float
    pixels_per_call = PIXELS_PER_CALL
    graph_pixels = GRAPH_PIXELS

    @property
    def planes(self) -> tuple[str, ...]:  # type: ignore[override]
        """What of the evidence the network takes, by its config."""
        return self.config.planes

    def placed(self, values: NDArray[np.float32]) -> Array:
        """Return states as they are on the CPU, and as tensors on other devices."""
        return values if self.device.type == "cpu" else super().placed(values)

    def predict(self, evidence: Evidence, numbers: Numbers = Numbers.SENSING) -> Array:
        """Return x̂0, given evidence (`Denoiser.predict`). Of a mere SNR of 0, it is the idea of a mean picture."""
        level, shape = evidence.level, tuple(evidence.state.shape)
        if not level < math.inf:
            raise DippError("snr", f"a number from 0 on is needed, got {level}")
        self._check_shape(shape)
        config, number = self.config, min(level, LARGEST_SNR)  # a larger one may be beyond fp32
        at_once = max(1, self.pixels_per_call[self.device.type] // math.prod(shape[2:]))

        def of(images: slice) -> Array:
            def predict(rows: slice, columns: slice) -> Array:
                told = evidence.part(images, rows, columns).stacked(config.planes, LARGEST_SNR)
                return self._predicted(told, number, numbers)

            return tiled(predict, (shape[2], shape[3]), config.stride, config.margin, TILE)

        parts = [of(slice(first, first + at_once)) for first in range(0, shape[0], at_once)]
        return evidence.restored(parts[0] if len(parts) == 1 else library(parts[0]).concatenate(parts))

    def _predicted(self, told: Array, number: float, numbers: Numbers) -> Array:
        """Return x̂0 of one batch of stacked planes: on the CPU by an engine of its own."""
        if self.device.type == "cpu":
            engine = self._large if math.prod(told.shape[2:]) >= LARGE_PIXELS else self._runtime
            return alike(engine(host(told).astype(np.float32, copy=False), number), told)
        import torch

        with torch.inference_mode():
            found = self._predict(self._moved(told), number, numbers)
        # Outside inference mode, so that the caller gets a tensor without the restrictions of that mode.
        return found.clamp(-1, 1).contiguous()

    @functools.cached_property
    def network(self) -> Network:
        """The network in PyTorch, on the device."""
        import torch

        from dipp.models.engine import built
        from dipp.models.network import Network

        tensors = {name: torch.from_numpy(values) for name, values in self.weights.items()}
        made: Any = built("the model", lambda: Network(self.config), tensors, torch.device(self.device))
        return made  # type: ignore[no-any-return]

    def _module(self) -> Network:
        return self.network

    @staticmethod
    def _output(network: Any, x: torch.Tensor, number: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = network(x, number)
        return output

    @functools.cached_property
    def _runtime(self) -> Runtime:
        from dipp.models.runtime import Runtime

        return Runtime(self.config, self.weights)

    @functools.cached_property
    def _large(self) -> Winograd | Runtime:
        """For large pictures: the runtime as well, where the faster kernels are not made for machine or network."""
        from dipp.models.winograd import Winograd, possible

        return Winograd(self.config, self.weights) if possible(self.config) else self._runtime


def _config(name: str, content: Mapping[str, Any], stored: Mapping[str, NDArray[Any]]) -> Config:
    """Return the config of a network that has exactly the stored weights."""
    # A config that names no planes is of a network that takes a state and one SNR: the first ones had no others.
    if missing := {field.name for field in fields(Config)} - content.keys() - {"planes"}:
        # A default that changes would change the network, and leave its identity as it is.
        raise DippError("model", f"the config of {name} does not say its {', '.join(sorted(missing))}")
    try:
        config = Config.from_dict(content)
        wanted, found = config.shapes(), {key: values.shape for key, values in stored.items()}
        if wrong := sorted(key for key in wanted.keys() | found.keys() if wanted.get(key) != found.get(key)):
            key = wrong[0]
            raise ValueError(f"{key} has the shape {found.get(key)} in place of {wanted.get(key)}")
    except (ValueError, TypeError, KeyError) as error:
        raise DippError("model", f"weights and config of {name} do not make a network: {error}") from None
    return config
