"""Denoisers: the protocol, the networks that implement it, and where they are loaded from.

| module | what it is |
|---|---|
| `denoiser` | the protocol of a denoiser |
| `evidence` | what a denoiser is told: a state, how precisely each pixel is known, a second estimate |
| `diffusion` | the noise schedule, steps of the reverse process, samplers |
| `photonet` | denoisers for photographs of any size, among them the one that ships |
| `config`, `network` | the config of their convolutional network; that network in PyTorch |
| `tiles` | large pictures in bounded memory |
| `runtime`, `graph` | that network in ONNX Runtime, for the CPU, and as an ONNX graph |
| `winograd_graph` | that graph with fewer multiplications, for the page |
| `winograd`, `winograd_kernels` | that network on large pictures, by fewer multiplications, for the CPU |
| `unet`, `windows` | diffusers' networks of the class `UNet2DModel`; pictures of other sizes than their own |
| `latent`, `ladder` | latent models: a VAE around a network of latents; the noise levels that it knows |
| `components`, `conditioning`, `prompts` | the parts of their pipelines; what their networks are told; of a text |
| `running`, `engine`, `tf32` | what networks share, and how they run; fp32 convolutions on tensor cores |
| `watch`, `bars` | how far pictures have got; progress bars on a terminal |
| `export` | denoisers for photographs as ONNX files |
| `books` | the public words of a model, by which questions describe blocks |
| `identity`, `hub` | the hash by which a file names its denoiser; models in folders and on the hub |
| `embedded/` | the denoiser that ships with dipp |

The network config in a model's folder names its architecture. A new architecture is a module with a function `load`,
and an entry in `ARCHITECTURES`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from dipp.errors import DippError
from dipp.models import books, conditioning, hub, latent, photonet, unet
from dipp.models.books import Books
from dipp.models.denoiser import Denoiser, device_named
from dipp.models.diffusion import NoiseSchedule
from dipp.models.ladder import Ladder
from dipp.models.unet import INDEX, NETWORK_CONFIGS, SCHEDULER_CONFIGS

if TYPE_CHECKING:
    import torch

ARCHITECTURES: dict[str, Callable[..., Denoiser]] = {
    photonet.CLASS: photonet.load,
    "UNet2DModel": unet.load,
    **dict.fromkeys((conditioning.UNET, conditioning.FLUX), latent.load),
}
"""The functions that load denoisers, by the class that a network config names."""
VAE = "vae/config.json"
"""Config of the VAE of latent models."""


def load(name_or_folder: str | Path, device: str | torch.device = "cpu", prompt: str = "") -> Denoiser:
    """Load a denoiser from a folder or a hub id, for example google/ddpm-cifar10-32.

    Args:
        name_or_folder: Folder or hub id.
        device: "auto", "cuda", "mps" or "cpu".
        prompt: A public text, for latent models that take one.
    """
    name, place = str(name_or_folder), device_named(device)
    folder = hub.fetch(name, (INDEX, *NETWORK_CONFIGS, VAE, *SCHEDULER_CONFIGS))
    path = hub.find(name, folder, NETWORK_CONFIGS)
    config = hub.read_json(name, folder / path)
    kind = str(config.get("_class_name"))
    if kind not in ARCHITECTURES:
        raise DippError("model", f"{name} holds a {kind}", f"one of {', '.join(ARCHITECTURES)} is needed")
    loads = latent.load if (folder / VAE).is_file() else ARCHITECTURES[kind]
    found = loads(name, folder, config, path, place).prompted(prompt)
    own = words(name)
    return found if own is None else dataclasses.replace(found, books=own)  # type: ignore[type-var]


def words(name_or_folder: str | Path) -> Books | None:
    """Return the words of a model, without its weights; None if it has none."""
    return Books.read(hub.fetch(str(name_or_folder), (books.NAME,)))


def schedule(name_or_folder: str | Path) -> NoiseSchedule:
    """The noise schedule of a model, without its weights."""
    name = str(name_or_folder)
    folder = hub.fetch(name, (*SCHEDULER_CONFIGS, VAE))
    config = hub.read_json(name, folder / hub.find(name, folder, SCHEDULER_CONFIGS))
    return Ladder.from_config(config).schedule() if (folder / VAE).is_file() else NoiseSchedule.from_config(config)


def channels(name_or_folder: str | Path) -> int:
    """The channels of a model's pictures, without its weights; a network config that does not say so means colour."""
    name = str(name_or_folder)
    folder = hub.fetch(name, (*NETWORK_CONFIGS, VAE))
    if (folder / VAE).is_file():
        return latent.COLOURS
    config = hub.read_json(name, folder / hub.find(name, folder, NETWORK_CONFIGS))
    found: int = config.get("in_channels", photonet.PhotoDenoiser.channels)
    return found
