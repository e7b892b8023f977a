"""Denoisers for photographs of any size: the convolutional network of `network`, in a folder of its own format.

    config.json             the sizes of the network, with "_class_name": "PhotoNet"
    model.safetensors       its weights
    scheduler_config.json   a noise schedule in diffusers' terms, for plans and samplers along timesteps

The network takes the SNR itself as a number, so SNRs between timesteps are not rounded. At a timestep t it predicts
from y = x_t/γ_t at SNR(t). Its config names the planes of the evidence that it takes (`config.Config.planes`). Every
engine takes one stacked tensor of those planes, and the level.

**Numbers.** As for every denoiser, steps along timesteps compute in fp32 and sensing in TF32 (`denoiser.Numbers`). On
CUDA, pictures of at most `GRAPH_PIXELS` go through graphs; for larger ones, running the kernels takes longer than
launching them. The CPU always computes in fp32: by ONNX Runtime (`runtime`), and for pictures of at least
`LARGE_PIXELS` in bands of rows by Winograd's convolutions (`winograd_network`), which take half a second to load.
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
from dipp.models import hub, watch
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
    from dipp.models.winograd_network import Winograd

Floats = NDArray[np.float32]
ALL = slice(None)

CLASS = "PhotoNet"
"""Class name in the configs of such networks."""
CONFIG, WEIGHTS, SCHEDULER_CONFIG = "config.json", "model.safetensors", "scheduler_config.json"
"""Names of the files in a denoiser's folder."""
SAMPLE_SIZE = (32, 32)
"""Height and width of the smallest pictures that the network is trained on. By default, plans are made for this size,
and serve all larger ones."""
PIXELS_PER_CALL = {"cpu": 64 << 10, "mps": 64 << 10, "cuda": 512 << 10}
"""Largest number of pixels in one call of the network, by device; a larger picture has a call of its own."""
TILE = 1024
"""Largest side of a tile without its margin, in pixels, which bounds the memory of large pictures."""
WIDEST = 8192
"""Largest width of pictures that the CPU computes in bands of rows, whose memory grows with the width."""
GRAPH_PIXELS = 64 * 64
"""Largest number of pixels of pictures that go through CUDA graphs."""
LARGE_PIXELS = 256 * 256
"""Smallest number of pixels of pictures that the CPU computes by Winograd's convolutions."""
SCHEDULER = {
    "num_train_timesteps": 1000,
    "beta_schedule": "linear",
    "beta_start": 1e-4,
    "beta_end": 0.02,
    "prediction_type": "sample",
}
"""Scheduler config with the noise of Ho et al. (2020), so that SNRs and timesteps are those of published DDPMs."""


def load(name: str, folder: Path, config: dict[str, Any], config_path: Path, device: Device) -> PhotoDenoiser:
    """Load a denoiser for photographs.

    Args:
        name: Folder or hub id, for error messages and to fetch weights.
        folder: Local folder of the model.
        config: The network config.
        config_path: Path of that config, relative to the folder.
        device: Where the network shall run.

    Raises:
        DippError: A file is missing or damaged, or the weights do not fit the config.
    """
    scheduler_path = config_path.with_name(SCHEDULER_CONFIG)
    scheduler = hub.read_json(name, folder / hub.find(name, folder, (scheduler_path.as_posix(),)))
    schedule = NoiseSchedule.from_config(scheduler)  # refused before weights are fetched
    stored = hub.read_arrays(name, config_path.with_name(WEIGHTS))
    network_config = _config(name, config, stored)
    weights = {name: values.astype(np.float32) for name, values in stored.items()}
    return PhotoDenoiser(schedule, identity(config, scheduler, stored), device, network_config, weights)


def write(folder: Path, config: Config, tensors: Mapping[str, torch.Tensor]) -> None:
    """Write a denoiser in the format that `load` reads, each file whole or not at all.

    Args:
        folder: Folder to write to, which is made if it does not exist.
        config: Config of the network.
        tensors: Its weights by their names, which are stored in half precision.

    Raises:
        DippError: A weight is not finite in half precision.
    """
    import torch
    from safetensors.torch import save

    stored = {name: tensor.detach().to("cpu", torch.float16).contiguous() for name, tensor in tensors.items()}
    if not all(bool(tensor.isfinite().all()) for tensor in stored.values()):
        raise DippError(
            "model", "has weights that are not finite in half precision", "train with a lower learning rate"
        )
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in ((CONFIG, {"_class_name": CLASS, **asdict(config)}), (SCHEDULER_CONFIG, SCHEDULER)):
        with files.atomic(folder / name) as part:
            part.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    with files.atomic(folder / WEIGHTS) as part:
        part.write_bytes(save(stored))


