"""Denoisers: pretrained unconditional networks in diffusers' folder format, local or from the hub.

A denoiser is a folder, or a hub repository, with a `UNet2DModel` (config and weights) and a scheduler config, in
`unet/` and `scheduler/` or side by side. Weights are safetensors, never pickles, which can run code.

**Identity.** Sender and receiver need the same network, and the SNRs, and so ε, come from its scheduler
config. So a file names its denoiser by one SHA-256 over these parts, each preceded by its length (u64le):

    "dipp/model/1"
    the network config, then the scheduler config: JSON as written in the folder, less the keys that start
        with an underscore (class name, library version, path), with sorted keys, no spaces, in ASCII
    for each tensor, sorted by name: its name, stored dtype ("float16"), shape ("3,128,3,3") and bytes

It depends on what is stored, neither on a library's version nor on the folder's name. Saving a model anew may
add config keys or change the dtype, which makes it another model.

**Numbers.** Inside the coded steps the network runs with the accuracy of fp32: another machine's x̂0 differs by
rounding, and sender and receiver stay within a fraction of a grey level. On CUDA its convolutions take three TF32
products each (`split`), and it is captured as one graph per padded batch size, because launching its small kernels one
by one takes longer than running them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import json
import math
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dipp.diffusion import NoiseSchedule
from dipp.errors import DippError
from dipp.pictures import MAX_PICTURE

if TYPE_CHECKING:
    import torch

WEIGHTS = "diffusion_pytorch_model.safetensors"
NETWORK_CONFIGS = ("unet/config.json", "config.json")
SCHEDULER_CONFIGS = ("scheduler/scheduler_config.json", "scheduler_config.json")
INDEX = "model_index.json"
HUB_ID = re.compile(r"\w[\w.-]*/\w[\w.-]*")
OLD_NAMES = {"query": "to_q", "key": "to_k", "value": "to_v", "proj_attn": "to_out.0"}
OLD_NAME = re.compile(rf"(?<=\.)({'|'.join(OLD_NAMES)})(?=\.(weight|bias)$)")
PIXELS_PER_CALL = {"cpu": 16 << 10, "cuda": 256 << 10}
"""Pixels in one call of the network: bounds the memory that any number of images takes."""
MAX_GRAPHS = 16
TENSOR_CORES = (8, 0)
"""Compute capability from which CUDA devices have TF32 products."""


@dataclass(frozen=True, eq=False)
class Denoiser:
    """A network with its schedule: (x_t, t) → x̂0."""

    network: torch.nn.Module
    schedule: NoiseSchedule
    identity: str
    """Hex SHA-256 over weights, network config and scheduler config (see the module's text)."""
    channels: int
    sample_size: tuple[int, int]
    """Height and width that the network was trained on: other images go through it in windows (`windows`)."""
    multiple: int
    """How often the network can halve them."""
    device: torch.device
    _graphs: dict[tuple[tuple[int, ...], bool], _Graph] = field(default_factory=dict, repr=False)
    _running: threading.Lock = field(default_factory=threading.Lock, repr=False)
    """Graphs share their memory, so that one runs at a time."""

    def __post_init__(self) -> None:
        height, width = self.sample_size
        if height % self.multiple or width % self.multiple:
            raise DippError(f"model: its size {height}×{width} must be a multiple of {self.multiple}")

    @classmethod
    def load(cls, name_or_folder: str | Path, device: str = "cpu") -> Denoiser:
        """Load a denoiser from a folder or a hub id, for example google/ddpm-cifar10-32."""
        name = str(name_or_folder)
        place = torch_device(device)
        folder = fetch(name, (INDEX, *NETWORK_CONFIGS, *SCHEDULER_CONFIGS))
        path = _find(name, folder, NETWORK_CONFIGS)
        config = _read_json(name, folder / path)
        index = _read_json(name, folder / INDEX) if (folder / INDEX).is_file() else {}
        _check_kind(name, config, index)
        scheduler_config = _read_json(name, folder / _find(name, folder, SCHEDULER_CONFIGS))
        schedule = NoiseSchedule.from_config(scheduler_config)
        tensors = _read_tensors(name, path.with_name(WEIGHTS))
        size = config["sample_size"]
        return cls(
            network=_build(name, config, tensors, place),
            schedule=schedule,
            identity=identity(config, scheduler_config, tensors),
            channels=config["in_channels"],
            sample_size=(size, size) if isinstance(size, int) else (size[0], size[1]),
            multiple=2 ** (len(config["block_out_channels"]) - 1),
            device=place,
        )

    def sampler(self) -> Callable[[torch.Tensor, int], torch.Tensor]:
        """`x0` in bf16 by torch.compile, for the final denoising of thousands of pictures in batches of one size.

        Compiling takes most of a minute for each size of a batch. Not for the coded steps, which others have to follow.
        """
        import torch

        network: Any = torch.compile(self.network, dynamic=False)
        own = dataclasses.replace(self, network=network, _graphs={}, _running=threading.Lock())
        return functools.partial(own.x0, fast=True)

    def require_identity(self, expected: str) -> None:
        """Refuse to go on with a file that was made with another denoiser."""
        if self.identity != expected:
            raise DippError(f"model: the file was made with {expected}, but {self.identity} is loaded")

    def x0(self, x_t: torch.Tensor, t: int, *, fast: bool = False) -> torch.Tensor:
        """x̂0 of images (N, C, H, W) of any size at one timestep, clamped to [−1, 1], in fp32, on the denoiser's device.

        `fast` runs the network in bf16 on CUDA: for the final denoising only, which nobody has to follow.
        """
        import torch

        from dipp import windows

        self._check_shape(x_t)
        x_t = x_t.to(self.device, torch.float32)
        if tuple(x_t.shape[2:]) == self.sample_size:
            return self._x0(x_t, t, fast)
        return windows.blend(lambda part: self._x0(part, t, fast), x_t, self.sample_size)

    def _x0(self, x_t: torch.Tensor, t: int, fast: bool) -> torch.Tensor:
        """x̂0 of images of one size that the network can take."""
        import torch

        size = max(1, PIXELS_PER_CALL[self.device.type] // math.prod(x_t.shape[2:]))
        with torch.inference_mode():
            output = torch.cat([self._predict(part, t, fast) for part in torch.split(x_t, size)])
        # Outside inference mode, so that the caller gets a tensor without its restrictions.
        return self.schedule.x0(output, x_t, t).contiguous()

    def _predict(self, x_t: torch.Tensor, t: int, fast: bool) -> torch.Tensor:
        import torch

        if self.device.type == "cpu":
            x_t = x_t.contiguous(memory_format=torch.channels_last)
            return _forward(self.network, x_t, torch.tensor([t]), fast=False)
        # A power of two: few graphs, and less than half of a batch is padding.
        shape = (1 << (len(x_t) - 1).bit_length(), *x_t.shape[1:])
        with self._running:
            graph = self._graphs.pop((shape, fast), None)
            if graph is None:
                if len(self._graphs) >= MAX_GRAPHS:  # the first has not been used for longest
                    self._graphs.pop(next(iter(self._graphs)))
                pool = next((other.graph.pool() for other in self._graphs.values()), None)
                graph = _Graph(self.network, shape, fast, self.device, pool)
            self._graphs[shape, fast] = graph
            return graph(x_t, t)  # a copy

    def _check_shape(self, x_t: torch.Tensor) -> None:
        shape = tuple(x_t.shape)
        if len(shape) != 4 or not all(shape) or shape[1] != self.channels:
            raise DippError(f"x_t: a batch (N, {self.channels}, H, W) is needed, got shape {shape}")
        # What is smaller than the network's own size is continued (`windows.mirrored`), which takes memory.
        if math.prod(map(max, shape[2:], self.sample_size)) > MAX_PICTURE:
            raise DippError(f"image: {shape[2]}×{shape[3]} is too long and thin for a network of {self.sample_size}")


class _Graph:
    """The network captured as a CUDA graph for one batch shape; rows beyond the batch are padding."""

    def __init__(
        self, network: torch.nn.Module, shape: tuple[int, ...], fast: bool, device: torch.device, pool: Any
    ) -> None:
        import torch

        with torch.cuda.device(device):
            self.x_t = torch.zeros(shape, device=device).contiguous(memory_format=torch.channels_last)
            self.t = torch.zeros(1, dtype=torch.int64, device=device)
            side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):  # libraries set themselves up on a first run, which is not captured
                _forward(network, self.x_t, self.t, fast)
            torch.cuda.current_stream().wait_stream(side)
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph, pool=pool):
                self.output = _forward(network, self.x_t, self.t, fast)

    def __call__(self, x_t: torch.Tensor, t: int) -> torch.Tensor:
        self.x_t[: len(x_t)].copy_(x_t)
        self.t.fill_(t)
        self.graph.replay()
        return self.output[: len(x_t)].clone()


