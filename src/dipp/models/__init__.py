"""Denoisers: the protocol, the networks that keep it, and where they come from.

| module | what it is |
|---|---|
| `denoiser` | the protocol of a denoiser |
| `diffusion` | the noise schedule, steps of the reverse process, samplers |
| `unet`, `windows`, `tf32` | diffusers' `UNet2DModel`, for pictures of any size, in three TF32 products |
| `identity`, `hub` | what a file calls a denoiser; folders and the hub |
| `embedded/` | the denoiser that ships with dipp |

A folder's network config names its architecture. To add one is to write a module with a `load` and to name it in
`ARCHITECTURES`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from dipp.errors import DippError
from dipp.models import hub, unet
from dipp.models.denoiser import Denoiser, torch_device
from dipp.models.unet import INDEX, NETWORK_CONFIGS, SCHEDULER_CONFIGS

ARCHITECTURES: dict[str, Callable[..., Denoiser]] = {"UNet2DModel": unet.load}
"""By the class that a network config names: the function that loads such a denoiser."""


def load(name_or_folder: str | Path, device: str = "cpu") -> Denoiser:
    """Load a denoiser from a folder or a hub id, for example google/ddpm-cifar10-32."""
    name, place = str(name_or_folder), torch_device(device)
    folder = hub.fetch(name, (INDEX, *NETWORK_CONFIGS, *SCHEDULER_CONFIGS))
    path = hub.find(name, folder, NETWORK_CONFIGS)
    config = hub.read_json(name, folder / path)
    kind = str(config.get("_class_name"))
    if kind not in ARCHITECTURES:
        raise DippError(f"model: {name} holds a {kind}; one of {', '.join(ARCHITECTURES)} is needed")
    return ARCHITECTURES[kind](name, folder, config, path, place)