@dataclass(frozen=True, eq=False)
class PhotoDenoiser(NetworkDenoiser):
    """A network for photographs, with a noise schedule.

    On the CPU its engines take NumPy arrays, and PyTorch is not loaded. Predictions from tensors are tensors.
    """

    config: Config
    """Sizes and planes of the network."""
    weights: Mapping[str, Floats] = field(repr=False)
    """Weights by their names in PyTorch."""
    channels = 3
    sample_size = SAMPLE_SIZE
    any_size = True

    number = float
    pixels_per_call = PIXELS_PER_CALL
    graph_pixels = GRAPH_PIXELS

    @property
    def planes(self) -> tuple[str, ...]:  # type: ignore[override]
        """Planes of the evidence that the network takes, by its config."""
        return self.config.planes

    def placed(self, values: NDArray[np.float32]) -> Array:
        """Return fp32 values as they are on the CPU, and as tensors on other devices."""
        return values if self.device.type == "cpu" else super().placed(values)

    def predict(self, evidence: Evidence, numbers: Numbers = Numbers.SENSING) -> Array:
        """Return the pictures x̂0 predicted from evidence: at SNR 0, a mean picture that the network has learnt."""
        level, shape = evidence.level, tuple(evidence.state.shape)
        if not level < math.inf:
            raise DippError("snr", f"must be finite, got {level}")
        self._check_shape(shape)
        number = min(level, LARGEST_SNR)  # a larger number may be beyond fp32
        pixels = math.prod(shape[2:])
        at_once = max(1, self.pixels_per_call[self.device.type] // pixels)
        predict = self._in_tiles
        if self.device.type == "cpu" and pixels >= LARGE_PIXELS and shape[3] <= WIDEST:
            predict, at_once = self._in_bands, 1
        groups = (slice(first, first + at_once) for first in range(0, shape[0], at_once))
        parts = [predict(evidence.part(group, ALL, ALL), number, numbers) for group in groups]
        return evidence.restored(parts[0] if len(parts) == 1 else library(parts[0]).concatenate(parts))

    def _in_bands(self, evidence: Evidence, number: float, numbers: Numbers) -> Array:
        """Return the picture x̂0 predicted at the SNR `number`, computed in bands if the engine does that."""
        from dipp.models.winograd_network import Winograd

        engine = self._large
        if not isinstance(engine, Winograd):
            return self._in_tiles(evidence, number, numbers)

        def told(rows: slice) -> Floats:
            return host(evidence.part(ALL, rows, ALL).stacked(self.planes, LARGEST_SNR)).astype(np.float32, copy=False)

        height, width = evidence.state.shape[2:]
        return alike(engine.predict(told, (height, width), number, watch.predicted), evidence.state)

    def _in_tiles(self, evidence: Evidence, number: float, numbers: Numbers) -> Array:
        """Return a batch of pictures x̂0 predicted at the SNR `number`, computed in tiles if they are large."""

        def predict(rows: slice, columns: slice) -> Array:
            told = evidence.part(ALL, rows, columns).stacked(self.planes, LARGEST_SNR)
            return self._predicted(told, number, numbers)

        height, width = evidence.state.shape[2:]
        return tiled(predict, (height, width), self.config.stride, self.config.margin, TILE)

    def _predicted(self, told: Array, number: float, numbers: Numbers) -> Array:
        """Return pictures x̂0 predicted from stacked planes at the SNR `number`. On the CPU, PyTorch is not used."""
        if self.device.type == "cpu":
            engine = self._large if math.prod(told.shape[2:]) >= LARGE_PIXELS else self._runtime
            return alike(engine(host(told).astype(np.float32, copy=False), number), told)
        import torch

        with torch.inference_mode():
            x_hat = self._predict(self._moved(told), number, numbers)
        # Outside inference mode, so that the caller gets a tensor without the restrictions of that mode.
        return x_hat.clamp(-1, 1).contiguous()

    @functools.cached_property
    def network(self) -> Network:
        """The network in PyTorch, on the device."""
        import torch

        from dipp.models.engine import built
        from dipp.models.network import Network

        tensors = {name: torch.from_numpy(values) for name, values in self.weights.items()}
        network: Any = built("the denoiser", lambda: Network(self.config), tensors, torch.device(self.device))
        return network  # type: ignore[no-any-return]

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
        """Engine for large pictures: `Winograd`, or ONNX Runtime where Winograd's kernels are not possible."""
        from dipp.models.winograd import possible
        from dipp.models.winograd_network import Winograd

        return Winograd(self.config, self.weights) if possible(self.config) else self._runtime


def _config(name: str, content: Mapping[str, Any], stored: Mapping[str, NDArray[Any]]) -> Config:
    """Return the config of a network, or raise if it does not have exactly the stored weights."""
    # A config without planes is that of an older network, which takes a state and one SNR.
    if missing := {field.name for field in fields(Config)} - content.keys() - {"planes"}:
        # Defaults are not used: if one changed, it would change the network without changing its identity.
        raise DippError("model", f"{name} has a config without {', '.join(sorted(missing))}", "fetch the model again")
    try:
        config = Config.from_dict(content)
        needed, stored_shapes = config.shapes(), {key: values.shape for key, values in stored.items()}
        if wrong := sorted(
            key for key in needed.keys() | stored_shapes.keys() if needed.get(key) != stored_shapes.get(key)
        ):
            key = wrong[0]
            raise ValueError(f"{key} has the shape {stored_shapes.get(key)} in place of {needed.get(key)}")
    except (ValueError, TypeError, KeyError) as error:
        raise DippError("model", f"{name} has weights and a config that do not make a network: {error}") from None
    return config