def identity(unet: Mapping[str, Any], scheduler: Mapping[str, Any], tensors: Mapping[str, torch.Tensor]) -> str:
    """Hex SHA-256 of a denoiser, by the layout in the module's text."""
    import torch

    digest = hashlib.sha256()

    def add(part: bytes | memoryview) -> None:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)

    add(b"dipp/model/1")
    for config in (unet, scheduler):
        public = {key: value for key, value in config.items() if not key.startswith("_")}
        add(json.dumps(public, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode())
    for name, tensor in sorted(tensors.items()):
        add(name.encode())
        add(str(tensor.dtype).removeprefix("torch.").encode())
        add(",".join(map(str, tensor.shape)).encode())
        add(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def torch_device(name: str) -> torch.device:
    """The device of a name, if it is here."""
    import torch

    if name not in PIXELS_PER_CALL:
        raise DippError(f"device: cpu or cuda is needed, got {name!r}")
    if name == "cuda" and not torch.cuda.is_available():
        raise DippError(f"device: {name} is not available here; use cpu")
    return torch.device(name)


def fetch(name: str, files: tuple[str, ...]) -> Path:
    """Find the folder of that name, or get the hub's snapshot with those of the files that it has."""
    if (folder := Path(name)).is_dir():
        return folder
    if not HUB_ID.fullmatch(name):
        raise DippError(f"model: {name} is neither a folder nor a hub id (owner/name)")
    from huggingface_hub import snapshot_download

    reasons = []
    for cached in (False, True):  # when the hub says no, or cannot be reached, what the cache holds may do
        try:
            return Path(snapshot_download(name, allow_patterns=list(files), local_files_only=cached))
        except Exception as error:  # each transport has its own
            reasons.append(type(error).__name__)
    raise DippError(f"model: {name} is no folder, not in the hub's cache, not to be fetched ({reasons[0]})")


def _find(name: str, folder: Path, candidates: tuple[str, ...]) -> Path:
    for candidate in candidates:
        if (folder / candidate).is_file():
            return Path(candidate)
    raise DippError(f"model: {name} has no {candidates[0]}; a model in diffusers' format is needed")


def _read_json(name: str, path: Path) -> dict[str, Any]:
    with contextlib.suppress(ValueError):
        content = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(content, dict):
            return content
    raise DippError(f"model: {path.name} of {name} is not a JSON object; fetch the model again")


def _check_kind(name: str, config: Mapping[str, Any], index: Mapping[str, Any]) -> None:
    """Refuse all but a network on pixels that takes x_t and t and nothing else."""
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


def _read_tensors(name: str, path: Path) -> dict[str, torch.Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    folder = fetch(name, (path.as_posix(),))
    if not (folder / path).is_file():
        pickles = ", ".join(p.name for p in (folder / path.parent).glob("*.bin"))
        found = f"pickled weights only ({pickles}), which can run code" if pickles else "no safetensors weights"
        raise DippError(f"model: {name} has {found}; {path.as_posix()} is needed")
    try:
        return load_file(folder / path)
    except SafetensorError:
        raise DippError(f"model: {path.as_posix()} of {name} is damaged; fetch the model again") from None


def _build(
    name: str, config: dict[str, Any], tensors: Mapping[str, torch.Tensor], device: torch.device
) -> torch.nn.Module:
    """Make the network in fp32, from exactly the stored tensors: none missing, none left over."""
    import torch
    from diffusers import UNet2DModel

    try:
        with torch.device("meta"):  # no random weights are drawn, so the caller's generator stays as it is
            network: Any = UNet2DModel.from_config(config)  # type: ignore[no-untyped-call]
        state = {OLD_NAME.sub(lambda old: OLD_NAMES[old[1]], key): tensor.float() for key, tensor in tensors.items()}
        network.load_state_dict(state, strict=True, assign=True)
    except (ValueError, TypeError, KeyError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise DippError(f"model: weights and config of {name} do not make a network: {reason}") from None
    network = network.eval().requires_grad_(False).to(device, memory_format=torch.channels_last)
    if device.type == "cuda" and torch.cuda.get_device_capability(device) >= TENSOR_CORES:
        from dipp.split import with_split_convolutions

        network = with_split_convolutions(network)
    return network  # type: ignore[no-any-return]


def _forward(network: torch.nn.Module, x_t: torch.Tensor, t: torch.Tensor, fast: bool) -> torch.Tensor:
    import torch

    # Repeatable kernels and no TF32 by itself, whatever the program around has set: it moves single pixels of the
    # image by more than 2 grey levels (2.5 after four coded steps on CIFAR-10), fp32 by less than 0.03 a call.
    exact = torch.backends.cudnn.flags(enabled=True, deterministic=True, allow_tf32=False)
    half = torch.autocast(x_t.device.type, torch.bfloat16, enabled=fast, cache_enabled=False)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        with exact, half:
            output: torch.Tensor = network(x_t, t, return_dict=False)[0]
    finally:
        torch.set_float32_matmul_precision(before)
    return output.float()
